"""Cells: one recipe on one data set with one noise and one seed, named by a hash of all that its results depend on."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field

from jnpl.internal.settings import Settings

if TYPE_CHECKING:
    from jnpl.recipes.schema import Recipe

Noise = Literal["symm", "asymm", "instance", "human", "none"]


class DataPart(NamedTuple):
    """Which samples of a named data set a cell trains and tests on."""

    name: str
    images: int | None = None  # training samples; None: all
    start: int = 0  # CIFAR: the first training image; above 0, the test images are the last fifth of the training set
    test_images: int | None = None  # the first of the test set; None: all
    pixels: int | None = None  # 16: means of 2 x 2 pixels of CIFAR; None: as they are
    val_size: int = 0  # validation images, held out of the training set
    split_seed: int = 0  # of sets that come without a test set
    asymmetric: str = "pairflip"  # the class map of asymmetric noise
    exact: bool = True  # fewer training samples than `images` are an error


class Cell(Settings):
    """The settings of all cells: data, noise, and the seed of noise and training. A subclass adds the recipe."""

    data: str
    noise: Noise
    rate: float = Field(0.0, ge=0, le=1)
    seed: int = Field(ge=0)

    @property
    @abstractmethod
    def label(self) -> str:
        """The method: the first part of the cell's name."""

    @abstractmethod
    def recipe(self) -> Recipe:
        """All settings of its training."""

    @abstractmethod
    def data_part(self) -> DataPart:
        """The samples it trains and tests on."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What its name is a hash of, as JSON."""

    @property
    @abstractmethod
    def with_classifier(self) -> bool:
        """Whether a classifier is trained on pseudo-labels after the filter, if the method does that."""

    @property
    def test_each_epoch(self) -> int | None:
        """Number of test samples to evaluate after every epoch; None: all."""
        return None

    @property
    def checkpoint_seconds(self) -> float | None:
        """Seconds between checkpoints within an epoch; None: only at the end of each epoch."""
        return None

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
        """The name of its line in a file of results, and of its folder while it runs."""
        return f"{self.label}-{self.setting}-{self.seed}-{self.key}"
