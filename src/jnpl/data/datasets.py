"""The data sets that have a name. A new one is a loader in `jnpl.data.sources` and one entry in `DATASETS`.

`open_source`, `jnpl datasets` and `jnpl corrupt` read this table; it imports nothing large.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jnpl.data.source import Source


def import_loader(place: str) -> Callable[..., Any]:
    """Import the function at "module:function" in `jnpl.data.sources`."""
    module, _, function = place.partition(":")
    loader: Callable[..., Any] = getattr(importlib.import_module(f"jnpl.data.sources.{module}"), function)
    return loader


@dataclass(frozen=True)
class Description:
    """What `jnpl datasets` shows of a data set."""

    name: str
    classes: int
    samples: int  # to train on
    test_samples: int
    what: str
    origin: str
    licence: str


@dataclass(frozen=True)
class NamedDataset(Description):
    """A data set with a name, the function that loads it, and the options of `open_source` that it takes."""

    loader: str  # "module:function" in `jnpl.data.sources`; called with the name and `options`
    options: tuple[str, ...] = ()

    def load(self, available: dict[str, Any]) -> Source:
        """Load the data set with those of the available options that it takes."""
        chosen = {name: available[name] for name in self.options if name in available}
        source: Source = import_loader(self.loader)(self.name, **chosen)
        return source

    def to_dict(self) -> dict[str, Any]:
        """Return the description, as `jnpl datasets --json` prints it."""
        return {name: value for name, value in asdict(self).items() if name in Description.__dataclass_fields__}


_CIFAR = ("https://www.cs.toronto.edu/~kriz/cifar.html", "no licence stated; cite Krizhevsky (2009)")
_CIFARN = ("https://github.com/UCSC-REAL/cifar-10-100n", "labels CC BY-NC 4.0: fetch them yourself")
_CLOTHING1M = ("https://github.com/Cysu/noisy_label", "research only; ask its authors for it")
_PHOTOS = "32x32 colour photographs"
_HUMAN = "with labels of human annotators"
_SHOPS = "clothes from web shops, labelled by their surrounding text"
_ENTRIES = (
    NamedDataset(
        *("digits", 10, 1400, 397, "8x8 handwritten digits, as vectors", "ships with scikit-learn", "CC BY 4.0"),
        loader="bundled:load",
        options=("seed",),
    ),
    NamedDataset(
        *("cifar10", 10, 50_000, 10_000, _PHOTOS, *_CIFAR), loader="cifar:load_named", options=("root", "val_size")
    ),
    NamedDataset(
        *("cifar100", 100, 50_000, 10_000, _PHOTOS, *_CIFAR),
        loader="cifar:load_named",
        options=("root", "val_size", "coarse"),
    ),
    NamedDataset(
        *("cifar10n", 10, 50_000, 10_000, f"CIFAR-10 {_HUMAN}", *_CIFARN),
        loader="cifarn:load",
        options=("root", "val_size", "noise"),
    ),
    NamedDataset(
        *("cifar100n", 100, 50_000, 10_000, f"CIFAR-100 {_HUMAN}", *_CIFARN),
        loader="cifarn:load",
        options=("root", "val_size", "noise"),
    ),
    NamedDataset(
        *("clothing1m", 14, 1_000_000, 10_526, _SHOPS, *_CLOTHING1M),
        loader="clothing1m:load_named",
        options=("root", "balanced", "seed"),
    ),
)
DATASETS = {entry.name: entry for entry in _ENTRIES}
