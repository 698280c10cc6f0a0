"""A run of an experiment: a variant on data with noise and a seed, named by a hash of what its results depend on."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import AliasChoices, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from jnpl.experiments.paper_variants import PAPER
from jnpl.experiments.scales import SCALES, ScaleName
from jnpl.experiments.variants import BASE, BENCH, CIFAR, TABLES, Variant
from jnpl.internal.errors import InputError
from jnpl.internal.settings import Settings
from jnpl.recipes.schema import Recipe

Noise = Literal["symm", "asymm", "instance", "human", "none"]
WITH_RATE = ("symm", "asymm", "instance")
HUMAN = ("cifar10n", "cifar100n")
_CURVE_TEST = 1_000  # test images after every epoch of cross-entropy, to find its best epoch
# Settings that recipes got after results were stored -> the value that is what was done before. Names leave them out.
_LATER = {
    "data.vectors": "standard",
    "method.refine": False,
    "method.ce_fade": "agreement",
    "train.momentum_from": None,
    "pseudo.train.momentum_from": None,
    "verdict.calibrate": False,
    "verdict.trees": False,
    "train.lr_end": 0.0,
    "train.cycle": None,
    "pseudo.train.lr_end": 0.0,
    "pseudo.train.cycle": None,
}
# When results were stored, `refined-nl` was `jnpl` with these settings, and its `ce_end` was `pl_start`.
_REFINED_NL: dict[str, Any] = {
    "name": "jnpl",
    "pl_weight": 0.0,
    "n": 3,
    "complements": "exhaustive",
    "num_complements": None,
    "gamma_rise": None,
    "pl_target": "predicted",
    "pl_mean": "selected",
    "guard": 0.0,
}
_ONCE = {"start": 0}  # a setting that a run had when results were stored
_AT_SCALE = ("scale", "classify", "weights")  # fields of `jnpl reproduce`
_AT_SIZE = ("images", "test_images", "pixels", "net", "epochs", "batch_size", "padding")  # of `jnpl bench`


class RunSpec(Settings):
    """One training: of `jnpl bench` at sizes of its own, or of `jnpl reproduce` at a scale, which gives the sizes.

    As JSON it has the fields of its kind alone. In `jnpl bench` the variant is called `row` there, as stored.

    >>> RunSpec(variant="ce", data="digits", noise="symm", rate=0.4, epochs=2, seed=1).name
    'ce-digits-symm40-1-e71bb58a747c'
    >>> RunSpec(variant="jnpl", data="digits", noise="symm", rate=0.6, seed=1, scale="tiny").name[:27]
    'jnpl-filter-digits-symm60-1'
    """

    variant: str = Field(
        min_length=1,
        pattern=r"^[a-z0-9-]+$",
        validation_alias=AliasChoices("variant", "row"),
        description="a name of `BENCH`, or at a scale of `PAPER`",
    )
    data: Literal[
        "cifar10", "cifar10n", "cifar100", "cifar100n", "clothing1m", "digits", "wine", "breast-cancer", "iris"
    ]
    noise: Noise
    rate: float = Field(0.0, ge=0, le=1)
    seed: int = Field(ge=0, description="of noise and training")
    scale: ScaleName | None = None
    classify: bool = Field(False, description="at a scale: go on to a classifier, where the method does")
    weights: str | None = Field(None, description="at a scale: pretrained weights, for recipes that begin with some")
    images: int | None = Field(None, ge=1, description="training samples; None: all")
    test_images: int | None = Field(None, ge=1, description="the first of the test set; None: all")
    pixels: Literal[16, 32] | None = Field(None, description="CIFAR: 16 are means of 2 x 2")
    net: str = "auto"
    epochs: int = Field(30, ge=1)
    batch_size: int = Field(64, ge=2)
    padding: int = Field(0, ge=0, description="CIFAR: before the random crop of the rivals; 0: flip only")

    @model_validator(mode="before")
    @classmethod
    def _without_earlier_settings(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields  # the error is pydantic's
        return {name: value for name, value in fields.items() if name not in _ONCE or value != _ONCE[name]}

    @model_validator(mode="after")
    def _check_combinations(self) -> RunSpec:
        if (self.noise in WITH_RATE) != (self.rate > 0):
            raise ValueError(f"a rate above 0 goes with {', '.join(WITH_RATE)}, got {self.noise!r} with {self.rate:g}")
        if (self.noise == "human") != (self.data in HUMAN):
            raise ValueError(f"noise 'human' is that of {' and '.join(HUMAN)}, got {self.noise!r} with {self.data!r}")
        if self.scale is not None:
            data_sets = tuple(SCALES[self.scale].stands_for.values())
            if self.variant not in PAPER:
                raise ValueError(f"there is no variant {self.variant!r}; there are {', '.join(PAPER)}")
            if self.data not in data_sets:
                raise ValueError(f"scale {self.scale} has {', '.join(data_sets)}, got {self.data!r}")
            return self
        if self.data not in (*CIFAR, *TABLES):
            raise ValueError(f"without a scale, data is one of {', '.join((*CIFAR, *TABLES))}, got {self.data!r}")
        if self.data in CIFAR and self.pixels is None:
            raise ValueError(f"{self.data} needs pixels, 16 or 32")
        if self.data not in CIFAR and (self.pixels is not None or self.padding):
            values = f"got {self.pixels} and {self.padding} with {self.data!r}"
            raise ValueError(f"pixels and padding are for {' and '.join(CIFAR)}, {values}")
        return self

    @model_serializer(mode="wrap")
    def _fields_of_its_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        others, variant = (_AT_SCALE, "row") if self.scale is None else (_AT_SIZE, "variant")
        fields = {name: value for name, value in dump(self).items() if name not in others}
        return {variant if name == "variant" else name: value for name, value in fields.items()}

    @property
    def method(self) -> Variant:
        """Its variant."""
        variants = BENCH if self.scale is None else PAPER
        if self.variant not in variants:
            raise InputError(f"there is no variant {self.variant!r}; there are {', '.join(variants)}")
        return variants[self.variant]

    def recipe(self) -> Recipe:
        """All settings of its training."""
        return self.method.recipe(self)

    @property
    def with_classifier(self) -> bool:
        """Whether a classifier is trained on pseudo-labels after the filter, if the method does that."""
        return self.scale is None or self.classify

    @property
    def test_each_epoch(self) -> int | None:
        """Number of test samples to evaluate after every epoch; None: all."""
        if self.scale is not None:
            return SCALES[self.scale].curve_images
        return _CURVE_TEST if self.variant == BASE else 0

    def content(self) -> dict[str, Any]:
        """What its name is a hash of, as JSON: never change it lightly, results on disk are found by it.

        At sizes of its own these are its settings, without the recipe of its variant. At a scale it is all that its
        results depend on: recipe (but for where it runs), data, noise and seed.
        """
        if self.scale is None:
            return {**self.model_dump(mode="json"), **_ONCE}
        size = SCALES[self.scale]
        data = {
            "name": self.data,
            "images": size.images,
            "pixels": size.pixels,
            "noise": self.noise,
            "rate": self.rate,
            "curve_images": size.curve_images,
            **({} if size.features is None else {"features": size.features._asdict()}),
        }
        recipe = as_stored(self.recipe().model_dump(mode="json", exclude={"engine", "description"}))
        for place, before in _LATER.items():
            *tables, setting = place.split(".")
            table: Any = recipe
            for name in tables:
                table = (table or {}).get(name)
            if table is not None and table.get(setting, ...) == before:
                del table[setting]
        return {"recipe": recipe, "data": data, "seed": self.seed, "classify": self.classify}

    @property
    def key(self) -> str:
        """Twelve hex digits of its content."""
        text = json.dumps(self.content(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def setting(self) -> str:
        """Data and noise, such as "cifar10-symm40"; human noise has no rate."""
        return f"{self.data}-{self.noise}{f'{100 * self.rate:g}' if self.rate else ''}"

    @property
    def name(self) -> str:
        """The name of its line in a file of results, and of its folder while it runs; at a scale with its filter."""
        kind = "-filter" if self.scale is not None and not self.classify else ""
        return f"{self.variant}{kind}-{self.setting}-{self.seed}-{self.key}"


def as_stored(recipe: dict[str, Any]) -> dict[str, Any]:
    """A recipe as JSON, with the name and settings that its method had when results were stored."""
    method = dict(recipe["method"])
    if method["name"] == "refined-nl":
        method["pl_start"] = method.pop("ce_end")
        method |= _REFINED_NL
    return {**recipe, "method": method}
