"""A cell: a variant of a method on one data set with one noise and seed, at a scale; all that it hangs on names it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from jnpl.experiments.reproduce import variants
from jnpl.experiments.reproduce.paper import percent
from jnpl.experiments.reproduce.scales import SCALES, Name, Scale
from jnpl.internal.settings import Settings

if TYPE_CHECKING:
    from jnpl.recipes.schema import Recipe


class Cell(Settings):
    """Everything that a cell is made from; noise and training follow the one seed."""

    variant: str = Field(description="a name of `jnpl.experiments.reproduce.variants.VARIANTS`")
    data: Literal["cifar10", "cifar100", "clothing1m", "digits"]
    noise: Literal["symm", "asymm", "none"]
    rate: float = Field(0.0, ge=0, le=1)
    seed: int = Field(ge=0)
    scale: Name
    classify: bool = Field(False, description="go on from the filter to a classifier, where the method does")
    weights: str | None = Field(None, description="pretrained weights, for recipes that begin with some")

    @model_validator(mode="after")
    def _belongs_together(self) -> Cell:
        if self.variant not in variants.VARIANTS:
            raise ValueError(f"there is no variant {self.variant!r}; there are {', '.join(variants.VARIANTS)}")
        if (self.noise == "none") != (self.rate == 0):
            raise ValueError(f"a rate above 0 goes with symm and asymm, got {self.noise!r} with {self.rate:g}")
        if self.data not in self.size.stands_for.values():
            raise ValueError(f"scale {self.scale} has {', '.join(self.size.stands_for.values())}, got {self.data!r}")
        return self

    @property
    def size(self) -> Scale:
        """The scale with all that belongs to it."""
        return SCALES[self.scale]

    def recipe(self) -> Recipe:
        """All settings of its training."""
        return variants.recipe_of(self.variant, self.data, self.scale, self.weights, (self.noise, self.rate))

    def resolved(self) -> dict[str, Any]:
        """All that its numbers hang on: the recipe (but for where it runs), data, noise and seed."""
        size, recipe = self.size, self.recipe().model_dump(mode="json", exclude={"engine", "description"})
        data = {
            "name": self.data,
            "images": size.images,
            "pixels": size.pixels,
            "noise": self.noise,
            "rate": self.rate,
            "curve_images": size.curve_images,
        }
        return {"recipe": recipe, "data": data, "seed": self.seed, "classify": self.classify}

    @property
    def key(self) -> str:
        """Twelve hex digits of what it resolves to: a recipe that changes is another cell."""
        text = json.dumps(self.resolved(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """Its results lie in {name}.json.

        >>> Cell(variant="jnpl", data="digits", noise="symm", rate=0.6, seed=1, scale="tiny").name.rpartition("-")[0]
        'jnpl-filter-digits-symm60-1'
        """
        rate = percent(self.rate) if self.rate else ""
        part = "" if self.classify else "-filter"
        return f"{self.variant}{part}-{self.data}-{self.noise}{rate}-{self.seed}-{self.key}"
