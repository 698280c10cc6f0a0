"""Variants: every method of the paper's figures and tables as a recipe, at each scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jnpl.internal.errors import InputError
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from collections.abc import Callable


class Variant(NamedTuple):
    """A method and the settings that differ from its own."""

    method: str
    changes: dict[str, Any] = {}  # noqa: RUF012 (never changed)


VARIANTS = {
    **{name: Variant(name) for name in ("ce", "co-teaching", "jocor", "nfl-rce", "nce-rce", "nlnl", "jnpl")},
    "nl": Variant("jnpl", {"gamma": 0.0, "pl_weight": 0.0}),  # NL alone, with the epochs and schedule of NL+
    "nl-plus": Variant("jnpl", {"pl_weight": 0.0}),  # NL+ alone
    # Not the paper's: NL for a third of the epochs, NL+ from half of them on, to show why NL+ does badly in short runs.
    "nl-plus-late": Variant("jnpl", {"pl_weight": 0.0, "gamma_rise": [1 / 3, 1 / 2]}),
    "jnpl-late": Variant("jnpl", {"gamma_rise": [1 / 3, 1 / 2], "pl_start": 1 / 2}),  # the same, and PL+ from then on
    "jnpl-ce": Variant("jnpl", {"n": -1}),  # cross-entropy in place of PL+
    "jnpl-n0": Variant("jnpl", {"n": 0}),
    "jnpl-n1": Variant("jnpl", {"n": 1}),
    "jnpl-n2": Variant("jnpl", {"n": 2}),
    "fast": Variant("fast"),  # which is not the paper's
    **{
        name: Variant(name)  # of Table 2
        for name in ("forward", "m-correction", "limit", "joint-optim", "metacleaner", "mlnt", "pencil")
    },
}
# Figure 3: variants by their N.
PL_PLUS = {"jnpl-ce": "CE", "jnpl-n0": "N = 0", "jnpl-n1": "N = 1", "jnpl-n2": "N = 2", "jnpl": "N = 3"}

_OTHER_NAMES = {"jnpl": "paper"}  # of the recipes of the package, where they are not the method's


class Plan(NamedTuple):
    """Epochs and rates of a scale that is not the paper's; docs/reproduction.md says what was tried."""

    model: str
    batch_size: int
    std: str
    filter_epochs: int  # of NL+ and JNPL; of NLNL's three stages together
    filter_lr: float  # of NL, SelNL, SelPL, NL+ and JNPL
    pl_start: float  # departure: share of the epochs before PL+, which ruins a network that knows nothing yet
    classify_epochs: int  # of the rivals, and of each step with pseudo-labels
    fast_epochs: int  # of its filter; with its second part about as many as JNPL in all
    padding: int = 0  # before random crops; the paper has 4 for 32 pixels

    @property
    def fast_second(self) -> int:
        """Epochs of the second part of `fast`."""
        pseudo = load_recipe("fast").pseudo
        return round(self.fast_epochs * (1.0 if pseudo is None else pseudo.stretch))

    @property
    def fall(self) -> int:
        """Epochs before the filter's rate is a tenth: the paper's 800 of 1,000."""
        return round(0.8 * self.filter_epochs)


SMALL = Plan(
    "resnet8",
    64,
    "data",
    filter_epochs=45,
    filter_lr=0.02,
    pl_start=1 / 3,
    classify_epochs=20,
    fast_epochs=16,
    padding=2,
)
TINY = Plan("mlp", 64, "one", filter_epochs=12, filter_lr=0.1, pl_start=1 / 3, classify_epochs=4, fast_epochs=4)
_PL_WEIGHT = 0.01  # the paper's; beside all nine complements it weighs a ninth of what it does beside one


def recipe_of(
    variant: str, data: str, scale: str, weights: str | None = None, setting: tuple[str, float] | None = None
) -> Recipe:
    """All settings of a variant's training; `setting`: the noise and its rate, by which its authors may tune it."""
    if variant not in VARIANTS:
        raise InputError(f"there is no variant {variant!r}; there are {', '.join(VARIANTS)}")
    if scale == "paper":
        return _of_the_package(variant, data, weights, setting)
    made = _MAKERS.get(VARIANTS[variant].method)
    if made is None:
        raise InputError(f"scale {scale} has no {variant}, which is for Clothing1M")
    plan = SMALL if scale == "small" else TINY
    settings = made(plan)
    authors, train = _by_its_authors(VARIANTS[variant].method, data, setting)
    settings["train"] = {**settings["train"], **train}
    settings["method"] = {**settings["method"], **authors, **VARIANTS[variant].changes}
    return parse_recipe({"engine": {"accelerator": "cpu", "workers": 0}, **settings})


def _by_its_authors(method: str, data: str, setting: tuple[str, float] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the method and of the training that the authors of JoCoR and APL give for a data set or a noise."""
    if method == "jocor":
        return {"agreement": _agreement(data, setting)}, {}
    if method not in ("nfl-rce", "nce-rce"):
        return {}, {}
    recipe = load_recipe(f"{method}-{'cifar100' if data == 'cifar100' else 'cifar10'}")
    # Their rate for CIFAR-10 is 0.01; 0.1 does worse.
    train = recipe.train.model_dump(include={"lr", "weight_decay", "clip_norm"})
    return recipe.method.model_dump(), train


def _agreement(data: str, setting: tuple[str, float] | None) -> float:
    """JoCoR's lambda, by its author."""
    if data == "cifar100":
        return 0.85
    return 0.65 if setting == ("symm", 0.8) else 0.9


def _of_the_package(variant: str, data: str, weights: str | None, setting: tuple[str, float] | None) -> Recipe:
    """A recipe of the package with the settings of the variant."""
    method, changes = VARIANTS[variant].method, VARIANTS[variant].changes
    if method == "fast":  # it is for any data: the same 45,000 images as the others
        return load_recipe("fast", {"data.val_size": 5000} if data.startswith("cifar") else {})
    own = {f"method.{key}": value for key, value in changes.items()}
    if method == "jocor":
        own["method.agreement"] = _agreement(data, setting)
    recipe = load_recipe(f"{_OTHER_NAMES.get(method, method)}-{data}", own)
    if recipe.weights == "required":
        if weights is None:
            raise InputError(f"{variant} on {data} begins with ImageNet's weights: --weights FILE (torchvision's keys)")
        recipe = recipe.model_copy(update={"weights": weights})
    return recipe


def _rival(plan: Plan, method: dict[str, Any], train: dict[str, Any] | None = None) -> dict[str, Any]:
    """A method without a filter: the plan of the bench, but for what `train` changes."""
    return _settings(plan, method, {**_classifier(plan), **(train or {})})


def _settings(plan: Plan, method: dict[str, Any], train: dict[str, Any]) -> dict[str, Any]:
    return {
        "model": plan.model,
        "data": {"padding": plan.padding, "std": plan.std},
        "train": train,
        "method": method,
    }


def _classifier(plan: Plan) -> dict[str, Any]:
    return {"epochs": plan.classify_epochs, "batch_size": plan.batch_size, "lr": 0.1, "schedule": "cosine"}


def _adam(plan: Plan) -> dict[str, Any]:
    """The authors' optimiser and schedule for two networks, their 200 epochs and 80 scaled."""
    held = max(round(0.4 * plan.classify_epochs), 1)
    return {"optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0, "schedule": "hold-linear", "milestones": [held]}


def _two(name: str) -> Callable[[Plan], dict[str, Any]]:
    """Co-teaching or JoCoR; the ramp is the authors' 10 of 200 epochs, but three at least."""

    def made(plan: Plan) -> dict[str, Any]:
        ramp = min(max(round(0.05 * plan.classify_epochs), 3), plan.classify_epochs)
        method = {"name": name, "noise_rate": "oracle", "ramp_epochs": ramp}
        return _rival(plan, method, _adam(plan))

    return made


def _filter(plan: Plan, epochs: int, fall: int | None) -> dict[str, Any]:
    """Training of NL and NL+: a tenth of the learning rate from epoch `fall` on."""
    steps = {} if fall is None else {"schedule": "step", "milestones": [fall]}
    return {"epochs": epochs, "batch_size": plan.batch_size, "lr": plan.filter_lr, **steps}


def _nlnl(plan: Plan) -> dict[str, Any]:
    third = plan.filter_epochs // 3
    last = plan.filter_epochs - 2 * third
    stages = {"selpl": {"epochs": last, "schedule": "step", "milestones": [plan.fall - 2 * third]}}
    pseudo = {"mode": "nlnl", "train": _classifier(plan)}
    method = {"name": "nlnl", "complements": "exhaustive", "class_weight": "nlnl"}
    return {**_settings(plan, method, _filter(plan, third, None)), "stages": stages, "pseudo": pseudo}


def _jnpl(plan: Plan) -> dict[str, Any]:
    method = {
        "name": "jnpl",
        "complements": "exhaustive",
        "class_weight": "nlnl",
        "pl_weight": _PL_WEIGHT,
        "n": 3,
        "pl_start": plan.pl_start,
    }
    pseudo = {"mode": "paper", "train": _classifier(plan)}
    return {**_settings(plan, method, _filter(plan, plan.filter_epochs, plan.fall)), "pseudo": pseudo}


def _fast(plan: Plan) -> dict[str, Any]:
    changes = {"model": plan.model, "data.padding": plan.padding, "train.epochs": plan.fast_epochs}
    return load_recipe("fast", changes).model_dump(exclude={"engine"})


_MAKERS: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "ce": lambda plan: _rival(plan, {"name": "ce"}),
    "co-teaching": _two("co-teaching"),
    "jocor": _two("jocor"),
    "nfl-rce": lambda plan: _rival(plan, {"name": "nfl-rce"}),
    "nce-rce": lambda plan: _rival(plan, {"name": "nce-rce"}),
    "nlnl": _nlnl,
    "jnpl": _jnpl,
    "fast": _fast,
}
