"""A cell of a benchmark: one method's row, one data set, one noise, one seed; its settings are its name."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field, model_validator

from jnpl.internal.settings import Settings

Data = Literal["cifar10", "cifar10n", "digits", "wine", "breast-cancer", "iris"]
Noise = Literal["symm", "asymm", "instance", "human", "none"]
CIFAR = ("cifar10", "cifar10n")
WITH_RATE = ("symm", "asymm", "instance")


class Cell(Settings):
    """Everything that a cell is made from; noise, split and training follow the one seed."""

    row: str = Field(min_length=1, pattern=r"^[a-z0-9-]+$", description="a name of `jnpl.experiments.bench.rows.ROWS`")
    data: Data
    images: int | None = Field(None, ge=1, description="training samples; None: all")
    start: int = Field(
        0, ge=0, description="CIFAR: the first training image; above 0, test images are training images from 40,000 on"
    )
    test_images: int | None = Field(None, ge=1, description="the first of the test set; None: all")
    pixels: Literal[16, 32] | None = Field(None, description="CIFAR: 16 are means of 2 x 2")
    noise: Noise
    rate: float = Field(0.0, ge=0, le=1, description="of symm, asymm and instance")
    net: str = "auto"
    epochs: int = Field(ge=1)
    batch_size: int = Field(64, ge=2)
    padding: int = Field(0, ge=0, description="CIFAR: before the random crop of the rivals; 0: flip only")
    seed: int = Field(ge=0)

    @model_validator(mode="after")
    def _belongs_together(self) -> Cell:
        if (self.noise in WITH_RATE) != (self.rate > 0):
            raise ValueError(f"a rate above 0 goes with {', '.join(WITH_RATE)}, got {self.noise!r} with {self.rate:g}")
        if (self.noise == "human") != (self.data == "cifar10n"):
            raise ValueError(f"noise 'human' is that of cifar10n, got {self.noise!r} with {self.data!r}")
        if self.data in CIFAR and self.pixels is None:
            raise ValueError(f"{self.data} needs pixels, 16 or 32")
        if self.data not in CIFAR and (self.pixels is not None or self.start or self.padding):
            told = f"got {self.pixels}, {self.start} and {self.padding} with {self.data!r}"
            raise ValueError(f"pixels, start and padding are for {' and '.join(CIFAR)}, {told}")
        return self

    @property
    def key(self) -> str:
        """Twelve hex digits of its own settings; what its row is made of is not in them."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def setting(self) -> str:
        """Data and noise, such as "cifar10-symm40"; human noise has no rate."""
        rate = f"{100 * self.rate:g}" if self.rate else ""
        return f"{self.data}-{self.noise}{rate}"

    @property
    def name(self) -> str:
        """Its results lie in {name}.json.

        >>> Cell(row="ce", data="digits", noise="symm", rate=0.4, epochs=2, seed=1).name
        'ce-digits-symm40-1-e71bb58a747c'
        """
        return f"{self.row}-{self.setting}-{self.seed}-{self.key}"
