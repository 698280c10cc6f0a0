"""The settings of a run as frozen classes, and their validation."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

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
from jnpl.methods.registry import METHODS, settings_class

DEFAULT_METHOD = "jnpl"  # of a recipe that names none
_RULE = re.compile(r"(precision|budget)=\d*\.?\d+")


class Data(Settings):
    """Decoding and augmentation of the samples."""

    size: int | None = Field(None, ge=1, le=4096, description="pixels to decode images to; None: as they are")
    crop: int | None = Field(None, ge=1, le=4096, description="pixels the network sees; None: size")
    padding: Annotated[int, Field(ge=0)] | Literal["auto"] = Field(
        4, description="zero padding before a random crop; 0: centre crop, no randomness; auto: an eighth of the side"
    )
    flip: bool = Field(True, description="random horizontal flip")
    std: Literal["one", "data"] = Field("one", description="divide by 1 (the paper), or by the data's own deviation")
    vectors: Literal["standard", "centred", "unit"] = Field(
        "standard",
        description="standard: every feature by its own mean and deviation; centred: minus the mean alone; unit: "
        "vectors of length 1, minus their mean, all features over one deviation",
    )
    val_size: int = Field(0, ge=0, description="CIFAR: training images left out (the predecessor leaves out 5,000)")


class Training(Settings):
    """Optimiser and learning-rate schedule of one stage."""

    epochs: int = Field(ge=1, le=1_000_000)
    batch_size: int = Field(128, ge=1, le=2**31)
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0, le=1e30)
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD; for Adam beta 1")
    momentum_from: tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(ge=0, lt=1)]] | None = Field(
        None, description="[epoch, momentum]: another momentum from this epoch on, counted from 0; None: one for all"
    )
    weight_decay: float = Field(1e-4, ge=0, le=1e6, description="on all parameters, biases and batch norm included")
    schedule: Literal["constant", "step", "cosine", "linear", "hold-linear"] = "constant"
    milestones: tuple[int, ...] = Field(
        (),
        description="epochs, counted from 0: step: lr is multiplied before each; hold-linear: the decay starts "
        "(default: half of the epochs)",
    )
    decay: float = Field(0.1, gt=0, le=1, description="step: the factor")
    lr_end: float = Field(0.0, ge=0, description="cosine: the learning rate that it falls to")
    cycle: int | None = Field(None, ge=1, description="cosine: restarts after so many epochs; None: never")
    clip_norm: float | None = Field(None, gt=0, description="largest gradient norm")
    accumulate: int = Field(1, ge=1, le=2**31, description="batches whose gradients are added up before a step")
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="decay per step of a moving average of the weights, which replaces the network; 0: none",
    )

    @model_validator(mode="after")
    def _milestones_belong_to_step(self) -> Training:
        if self.schedule != "hold-linear" and bool(self.milestones) != (self.schedule == "step"):
            got = f"got {list(self.milestones)} with {self.schedule!r}"
            raise ValueError(f"milestones go with schedule 'step' or 'hold-linear', {got}")
        if self.schedule == "hold-linear" and (self.milestones[1:] or max(self.milestones, default=0) >= self.epochs):
            got = f"got {list(self.milestones)} of {self.epochs}"
            raise ValueError(f"schedule 'hold-linear' takes one milestone before the last epoch, {got}")
        return self

    @model_validator(mode="after")
    def _cosine_has_its_settings(self) -> Training:
        if self.schedule != "cosine" and (self.lr_end or self.cycle):
            got = f"got {self.lr_end:g} and {self.cycle} with {self.schedule!r}"
            raise ValueError(f"lr_end and cycle go with schedule 'cosine', {got}")
        if self.lr_end > self.lr:
            raise ValueError(f"lr_end must not be above lr {self.lr:g}, got {self.lr_end:g}")
        return self

    def momentum_at(self, epoch: int) -> float:
        """Return the momentum, for Adam beta 1, of an epoch, counted from 0.

        >>> plan = Training(epochs=200, lr=1e-3, momentum_from=(80, 0.1))
        >>> plan.momentum_at(79), plan.momentum_at(80)
        (0.9, 0.1)
        """
        if self.momentum_from is None or epoch < self.momentum_from[0]:
            return self.momentum
        return self.momentum_from[1]

    def lr_at(self, epoch: float) -> float:
        """Return the learning rate of an epoch, counted from 0, or of a moment within it.

        >>> Training(epochs=1000, lr=0.01, schedule="step", milestones=(800,)).lr_at(800)
        0.001
        """
        if self.schedule == "step":
            return float(f"{self.lr * self.decay ** sum(epoch >= at for at in self.milestones):.12g}")
        if self.schedule == "cosine":
            period = self.cycle or self.epochs
            return self.lr_end + (self.lr - self.lr_end) * 0.5 * (1 + math.cos(math.pi * (epoch % period) / period))
        if self.schedule in ("linear", "hold-linear"):  # constant until the milestone, 0 after the last epoch
            half = round(self.epochs / 2) if self.schedule == "hold-linear" else 0
            start = self.milestones[0] if self.milestones else half
            return self.lr * min(1.0, (self.epochs - epoch) / (self.epochs - start))
        return self.lr


class Judging(Settings):
    """How label quality and label issues follow from the predictions."""

    history: int = Field(10, ge=1, le=1_000_000, description="epochs whose predictions are averaged")
    keep: Literal["full", "compact"] = Field("full", description="what the ledger stores; compact: 94 bytes per sample")
    score: Literal["history", "network", "posterior", "blend", "aum", "margin"] = Field(
        "history",
        description="history: p_y averaged over the last epochs of training (or the method's own score); network: p_y "
        "of the network at the end; posterior: the mean of both, corrected by the estimated confusion between classes "
        "(jnpl.judging.posterior); blend: the mean of that mean and its posterior; aum: the logit margin of the given "
        "label, averaged over all epochs (Pleiss et al. 2020); margin: the margin of the averaged logits",
    )
    trees: bool = Field(
        False,
        description="tables: labels are also judged by decision trees that have not seen them (jnpl.judging.trees); "
        "the agreement with the given labels decides between network, trees and the mean of both",
    )
    calibrate: bool = Field(
        False,
        description="label quality is the estimated probability that the label is right, and the noise rate is "
        "estimated with an interval (jnpl.judging.noise_model); false: the score itself, and the share of issues",
    )
    threshold: Annotated[float, Field(gt=0, lt=1)] | str = Field(
        0.5,
        description="label quality below which a label is an issue: a number, auto, per-class, 1/c, precision=P or "
        "budget=K",
    )

    @field_validator("threshold", mode="before")
    @classmethod
    def _number_or_rule(cls, value: object) -> object:
        if isinstance(value, str) and value not in ("auto", "per-class", "1/c") and not _RULE.fullmatch(value):
            try:
                return float(value)
            except ValueError:
                rules = "auto, per-class, 1/c, precision=P or budget=K"
                raise ValueError(f"must be a number in (0, 1), {rules}, got {value!r}") from None
        return value


class Pseudo(Settings):
    """The second stage of `jnpl train`: a classifier trained on kept labels and pseudo-labels."""

    mode: Literal["none", "paper", "nlnl", "predicted"] | None = Field(
        None,
        description="none: no such stage, the method's network is the classifier; paper: kept labels, and the filter's "
        "predictions for the other samples; nlnl: two steps, as in the code of NLNL; predicted: the "
        "filter's predictions for all samples; None: as in the method's paper",
    )
    soft: bool = Field(True, description="mean predictions as soft targets; false: their most probable class")
    warm: bool = Field(False, description="the first step starts from the filter's weights; false: from new ones")
    class_weight: Literal["none", "nlnl"] | None = Field(
        None, description="nlnl: largest count / count of the targets; None: as in the mode's source"
    )
    stretch: float = Field(1.0, gt=0, description="factor of [train]'s epochs and milestones, if train has none")
    train: Training | None = Field(None, description="None: the settings of [train]")


class Engine(Settings):
    """Devices, precision and memory: nothing here is part of the method."""

    accelerator: str = "auto"
    devices: int | Literal["auto"] = 1
    num_nodes: int = Field(1, ge=1)
    precision: Annotated[Literal["32", "bf16-mixed", "16-mixed"], BeforeValidator(str)] = "32"  # TOML's 32 is a number
    channels_last: bool = True
    compile: bool = False
    workers: int | None = Field(None, ge=0, description="decoding processes; None: one per core")
    memory_limit: int = Field(4 << 30, ge=0, description="bytes of decoded images to keep in memory")
    cache: Path | None = Field(None, description="folder for decoded images that do not fit in memory")


def _method_settings(settings: Any) -> Any:
    """Validate plain settings of a method by that method's own settings class."""
    if not isinstance(settings, dict):
        return settings
    name = settings.get("name", DEFAULT_METHOD)
    if not isinstance(name, str):
        raise ValueError(  # noqa: TRY004 - pydantic's
            f"the name of a method is a text (jnpl methods), got {name!r}"
        )
    return settings_class(name).model_validate(settings)


class Recipe(Settings):
    """All settings of a run: everything but the data and the seed."""

    description: str = ""
    model: str = Field("auto", description="a name of `jnpl.models.build.MODELS`, package.module:factory, or auto")
    weights: str | None = Field(None, description="path or URL of pretrained weights")
    data: Data = Data()
    train: Training
    stages: dict[str, dict[str, Any]] = Field({}, description="what a stage of the method changes in train")
    method: Annotated[SerializeAsAny[MethodSettings], BeforeValidator(_method_settings)] = Field(
        default_factory=lambda: _method_settings({"name": DEFAULT_METHOD})
    )
    verdict: Judging = Judging()
    pseudo: Pseudo | None = Field(None, description="None: as in the method's paper, if it has this stage")
    engine: Engine = Engine()

    def plan(self, stage: str) -> Training:
        """Return the training settings of one of the method's stages."""
        changed = _changed(self.train.model_dump(), self.stages.get(stage, {}))
        return _validated(Training, changed, ("stages", stage))


def _changed(plan: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Training settings with changes; a new schedule drops the settings of the old one."""
    old = {"milestones": (), "lr_end": 0.0, "cycle": None}
    return {**plan, **(old if "schedule" in changes else {}), **changes}


def _stretched(plan: dict[str, Any], times: Any) -> dict[str, Any]:
    """Training settings with epochs and milestones multiplied; wrong types are left to the validation."""
    try:
        epochs, *milestones = (max(round(times * at), 1) for at in (plan["epochs"], *plan.get("milestones", ())))
        start, *momentum = plan.get("momentum_from") or (1,)
        later = [max(round(times * start), 1), *momentum] if momentum else None
    except (TypeError, ValueError, LookupError, OverflowError):
        return plan
    return {**plan, "epochs": epochs, "milestones": milestones, "momentum_from": later}


def parse_recipe(settings: dict[str, Any]) -> Recipe:
    """Validate plain settings, as a TOML file has them.

    Args:
        settings: nested tables, such as {"train": {"epochs": 20, "lr": 0.1}}.

    Returns:
        The recipe. An InputError names the wrong setting, its value and what would be right.

    >>> parse_recipe({"train": {"epochs": 20, "lr": 0.1}}).train.batch_size
    128
    >>> parse_recipe({"train": {"epochs": 0, "lr": 0.1}})
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: setting train.epochs: Input should be greater than or equal to 1, got 0
    """
    pseudo, plan = settings.get("pseudo"), settings.get("train")
    if isinstance(pseudo, dict) and isinstance(plan, dict):
        changes = pseudo.get("train") or {}
        if isinstance(changes, dict) and (changes or pseudo.get("stretch", 1.0) != 1.0):
            whole = _changed(_stretched(plan, pseudo.get("stretch", 1.0)), changes)
            settings = {**settings, "pseudo": {**pseudo, "train": whole}}
    recipe = _validated(Recipe, settings, ())
    method = METHODS[recipe.method.name]
    names = [stage.name for stage in (*method.stages, *method.optional_stages)]
    for name in recipe.stages:
        if name not in names:
            raise InputError(f"setting stages.{name}: the stages of {recipe.method.name} are {', '.join(names)}")
        recipe.plan(name)
    return recipe


_Group = TypeVar("_Group", bound=Settings)


def _validated(kind: type[_Group], settings: dict[str, Any], before: tuple[str, ...]) -> _Group:
    """Validate one group of settings; `before` is its own place in the recipe, for error messages."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        group: type[BaseModel] = kind
        place = first["loc"]
        named = (
            settings.get("method", {}).get("name", DEFAULT_METHOD) if isinstance(settings.get("method"), dict) else None
        )
        if kind is Recipe and place[:1] == ("method",) and isinstance(named, str):
            group = settings_class(named)
            before, place = ("method",), place[1:]
        inner, siblings = _place(place, group)
        path = [*before, *inner]
        if first["type"] == "extra_forbidden":
            choices = ", ".join(".".join([*path, name]) for name in siblings)
            unknown = str(first["loc"][-1])
            having = [name for name in METHODS if path == ["method"] and unknown in settings_class(name).model_fields]
            elsewhere = f" (a setting of {', '.join(having)})" if having else ""
            raise InputError(f"no setting {'.'.join([*path, unknown])!r}; there are {choices}{elsewhere}") from None
        field = ".".join(path) or "recipe"
        got = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r}"
        raise InputError(f"setting {field}: {first['msg'].removeprefix('Value error, ')}{got}") from None


def _place(place: tuple[int | str, ...], group: Any) -> tuple[list[str], list[str]]:
    """Return the path to a wrong setting, without pydantic's own names, and the settings of the group it is in."""
    path: list[str] = []
    for part in map(str, place):
        if group is None or part not in group.model_fields:
            break
        path.append(part)
        annotation = group.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        classes = [kind for kind in options if isinstance(kind, type) and get_origin(kind) is None]  # not dict[...]
        group = next((kind for kind in classes if issubclass(kind, BaseModel)), None)
    return path, [] if group is None else list(group.model_fields)
