"""Settings: frozen, validated once, passed whole. A recipe is a TOML file; overrides are `key=value`."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from jnpl.internal.errors import InputError
from jnpl.internal.settings import MethodSettings, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_METHOD = "jnpl"  # where a recipe names none


class Data(Settings):
    """How samples reach the network."""

    size: int | None = Field(None, ge=1, description="pixels to decode images to; None: as they are")
    crop: int | None = Field(None, ge=1, description="pixels the network sees; None: size")
    padding: Annotated[int, Field(ge=0)] | Literal["auto"] = Field(
        4, description="zero padding before a random crop; 0: centre crop, no randomness; auto: an eighth of the side"
    )
    flip: bool = Field(True, description="random horizontal flip")
    std: Literal["one", "data"] = Field("one", description="divide by 1 (the paper), or by the data's own deviation")
    val_size: int = Field(0, ge=0, description="CIFAR: training images left out (the predecessor leaves out 5,000)")


class Training(Settings):
    """Optimiser and schedule of one stage."""

    epochs: int = Field(ge=1)
    batch_size: int = Field(128, ge=1)
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD; for Adam beta 1")
    weight_decay: float = Field(1e-4, ge=0, description="on all parameters, biases and batch norm included")
    schedule: Literal["constant", "step", "cosine", "linear", "hold-linear"] = "constant"
    milestones: tuple[int, ...] = Field(
        (),
        description="epochs, counted from 0: step: lr is multiplied before each; hold-linear: the decay starts "
        "(default: half of the epochs)",
    )
    decay: float = Field(0.1, gt=0, le=1, description="step: the factor")
    clip_norm: float | None = Field(None, gt=0, description="largest gradient norm")
    accumulate: int = Field(1, ge=1, description="batches whose gradients are added up before a step")
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay, a step, of a running mean of the weights, which is then the network; 0: none",
    )

    @model_validator(mode="after")
    def _milestones_belong_to_step(self) -> Training:
        if self.schedule != "hold-linear" and bool(self.milestones) != (self.schedule == "step"):
            told = f"got {list(self.milestones)} with {self.schedule!r}"
            raise ValueError(f"milestones go with schedule 'step' or 'hold-linear', {told}")
        if self.schedule == "hold-linear" and (self.milestones[1:] or max(self.milestones, default=0) >= self.epochs):
            told = f"got {list(self.milestones)} of {self.epochs}"
            raise ValueError(f"schedule 'hold-linear' takes one milestone before the last epoch, {told}")
        return self

    def lr_at(self, epoch: int) -> float:
        """Learning rate of an epoch counted from 0.

        >>> Training(epochs=1000, lr=0.01, schedule="step", milestones=(800,)).lr_at(800)
        0.001
        """
        if self.schedule == "step":
            return float(f"{self.lr * self.decay ** sum(epoch >= at for at in self.milestones):.12g}")
        if self.schedule == "cosine":
            import math  # noqa: PLC0415 (one caller)

            return self.lr * 0.5 * (1 + math.cos(math.pi * epoch / self.epochs))
        if self.schedule in ("linear", "hold-linear"):  # held until the milestone, 0 after the last epoch
            half = round(self.epochs / 2) if self.schedule == "hold-linear" else 0
            start = self.milestones[0] if self.milestones else half
            return self.lr * min(1.0, (self.epochs - epoch) / (self.epochs - start))
        return self.lr


class Verdict(Settings):
    """From predictions to findings."""

    history: int = Field(10, ge=1, description="epochs whose predictions are averaged")
    keep: Literal["full", "compact"] = Field("full", description="what the ledger stores; compact: 94 bytes a sample")
    score: Literal["history", "network", "posterior"] = Field(
        "history",
        description="p_y, a mean over the last epochs of training (or the method's own score); p_y of the network at "
        "the end; or the mean of both in the light of who is taken for whom (jnpl.findings.posterior)",
    )
    threshold: Annotated[float, Field(gt=0, lt=1)] | Literal["auto", "per-class", "1/c"] = 0.5

    @field_validator("threshold", mode="before")
    @classmethod
    def _known(cls, value: object) -> object:
        if isinstance(value, str) and value not in ("auto", "per-class", "1/c"):
            try:
                return float(value)
            except ValueError:
                raise ValueError(f"it is a number in (0, 1), auto, per-class or 1/c, got {value!r}") from None
        return value


class Pseudo(Settings):
    """The second part of `jnpl train`: a fresh network on kept labels and pseudo-labels."""

    mode: Literal["paper", "nlnl", "predicted"] | None = Field(
        None,
        description="kept labels and the filter's predictions elsewhere; two steps, as the predecessor's code; the "
        "filter's predictions everywhere; None: as the method's paper",
    )
    soft: bool = Field(True, description="mean predictions as targets; false: their largest class")
    warm: bool = Field(False, description="the first step begins with the filter's weights; false: with fresh ones")
    class_weight: Literal["none", "nlnl"] | None = Field(
        None, description="nlnl: largest count / count of the targets; None: as the mode's source"
    )
    stretch: float = Field(1.0, gt=0, description="epochs and milestones in times of [train]'s, where train names none")
    train: Training | None = Field(None, description="None: the plan of [train]")


class Engine(Settings):
    """Where and how fast; none of it is part of the method."""

    accelerator: str = "auto"
    devices: int | Literal["auto"] = 1
    num_nodes: int = Field(1, ge=1)
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(str)] = "32"  # TOML's 32 is a number
    channels_last: bool = True
    compile: bool = False
    workers: int | None = Field(None, ge=0, description="decoding processes; None: one a core")
    memory_limit: int = Field(4 << 30, ge=0, description="bytes of decoded images to keep in memory")
    cache: Path | None = Field(None, description="folder for decoded images that do not fit in memory")


def _of_its_method(given: Any) -> Any:
    """Plain settings of a method, validated by the class that the method has for them."""
    if not isinstance(given, dict):
        return given
    from jnpl.methods.registry import settings_class  # noqa: PLC0415 (imports torch)

    return settings_class(given.get("name", _METHOD)).model_validate(given)


class Recipe(Settings):
    """Everything a run is made from, but the data and the seed."""

    description: str = ""
    model: str = Field("auto", description="a name of `jnpl.models.build.MODELS`, package.module:factory, or auto")
    weights: str | None = Field(None, description="path or URL of pretrained weights")
    data: Data = Data()
    train: Training
    stages: dict[str, dict[str, Any]] = Field({}, description="what a stage of the method changes in train")
    method: Annotated[SerializeAsAny[MethodSettings], BeforeValidator(_of_its_method)] = Field(
        default_factory=lambda: _of_its_method({"name": _METHOD})
    )
    verdict: Verdict = Verdict()
    pseudo: Pseudo | None = Field(None, description="None: as the method's paper, if it has such a part")
    engine: Engine = Engine()

    def plan(self, stage: str) -> Training:
        """The plan of one of the method's stages."""
        changed = _changed(self.train.model_dump(), self.stages.get(stage, {}))
        return _validated(Training, changed, ("stages", stage))


def _changed(plan: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A plan with changes; a new schedule drops the milestones, which belong to the other one."""
    return {**plan, **({"milestones": ()} if "schedule" in changes else {}), **changes}


def _stretched(plan: dict[str, Any], times: Any) -> dict[str, Any]:
    """Epochs and milestones of a plan in times of their own; what is wrong with them is told elsewhere."""
    try:
        epochs, *milestones = (max(round(times * at), 1) for at in (plan["epochs"], *plan.get("milestones", ())))
    except (TypeError, ValueError, LookupError, OverflowError):
        return plan
    return {**plan, "epochs": epochs, "milestones": milestones}


def recipe_names() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.name[:-5] for path in resources.files("jnpl.recipes").iterdir() if path.name.endswith(".toml"))


def load_recipe(name: str, overrides: list[str] | None = None) -> Recipe:
    """Read a recipe by name or from a .toml file, with overrides such as "train.epochs=20".

    Another `method.name` than the recipe's drops what that says of its method, its stages, its score and pseudo-labels.

    >>> load_recipe("paper-cifar10", ["train.epochs=20", "train.schedule=constant", "train.milestones=[]"]).train.epochs
    20
    """
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise InputError(f"no such recipe file: {name!r}")
        text = path.read_text("utf-8", errors="surrogateescape")  # TOML says what is wrong with it
    elif name in recipe_names():
        text = (resources.files("jnpl.recipes") / f"{name}.toml").read_text("utf-8")
    else:
        raise InputError(f"no recipe {name!r}; there are {', '.join(recipe_names())}, or a .toml file")
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipe {name!r} is not valid TOML: {error}") from None
    for override in sorted(overrides or [], key=lambda text: not text.strip().startswith("method.name")):
        _override(settings, override)
    return parse_recipe(settings)


def parse_recipe(settings: dict[str, Any]) -> Recipe:
    """Validate plain settings; an error names the field, the value and what there is."""
    from jnpl.methods.registry import METHODS  # noqa: PLC0415 (imports torch)

    pseudo, plan = settings.get("pseudo"), settings.get("train")
    if isinstance(pseudo, dict) and isinstance(plan, dict):
        own = pseudo.get("train") or {}
        if isinstance(own, dict) and (own or "stretch" in pseudo):
            own = _changed(_stretched(plan, pseudo.get("stretch", 1.0)), own)
            settings = {**settings, "pseudo": {**pseudo, "train": own}}
    recipe = _validated(Recipe, settings, ())
    known = [stage.name for stage in METHODS[recipe.method.name].stages]
    for name in recipe.stages:
        if name not in known:
            raise InputError(f"setting stages.{name}: the stages of {recipe.method.name} are {', '.join(known)}")
        recipe.plan(name)
    return recipe


_Any = TypeVar("_Any", bound=Settings)


def _validated(kind: type[_Any], settings: dict[str, Any], before: tuple[str, ...]) -> _Any:
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        group: type[BaseModel] = kind
        place = first["loc"]
        if kind is Recipe and place[:1] == ("method",) and isinstance(settings.get("method"), dict):
            group, before, place = _method_group(settings["method"]), ("method",), place[1:]
        found, siblings = _place(place, group)
        path = [*before, *found]
        if first["type"] == "extra_forbidden":
            there = ", ".join(".".join([*path, name]) for name in siblings)
            raise InputError(f"no setting {'.'.join([*path, str(first['loc'][-1])])!r}; there are {there}") from None
        field = ".".join(path) or "recipe"
        came = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r}"
        raise InputError(f"setting {field}: {first['msg'].removeprefix('Value error, ')}{came}") from None


def _method_group(settings: dict[str, Any]) -> type[BaseModel]:
    from jnpl.methods.registry import settings_class  # noqa: PLC0415 (imports torch)

    return settings_class(settings.get("name", _METHOD))


def _override(settings: dict[str, Any], text: str) -> None:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise InputError(f"a setting is changed by key=value, such as train.epochs=20, not {text!r}")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = None if value.strip().lower() == "none" else value.strip()  # a bare word is a text
    *path, last = key.strip().split(".")
    here = settings
    for part in path:
        here = here.setdefault(part, {})
        if not isinstance(here, dict):
            raise InputError(f"setting {key.strip()!r}: {part!r} is a value, not a group")
    if key.strip() == "method.name" and parsed != here.get(last, _METHOD):
        # Another method: what the recipe says of its own, its stages, its score and its second step, is not for it.
        here.clear()
        settings["verdict"] = {key: each for key, each in settings.get("verdict", {}).items() if key != "score"}
        settings.pop("stages", None)
        settings.pop("pseudo", None)
    here[last] = parsed


def _place(place: tuple[int | str, ...], group: Any) -> tuple[list[str], list[str]]:
    """The settings on the way to a wrong one, without pydantic's own names, and those of the group it ends in."""
    path: list[str] = []
    for part in map(str, place):
        if group is None or part not in group.model_fields:
            break
        path.append(part)
        annotation = group.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        group = next((each for each in options if isinstance(each, type) and issubclass(each, BaseModel)), None)
    return path, [] if group is None else list(group.model_fields)
