"""Cells of the paper's figures and tables: a variant of a method at a scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from jnpl.experiments.cell import Cell, DataPart
from jnpl.experiments.reproduce import variants
from jnpl.experiments.reproduce.scales import SCALES, Scale, ScaleName

if TYPE_CHECKING:
    from jnpl.recipes.schema import Recipe

# Digits by number: 3 <-> 5 for cat <-> dog.
_MAPS = {"cifar10": "cifar10", "cifar100": "cifar100", "digits": "cifar10", "clothing1m": "pairflip"}


class PaperCell(Cell):
    """A variant on one data set with one noise and seed, at a scale that gives the sizes."""

    variant: str = Field(description="a name of `jnpl.experiments.reproduce.variants.VARIANTS`")
    data: Literal["cifar10", "cifar100", "clothing1m", "digits"]
    noise: Literal["symm", "asymm", "none"]
    scale: ScaleName
    classify: bool = Field(False, description="go on from the filter to a classifier, where the method does")
    weights: str | None = Field(None, description="pretrained weights, for recipes that begin with some")

    @model_validator(mode="after")
    def _check_combinations(self) -> PaperCell:
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

    @property
    def label(self) -> str:
        """The variant, and whether it is its filter alone.

        >>> PaperCell(variant="jnpl", data="digits", noise="symm", rate=0.6, seed=1, scale="tiny").name[:27]
        'jnpl-filter-digits-symm60-1'
        """
        return self.variant if self.classify else f"{self.variant}-filter"

    def recipe(self) -> Recipe:
        """All settings of its training."""
        return variants.recipe_of(self.variant, self.data, self.scale, self.weights, (self.noise, self.rate))

    def data_part(self) -> DataPart:
        """The first training images of the scale and the whole test set."""
        # The part held out for validation depends only on the recipe; digits have one split for all cells.
        val_size = self.recipe().data.val_size if self.data.startswith("cifar") else 0
        mapping = _MAPS[self.data]
        return DataPart(
            self.data, self.size.images, pixels=self.size.pixels, val_size=val_size, asymmetric=mapping, exact=False
        )

    def content(self) -> dict[str, Any]:
        """All that its results depend on: recipe (but for where it runs), data, noise and seed."""
        recipe = self.recipe().model_dump(mode="json", exclude={"engine", "description"})
        data = {
            "name": self.data,
            "images": self.size.images,
            "pixels": self.size.pixels,
            "noise": self.noise,
            "rate": self.rate,
            "curve_images": self.size.curve_images,
        }
        return {"recipe": recipe, "data": data, "seed": self.seed, "classify": self.classify}

    @property
    def with_classifier(self) -> bool:
        """Whether `classify` is set."""
        return self.classify

    @property
    def test_each_epoch(self) -> int | None:
        """The first test images, as many as the scale says; all are tested at the end of a stage."""
        return self.size.curve_images

    @property
    def checkpoint_seconds(self) -> float | None:
        """An epoch of the paper's scale is long, and its checkpoints are large."""
        return 300.0 if self.scale == "paper" else 20.0
