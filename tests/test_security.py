"""The package runs no code of strangers: a walk through its source for what would."""

import ast
import os
from functools import cache
from pathlib import Path

import pytest
import torch

import jnpl
from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.judging.findings import Findings
from jnpl.judging.ledger import Ledger
from jnpl.outputs.saved_model import SavedModel
from jnpl.training import checkpoint
from tests.helpers.runs import findings, vector_model

ROOT = Path(jnpl.__file__).parent
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
CSV = {"internal/tables.py", "data/label_files.py", "experiments/result_tables.py"}
CSV |= {"outputs/same_form.py"}  # the cells of the user's own table, as they are


@cache
def calls():
    """Return (file, dotted name, call) of every call in the package."""
    nodes = ((file, node) for file, tree in TREES.items() for node in ast.walk(tree))
    return [(file, ast.unparse(node.func), node) for file, node in nodes if isinstance(node, ast.Call)]


def option(call, name):
    return next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == name), None)


def test_there_is_something_to_walk():
    assert len(TREES) > 100
    assert len(calls()) > 5000


def test_no_pickle_is_loaded():
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            packages = {name.partition(".")[0] for name in names}
            assert not packages & {"pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}, file
    assert not [file for file, name, _ in calls() if name in ("pickle.load", "pickle.loads", "pd.read_pickle")]


def test_weights_are_loaded_without_code():
    loads = [(file, call) for file, name, call in calls() if name == "torch.load"]
    assert loads
    assert [file for file, call in loads if option(call, "weights_only") != "True"] == []
    assert [file for file, _, call in calls() if option(call, "allow_pickle") not in (None, "False")] == []
    assert [file for file, _, call in calls() if option(call, "trust_remote_code") not in (None, "False")] == []


def test_nothing_is_evaluated_and_no_shell_is_started():
    banned = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "tempfile.mktemp"}
    assert [(file, name) for file, name, _ in calls() if name in banned] == []
    assert [file for file, _, call in calls() if option(call, "shell") not in (None, "False")] == []


def test_archives_are_not_unpacked_blindly():
    assert [(file, name) for file, name, _ in calls() if name.endswith((".extractall", "unpack_archive"))] == []


def test_csv_files_are_written_where_formulas_are_escaped():
    assert {file for file, name, _ in calls() if name.endswith(".to_csv") or name == "csv.writer"} <= CSV


_READERS = {"open", "read_bytes", "read_text", "load_file", "safe_open", "fromfile", "memmap", "read_table", "OSFile"}
_LOADERS = {"np.load", "torch.load", "tarfile.open", "zipfile.ZipFile", "Image.open", "sqlite3.connect"}
_CHECKS = {"require_file", "require_text_file", "is_file", "digest_of", "file_digest"}
_OWN = {
    "cli/lists.py",
    "cli/report.py",
    "cli/review.py",
    "outputs/review/server.py",
}  # that open pages and files of the package
_OTHERS = {  # whose files are the package's, or were written or checked a moment ago; or that open no file
    *("analysis/problems.py _hashed", "cli/app.py _discard_output", "cli/app.py _prepare_output"),
    *("data/loading/prepare.py _cached", "data/sources/cifar.py _class_names"),
    *("data/sources/cifar.py _read", "data/sources/cifar.py _unpacked", "data/sources/cifarn.py _refuse_large"),
    *("data/sources/download.py _receive", "data/sources/download.py _response", "data/sources/images.py decode"),
    *("data/sources/images.py side", "embedding/efficientnet.py pretrained_network"),
    *("embedding/efficientnet.py with_weights", "experiments/features.py _write"),
    "embedding/embedding_cache.py _write",
    *("embedding/embedding_cache.py _open", "embedding/embedding_cache.py missing"),
    *("embedding/embedding_cache.py values", "experiments/cross_validation.py _save_fold"),
    *("experiments/features.py _part_of_cifar100", "experiments/reproduce/output.py render"),
    *(
        "experiments/process.py _start",
        "experiments/process.py store",
        "experiments/reproduce/output.py render",
        "experiments/runner.py main",
    ),
    *("internal/allocator.py scratch_zeros", "internal/files.py create_new", "internal/files.py replacing"),
    *("internal/files.py reserve", "internal/files.py sync_folder"),
    "internal/tables.py table_writer",
    *("judging/findings_files.py write", "noise/noisy_labels.py save", "api/embeddings.py save"),
    *("outputs/export/label_studio.py write", "outputs/export/onnx.py _runner", "outputs/hub.py download"),
    *("outputs/hub.py push_to_hub", "outputs/report/page.py render", "outputs/review/ranking.py from_bytes"),
    *("outputs/review/review_session.py export", "outputs/review/decisions.py _expected_schema"),
    *("outputs/run_source.py open_run_data", "outputs/run_source.py _extended"),
    *("recipes/load.py _packaged", "cli/find.py _run"),
}


def test_readers_open_regular_files_only():
    """A pipe in place of a file is waited for: a function that reads a file checks first what it is."""
    unchecked = set()
    for file, tree in TREES.items():
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            names = [ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)]
            last = {name.rpartition(".")[2] for name in names if name != "folder.open"}  # of a run
            if (last & _READERS or set(names) & _LOADERS) and not last & _CHECKS:
                unchecked.add(f"{file} {function.name}")
    assert {name for name in unchecked - _OTHERS if name.partition(" ")[0] not in _OWN} == set()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("reader", ["findings", "ledger", "checkpoint", "model", "table"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, reader):
    if reader == "findings":
        findings().save(tmp_path)
        file, read = tmp_path / "findings.parquet", lambda: Findings.load(tmp_path)
    elif reader == "checkpoint":
        place = checkpoint.save(tmp_path, checkpoint.State({"x": torch.ones(1)}, {}))
        file, read = place / "state.safetensors", lambda: checkpoint.load(tmp_path)
    elif reader == "model":
        file, read = vector_model(tmp_path) / "model.safetensors", lambda: SavedModel.load(tmp_path)
    else:
        file = tmp_path / ("ledger.safetensors" if reader == "ledger" else "t.parquet")
        read = (lambda: Ledger.load(file)) if reader == "ledger" else (lambda: load_parquet(file))
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    if reader == "checkpoint":
        state, notes = read()
        assert state is None
        assert "is a pipe, not a file" in notes[0]
    else:
        with pytest.raises(InputError, match="is a pipe, not a file"):
            read()
