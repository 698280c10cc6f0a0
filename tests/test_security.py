"""The package runs no code of strangers: a walk through its source for what would."""

import ast
from functools import cache
from pathlib import Path

import jnpl

ROOT = Path(jnpl.__file__).parent
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}
CSV = {"internal/tables.py", "data/label_files.py", "experiments/result_tables.py"}


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
