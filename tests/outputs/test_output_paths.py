"""What a command may write: nothing of a run, nothing that it reads, and what is there only if told to."""

import pytest
from tests.helpers.runs import findings, vector_model

from jnpl.internal.errors import InputError
from jnpl.outputs.output_paths import refuse_target
from jnpl.run_folder import OWN_FILES, RunFolder


@pytest.fixture
def run(tmp_path):
    """A run, beside another one."""
    for name in ("run", "other"):
        findings().save(vector_model(tmp_path / name))
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize("name", [*sorted(OWN_FILES), "Findings.CSV"])
def test_the_files_of_a_run_are_never_written_over(run, tmp_path, name):
    """Neither of this run, nor of another one; whether they are there or not."""
    for folder in ("run", "other", "run/../run"):
        with pytest.raises(InputError, match="is a file of the run itself; name another file"):
            refuse_target(tmp_path / folder / name, run, overwrite=True)


def test_other_files_in_a_run_and_such_names_elsewhere_may_be_written(run, tmp_path):
    refuse_target(run.path / "model.onnx", run, overwrite=False)
    (tmp_path / "run.json").write_text("[1]")  # somebody's own
    refuse_target(tmp_path / "findings.json", run, overwrite=False)
    refuse_target(tmp_path / "run.json", run, overwrite=True)
    assert (tmp_path / "run.json").read_text() == "[1]"  # to be asked writes nothing


def test_what_is_there_stays_unless_told(run, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    with pytest.raises(InputError, match=r"mine.csv' is there already; name another file, or give --overwrite"):
        refuse_target(tmp_path / "mine.csv", run, overwrite=False)
    refuse_target(tmp_path / "mine.csv", run, overwrite=True)


def test_what_is_read_is_never_written_over(run, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    for read in (tmp_path / "mine.csv", str(tmp_path / "run" / ".." / "mine.csv")):
        with pytest.raises(InputError, match=r"mine.csv' is the table of decisions itself; name another file"):
            refuse_target(tmp_path / "mine.csv", run, overwrite=True, read=read, called="table of decisions")
    refuse_target(tmp_path / "mine.csv", run, overwrite=True, read="digits")
