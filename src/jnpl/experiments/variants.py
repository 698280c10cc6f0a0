"""Rows: every method of `jnpl bench` (`ROWS`) and of the paper's figures and tables (`VARIANTS`) as a recipe."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jnpl.internal.errors import InputError
from jnpl.recipes.automatic import head_plan, mlp_rate
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from jnpl.experiments.spec import RunSpec

CIFAR = ("cifar10", "cifar10n")
BASE = "ce"  # the row that costs are compared with
TABLES = {"digits": (1400, 10), "wine": (133, 3), "breast-cancer": (426, 2), "iris": (112, 3)}  # samples, classes
SHARE = 0.9  # of the epochs of the others, for fast
_UNCALIBRATED = {"verdict.calibrate": False, "verdict.threshold": 0.5}  # ranking and cost alone count here
_ADAM = {"optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}  # of the authors of Co-teaching and JoCoR
_PL_WEIGHT = 0.01  # the paper's; beside all nine complements it weighs a ninth of what it does beside one
_OTHER_NAMES = {"jnpl": "paper"}  # of the recipes of the package, where they are not the method's


class Variant(NamedTuple):
    """A method with its settings, one line of a table."""

    description: str
    recipe: Callable[[RunSpec], Recipe]
    classify: bool = True  # goes on to a classifier with pseudo-labels, if its method does
    folds: bool = False  # cleanlab: ranked by cross-validated predictions
    true_labels: bool = False  # trained on the true labels, as an upper bound


class Sizes(NamedTuple):
    """Network, epochs and rates of a run of `jnpl bench`, or of a scale that is not the paper's.

    docs/reproduction.md says what was tried for the scale small.
    """

    model: str
    batch_size: int
    std: str
    classify_epochs: int  # of the rivals, and of each step with pseudo-labels
    padding: int = 0  # before random crops; the paper has 4 for 32 pixels
    filter_epochs: int = 0  # of NL+ and JNPL; of NLNL's three stages together
    filter_lr: float = 0.0  # of NL, SelNL, SelPL, NL+ and JNPL
    pl_start: float = 1 / 3  # departure: share of the epochs before PL+, which ruins a network that knows nothing yet
    fast_epochs: int = 0  # of its filter; with its second part about as many as JNPL in all

    @property
    def fast_second(self) -> int:
        """Epochs of the second part of `fast`."""
        pseudo = load_recipe("fast").pseudo
        return round(self.fast_epochs * (1.0 if pseudo is None else pseudo.stretch))

    @property
    def fall(self) -> int:
        """Epochs before the filter's rate is a tenth: the paper's 800 of 1,000."""
        return round(0.8 * self.filter_epochs)


SMALL = Sizes("resnet8", 64, "data", classify_epochs=20, padding=2, filter_epochs=45, filter_lr=0.02, fast_epochs=16)
# Scale on features of a pretrained network -> what divides all epochs
FACTORS = {"features": 8, "features-full": 1}
ON_FEATURES, FEATURES = "mlp512", 256  # network, and numbers per image
FEATURE_SAMPLES = {"features": 10_000, "features-full": 50_000}
TINY = Sizes("mlp", 64, "one", classify_epochs=4, filter_epochs=12, filter_lr=0.1, fast_epochs=4)


def _settings(plan: Sizes, method: dict[str, Any], train: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    """A method at the sizes of a plan; `train` changes the training of a classifier."""
    return {
        "model": plan.model,
        "data": {"padding": plan.padding, "std": plan.std},
        "train": {**_classifier(plan), **(train or {})},
        "method": method,
        "engine": {"accelerator": "cpu", "workers": 0},
        **own,
    }


def _classifier(plan: Sizes) -> dict[str, Any]:
    return {"epochs": plan.classify_epochs, "batch_size": plan.batch_size, "lr": 0.1, "schedule": "cosine"}


# Rows of `jnpl bench`


def _at_size(spec: RunSpec, method: dict[str, Any], train: dict[str, Any] | None = None, **own: Any) -> Recipe:
    """A method at the run's size, trained as all rows are but for what `train` changes."""
    plan = Sizes(spec.net, spec.batch_size, "data", spec.epochs, spec.padding)
    return parse_recipe(_settings(plan, method, train, **own))


def _changed(spec: RunSpec, name: str, changes: dict[str, Any]) -> Recipe:
    """A recipe of the package at the run's size."""
    every = {
        "model": spec.net,
        "train.epochs": spec.epochs,
        "train.batch_size": spec.batch_size,
        "data.val_size": 0,
        "engine.accelerator": "cpu",
        "engine.workers": 0,
        **changes,
    }
    return load_recipe(name, every)


def _ce(spec: RunSpec) -> Recipe:
    return _at_size(spec, {"name": "ce"})


def _gce(spec: RunSpec) -> Recipe:
    return _at_size(spec, {"name": "gce", "q": 0.7})


def _co_teaching(spec: RunSpec) -> Recipe:
    ramp = max(1, spec.epochs // 6)
    return _at_size(spec, {"name": "co-teaching", "noise_rate": "oracle", "ramp_epochs": ramp}, _ADAM)


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
        "co-teaching-plus": _ADAM,
        "cores2": {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "step", "milestones": [15]},
    }
    return {"method": method_settings[method], "train": train.get(method, {})}


def _newer(method: str, spec: RunSpec) -> Recipe:
    """A method since 2020 at the rate and weight decay of most of their papers."""
    images = spec.images or (50_000 if spec.data in CIFAR else TABLES[spec.data][0])
    own = newer_settings(method, 10, math.ceil(images / spec.batch_size) * spec.epochs)
    train = {"lr": 0.02, "weight_decay": 1e-3, **own["train"]}
    if "milestones" in train:
        train["milestones"] = [max(spec.epochs // 2, 1)]
    return _at_size(spec, {"name": method, **own["method"]}, train)


def _nlnl(spec: RunSpec) -> Recipe:
    quarter = max(1, spec.epochs // 4)
    half = max(1, spec.epochs - 2 * quarter)  # all in all the run's epochs, from 3 on
    stages = {
        "nl": {"epochs": half, "lr": 0.1},
        "selnl": {"epochs": quarter, "lr": 0.05},
        "selpl": {"epochs": quarter, "lr": 0.02},
    }
    second = Sizes("", spec.batch_size, "", max(1, spec.epochs // 2))  # twice
    pseudo = {"mode": "nlnl", "train": _classifier(second)}
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
    return _changed(spec, "fast", {**plan, **_UNCALIBRATED, **(changes or {})})


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


BENCH = {
    "ce": Variant("cross-entropy", _ce),
    "fast": Variant("JNPL by the recipe fast", _fast),
    "nlnl": Variant("NLNL, all complements, three stages; two steps with pseudo-labels", _nlnl),
    "cleanlab": Variant(
        "confident learning: 5-fold cross-validated cross-entropy, then on the labels it keeps", _ce, folds=True
    ),
    "jnpl-paper": Variant("JNPL with the paper's settings, its schedule scaled", _jnpl_paper),
    "gce": Variant("generalised cross-entropy, q = 0.7", _gce),
    "co-teaching": Variant("Co-teaching, which is given the noise rate", _co_teaching),
    "ce-clean": Variant("cross-entropy on the true labels", _ce, true_labels=True),
    "ce-augmented": Variant("cross-entropy with the crops of fast", partial(_augmented, _ce)),
    "fast-flip": Variant("fast with the crops of the others", _fast_flip),
}
CROPS = {
    "nlnl-augmented": Variant("NLNL with the crops of fast", partial(_augmented, _nlnl)),
    "cleanlab-augmented": Variant("cleanlab with the crops of fast", partial(_augmented, _ce), folds=True),
    "gce-augmented": Variant("generalised cross-entropy with the crops of fast", partial(_augmented, _gce)),
    "co-teaching-augmented": Variant("Co-teaching with the crops of fast", partial(_augmented, _co_teaching)),
    "ce-clean-augmented": Variant(
        "cross-entropy on the true labels with the crops of fast", partial(_augmented, _ce), true_labels=True
    ),
}
NEWER = {
    f"{name}-augmented": Variant(f"{title} with the crops of fast", partial(_augmented, partial(_newer, name)))
    for name, title in (
        ("elr", "ELR"),
        ("sop", "SOP"),
        ("cores2", "CORES2"),
        ("co-teaching-plus", "Co-teaching+, which is given the noise rate,"),
        ("sop-plus", "SOP+"),
        ("elr-plus", "ELR+"),
        ("dividemix", "DivideMix"),
    )
}
LONG = {
    "gce-long": Variant("generalised cross-entropy with the crops and all epochs of fast", partial(_long, _gce)),
    "co-teaching-long": Variant("Co-teaching with the crops and all epochs of fast", partial(_long, _co_teaching)),
}
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
TABLE = tuple(BENCH)  # the rows of a comparison
BENCH |= CROPS | NEWER | LONG | ABLATIONS | SECOND_PARTS


# Variants: the methods of the paper, at a scale


def _variant(description: str, method: str, **changes: Any) -> Variant:
    """A method at the run's scale, with the settings that differ from its own."""
    return Variant(description, partial(_at_scale, method, changes))


def _at_scale(method: str, changes: dict[str, Any], spec: RunSpec) -> Recipe:
    if spec.scale == "paper":
        return _of_the_package(method, changes, spec)
    if spec.scale in FACTORS:
        return _on_features(method, changes, spec, FACTORS[spec.scale])
    if method not in _MAKERS:
        raise InputError(f"scale {spec.scale} has no {spec.variant}, which is for Clothing1M")
    settings = _MAKERS[method](SMALL if spec.scale == "small" else TINY)
    if method == "jocor":
        settings["method"]["agreement"] = _agreement(spec)
    if method in ("nfl-rce", "nce-rce"):  # by their authors, as is the rate of 0.01 for CIFAR-10: 0.1 does worse
        authors = load_recipe(f"{method}-{'cifar100' if spec.data == 'cifar100' else 'cifar10'}")
        settings["train"] |= authors.train.model_dump(include={"lr", "weight_decay", "clip_norm"})
        settings["method"] = authors.method.model_dump()
    return parse_recipe({**settings, "method": {**settings["method"], **changes}})


def _agreement(spec: RunSpec) -> float:
    """JoCoR's lambda, which its author chose by the data and the noise."""
    if spec.data.startswith("cifar100"):
        return 0.85
    return 0.65 if (spec.noise, spec.rate) == ("symm", 0.8) else 0.9


def _of_the_package(method: str, changes: dict[str, Any], spec: RunSpec) -> Recipe:
    """A recipe of the package with the settings of the variant."""
    if method == "fast":  # it is for any data: the same 45,000 images as the others
        split = {"data.val_size": 5000} if spec.data.startswith("cifar") else {}
        return load_recipe("fast", {**split, **_UNCALIBRATED})
    own = {f"method.{key}": value for key, value in changes.items()}
    if method == "jocor":
        own["method.agreement"] = _agreement(spec)
    recipe = load_recipe(f"{_OTHER_NAMES.get(method, method)}-{spec.data.removesuffix('n')}", own)
    if recipe.weights == "required":
        if spec.weights is None:
            what = f"{spec.variant} on {spec.data} begins with ImageNet's weights"
            raise InputError(f"{what}: --weights FILE (torchvision's keys)")
        recipe = recipe.model_copy(update={"weights": spec.weights})
    return recipe


def _on_features(method: str, changes: dict[str, Any], spec: RunSpec, factor: int) -> Recipe:
    """A recipe of the package for features: a perceptron, and all its epochs over one factor."""
    model = changes.get("model", ON_FEATURES)
    if method == "fast":  # the default of `jnpl find` on embeddings, with its own head and epochs
        plan = head_plan(FEATURES, FEATURE_SAMPLES[str(spec.scale)], 100 if spec.data.startswith("cifar100") else 10)
        recipe = load_recipe("fast-embeddings", {**plan, **_UNCALIBRATED})
    else:
        own = {key: value for key, value in changes.items() if key not in ("model", "factor")}
        recipe = divided(_of_the_package(method, own, spec), changes.get("factor", factor))
    data = recipe.data.model_copy(update={"vectors": "unit", "val_size": 0})
    engine = recipe.engine.model_copy(update={"accelerator": "cpu", "workers": 0})
    return recipe.model_copy(update={"data": data, "engine": engine} | ({} if method == "fast" else {"model": model}))


def divided(recipe: Recipe, factor: int) -> Recipe:
    """A recipe with all epochs, milestones and ramps over one factor, rounded, and at least one.

    >>> short = divided(load_recipe("paper-cifar10"), 8)
    >>> short.train.epochs, short.train.milestones, short.pseudo.train.epochs, short.pseudo.train.milestones
    (125, (100,), 60, (24, 36))
    """

    def fewer(epochs: int) -> int:
        return max(round(epochs / factor), 1)

    def shorter(plan: dict[str, Any]) -> dict[str, Any]:
        shortened: dict[str, Any] = {}
        if plan.get("epochs"):
            shortened["epochs"] = fewer(plan["epochs"])
        if plan.get("milestones"):
            shortened["milestones"] = [*map(fewer, plan["milestones"])]
        if plan.get("momentum_from"):
            start, momentum = plan["momentum_from"]
            shortened["momentum_from"] = [fewer(start), momentum]
        return {**plan, **shortened}

    settings = recipe.model_dump()
    settings["train"] = shorter(settings["train"])
    settings["stages"] = {name: shorter(stage) for name, stage in settings["stages"].items()}
    if settings["pseudo"] is not None and settings["pseudo"]["train"] is not None:
        settings["pseudo"]["train"] = shorter(settings["pseudo"]["train"])
    method = settings["method"]
    settings["method"] |= {key: fewer(method[key]) for key in method if key.endswith("_epochs") and method[key]}
    return parse_recipe(settings)


def _two_networks(name: str, plan: Sizes) -> dict[str, Any]:
    """Co-teaching or JoCoR with the authors' schedule, their 200 epochs scaled; the ramp is three at least."""
    epochs = plan.classify_epochs
    held, ramp = max(round(0.4 * epochs), 1), min(max(round(0.05 * epochs), 3), epochs)
    method = {"name": name, "noise_rate": "oracle", "ramp_epochs": ramp}
    return _settings(plan, method, {**_ADAM, "schedule": "hold-linear", "milestones": [held]})


def _filter(plan: Sizes, method: dict[str, Any], mode: str, train: dict[str, Any], **own: Any) -> dict[str, Any]:
    """NLNL or JNPL with all complements, at the rate of the filter, then a classifier with pseudo-labels."""
    method = {"complements": "exhaustive", "class_weight": "nlnl", **method}
    pseudo = {"mode": mode, "train": _classifier(plan)}
    return _settings(plan, method, {"lr": plan.filter_lr, **train}, pseudo=pseudo, **own)


def _nlnl_stages(plan: Sizes) -> dict[str, Any]:
    third = plan.filter_epochs // 3
    last = plan.filter_epochs - 2 * third
    stages = {"selpl": {"epochs": last, "schedule": "step", "milestones": [plan.fall - 2 * third]}}
    return _filter(plan, {"name": "nlnl"}, "nlnl", {"epochs": third, "schedule": "constant"}, stages=stages)


def _jnpl(plan: Sizes) -> dict[str, Any]:
    method = {"name": "jnpl", "pl_weight": _PL_WEIGHT, "n": 3, "pl_start": plan.pl_start}
    train = {"epochs": plan.filter_epochs, "schedule": "step", "milestones": [plan.fall]}
    return _filter(plan, method, "paper", train)


def _fast_at_scale(plan: Sizes) -> dict[str, Any]:
    changes = {"model": plan.model, "data.padding": plan.padding, "train.epochs": plan.fast_epochs, **_UNCALIBRATED}
    return load_recipe("fast", {**changes, "engine.accelerator": "cpu", "engine.workers": 0}).model_dump()


_MAKERS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    **{name: partial(_settings, method={"name": name}) for name in ("ce", "nfl-rce", "nce-rce")},
    **{name: partial(_two_networks, name) for name in ("co-teaching", "jocor")},
    "nlnl": _nlnl_stages,
    "jnpl": _jnpl,
    "fast": _fast_at_scale,
}
_LATE = [1 / 3, 1 / 2]
LATER = "-pl30"  # after the name of a variant whose PL+ begins after 30 % of the epochs
PL_LATER = "JNPL, PL+ from 30 %"  # how tables call it
PAPER = {
    **{
        name: _variant(name, name)
        for name in ("ce", "co-teaching", "jocor", "nfl-rce", "nce-rce", "nlnl", "jnpl")  # of Table 1
    },
    "nl": _variant("NL alone, with the epochs and schedule of NL+", "jnpl", gamma=0.0, pl_weight=0.0),
    "nl-plus": _variant("NL+ alone", "jnpl", pl_weight=0.0),
    # Not the paper's: these show why NL+ does badly in short runs.
    "nl-plus-late": _variant(
        "NL for a third of the epochs, NL+ from half of them on", "jnpl", pl_weight=0.0, gamma_rise=_LATE
    ),
    "jnpl-late": _variant("the same, and PL+ from then on", "jnpl", gamma_rise=_LATE, pl_start=1 / 2),
    "jnpl-ce": _variant("cross-entropy in place of PL+", "jnpl", n=-1),
    **{f"jnpl-n{n}": _variant(f"PL+ with N = {n}", "jnpl", n=n) for n in (0, 1, 2)},
    # Departure: PL+ begins when the network knows something. From the first step it ruins it.
    **{
        f"{name}{LATER}": _variant(f"{name} with PL+ from 30 % of the epochs on", "jnpl", pl_start=0.3, **own)
        for name, own in (("jnpl", {}), ("jnpl-ce", {"n": -1}), *((f"jnpl-n{n}", {"n": n}) for n in (0, 1, 2)))
    },
    # The paper does not say whether NL+ has class weights; those of NLNL's code decide asymmetric noise.
    "nl-plus-weights": _variant("NL+ with NLNL's class weights", "jnpl", pl_weight=0.0, class_weight="nlnl"),
    **{
        f"jnpl-pl{share}": _variant(f"jnpl with PL+ from {share} % of the epochs on", "jnpl", pl_start=share / 100)
        for share in (60, 80)
    },
    # These show why PL+ fails from the first step, and why NL+ is slow with 100 classes.
    "jnpl-batch": _variant("jnpl with PL+ as a mean over the batch", "jnpl", pl_mean="batch"),
    "nl-plus-long": _variant("NL+ alone with all epochs of the paper", "jnpl", pl_weight=0.0, factor=1),
    **{
        f"{name}-linear": _variant(f"{name} with a linear head", method, model="linear", **own)
        for name, method, own in (
            ("ce", "ce", {}),
            ("nlnl", "nlnl", {}),
            ("nl-plus", "jnpl", {"pl_weight": 0.0}),
            ("jnpl", "jnpl", {}),
            (f"jnpl{LATER}", "jnpl", {"pl_start": 0.3}),
        )
    },
    "fast": _variant("JNPL by the recipe fast, which is not the paper's", "fast"),
    **{
        name: _variant(name, name)
        for name in ("forward", "m-correction", "limit", "joint-optim", "metacleaner", "mlnt", "pencil")  # of Table 2
    },
}
