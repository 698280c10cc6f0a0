"""Methods of `jnpl bench` as recipes: every variant with its settings (`BENCH`), at the size of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jnpl.recipes.automatic import mlp_rate
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from jnpl.experiments.spec import RunSpec

CIFAR = ("cifar10", "cifar10n")
BASE = "ce"  # the variant that costs are compared with
TABLES = {"digits": (1400, 10), "wine": (133, 3), "breast-cancer": (426, 2), "iris": (112, 3)}  # samples, classes
SHARE = 0.9  # of the epochs of the others, for fast
ON_CPU = {"accelerator": "cpu", "workers": 0}
UNCALIBRATED = {"verdict.calibrate": False, "verdict.threshold": 0.5}  # ranking and cost alone count here
ADAM = {"optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}  # of the authors of Co-teaching and JoCoR


class Variant(NamedTuple):
    """A method with its settings."""

    description: str
    recipe: Callable[[RunSpec], Recipe]
    folds: bool = False  # cleanlab: ranked by cross-validated predictions
    true_labels: bool = False  # trained on the true labels, as an upper bound


def classifier(epochs: int, batch_size: int) -> dict[str, Any]:
    """The training of a classifier, and of all variants but for what they change."""
    return {"epochs": epochs, "batch_size": batch_size, "lr": 0.1, "schedule": "cosine"}


def settings_of(
    method: dict[str, Any], model: str, data: dict[str, Any], plan: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """All settings of a method with this network, data and training."""
    return {"model": model, "data": data, "train": plan, "method": method, "engine": ON_CPU, **more}


def _at_size(spec: RunSpec, method: dict[str, Any], train: dict[str, Any] | None = None, **more: Any) -> Recipe:
    """A method at the run's size, trained as all variants are but for what `train` changes."""
    plan = {**classifier(spec.epochs, spec.batch_size), **(train or {})}
    return parse_recipe(settings_of(method, spec.net, {"padding": spec.padding, "std": "data"}, plan, **more))


def _changed(spec: RunSpec, name: str, changes: dict[str, Any]) -> Recipe:
    """A recipe of the package at the run's size."""
    size = {"model": spec.net, "train.epochs": spec.epochs, "train.batch_size": spec.batch_size, "data.val_size": 0}
    return load_recipe(name, {**size, **{f"engine.{name}": value for name, value in ON_CPU.items()}, **changes})


def _ce(spec: RunSpec) -> Recipe:
    return _at_size(spec, {"name": "ce"})


def _gce(spec: RunSpec) -> Recipe:
    return _at_size(spec, {"name": "gce", "q": 0.7})


def _co_teaching(spec: RunSpec) -> Recipe:
    ramp = max(1, spec.epochs // 6)
    return _at_size(spec, {"name": "co-teaching", "noise_rate": "oracle", "ramp_epochs": ramp}, ADAM)


def newer_settings(method: str, classes: int, steps: int) -> dict[str, dict[str, Any]]:
    """Return `method` and `train` settings of a method since 2020, by its paper, for 30 epochs.

    What the papers count in hundreds of epochs is scaled; `steps` is the length of the training.
    """
    hundred = classes == 100
    sop = {"lr_u": 10.0, "lr_v": 100.0} if hundred else {"lr_u": 100.0, "lr_v": 100.0}  # ten times, in a tenth of steps
    method_settings: dict[str, dict[str, Any]] = {
        "co-teaching-plus": {"noise_rate": "oracle", "ramp_epochs": 3, "warm_up": 1 if hundred else 3},
        "dividemix": {"warm_up": 3 if hundred else 1, "ramp_epochs": 2},
        "elr": {"beta": 0.9, "weight": 7.0} if hundred else {},
        "elr-plus": {
            "average_steps": steps // 2,
            **({"beta": 0.9, "weight": 7.0, "labels_by_targets": True} if hundred else {}),
            "weight_steps": 2 * steps // 5 if hundred else 0,
        },
        "cores2": {},
        "sop": sop,
        "sop-plus": sop,
    }
    train: dict[str, dict[str, Any]] = {
        "co-teaching-plus": ADAM,
        "cores2": {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "step", "milestones": [15]},
    }
    return {"method": method_settings[method], "train": train.get(method, {})}


def _newer(method: str, spec: RunSpec) -> Recipe:
    """A method since 2020 at the rate and weight decay of most of their papers."""
    images = spec.images or (50_000 if spec.data in CIFAR else TABLES[spec.data][0])
    settings = newer_settings(method, 10, math.ceil(images / spec.batch_size) * spec.epochs)
    train = {"lr": 0.02, "weight_decay": 1e-3, **settings["train"]}
    if "milestones" in train:
        train["milestones"] = [max(spec.epochs // 2, 1)]
    return _at_size(spec, {"name": method, **settings["method"]}, train)


def _nlnl(spec: RunSpec) -> Recipe:
    quarter = max(1, spec.epochs // 4)
    half = max(1, spec.epochs - 2 * quarter)  # all in all the run's epochs, from 3 on
    stages = {
        "nl": {"epochs": half, "lr": 0.1},
        "selnl": {"epochs": quarter, "lr": 0.05},
        "selpl": {"epochs": quarter, "lr": 0.02},
    }
    pseudo = {"mode": "nlnl", "train": classifier(max(1, spec.epochs // 2), spec.batch_size)}  # twice
    return _at_size(spec, {"name": "nlnl", "complements": "exhaustive"}, stages=stages, pseudo=pseudo)


def _jnpl_paper(spec: RunSpec) -> Recipe:
    epochs = spec.epochs
    steps = [round(0.4 * epochs), round(0.6 * epochs)]
    return _changed(
        spec,
        "paper-cifar10",
        {
            "train.milestones": [round(0.8 * epochs)],
            "pseudo.train.epochs": epochs,
            "pseudo.train.milestones": steps,
            "pseudo.train.batch_size": spec.batch_size,
            "data.padding": spec.padding,
        },
    )


def _fast(spec: RunSpec, changes: dict[str, Any] | None = None) -> Recipe:
    """`fast` in nine tenths of the epochs of the others: with its evaluation at the end it costs no more than CE."""
    plan = {"train.epochs": _fast_epochs(spec), "train.lr": _fast_rate(spec)}
    return _changed(spec, "fast", {**plan, **UNCALIBRATED, **(changes or {})})


def _fast_epochs(spec: RunSpec) -> int:
    return max(2, round(SHARE * spec.epochs))


def _fast_rate(spec: RunSpec) -> float:
    """The learning rate that `jnpl find` would choose."""
    if spec.data in CIFAR or spec.net not in ("mlp", "auto"):
        return load_recipe("fast").train.lr
    return mlp_rate(*TABLES[spec.data], spec.batch_size, _fast_epochs(spec))


def _fast_flip(spec: RunSpec) -> Recipe:
    return _fast(spec, {"data.padding": spec.padding})


def _augmented(rival: Callable[[RunSpec], Recipe], spec: RunSpec) -> Recipe:
    """A rival with the crops of `fast`."""
    return rival(spec).model_copy(update={"data": _fast(spec).data})


BENCH = {
    "ce": Variant("cross-entropy", _ce),
    "fast": Variant("JNPL by the recipe fast", _fast),
    "nlnl": Variant("NLNL, all complements, three stages; two steps with pseudo-labels", _nlnl),
    "cleanlab": Variant(
        "5-fold cross-validated cross-entropy, then on the labels that cleanlab keeps", _ce, folds=True
    ),
    "jnpl-paper": Variant("JNPL with the paper's settings, its schedule scaled", _jnpl_paper),
    "gce": Variant("generalised cross-entropy, q = 0.7", _gce),
    "co-teaching": Variant("Co-teaching, which is given the noise rate", _co_teaching),
    "ce-clean": Variant("cross-entropy on the true labels", _ce, true_labels=True),
    "ce-augmented": Variant("cross-entropy with the crops of fast", partial(_augmented, _ce)),
    "fast-flip": Variant("fast with the crops of the others", _fast_flip),
}
TABLE = tuple(BENCH)  # the rows of a comparison
BENCH |= {
    f"{name}-augmented": Variant(f"{name} with the crops of fast", partial(_augmented, partial(_newer, name)))
    for name in ("elr", "sop", "cores2", "co-teaching-plus", "sop-plus", "elr-plus", "dividemix")
}
