"""Several tags per sample: from columns of 0 and 1, from lists, and from indicator matrices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Source
from jnpl.data.spellings import spelling_key
from jnpl.internal.errors import InputError
from jnpl.internal.json_files import parse_json
from jnpl.internal.tables import is_missing

if TYPE_CHECKING:
    import pandas as pd

Mask: TypeAlias = npt.NDArray[np.bool_]

SEPARATORS = (";", "|", ",")
MOST_TAGS, MOST_PAIRS = 10_000, 1 << 28  # tags, and samples x tags, that fit into memory
MANY_TAGS = 1000  # from which a line says that it takes long
FEWEST = 5  # samples with a tag, and without it, from which it can be judged
YES, _NO = frozenset({"1", "1.0", "true", "yes"}), frozenset({"0", "0.0", "false", "no"})
_SHOWN = 5
_LOG = logging.getLogger("jnpl")


class Tags(NamedTuple):
    """Which of T tags each of N samples has: (N, T), and their names."""

    given: Mask
    names: tuple[str, ...]

    def part(self, rows: npt.NDArray[np.integer[Any]]) -> Tags:
        """Return the tags of some samples (M,)."""
        return Tags(self.given[rows], self.names)


def are_lists(cells: Sequence[Any]) -> bool:
    """Return whether every cell that is not empty is a list, a tuple, a set or an array, as in a Parquet list column.

    >>> are_lists([["cat"], None]), are_lists(["cat;dog"])
    (True, False)
    """
    present = [cell for cell in cells if _is_list(cell) or not is_missing(cell)]
    return bool(present) and all(map(_is_list, present))


def tags_of_lists(cells: Sequence[Any], where: str) -> Tags:
    """Return the tags of lists, JSON lists, or texts in which tags are separated by one of `;`, `|` and `,`.

    An empty cell is a sample without tags.

    Args:
        cells: N lists or texts.
        where: what holds them, for messages.

    Example:
        >>> tags = tags_of_lists(["cat;dog", "", "dog"], "column 'tags'")
        >>> tags.names, tags.given.tolist()
        (('cat', 'dog'), [[True, True], [False, False], [False, True]])
    """
    plain = [_plain(cell, row, where) for row, cell in enumerate(cells)]
    separator = _separator([(row, cell) for row, cell in enumerate(plain) if isinstance(cell, str)], where)
    lists = [
        _names(cell.split(separator) if isinstance(cell, str) else cell, row, where) for row, cell in enumerate(plain)
    ]
    names = tuple(sorted({name for row in lists for name in row}))
    if not names:
        raise InputError(f"{where} has no tag at all; there is nothing to learn from")
    _check_count(len(lists), len(names), where)
    number = {name: at for at, name in enumerate(names)}
    given = np.zeros((len(lists), len(names)), bool)
    for row, tags in enumerate(lists):
        given[row, [number[name] for name in tags]] = True
    return Tags(given, names)


def tags_of_columns(frame: pd.DataFrame, columns: Sequence[str], where: str) -> Tags:
    """Return the tags of columns that hold 1 (or true, yes) where a sample has the tag, and 0 (false, no) elsewhere.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"cat": [1, 0], "dog": [True, True]})
    >>> tags_of_columns(frame, ["cat", "dog"], "the data frame").given.tolist()
    [[True, True], [False, True]]
    """
    if twice := sorted({name for name in columns if list(columns).count(name) > 1}):
        raise InputError(f"tag_columns (--tag-columns) names the column {twice[0]!r} twice")
    _check_count(len(frame), len(columns), where)
    given = np.zeros((len(frame), len(columns)), bool)
    for at, name in enumerate(columns):
        cells = ["" if is_missing(cell) else str(cell).strip().casefold() for cell in frame[name].tolist()]
        strange = next((row for row, cell in enumerate(cells) if cell not in YES and cell not in _NO), None)
        if strange is not None:
            shown = repr(frame[name].tolist()[strange])
            raise InputError(f"tag column {name!r} of {where} must hold 0 and 1, not {shown} (row {strange})")
        given[:, at] = [cell in YES for cell in cells]
    return Tags(given, tuple(map(str, columns)))


def as_tags(y: Any, class_names: Sequence[str] | None = None, name: str = "y") -> Tags:
    """Return the tags in an indicator matrix (N, T), dense, sparse or a data frame, or in N lists or texts of tags.

    >>> as_tags([[1, 0], [1, 1]], ["cat", "dog"]).given.tolist(), as_tags([["cat"], []]).names
    ([[True, False], [True, True]], ('cat',))
    """
    if hasattr(y, "columns"):
        class_names = list(map(str, y.columns)) if class_names is None else class_names
        y = y.to_numpy()
    elif hasattr(y, "toarray"):
        y = y.toarray()
    elif hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    try:
        matrix: npt.NDArray[Any] = np.asarray(y)
    except ValueError:  # lists of different lengths
        matrix = np.zeros(0)
    names = None if class_names is None else list(map(str, class_names))
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        tags = tags_of_lists(y.tolist() if hasattr(y, "tolist") else list(y), name)
        return tags if names is None else _ordered(tags, names, name)
    if not (is_flag := np.isin(matrix, (0, 1))).all():
        raise InputError(f"{name} is a matrix of tags, which must hold 0 and 1, not {matrix[~is_flag][0]}")
    names = [str(at) for at in range(matrix.shape[1])] if names is None else names
    if len(names) != matrix.shape[1] or len(set(names)) != len(names):
        raise InputError(f"class_names must be {matrix.shape[1]} different names of tags, not {names[:_SHOWN]}")
    _check_count(len(matrix), matrix.shape[1], name)
    return Tags(matrix.astype(bool), tuple(names))


def separator_for(names: Sequence[str]) -> str:
    """Return the first separator that is in no name, for lists of tags in a text.

    >>> separator_for(["cat", "dog; red"])
    '|'
    """
    return next((mark for mark in (*SEPARATORS, "\t") if not any(mark in name for name in names)), SEPARATORS[0])


def with_names(tags: Tags, names: Sequence[object]) -> Tags:
    """Return the tags (N, T) in the order of some names; tags with other names are left out.

    >>> with_names(Tags(np.array([[True, False]]), ("cat", "dog")), ["dog", "eel", "cat"]).given.tolist()
    [[False, False, True]]
    """
    place = {name: at for at, name in enumerate(tags.names)}
    none = np.zeros(len(tags.given), bool)
    columns = [tags.given[:, place[str(name)]] if str(name) in place else none for name in names]
    return Tags(np.stack(columns, axis=1), tuple(map(str, names)))


def with_tags(source: Source, tags: Tags) -> Source:
    """Return a source with tags in place of labels; `checked_tags` checks them."""
    if len(tags.given) != len(source):
        raise InputError(f"{source.name} holds {len(source)} samples, but tags of {len(tags.given)}")
    labels = np.zeros(len(source), np.int64)
    return replace(source, labels=labels, class_names=tags.names, tags=tags.given, true_labels=None)


def checked_tags(source: Source, *, merge: bool = False) -> Source:
    """Return a source whose tags can be judged, else raise an InputError; the log says which of them cannot be.

    Args:
        source: data with tags.
        merge: make one tag of those that differ in spelling only.
    """
    source = _one_spelling(source, merge=merge)
    given = np.zeros((0, 0), bool) if source.tags is None else source.tags
    if not given.any():
        raise InputError(f"no sample of {source.name} has a tag; there is nothing to learn from")
    counts, samples = given.sum(0), len(given)
    rare, common = (counts > 0) & (counts < FEWEST), (counts < samples) & (counts > samples - FEWEST)
    groups = {
        "on no sample": counts == 0,
        "on every sample": counts == samples,
        f"on fewer than {FEWEST} samples": rare,
        f"missing on fewer than {FEWEST} samples": common & ~rare,
    }
    for what, chosen in groups.items():
        if chosen.any():
            names = [repr(str(source.class_names[at])) for at in np.flatnonzero(chosen)]
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            _LOG.warning(
                "%s: tags that are %s are not judged: %s%s", source.name, what, ", ".join(names[:_SHOWN]), more
            )
    if not can_be_judged(given).any():
        raise InputError(
            f"no tag of {source.name} is on at least {FEWEST} samples and not on at least {FEWEST}: none can be judged"
        )
    if empty := int((~given.any(1)).sum()):
        _LOG.warning("%s: %s of %s samples have no tag", source.name, f"{empty:,}", f"{samples:,}")
    if len(counts) > MANY_TAGS:
        _LOG.warning("%s: %s tags: time and memory grow with their number", source.name, f"{len(counts):,}")
    return source


def by_tag_set(source: Source) -> Source:
    """Return a source in which every set of tags is a class of its own, named like "cat; dog"; others as they are.

    >>> from jnpl.data.opening import open_source
    >>> frame = {"x": [0.1, 0.3, 0.2] * 5, "label": [["cat", "dog"], ["dog"], []] * 5}
    >>> import pandas as pd
    >>> by_tag_set(open_source(pd.DataFrame(frame))).class_names
    ('no tag', 'dog', 'cat; dog')
    """
    if source.tags is None:
        return source
    sets, labels = np.unique(source.tags, axis=0, return_inverse=True)
    names = ["; ".join(str(source.class_names[at]) for at in np.flatnonzero(row).tolist()) or "no tag" for row in sets]
    return replace(source, labels=labels.ravel().astype(np.int64), class_names=tuple(names), tags=None)


def can_be_judged(tags: Mask) -> Mask:
    """Return the tags (T,) that are on at least `FEWEST` samples, and not on at least as many.

    >>> can_be_judged(np.array([[True, True]] * 5 + [[False, True]] * 5)).tolist()
    [True, False]
    """
    counts = tags.sum(0)
    judged: Mask = (counts >= FEWEST) & (counts <= len(tags) - FEWEST)
    return judged


def _check_count(samples: int, tags: int, where: str) -> None:
    if tags > MOST_TAGS or samples * tags > MOST_PAIRS:
        limit = f"at most {MOST_TAGS:,} tags, and {MOST_PAIRS:,} samples x tags"
        raise InputError(f"{where} has {tags:,} tags of {samples:,} samples, but {limit} can be judged at once")


def _is_list(cell: Any) -> bool:
    return isinstance(cell, list | tuple | set | frozenset | np.ndarray)


def _ordered(tags: Tags, names: list[str], where: str) -> Tags:
    if len(set(names)) != len(names):
        raise InputError(f"class_names must be different names of tags, not {names[:_SHOWN]}")
    if strange := sorted(set(tags.names) - set(names)):
        raise InputError(f"{where} has a tag {strange[0]!r}, which is not in class_names")
    return with_names(tags, names)


def _plain(cell: Any, row: int, where: str) -> str | list[Any]:
    """Return a cell as a text with separators, or as a list."""
    if _is_list(cell):
        return list(cell)
    if is_missing(cell):
        return []
    text = cell.strip() if isinstance(cell, str) else cell
    if isinstance(text, int | np.integer) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str):
        raise InputError(f"{where} must hold lists of tags or texts such as 'cat;dog', not {cell!r} (row {row})")
    if not text.startswith("["):
        return text
    try:
        return list(parse_json(text))
    except ValueError:
        raise InputError(f"{where} has {text[:40]!r} in row {row}, which is no JSON list of tags") from None


def _separator(texts: list[tuple[int, str]], where: str) -> str:
    """Return the separator of all texts, or one that is in none. Two of them are an InputError."""
    first = {mark: next(((row, text) for row, text in texts if mark in text), None) for mark in SEPARATORS}
    used = {mark: place for mark, place in first.items() if place is not None}
    if len(used) > 1:
        places = " and ".join(f"{mark!r} in row {row} ({text[:40]!r})" for mark, (row, text) in used.items())
        raise InputError(f"{where} separates tags in several ways: {places}; use one, or JSON lists")
    return next(iter(used), "\0")


def _names(items: list[Any], row: int, where: str) -> list[str]:
    """Return the different names in a list; one that is neither text nor number is an InputError."""
    names = dict[str, None]()
    for item in items:
        if _is_list(item) or isinstance(item, dict):
            raise InputError(f"{where} must hold flat lists of tags, not {str(item)[:40]!r} inside a list (row {row})")
        if not is_missing(item):
            names[str(item.item() if isinstance(item, np.generic) else item).strip()] = None
    return [name for name in names if name]


def _one_spelling(source: Source, *, merge: bool) -> Source:
    """Return a source with one tag for those that differ in spelling only; without `merge`, the log names these."""
    groups: dict[str, list[int]] = {}
    for at, tag in enumerate(source.class_names):
        groups.setdefault(spelling_key(tag), []).append(at)
    several = [places for places in groups.values() if len(places) > 1]
    if source.tags is None or not several:
        return source
    if not merge:
        shown = "; ".join(" and ".join(ascii(source.class_names[at]) for at in places) for places in several[:_SHOWN])
        option = "--merge-classes (merge_classes) makes one of each"
        _LOG.warning("%s: tags that differ in spelling only: %s; %s", source.name, shown, option)
        return source
    given, counts = source.tags, source.tags.sum(0)
    best = [str(source.class_names[max(places, key=lambda at: counts[at])]) for places in groups.values()]
    merged = np.stack([given[:, places].any(1) for places in groups.values()], axis=1)
    return replace(source, class_names=tuple(best), tags=merged)
