"""Who may import whom: read from the source, so that a rule is broken in review and not a year later."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import jnpl

ROOT = Path(jnpl.__file__).parent
BENEATH = ("jnpl._", "jnpl.errors", "jnpl.files", "jnpl.mixture")  # the cellar: anyone may stand on it
LIGHT = {"numpy", "torch"}

# Room -> the rooms above the cellar that it may also use.
PURE = {
    "functional": (),
    "complement": (),
    "noise": ("jnpl.noisy_labels",),
    "noisy_labels": (),
    "files": (),
    "mixture": (),
    "errors": (),
    "findings": (),
    "pseudo": (),
    "beta_mixture": (),
    "posterior": (),
    "losses": ("jnpl.functional", "jnpl.complement"),
}
METHODS_MAY_USE = (
    *("jnpl.functional", "jnpl.complement", "jnpl.losses", "jnpl.beta_mixture", "jnpl.models", "jnpl.methods"),
    *("jnpl.settings", "pydantic"),
)
DATA_LIBRARIES = {"pandas", "pyarrow", "sklearn"}  # allowed inside functions of findings and noise, and beneath them


def module_name(path):
    parts = ("jnpl", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


class Imports(ast.NodeVisitor):
    """Every imported module as (name, nested in a function), but for those under `if TYPE_CHECKING`."""

    def __init__(self, package):
        self.package, self.depth, self.found = package, 0, set()

    def visit_If(self, node):
        if "TYPE_CHECKING" in ast.unparse(node.test):
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
        self.found |= {(alias.name, self.depth > 0) for alias in node.names}

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:  # relative
            parents = self.package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *([node.module] if node.module else [])])
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            self.found.add((whole if whole in MODULES else base, self.depth > 0))


def imports(source, package="jnpl"):
    visitor = Imports(package)
    visitor.visit(ast.parse(source))
    return visitor.found


def imports_of(module):
    path = MODULES[module]
    return imports(path.read_text(encoding="utf-8"), module if path.stem == "__init__" else module.rpartition(".")[0])


def inside(name, *rooms):
    return any(
        name == room or name.startswith(f"{room}.") or (room.endswith("_") and name.startswith(room)) for room in rooms
    )


def foreign(module, *allowed, nested_libraries=frozenset()):
    """What a module imports beyond the standard library, torch, numpy, the cellar, itself and `allowed`."""
    return sorted(
        name
        for name, nested in imports_of(module)
        if (top := name.split(".")[0]) not in sys.stdlib_module_names
        and top not in LIGHT
        and not (nested and top in nested_libraries)
        and name != "jnpl._version"
        and not inside(name, module, *BENEATH, *allowed)
    )


def test_the_reader_reads():
    source = """
import os
from typing import TYPE_CHECKING
from jnpl import functional as JF, __version__
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
            from jnpl.cli import main
"""
    assert imports(source) == {
        ("os", False),
        ("typing", False),
        ("jnpl.functional", False),
        ("jnpl", False),
        ("jnpl.losses", False),
        ("jnpl.noise", False),
        ("json", False),
        ("pyarrow.parquet", True),
        ("jnpl.cli", True),
    }
    assert inside("jnpl._noise_maps", *BENEATH)
    assert not inside("jnpl.errors_of_others", *BENEATH)
    assert {"jnpl.functional", "jnpl.losses", "jnpl.complement", "jnpl"} <= set(MODULES)
    assert ("torch", False) in imports_of("jnpl.functional")
    assert ("jnpl._negative", False) in imports_of("jnpl.functional")


@pytest.mark.parametrize("room", PURE)
def test_mathematics_stands_on_torch_and_numpy_alone(room):
    rooms = [name for name in MODULES if inside(name, f"jnpl.{room}")]
    assert rooms, f"there is no jnpl.{room}"
    for module in rooms:
        late = DATA_LIBRARIES if room in ("findings", "noise") else frozenset()
        assert foreign(module, *PURE[room], nested_libraries=late) == []


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("jnpl._") and name != "jnpl.__main__"])
def test_private_rooms_stand_beneath_the_public_ones(module):
    late = DATA_LIBRARIES if module.startswith(("jnpl._findings", "jnpl._noise")) else frozenset()
    assert foreign(module, nested_libraries=late) == []


@pytest.mark.parametrize("module", [name for name in MODULES if inside(name, "jnpl.methods")])
def test_methods_use_losses_and_models(module):
    assert foreign(module, *METHODS_MAY_USE) == []


@pytest.mark.parametrize("module", [name for name in MODULES if inside(name, "jnpl.train")])
def test_the_loop_knows_no_method_by_name(module):
    methods = [name for name, _ in imports_of(module) if inside(name, "jnpl.methods") and name != "jnpl.methods.base"]
    assert methods == []


@pytest.mark.parametrize("module", [name for name in MODULES if inside(name, "jnpl.report", "jnpl.review")])
def test_report_and_review_do_without_torch(module):
    assert [name for name, _ in imports_of(module) if inside(name, "torch", "torchvision")] == []


@pytest.mark.parametrize("module", [name for name in MODULES if not inside(name, "jnpl.bench", "jnpl.commands")])
def test_only_a_command_runs_benchmarks(module):
    assert [name for name, _ in imports_of(module) if inside(name, "jnpl.bench")] == []


@pytest.mark.parametrize("module", MODULES)
def test_nobody_imports_the_roof(module):
    roofs = {name for name, _ in imports_of(module) if inside(name, "jnpl.cli", "jnpl.estimator")}
    if module == "jnpl.__main__":
        roofs -= {"jnpl.cli"}
    if inside(module, "jnpl.cli", "jnpl.estimator"):
        roofs = {name for name in roofs if not inside(name, ".".join(module.split(".")[:2]))}
    assert roofs == set()
