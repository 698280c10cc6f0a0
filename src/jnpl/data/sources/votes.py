"""Several labels per sample: the votes of annotators, and the most frequent one."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from jnpl.data.source import Array, Labels
from jnpl.data.sources.arrays import WHOLE_NUMBER
from jnpl.internal.errors import InputError
from jnpl.internal.tables import is_missing

MAJORITY = "most frequent label"  # the column of given labels where there are several


def read_votes(columns: Mapping[str, Sequence[Any]]) -> dict[str, Array]:
    """Return annotator -> label (N,) of each sample, None where there is none; numbers stored as texts are numbers.

    >>> read_votes({"ann": ["1", " 2"], "bob": [1.0, float("nan")]})["bob"].tolist()
    [1, None]
    """
    votes = {}
    for name, cells in columns.items():
        votes[name] = np.empty(len(cells), object)
        votes[name][:] = [_plain(cell) for cell in cells]
    texts = [cell for given in votes.values() for cell in given.tolist() if isinstance(cell, str)]
    if texts and all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        for given in votes.values():
            given[:] = [int(cell.partition(".")[0]) if isinstance(cell, str) else cell for cell in given.tolist()]
    return votes


def most_frequent(votes: Mapping[str, Array]) -> list[Any]:
    """Return the most frequent label of each sample, the first of several; None where there is none.

    >>> most_frequent(read_votes({"ann": ["cat", "", "dog"], "bob": ["cat", "", "eel"], "cy": ["dog", "", ""]}))
    ['cat', None, 'dog']
    """
    rows = zip(*(given.tolist() for given in votes.values()), strict=True)
    counts = (Counter(label for label in row if label is not None) for row in rows)
    return [count.most_common(1)[0][0] if count else None for count in counts]


def number_votes(votes: Mapping[str, Array], classes: Sequence[Any]) -> dict[str, Labels]:
    """Return annotator -> class number (N,), -1 where there is no label, or one that is nobody's most frequent."""
    number = {str(name): at for at, name in enumerate(classes)}
    return {
        name: np.array([-1 if label is None else number.get(str(label), -1) for label in given.tolist()], np.int64)
        for name, given in votes.items()
    }


def _plain(cell: Any) -> Any:
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, str):
        return cell.strip() or None
    if is_missing(cell):
        return None
    if not isinstance(cell, Hashable):
        raise InputError(
            f"label_columns (--label-columns) hold a label or nothing in each cell, not {str(cell)[:40]!r}"
        )
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
