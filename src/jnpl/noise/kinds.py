"""The kinds of label noise, and class maps {source class: target class} of asymmetric noise, by name.

A new kind is a function in `jnpl.noise.generate` and one line in `KINDS`.
`jnpl.noise.corrupt`, the options of `jnpl corrupt` and their help are made from this table. It imports nothing
large: the command line reads it at start.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from jnpl.internal.errors import InputError


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


ClassMap: TypeAlias = Mapping[int, int] | str

CIFAR10 = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}  # truck->automobile, bird->airplane, deer->horse, cat<->dog

# Super-class of each fine id, as in `coarse_labels` of CIFAR-100; both are numbered alphabetically by name.
CIFAR100_SUPERCLASS = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),  # 0-19
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),  # 20-39
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),  # 40-59
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),  # 60-79
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),  # 80-99
)


def next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Map each class to the next member of its group, circularly: group of each class (C,) -> {class: class}.

    >>> next_in_group([0, 1, 0, 1, 0])
    {0: 2, 2: 4, 4: 0, 1: 3, 3: 1}
    """
    members: dict[int, list[int]] = {}
    for label, group in enumerate(groups):
        members.setdefault(group, []).append(label)
    return {a: b for group in members.values() for a, b in zip(group, [*group[1:], group[0]], strict=True)}


def class_map(mapping: ClassMap, num_classes: int) -> dict[int, int]:
    """Return a checked {source: target}, from a dict or from a name that `jnpl.noise.asymmetric` explains.

    >>> class_map("pairflip", 3), class_map({0: 2}, 3)
    ({0: 1, 1: 2, 2: 0}, {0: 2})
    """
    if isinstance(mapping, str):
        return _named_map(mapping, num_classes)
    if not isinstance(mapping, Mapping):
        raise InputError(f"mapping must be a dict {{source: target}} or a name, got {type(mapping).__name__}")
    pairs = {_class_id(source, num_classes): _class_id(to, num_classes) for source, to in mapping.items()}
    for source, to in pairs.items():
        if source == to:
            raise InputError(f"mapping sends class {source} to itself; leave out the classes that stay")
    return pairs


def _class_id(label: int, num_classes: int) -> int:
    try:
        in_range = 0 <= operator.index(label) < num_classes
    except TypeError:
        in_range = False
    if not in_range:
        raise InputError(f"mapping names class {label!r}, but the classes are 0..{num_classes - 1}")
    return operator.index(label)


class NamedMap(NamedTuple):
    """A class map with a name."""

    classes: int | None  # how many classes it is for; None: any number
    pairs: Callable[[int], dict[int, int]]  # number of classes -> {source: target}


NAMED_MAPS = {
    "cifar10": NamedMap(10, lambda _: dict(CIFAR10)),
    "cifar100": NamedMap(100, lambda _: next_in_group(CIFAR100_SUPERCLASS)),
    "cifar100-blocks": NamedMap(100, lambda size: next_in_group([label // 5 for label in range(size)])),
    "cifar100-next": NamedMap(100, lambda size: next_in_group([0] * size)),
    "pairflip": NamedMap(None, lambda size: next_in_group([0] * size)),
}
MAP_NAMES = tuple(NAMED_MAPS)


def classes_of_map(mapping: ClassMap | None) -> int | None:
    """Return the number of classes that a named map is for; None if it fits any number, or has no name."""
    named = NAMED_MAPS.get(mapping) if isinstance(mapping, str) else None
    return None if named is None else named.classes


def _named_map(name: str, num_classes: int) -> dict[int, int]:
    if name not in NAMED_MAPS:
        raise InputError(f"unknown mapping {name!r}; use a dict {{source: target}} or one of {', '.join(MAP_NAMES)}")
    size, pairs = NAMED_MAPS[name]
    if size not in (None, num_classes):
        raise InputError(f"mapping {name!r} is for {size} classes, got num_classes={num_classes}")
    return pairs(num_classes)
