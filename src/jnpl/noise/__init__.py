"""Label noise: clean labels and a seed -> noisy labels, the same bytes on every platform.

- `generate`: a function for each kind of noise, and `corrupt`, which takes the kind by name
- `kinds`: the table of kinds and their arguments (`KINDS`), and the class maps of asymmetric noise (`MAP_NAMES`)
- `instance`: the draws of instance-dependent noise
- `noisy_labels`: `NoisyLabels`, the result of `corrupt`, in memory and as a file

Functions are loaded on first use: the command line reads `kinds` at start and does not wait for numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jnpl.noise.kinds import KINDS, MAP_NAMES

if TYPE_CHECKING:
    from jnpl.noise.generate import (
        asymmetric,
        corrupt,
        instance_dependent,
        pair_flip,
        symmetric,
        transition,
    )
    from jnpl.noise.noisy_labels import NoisyLabels

__all__ = [
    "KINDS",
    "MAP_NAMES",
    "NoisyLabels",
    "asymmetric",
    "corrupt",
    "instance_dependent",
    "pair_flip",
    "symmetric",
    "transition",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'jnpl.noise' has no attribute {name!r}; it exports {', '.join(__all__)}")
    from jnpl.noise import generate  # noqa: PLC0415 - numpy is slow to import

    return getattr(generate, name)


def __dir__() -> list[str]:
    return __all__
