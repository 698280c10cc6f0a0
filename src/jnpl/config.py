"""Settings: frozen, validated once, passed whole. A recipe is a TOML file; overrides are `key=value`."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from jnpl.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class Data(_Settings):
    """How samples reach the network."""

    size: int | None = Field(None, ge=1, description="pixels to decode images to; None: as they are")
    crop: int | None = Field(None, ge=1, description="pixels the network sees; None: size")
    padding: int = Field(4, ge=0, description="zero padding before a random crop; 0: centre crop, no randomness")
    flip: bool = Field(True, description="random horizontal flip")
    std: Literal["one", "data"] = Field("one", description="divide by 1 (the paper), or by the data's own deviation")
    val_size: int = Field(0, ge=0, description="CIFAR: training images left out (the predecessor leaves out 5,000)")


class Training(_Settings):
    """Optimiser and schedule of one stage."""

    epochs: int = Field(ge=1)
    batch_size: int = Field(128, ge=1)
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="SGD; for Adam beta 1")
    weight_decay: float = Field(1e-4, ge=0, description="on all parameters, biases and batch norm included")
    schedule: Literal["constant", "step", "cosine", "linear"] = "constant"
    milestones: tuple[int, ...] = Field((), description="step: epochs, counted from 0, before which lr is multiplied")
    decay: float = Field(0.1, gt=0, le=1, description="step: the factor")
    clip_norm: float | None = Field(None, gt=0, description="largest gradient norm")
    accumulate: int = Field(1, ge=1, description="batches whose gradients are added up before a step")

    @model_validator(mode="after")
    def _milestones_belong_to_step(self) -> Training:
        if bool(self.milestones) != (self.schedule == "step"):
            raise ValueError(f"milestones go with schedule 'step', got {self.milestones} with {self.schedule!r}")
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
        if self.schedule == "linear":
            return self.lr * (1 - epoch / self.epochs)
        return self.lr


class Method(_Settings):
    """Which method, and the settings of JNPL."""

    name: str = Field("jnpl", description="a name of jnpl.methods.registry")
    pl_weight: float = Field(0.01, ge=0, description="the paper's lambda")
    n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
    complements: Literal["sampled", "exhaustive"] = "sampled"
    num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
    gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL")
    class_weight: Literal["none", "nlnl"] = "none"

    @model_validator(mode="after")
    def _a_number_belongs_to_sampled(self) -> Method:
        if self.num_complements is not None and self.complements == "exhaustive":
            raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
        return self


class Verdict(_Settings):
    """From predictions to findings."""

    history: int = Field(10, ge=1, description="epochs whose predictions are averaged")
    keep: Literal["full", "compact"] = Field("full", description="what the ledger stores; compact: 94 bytes a sample")
    threshold: Annotated[float, Field(gt=0, lt=1)] | Literal["auto", "1/c"] = 0.5


class Pseudo(_Settings):
    """The second stage: a fresh network on kept labels and pseudo-labels."""

    mode: Literal["paper", "nlnl"] = Field("paper", description="one step, or two as the predecessor's code")
    soft: bool = True
    train: Training


class Engine(_Settings):
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


class Recipe(_Settings):
    """Everything a run is made from, but the data and the seed."""

    description: str = ""
    model: str = Field("auto", description="a name of `jnpl.models.build.MODELS`, package.module:factory, or auto")
    weights: str | None = Field(None, description="path or URL of pretrained weights")
    data: Data = Data()
    train: Training
    method: Method = Method()
    verdict: Verdict = Verdict()
    pseudo: Pseudo | None = None
    engine: Engine = Engine()


def recipe_names() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(path.name[:-5] for path in resources.files("jnpl.recipes").iterdir() if path.name.endswith(".toml"))


def load_recipe(name: str, overrides: list[str] | None = None) -> Recipe:
    """Read a recipe by name or from a .toml file, with overrides such as "train.epochs=20".

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
    for override in overrides or []:
        _override(settings, override)
    return parse_recipe(settings)


def parse_recipe(settings: dict[str, Any]) -> Recipe:
    """Validate plain settings; an error names the field, the value and what there is."""
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        path, siblings = _place(first["loc"])
        if first["type"] == "extra_forbidden":
            there = ", ".join(".".join([*path, name]) for name in siblings)
            raise InputError(f"no setting {'.'.join([*path, str(first['loc'][-1])])!r}; there are {there}") from None
        field = ".".join(path) or "recipe"
        came = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r}"
        raise InputError(f"setting {field}: {first['msg'].removeprefix('Value error, ')}{came}") from None


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
    here[last] = parsed


def _place(place: tuple[int | str, ...]) -> tuple[list[str], list[str]]:
    """The settings on the way to a wrong one, without pydantic's own names, and those of the group it ends in."""
    path: list[str] = []
    group: Any = Recipe
    for part in map(str, place):
        if group is None or part not in group.model_fields:
            break
        path.append(part)
        annotation = group.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        group = next((each for each in options if isinstance(each, type) and issubclass(each, BaseModel)), None)
    return path, [] if group is None else list(group.model_fields)
