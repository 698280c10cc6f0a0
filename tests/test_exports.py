"""What the package shows, pinned; and what importing it must not cost."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import jnpl
from jnpl import functional, losses
from jnpl.cli.app import app
from jnpl.losses import modules
from jnpl.outputs.saved_model import SavedModel

HEAVY = ("torch", "pandas", "sklearn", "pyarrow", "matplotlib", "scipy")

STORED = Path(__file__).with_name("stable_api.txt")  # `python -m tests.test_exports` writes it
FOREIGN = {"extra_repr", "set_fit_request", "set_score_request"}  # hooks of PyTorch and scikit-learn
MODULES = ("jnpl", "jnpl.functional", "jnpl.losses", "jnpl.noise", "jnpl.metrics", "jnpl.complement")


def defined_in(module):
    """The public functions and classes that a module defines itself."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


def signature(call):
    """The parameters of a function, without types: these may become more exact."""
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(call).parameters.values()]
    shown = str(inspect.Signature(parameters)).replace("(*args, **kwargs)", "()")  # a network without settings
    return re.sub(r"<function (\w+|<lambda>) at 0x\w+>", r"\1", shown)


def of_class(name, cls):
    """The parameters of a class, and its public members that this package defines."""
    yield name if issubclass(cls, Exception) else name + signature(cls)
    ours = [base for base in cls.__mro__ if base.__module__.startswith("jnpl")]
    for member in sorted({key for base in ours for key in vars(base) if not key.startswith("_")} - FOREIGN):
        value = inspect.getattr_static(cls, member)
        call = getattr(value, "__func__", value)
        yield f"{name}.{member}{signature(call) if callable(call) else ''}"


def stable_api():
    """The names that CONTRIBUTING.md promises to keep, one a line."""
    for path in MODULES:
        module = importlib.import_module(path)
        for name in sorted(getattr(module, "__all__", defined_in(module))):
            value = getattr(module, name)
            if inspect.isclass(value) and value.__module__.startswith("jnpl"):
                yield from of_class(f"{path}.{name}", value)
            else:
                yield f"{path}.{name}{signature(value) if inspect.isroutine(value) else ''}"
    for member in ("predict", "predict_proba"):
        yield f"jnpl.load().{member}{signature(getattr(SavedModel, member))}"
    yield from of_commands("jnpl", typer.main.get_command(app))


def of_commands(words, command):
    """The arguments and options of a command, or of those under it."""
    for name, each in getattr(command, "commands", {}).items():
        yield from of_commands(f"{words} {name}", each)
    options = ["/".join(p.opts + p.secondary_opts) for p in command.params if p.param_type_name == "option"]
    arguments = [p.name.upper() for p in command.params if p.param_type_name == "argument"]
    yield " ".join([words, *arguments, *sorted(options)])


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_the_stable_names_and_signatures_are_those_stored():
    changed = set(stable_api()) ^ set(STORED.read_text("utf-8").splitlines())
    how = "a change that is wanted goes to CHANGELOG.md (CONTRIBUTING.md), then: python -m tests.test_exports"
    assert changed == set(), how


@pytest.mark.parametrize("module", [functional, modules], ids=["functional", "losses"])
def test_nothing_public_is_forgotten(module):
    assert defined_in(module) == {name for name in module.__all__ if not name.startswith("_")}


def test_every_exported_function_says_its_shapes():
    for name in functional.__all__:
        assert "(B, C)" in getattr(functional, name).__doc__.splitlines()[0], name


def test_lazy_names_are_the_real_ones():
    from jnpl.losses import JNPLLoss

    assert jnpl.JNPLLoss is JNPLLoss
    assert jnpl.functional is functional
    assert set(dir(jnpl)) == set(jnpl.__all__)
    with pytest.raises(AttributeError, match=r"module 'jnpl' has no attribute 'JNPL'; it exports .*JNPLLoss"):
        _ = jnpl.JNPL


@pytest.mark.parametrize(
    ("alias", "home"),
    [("functional", "losses.functional"), ("complement", "losses.complement"), ("metrics", "judging.metrics")],
)
def test_a_public_module_is_one_module_under_two_names(alias, home):
    """Whichever is imported first, and however."""
    code = f"""
import importlib, jnpl
import jnpl.{alias} as first
from jnpl import {alias} as second
home = importlib.import_module("jnpl.{home}")
assert first is second is home is jnpl.{alias}
assert home.__name__ == home.__spec__.name == "jnpl.{home}"
"""
    run("-c", code)
    importlib.import_module(f"jnpl.{home}")  # here the home is imported first
    assert importlib.import_module(f"jnpl.{alias}") is importlib.import_module(f"jnpl.{home}")


def test_importing_the_package_is_light():
    code = f"import sys, jnpl; print([name for name in {HEAVY} if name in sys.modules])"
    assert run("-c", code).stdout.strip() == "[]"


def test_importing_the_losses_loads_no_data_libraries():
    code = "import sys, jnpl.losses; print([n for n in ('pandas', 'sklearn', 'matplotlib') if n in sys.modules])"
    assert run("-c", code).stdout.strip() == "[]"


def test_help_is_light():
    finished = run("-X", "importtime", "-m", "jnpl", "--help")
    assert "Usage" in finished.stdout
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in finished.stderr.splitlines() if "|" in line}
    assert {"jnpl", "typer"} <= loaded  # the log was read rightly
    assert not loaded & set(HEAVY)


PATHS = {  # a pinned name -> where it is defined
    "jnpl.functional": "jnpl.losses.functional",
    "jnpl.complement": "jnpl.losses.complement",
    "jnpl.metrics": "jnpl.judging.metrics",
    "jnpl.losses": "jnpl.losses",
    "jnpl.noise": "jnpl.noise",
}


@pytest.mark.parametrize("name", PATHS)
def test_a_pinned_module_is_one_module_by_every_path(name):
    last = name.rpartition(".")[2]
    there = importlib.import_module(PATHS[name])
    assert importlib.import_module(name) is there
    assert getattr(jnpl, last) is there
    bound: dict = {}
    exec(f"from jnpl import {last} as one\nimport {name} as two", bound)
    assert bound["one"] is bound["two"] is there


def test_functional_is_that_of_the_losses():
    from jnpl import functional as JF
    from jnpl import noise

    assert jnpl.functional is jnpl.losses.functional is JF
    assert losses is jnpl.losses
    assert noise is jnpl.noise


@pytest.mark.parametrize("name", jnpl.__all__)
def test_every_exported_name_is_imported_from_the_package(name):
    bound: dict = {}
    exec(f"from jnpl import {name}", bound)
    assert bound[name] is getattr(jnpl, name)


if __name__ == "__main__":
    STORED.write_text("\n".join(stable_api()) + "\n", "utf-8")
