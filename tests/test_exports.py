"""What the package shows, pinned; and what importing it must not cost."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import jnpl
from jnpl import functional, losses
from jnpl.losses import modules

HEAVY = ("torch", "pandas", "sklearn", "pyarrow", "matplotlib", "scipy")

FUNCTIONAL = [
    "focal",
    "gce",
    "gce_truncated",
    "log_one_minus_softmax",
    "mae",
    "nce",
    "nce_rce",
    "nfl",
    "nfl_rce",
    "nl",
    "nl_exhaustive",
    "nl_plus",
    "nl_plus_exhaustive",
    "nl_plus_exhaustive_gradient",
    "nl_plus_exhaustive_gradient_of_probs",
    "pl",
    "pl_plus",
    "pl_plus_candidates",
    "pl_plus_select",
    "rce",
    "sce",
    "soft_pl",
]
LOSSES = [
    "CollapseWarning",
    "Draws",
    "FocalLoss",
    "GCELoss",
    "JNPLLoss",
    "JNPLTerms",
    "MAELoss",
    "NCERCELoss",
    "NFLRCELoss",
    "NLLoss",
    "NLPlusLoss",
    "PLPlusLoss",
    "RobustLoss",
    "SCELoss",
    "class_weights",
]
PACKAGE = [
    "Embeddings",
    "Findings",
    "JNPLClassifier",
    "JNPLLoss",
    "Ledger",
    "Monitor",
    "RobustLoss",
    "__version__",
    "check",
    "complement",
    "embed",
    "find_label_issues",
    "functional",
    "load",
    "losses",
    "metrics",
    "noise",
    "push_to_hub",
    "score_labels",
]


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("module", "names"),
    [(functional, FUNCTIONAL), (losses, LOSSES), (jnpl, PACKAGE)],
    ids=lambda value: str(value)[:24],
)
def test_the_exported_names(module, names):
    assert sorted(module.__all__) == sorted(names)
    for name in names:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("module", [functional, modules], ids=["functional", "losses"])
def test_nothing_public_is_forgotten(module):
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }
    assert defined == {name for name in module.__all__ if not name.startswith("_")}


def test_every_exported_function_says_its_shapes():
    for name in FUNCTIONAL:
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
    from jnpl import losses, noise

    assert jnpl.functional is jnpl.losses.functional is JF
    assert losses is jnpl.losses
    assert noise is jnpl.noise


@pytest.mark.parametrize("name", jnpl.__all__)
def test_every_exported_name_is_imported_from_the_package(name):
    bound: dict = {}
    exec(f"from jnpl import {name}", bound)
    assert bound[name] is getattr(jnpl, name)


@pytest.mark.parametrize("name", ["symmetric", "asymmetric", "transition", "instance_dependent"])
def test_the_pinned_noises(name):
    assert callable(getattr(jnpl.noise, name))


def test_the_pinned_arguments():
    """Names that callers use: they may be added to, not renamed."""
    pinned = {
        jnpl.functional.nl_plus: ["logits", "complements", "gamma"],
        jnpl.functional.pl_plus: ["logits", "targets", "n"],
        jnpl.losses.JNPLLoss: ["num_classes", "pl_weight", "n", "complements", "num_complements"],
        jnpl.find_label_issues: ["data", "labels", "recipe"],
        jnpl.noise.symmetric: ["labels", "rate", "num_classes", "seed"],
        jnpl.noise.instance_dependent: ["features", "labels", "rate", "seed"],
    }
    for call, names in pinned.items():
        assert set(names) <= set(inspect.signature(call).parameters), call
