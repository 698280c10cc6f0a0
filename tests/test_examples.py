"""Every example runs as its first lines say, where its library is installed, and finds the wrong labels."""

import importlib.util
import os
import re
import runpy
import sys

import pytest

from tests.helpers import forked
from tests.helpers.paths import ROOT

FOLDER = ROOT / "examples"
# What an example needs beyond the package, and the least AP that it must reach.
EXAMPLES = {
    "plain_torch": (None, 0.97),
    "own_loss": (None, 0.97),
    "sklearn_pipeline": (None, 0.97),
    "lightning_callback": ("lightning", 0.97),
    "huggingface_trainer": ("transformers", 0.9),
}


def run_script(path, folder):
    """As `python path` does in this folder; other warnings than those of pytest's process are not errors there."""
    os.chdir(folder)
    sys.argv = [str(path)]
    runpy.run_path(str(path), run_name="__main__")


def test_no_example_is_forgotten():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(EXAMPLES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "sklearn_pipeline" else name for name in EXAMPLES]
)
def test_an_example_runs(name, tmp_path):
    library, least = EXAMPLES[name]
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "transformers" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate, which the Trainer of transformers needs, is not installed")
    (work := tmp_path / "work").mkdir()
    process = forked.start(tmp_path / "said", run_script, FOLDER / f"{name}.py", work)
    process.join()
    said = (tmp_path / "said").read_text()
    assert process.exitcode == 0, said
    assert list(work.iterdir()) == []  # nothing is left behind
    result = re.search(r"(\d+) of (\d+) labels look wrong; AP of the ranking ([\d.]+)", said)
    assert result is not None, said
    assert float(result[3]) >= least
    assert 0.15 < int(result[1]) / int(result[2]) < 0.45
