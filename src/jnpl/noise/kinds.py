"""The kinds of label noise, by name. A new kind is a function in `jnpl.noise.generate` and one line in `KINDS`.

`jnpl.noise.corrupt`, the options of `jnpl corrupt` and their help are made from this table. It imports nothing
large: the command line reads it at start.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoiseKind:
    """A kind of label noise: the function that makes it, and which arguments of `jnpl.noise.corrupt` it takes."""

    function: str  # its name in `jnpl.noise.generate`
    needs: tuple[str, ...]  # arguments that must be given
    options: tuple[str, ...] = ()  # arguments that may be given
    count: str = "exact"  # the default of `count`: "exact" or "bernoulli"

    @property
    def arguments(self) -> tuple[str, ...]:
        """All arguments it takes beside labels, number of classes and seed."""
        return (*self.needs, *self.options)


KINDS = {
    "symm": NoiseKind("symmetric", needs=("rate",), options=("count", "inclusive")),
    "asymm": NoiseKind("asymmetric", needs=("rate", "mapping"), options=("count",)),
    "pairflip": NoiseKind("pair_flip", needs=("rate",), options=("count",)),
    "matrix": NoiseKind("transition", needs=("matrix",), options=("count",), count="bernoulli"),
    "instance": NoiseKind("instance_dependent", needs=("rate", "features"), count="bernoulli"),
}
ALIASES = {"symmetric": "symm", "asymmetric": "asymm"}


def kinds_that_take(argument: str) -> str:
    """Return the names of the kinds that take an argument, separated by commas.

    >>> kinds_that_take("rate"), kinds_that_take("mapping")
    ('symm, asymm, pairflip, instance', 'asymm')
    """
    return ", ".join(name for name, kind in KINDS.items() if argument in kind.arguments)
