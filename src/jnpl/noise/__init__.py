"""Label noise: clean labels and a seed -> noisy labels."""

from jnpl.noise.generate import (
    KINDS,
    MAP_NAMES,
    NoisyLabels,
    asymmetric,
    corrupt,
    instance_dependent,
    pair_flip,
    symmetric,
    transition,
)

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
