"""Class names that differ in spelling only: case, blanks, invisible characters, composed or decomposed letters."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jnpl.data.source import Source

_SHOWN = 5  # groups


def spelling_key(name: object) -> str:
    r"""Return what two spellings of one name have in common.

    >>> spelling_key(" Ice\u200b  Cream"), spelling_key("cafe\u0301") == spelling_key("CAFÉ")
    ('ice cream', True)
    """
    text = unicodedata.normalize("NFKC", str(name)).casefold()
    visible = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", " ".join(visible.split()))


def common_spellings(source: Source) -> dict[str, Any]:
    """Return the most frequent spelling of every class that has several, by its key."""
    groups: dict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(source.class_names):
        if isinstance(name, str):
            groups[spelling_key(name)].append(number)
    counts = np.bincount(source.labels, minlength=len(source.class_names))
    return {
        key: source.class_names[max(numbers, key=lambda number: counts[number])]
        for key, numbers in groups.items()
        if len(numbers) > 1
    }


def with_spellings(source: Source, names: Mapping[str, Any]) -> Source:
    """Return the source with these names by key for its classes, and for those of its test and validation data."""
    wanted = [names.get(spelling_key(name), name) for name in source.class_names]
    classes = tuple(dict.fromkeys(wanted))
    number_of = {name: number for number, name in enumerate(classes)}
    numbers = np.array([number_of[name] for name in wanted], np.int64)
    return replace(
        source,
        labels=numbers[source.labels],
        class_names=classes,
        true_labels=None if source.true_labels is None else numbers[source.true_labels],
        decided=None if source.decided is None else np.append(numbers, -1)[source.decided],
        test=None if source.test is None else with_spellings(source.test, names),
        validation=None if source.validation is None else with_spellings(source.validation, names),
    )


def warning(source: Source, common: Mapping[str, Any]) -> str:
    """Return the line that names the classes with several spellings, and the option that merges them."""
    counts = np.bincount(source.labels, minlength=len(source.class_names)).tolist()
    groups: dict[str, list[str]] = {key: [] for key in common}
    for name, count in zip(source.class_names, counts, strict=True):
        if (key := spelling_key(name)) in groups:
            is_plain = name == unicodedata.normalize("NFC", str(name)) and str(name).isprintable()
            groups[key].append(f"{repr(name) if is_plain else ascii(name)} ({count:,})")
    shown = "; ".join(" and ".join(names) for names in list(groups.values())[:_SHOWN])
    more = f" and {len(common) - _SHOWN} more" if len(common) > _SHOWN else ""
    option = "--merge-classes (merge_classes) makes one of each"
    return f"{source.name}: classes that differ in spelling only: {shown}{more}; {option}"
