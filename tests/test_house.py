"""Rules of the package's structure, read from its source: imports, names and docstrings."""

import ast
import re
from functools import cache
from pathlib import Path

import jnpl
from jnpl.methods.registry import METHODS
from jnpl.outputs.export.targets import TARGETS

ROOT = Path(jnpl.__file__).parent

# A room imports only rooms above it in this list (types under `if TYPE_CHECKING` included).
ROOMS = (
    "internal",
    "losses",
    "noise",
    "data",
    "embedding",
    "models",
    "methods",
    "recipes",
    "judging",
    "analysis",
    "run_folder",
    "training",
    "pipeline",
    "outputs",
    "api",
    "experiments",
    "cli",
)


ALIASES = ("complement", "functional", "metrics")  # public names of modules inside rooms


def module_name(path):
    parts = ("jnpl", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


HEAVY = ("pandas", "pyarrow", "sklearn", "matplotlib")
MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


class Imports(ast.NodeVisitor):
    """Every imported module as (name, nested in a function); those under `if TYPE_CHECKING` only with `types`."""

    def __init__(self, package, types):
        self.package, self.types, self.depth, self.imported = package, types, 0, set()

    def visit_If(self, node):
        if "TYPE_CHECKING" in ast.unparse(node.test) and not self.types:
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Import(self, node):
        self.imported |= {(alias.name, self.depth > 0) for alias in node.names}

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:  # relative
            parents = self.package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            self.imported.add((whole if whole in MODULES else base, self.depth > 0))


def imports(source, package="jnpl", *, types=False):
    visitor = Imports(package, types)
    visitor.visit(ast.parse(source))
    return visitor.imported


@cache
def imports_of(module, *, types=False):
    path = MODULES[module]
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    return imports(path.read_text(encoding="utf-8"), package, types=types)


def room_of(module):
    """The room of a module of the package; the package's facts (`jnpl._version`) belong to none."""
    return module.split(".")[1] if module.count(".") else ""


def upward(module):
    """What a module imports from rooms below its room."""
    room = ROOMS.index(room_of(module))
    return sorted(
        name
        for name, _ in imports_of(module, types=True)
        if name.startswith("jnpl.") and room_of(name) in ROOMS and ROOMS.index(room_of(name)) > room
    )


def importers(imported, libraries):
    """The modules that import one of the libraries: {module: imported names}."""
    used = {module: {name for name in names if name.split(".")[0] in libraries} for module, names in imported.items()}
    return {module: names for module, names in used.items() if names}


def test_the_house_has_these_rooms_and_nothing_else():
    """A room is a folder, or one file."""
    entries = {path.name for path in ROOT.iterdir() if path.name != "__pycache__"}
    rooms = {name if (ROOT / name).is_dir() else f"{name}.py" for name in ROOMS}
    aliases = {f"{name}.py" for name in ALIASES}
    assert entries == {*rooms, *aliases, "__init__.py", "__main__.py", "_version.py", "py.typed"}


def test_the_reader_reads():
    source = """
import os
from typing import TYPE_CHECKING
from jnpl import losses as L, __version__
from .losses import JNPLLoss
from . import noise
if TYPE_CHECKING:
    import pandas
else:
    import json
def f():
    import pyarrow.parquet as pq
    class A:
        async def g(self):
            from jnpl.cli.app import main
"""
    assert imports(source) == {
        ("os", False),
        ("typing", False),
        ("jnpl", False),
        ("jnpl.losses", False),
        ("jnpl.noise", False),
        ("json", False),
        ("pyarrow.parquet", True),
        ("jnpl.cli.app", True),
    }
    assert ("torch", False) in imports_of("jnpl.losses.functional")
    assert ("jnpl.losses._negative", False) in imports_of("jnpl.losses.functional")


def test_a_room_imports_only_rooms_above_it():
    upwards = {module: upward(module) for module in MODULES if room_of(module) in ROOMS}
    assert len(upwards) > 100
    assert {module: names for module, names in upwards.items() if names} == {}


def test_mathematics_stands_on_torch_and_numpy_alone():
    """pandas and pyarrow only inside the functions that read and write files."""
    rooms = ("losses", "noise", "methods")
    outer = {module: {name for name, nested in imports_of(module) if not nested} for module in MODULES}
    heavy = importers({module: outer[module] for module in MODULES if room_of(module) in rooms}, HEAVY)
    assert heavy == {}


SESSION = MODULES["jnpl.training.session"].read_text("utf-8")


def test_a_session_keeps_its_attributes_to_itself():
    """All are private; only `run` makes a session, and calls nothing but its public methods."""
    room = next(node for node in ast.parse(SESSION).body if isinstance(node, ast.ClassDef) and node.name == "Session")
    named = {
        node.attr
        for node in ast.walk(room)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    assert len(named) > 5
    assert [name for name in named if not name.startswith("_")] == []
    methods = {node.name for node in room.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}
    users = [name for name, path in MODULES.items() if re.search(r"\bimport .*\bSession\b", path.read_text("utf-8"))]
    assert users == ["jnpl.pipeline"]
    calls = {
        node.attr
        for node in ast.walk(ast.parse(MODULES["jnpl.pipeline"].read_text("utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "session"
    }
    assert calls <= methods


def test_the_loop_knows_no_method_by_name():
    methods = [name for name, _ in imports_of("jnpl.training.loop") if name.startswith("jnpl.methods")]
    assert [name for name in methods if name != "jnpl.methods.base"] == []


def test_the_report_does_without_torch():
    names = {module: {name for name, _ in imports_of(module)} for module in MODULES}
    report = {module: names[module] for module in MODULES if module.startswith("jnpl.outputs.report")}
    assert report
    assert importers(report, ("torch", "torchvision")) == {}


def repeated(names):
    names = list(names)
    return {name for name in names if names.count(name) > 1}


def test_a_module_name_is_used_once():
    """Files in cli/ are named after their command."""
    others = ("cli", *ALIASES)
    names = (path.stem for name, path in MODULES.items() if room_of(name) not in others and path.stem[:2] != "__")
    assert repeated(names) == set()


def test_a_class_name_is_used_once():
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in MODULES.values())
    names = (node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert repeated(names) == set()


def test_the_docstring_of_a_package_names_its_modules():
    for package in (path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py")):
        docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
        modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
        if package.name == "methods":  # the registry lists them, and each has a page
            modules -= {method.__module__.rpartition(".")[2] for method in METHODS.values()}
        if package.name == "export":  # the targets do
            modules -= {target.module for target in TARGETS.values()}
        packages = {path.parent.name for path in package.glob("*/__init__.py")}
        missing = {name for name in modules | packages if not re.search(rf"`{name}/?`", docstring)}
        assert missing == set(), package


def identifiers(source):
    """Every name that a module defines or uses."""
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "arg", "attr", "name"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def test_no_unclear_words_as_names():
    unclear = {
        (name, word)
        for name, path in MODULES.items()
        for word in identifiers(path.read_text(encoding="utf-8"))
        if word.strip("_") in ("told", "books", "wish", "own", "found", "known", "each")
    }
    assert unclear == {("jnpl.cli.doctor", "found")}  # a key of its JSON


def test_the_formatter_is_never_switched_off():
    assert [name for name, path in MODULES.items() if "fmt: " + "skip" in path.read_text(encoding="utf-8")] == []


class Waits(ast.NodeVisitor):
    """What makes a GPU wait in a function: reading a tensor's value, or a shape that depends on values."""

    READ = ("item", "tolist", "nonzero", "cpu", "numpy", "bincount", "unique")
    REDUCED = ("any", "all", "isfinite", "isnan")  # in a condition

    def __init__(self):
        self.found, self.calls = [], set()

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        self.calls.add("forward" if name == "apply" else name)  # of an autograd.Function
        plain = node.args and isinstance(node.args[0], ast.Call) and ast.unparse(node.args[0].func) == "len"
        if (name in self.READ and isinstance(node.func, ast.Attribute)) or (
            name in ("int", "float", "bool") and isinstance(node.func, ast.Name) and not plain
        ):
            self.found.append(ast.unparse(node))
        self.generic_visit(node)

    def visit_Attribute(self, node):
        self.calls.add(node.attr)  # a property
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.UnaryOp | ast.Compare) and "-" not in ast.unparse(node.slice)[:1]:
            self.found.append(ast.unparse(node))  # the rows of a mask
        self.generic_visit(node)

    def condition(self, node):
        """A condition, such as `any` of a tensor, is read."""
        for part in ast.walk(node.test):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in self.REDUCED:
                self.found.append(ast.unparse(part))
        self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = visit_Assert = condition  # noqa: N815


def waits(functions, start="step"):
    """What a step of a method may wait for: {(module, function): expressions}, over all functions that may be called.

    `functions` has (module, name, node); a call is one of all functions of its name.
    """
    seen, found, names = set(), {}, [start]
    while names:
        name = names.pop()
        for module, own, node in functions:
            if own == name and (module, name) not in seen:
                seen.add((module, name))
                visitor = Waits()
                for line in node.body:
                    visitor.visit(line)
                names += sorted(visitor.calls)
                if visitor.found:
                    found[module, name] = visitor.found
    return found


def functions_of(rooms):
    for module, path in MODULES.items():
        if room_of(module) in rooms:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield module.removeprefix("jnpl."), node.name, node


MAY_READ = {  # where it does not make a GPU wait, or cannot be helped
    ("methods.base", "draw_mixup"): "a draw on the CPU",
    ("losses._negative", "forward"): "of tensors on the CPU, says `_needs_plain_ops`",
    ("losses.argument_checks", "_in_range"): "labels on the CPU",
    ("losses.argument_checks", "check_gamma"): "a plain number",
    ("losses.modules", "add"): "every 5,000 samples, of a loss in the user's own loop",
    ("methods.joint_optim", "_first_update"): "plain numbers",
    ("methods.metacleaner", "subsets_of"): "the number of subsets is a shape of what follows",
    ("training.loop", "train"): "the loss, after `backward`: the records wait for the predictions there",
}


def test_no_step_makes_a_gpu_wait():
    found = waits(list(functions_of(("methods", "losses"))))
    found |= waits([function for function in functions_of(("training",)) if function[0] == "training.loop"], "train")
    assert {place: what for place, what in found.items() if place not in MAY_READ} == {}
    assert set(MAY_READ) <= set(found)


TESTS = Path(__file__).parent
TESTED_IN = {  # modules without a test file of their name: where they are tested
    "cli.demo": "experiments/test_demo.py",
    "cli.embed": "integration/test_data_forms.py",
    "cli.options": "cli/test_corrupt.py",
    "complement": "test_exports.py",
    "experiments.paper_variants": "experiments/test_spec.py",
    "experiments.plots": "experiments/reproduce/test_output.py",
    "experiments.reproduce.drawing": "experiments/reproduce/test_output.py",
    "experiments.reproduce.experiment": "experiments/reproduce/test_output.py",
    "experiments.style": "experiments/reproduce/test_output.py",
    "functional": "test_exports.py",
    "internal.progress": "experiments/test_execute.py",
    "internal.ray_cluster": "embedding/test_ray_embedding.py",
    "losses._negative": "losses/test_functional.py",
    "losses.argument_checks": "losses/test_functional.py",
    "methods.pseudo_label": "training/test_pseudo_labels.py",
    "methods.sop_plus": "methods/test_sop.py",
    "metrics": "test_exports.py",
    "outputs.run_source": "integration/test_entrances.py",
    "training.epoch_view": "training/test_session.py",
    "training.evaluation": "training/test_loop.py",
    "training.feeds": "training/test_session.py",
    "training.phases": "training/test_session.py",
    "training.records": "training/test_loop.py",
    "training.run_callback": "training/test_session.py",
    "training.run_results": "training/test_session.py",
    "training.tag_training": "integration/test_tags.py",
    "training.training_state": "training/test_session.py",
}


def test_every_module_has_a_test_file_of_its_name():
    """Or stands in the list of those that have none, which is kept short."""
    files = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    modules = [name.removeprefix("jnpl.").split(".") for name, path in MODULES.items() if path.stem[:2] != "__"]
    lacking = {
        ".".join([*folders, name])
        for *folders, name in modules
        if name != "_version" and "/".join([*folders, f"test_{name.lstrip('_')}.py"]) not in files
    }
    assert lacking == set(TESTED_IN)
    assert set(TESTED_IN.values()) <= files
