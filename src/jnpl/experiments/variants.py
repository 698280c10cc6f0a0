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
    classify: bool = True  # goes on to a classifier with pseudo-labels, if its method does
    folds: bool = False  # cleanlab: ranked by cross-validated predictions
    true_labels: bool = False  # trained on the true labels, as an upper bound


def classifier(epochs: int, batch_size: int) -> dict[str, Any]:
    """The training of a classifier, and of all variants but for what they change."""
    return {"epochs": epochs, "batch_size": batch_size, "lr": 0.1, "schedule": "cosine"}


def _at_size(spec: RunSpec, method: dict[str, Any], train: dict[str, Any] | None = None, **more: Any) -> Recipe:
    """A method at the run's size, trained as all variants are but for what `train` changes."""
    return parse_recipe(
        {
            "model": spec.net,
            "data": {"padding": spec.padding, "std": "data"},
            "train": {**classifier(spec.epochs, spec.batch_size), **(train or {})},
            "method": method,
            "engine": ON_CPU,
            **more,
        }
    )


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


def _fast_lr(times: float, spec: RunSpec) -> Recipe:
    return _fast(spec, {"train.lr": times * _fast_rate(spec)})


def _augmented(rival: Callable[[RunSpec], Recipe], spec: RunSpec) -> Recipe:
    """A rival with the crops of `fast`."""
    return rival(spec).model_copy(update={"data": _fast(spec).data})


def _long(rival: Callable[[RunSpec], Recipe], spec: RunSpec) -> Recipe:
    """A rival with the crops of `fast` and as many epochs as both of its parts have."""
    fast = _fast(spec)
    stretch = 1.0 if fast.pseudo is None else 1 + fast.pseudo.stretch
    return _augmented(rival, spec.model_copy(update={"epochs": round(stretch * fast.train.epochs)}))


def _fast_with_ce(spec: RunSpec) -> Recipe:
    """`fast` with cross-entropy in place of NL+ and PL+: what its other settings contribute."""
    return parse_recipe({**_fast(spec).model_dump(exclude={"pseudo"}), "method": {"name": "ce"}})


def _with_crops(name: str) -> Variant:
    variant = BENCH[name]
    return variant._replace(
        description=f"{variant.description}, with the crops of fast", recipe=partial(_augmented, variant.recipe)
    )


def _of_all_epochs(name: str) -> Variant:
    variant = BENCH[name]
    return Variant(f"{variant.description}, with the crops and all epochs of fast", partial(_long, variant.recipe))


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
CROPS = {f"{name}-augmented": _with_crops(name) for name in ("nlnl", "cleanlab", "gce", "co-teaching", "ce-clean")}
NEWER = {
    f"{name}-augmented": Variant(f"{name} with the crops of fast", partial(_augmented, partial(_newer, name)))
    for name in ("elr", "sop", "cores2", "co-teaching-plus", "sop-plus", "elr-plus", "dividemix")
}
LONG = {f"{name}-long": _of_all_epochs(name) for name in ("gce", "co-teaching")}
ABLATIONS = {
    "fast-filter": Variant("fast as it is, the filter alone", _fast, classify=False),
    "fast-ce": Variant("cross-entropy in place of NL+ and PL+, all else as fast", _fast_with_ce, classify=False),
    **{
        f"fast-{name}": Variant(description, partial(_fast, changes=changes), classify=False)
        for name, description, changes in (
            ("nl", "NL throughout (gamma 0)", {"method.gamma": 0.0, "method.gamma_rise": None}),
            ("nl-plus", "NL+ from the start (gamma 1)", {"method.gamma_rise": None}),
            ("rise", "gamma rises from 0 to 1 over all epochs", {"method.gamma_rise": [0.0, 1.0]}),
            ("rise-half", "gamma rises from 0 to 1 in the first half", {"method.gamma_rise": [0.0, 0.5]}),
            (
                "rise-07",
                "gamma rises from 0 to 0.7 in the first half",
                {"method.gamma": 0.7, "method.gamma_rise": [0.0, 0.5]},
            ),
            ("no-pl", "without PL+", {"method.pl_weight": 0.0}),
            ("pl-early", "PL+ from the start", {"method.pl_start": 0.0}),
            ("pl-strong", "PL+ with ten times its weight", {"method.pl_weight": 0.1}),
            ("pl-batch", "PL+ as a mean over the batch", {"method.pl_mean": "batch"}),
            ("full-weights", "class weights without bounds", {"method.class_weight": "nlnl"}),
            ("no-weights", "without class weights", {"method.class_weight": "none"}),
            ("sampled", "one sampled complement", {"method.complements": "sampled"}),
            ("no-average", "without averaged weights", {"train.average": 0.0}),
            ("history", "ranked by p_y, the mean of the last 10 epochs", {"verdict.score": "history"}),
            ("network", "ranked by p_y of the network at the end", {"verdict.score": "network"}),
            ("cosine", "cosine schedule", {"train.schedule": "cosine"}),
            ("batch-128", "batches of 128", {"train.batch_size": 128}),
            ("no-crop", "without crops", {"data.padding": 0}),
            ("no-guard", "without the guard", {"method.guard": 0.0}),
        )
    },
    **{
        f"fast-lr-{name}": Variant(description, partial(_fast_lr, times), classify=False)
        for name, description, times in (
            ("low", "half the learning rate", 0.5),
            ("high", "twice the learning rate", 2.0),
        )
    },
}
SECOND_PARTS = {
    f"fast-{name}": Variant(description, partial(_fast, changes=changes))
    for name, description, changes in (
        ("hard", "pseudo-labels hard in place of soft", {"pseudo.soft": False}),
        (
            "paper-labels",
            "pseudo-labels as the paper: given labels that are kept, predictions for the others",
            {"pseudo.mode": "paper"},
        ),
        ("fresh", "pseudo-labels teach a new network", {"pseudo.warm": False}),
        ("short", "the second part as long as the first", {"pseudo.stretch": 1.0}),
        ("twice", "the second part twice as long as the first", {"pseudo.stretch": 2.0}),
        ("light", "the second part with the filter's weight decay", {"pseudo.train.weight_decay": 1e-4}),
    )
}
BENCH |= CROPS | NEWER | LONG | ABLATIONS | SECOND_PARTS
