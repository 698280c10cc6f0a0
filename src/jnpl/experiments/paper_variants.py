"""Methods of the paper's figures and tables as recipes (`PAPER`), at a scale."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jnpl.experiments.variants import ADAM, UNCALIBRATED, Variant, classifier, settings_of
from jnpl.internal.errors import InputError
from jnpl.recipes.automatic import head_plan
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from jnpl.experiments.spec import RunSpec

_PL_WEIGHT = 0.01  # the paper's; beside all nine complements it weighs a ninth of what it does beside one
_OTHER_NAMES = {"jnpl": "paper"}  # of the recipes of the package, where they are not the method's


class Sizes(NamedTuple):
    """Network, epochs and rates of a scale that is not the paper's.

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


def _settings(sizes: Sizes, method: dict[str, Any], train: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A method at the sizes of a scale; `train` changes the training of a classifier."""
    plan = {**classifier(sizes.classify_epochs, sizes.batch_size), **(train or {})}
    return settings_of(method, sizes.model, {"padding": sizes.padding, "std": sizes.std}, plan, **more)


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
        return load_recipe("fast", {**split, **UNCALIBRATED})
    settings = {f"method.{key}": value for key, value in changes.items()}
    if method == "jocor":
        settings["method.agreement"] = _agreement(spec)
    recipe = load_recipe(f"{_OTHER_NAMES.get(method, method)}-{spec.data.removesuffix('n')}", settings)
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
        recipe = load_recipe("fast-embeddings", {**plan, **UNCALIBRATED})
    else:
        of_method = {key: value for key, value in changes.items() if key not in ("model", "factor")}
        recipe = divided(_of_the_package(method, of_method, spec), changes.get("factor", factor))
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


def _two_networks(name: str, sizes: Sizes) -> dict[str, Any]:
    """Co-teaching or JoCoR with the authors' schedule, their 200 epochs scaled; the ramp is three at least."""
    epochs = sizes.classify_epochs
    held, ramp = max(round(0.4 * epochs), 1), min(max(round(0.05 * epochs), 3), epochs)
    method = {"name": name, "noise_rate": "oracle", "ramp_epochs": ramp}
    return _settings(sizes, method, {**ADAM, "schedule": "hold-linear", "milestones": [held]})


def _filter(sizes: Sizes, method: dict[str, Any], mode: str, train: dict[str, Any], **more: Any) -> dict[str, Any]:
    """NLNL or JNPL with all complements, at the rate of the filter, then a classifier with pseudo-labels."""
    method = {"complements": "exhaustive", "class_weight": "nlnl", **method}
    pseudo = {"mode": mode, "train": classifier(sizes.classify_epochs, sizes.batch_size)}
    return _settings(sizes, method, {"lr": sizes.filter_lr, **train}, pseudo=pseudo, **more)


def _nlnl_stages(sizes: Sizes) -> dict[str, Any]:
    third = sizes.filter_epochs // 3
    last = sizes.filter_epochs - 2 * third
    stages = {"selpl": {"epochs": last, "schedule": "step", "milestones": [sizes.fall - 2 * third]}}
    return _filter(sizes, {"name": "nlnl"}, "nlnl", {"epochs": third, "schedule": "constant"}, stages=stages)


def _jnpl(sizes: Sizes) -> dict[str, Any]:
    method = {"name": "jnpl", "pl_weight": _PL_WEIGHT, "n": 3, "pl_start": sizes.pl_start}
    train = {"epochs": sizes.filter_epochs, "schedule": "step", "milestones": [sizes.fall]}
    return _filter(sizes, method, "paper", train)


def _fast_at_scale(sizes: Sizes) -> dict[str, Any]:
    changes = {"model": sizes.model, "data.padding": sizes.padding, "train.epochs": sizes.fast_epochs, **UNCALIBRATED}
    return load_recipe("fast", {**changes, "engine.accelerator": "cpu", "engine.workers": 0}).model_dump()


_MAKERS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    **{name: partial(_settings, method={"name": name}) for name in ("ce", "nfl-rce", "nce-rce")},
    **{name: partial(_two_networks, name) for name in ("co-teaching", "jocor")},
    "nlnl": _nlnl_stages,
    "jnpl": _jnpl,
    "fast": _fast_at_scale,
}


_LATE: list[float] = [1 / 3, 1 / 2]
_LINEAR: dict[str, Any] = {"model": "linear"}
STABLE = "jnpl-stable"  # JNPL with a PL+ that keeps all classes
_N: dict[str, dict[str, Any]] = {"jnpl-ce": {"n": -1}, **{f"jnpl-n{n}": {"n": n} for n in (0, 1, 2)}}  # of PL+
_TABLE_1 = ("ce", "co-teaching", "jocor", "nfl-rce", "nce-rce", "nlnl", "jnpl")
_TABLE_2 = ("forward", "m-correction", "limit", "joint-optim", "metacleaner", "mlnt", "pencil")
# Variant -> method, and the settings that differ from its own.
_CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in (*_TABLE_1, *_TABLE_2, "fast")},  # fast is not the paper's
    "nl": ("jnpl", {"gamma": 0.0, "pl_weight": 0.0}),  # NL alone, with the epochs and schedule of NL+
    "nl-plus": ("jnpl", {"pl_weight": 0.0}),
    **{name: ("jnpl", changes) for name, changes in _N.items()},
    # Not the paper's: these show why NL+ does badly in short runs. NL for a third of the epochs, NL+ from half of them
    # on, and PL+ from then on.
    "nl-plus-late": ("jnpl", {"pl_weight": 0.0, "gamma_rise": _LATE}),
    "jnpl-late": ("jnpl", {"gamma_rise": _LATE, "pl_start": 1 / 2}),
    # Departures: PL+ begins when the network knows something. From the first step it ruins it.
    **{f"jnpl-pl{share}": ("jnpl", {"pl_start": share / 100}) for share in (30, 60, 80)},
    # The paper does not say whether NL+ has class weights; those of NLNL's code decide asymmetric noise.
    "nl-plus-weights": ("jnpl", {"pl_weight": 0.0, "class_weight": "nlnl"}),
    STABLE: (STABLE, {}),
    **{f"{name}-stable": (STABLE, changes) for name, changes in _N.items()},
    # These show why PL+ fails from the first step, and why NL+ is slow with 100 classes (all epochs of the paper).
    "jnpl-batch": ("jnpl", {"pl_mean": "batch"}),
    "nl-plus-long": ("jnpl", {"pl_weight": 0.0, "factor": 1}),
    **{f"{name}-linear": (name, _LINEAR) for name in ("ce", "nlnl", "jnpl")},
    "nl-plus-linear": ("jnpl", {"pl_weight": 0.0, **_LINEAR}),
    "jnpl-pl30-linear": ("jnpl", {"pl_start": 0.3, **_LINEAR}),
}
PAPER = {name: Variant(name, partial(_at_scale, *changes)) for name, changes in _CHANGES.items()}
