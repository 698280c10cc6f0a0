"""Columns of a table as features: gaps are filled, categories become 0 and 1, dates days, texts TF-IDF of words.

scikit-learn's encoders (OneHotEncoder, SimpleImputer, ColumnTransformer) are not used: their state is stored by pickle,
and a model here is stored as JSON. They also have no dates, no text such as "1.5" or "true" in a column, and no rule
that rare and unseen categories share a feature only if the training table had rare ones.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from jnpl.data.source import Array, Labels
from jnpl.data.sources.columns import COLUMN_KINDS, ColumnKind, distinct, kind_of, levels, values, with_text_names
from jnpl.data.sources.images import names_image
from jnpl.internal.errors import InputError
from jnpl.internal.json_files import StoredFacts, check_facts
from jnpl.internal.tables import listed, require_columns

ROW_NAMES = ("id", "index", "uuid", "guid", "unnamed: 0", "rownames", "rowid")  # of columns that only number the rows
MOST_LEVELS = 50  # of a category; rarer ones share a feature
RARE = 10  # samples that a level needs to get a feature (in tables of fewer than 500 rows: 2 % of them)
GAPS = 0.01  # above this share of missing values, a feature of its own marks them
MOST_WORDS = 100  # of a text column, the most frequent ones
FEW_ROWS = 20  # below as many rows, a column that counts 1, 2, 3, ... may be a measurement
_WORD = re.compile(r"\w+")
_BACK = "(--feature-column names the columns to learn from)"
_ROW_NAME = re.compile(r"(?i:.*[ _.-]id)|.*[a-z]I[dD]")  # customer_id, customerId
AS_THEY_ARE = "numbers as they are"
_LOG = logging.getLogger("jnpl")
_BECAME = {
    "number": AS_THEY_ARE,
    "boolean": "true and false as 1 and 0",
    "date": "dates as days",
    "category": "categories as 0 and 1",
    "text": "texts as their most frequent words (TF-IDF)",
}
_HINTS = {
    "text": "learn from a text with text_column (--text-column)",
    "image": "take images with image_column (--image-column)",
    "list": "take lists of numbers with --embedding-column",
}


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes one or several features."""

    name: str
    kind: ColumnKind | Literal["text"]
    fill: float = 0.0  # replaces a missing number, boolean or day
    origin: float = 0.0  # day that dates are counted from: float32 resolves minutes within years, not within decades
    levels: tuple[str, ...] = ()  # of a category, or the words of a text, sorted
    weights: tuple[float, ...] = ()  # of a text's words: inverse document frequencies
    other: bool = False  # whether rare and unseen levels have a feature together
    gaps: bool = False  # whether missing values have a feature

    @property
    def names(self) -> list[str]:
        """Names of the features, in order."""
        sign = {"category": "=", "text": "~"}.get(self.kind)
        features = [self.name] if sign is None else [f"{self.name}{sign}{level}" for level in self.levels]
        return [*features, *([f"{self.name} other"] * self.other), *([f"{self.name} missing"] * self.gaps)]

    def write(self, cells: pd.Series[Any], out: Array, where: str) -> None:
        """Write the features of cells (N,) into zeros (N, len(names))."""
        if self.kind == "category":
            level_codes, names = levels(cells)
            missing = level_codes < 0
            place = {level: at for at, level in enumerate(self.levels)}
            codes = np.array([*(place.get(level, -1) for level in names), -1], np.int64)[level_codes]
            rows = np.flatnonzero(codes >= 0)
            out[rows, codes[rows]] = 1
            if self.other:
                out[(codes < 0) & ~missing, len(self.levels)] = 1
        elif self.kind == "text":
            missing = cells.isna().to_numpy()
            _write_words(cells, self.levels, self.weights, out)
        else:
            numbers = values(cells, self.kind, self.name, where)
            missing = np.isnan(numbers)
            out[:, 0] = np.where(missing, self.fill, numbers) - self.origin
        if self.gaps:
            out[missing, -1] = 1


@dataclass(frozen=True)
class Encoding:
    """Turns tables into float32 (N, F): learnt on one table (`fit`), the same for every other (`apply`).

    Numbers are unchanged, booleans become 0 and 1, dates the days since the first one; missing values become the
    median. A category becomes a feature of 0 and 1 for each level, in sorted order. Rare levels, levels beyond the
    `MOST_LEVELS` most common ones and unseen levels share a feature if the first table had any of them; otherwise, like
    missing values, they are 0 everywhere. If more than `GAPS` of a column are missing, one more feature marks them. A
    text becomes the TF-IDF of its most frequent words, with length 1; it needs other columns beside it.
    `notes` describe what was done.

    Example:
        >>> table = pd.DataFrame({"size": [3, None, 5], "town": ["Ulm", "Ulm", "Bonn"]})
        >>> encoding = Encoding.fit(table, None, "the table")
        >>> encoding.names
        ['size', 'size missing', 'town=Bonn', 'town=Ulm']
        >>> encoding.apply(pd.DataFrame({"size": [7], "town": ["Rome"]}), "the new table")
        array([[7., 0., 0., 0.]], dtype=float32)
    """

    columns: tuple[Column, ...]
    notes: list[str]

    @classmethod
    def fit(cls, frame: pd.DataFrame, columns: Sequence[str] | None, where: str) -> Encoding:
        """Learn the encoding of some columns, by default of all but those that only number the rows.

        Args:
            columns: names of the columns to encode. A column with one value in all rows is left out. Texts alone are
                an InputError: a backbone embeds them better.
        """
        frame = with_text_names(frame)
        encoded: list[Column] = []
        left_out: dict[str, list[str]] = {reason: [] for reason in ("rows", "codes", "alike", "constant")}
        refused = {}
        for name in frame.columns if columns is None else columns:
            cells = _cells(frame, name, where)
            kind = kind_of(cells)
            if columns is None and _names_rows(name, cells, kind, where):
                left_out["rows"].append(name)
                continue
            why = _objection(cells, kind)
            column: Column | None
            if why is not None and why[1] == "text" and (column := _text(name, cells)) is not None:
                encoded.append(column)
            elif why is not None and why[1] == "text" and columns is None:
                left_out["codes"].append(name)
            elif why is not None:
                refused[name] = why
            elif column := _category(name, cells) if kind == "category" else _measure(name, kind, cells, where):
                encoded.append(column)
            else:
                left_out["alike" if len(distinct(cells)[1]) > 1 else "constant"].append(name)
        if encoded and all(column.kind == "text" for column in encoded):
            refused |= {column.name: ("text", "text") for column in encoded}
        if refused:
            listed = ", ".join(f"{name!r} ({what})" for name, (what, _) in refused.items())
            hints = sorted({_HINTS[key] for _, key in refused.values() if key in _HINTS})
            choose = "name the columns to learn from with --feature-column"
            raise InputError(f"{where} has columns that cannot be features: {listed}; {', or '.join([choose, *hints])}")
        notes = _notes(encoded, left_out, frame)
        if not encoded:
            hint = f"; {_HINTS['text']}" if left_out["codes"] else ""
            raise InputError(f"{where} has no column to learn from" + (f": {'; '.join(notes)}" if notes else "") + hint)
        return cls(tuple(encoded), notes)

    @property
    def names(self) -> list[str]:
        """Names of the F features."""
        return [name for column in self.columns for name in column.names]

    def apply(self, frame: pd.DataFrame, where: str) -> Array:
        """Return the rows of a table as float32 (N, F). Columns that were not learnt are ignored."""
        frame = with_text_names(frame)
        out: Array = np.zeros((len(frame), len(self.names)), np.float32)
        start = 0
        for column in self.columns:
            end = start + len(column.names)
            cells = _cells(frame, column.name, where)
            try:
                column.write(cells, out[:, start:end], where)
            except TypeError:  # lists and the like have no hash
                wrong = f"holds cells of type {kind_of(cells)}, and held a {column.kind} in training"
                raise InputError(f"column {column.name!r} of {where} {wrong}") from None
            if not column.gaps and len(cells) and cells.isna().all():
                _LOG.warning("%s: column %r is empty in all rows, and had values in training", where, column.name)
            start = end
        return out

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, for `from_dict`."""
        columns = [
            {**asdict(column), "levels": list(column.levels), "weights": list(column.weights)}
            for column in self.columns
        ]
        return {"columns": columns, "names": self.names, "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Encoding:
        """Return the encoding that `to_dict` stored."""
        facts = check_facts(stored, _StoredEncoding, "the stored encoding")
        if not all(math.isfinite(value) for column in facts.columns for value in (column.fill, column.origin)):
            raise InputError("the stored encoding cannot be used: fill and origin of a column must be finite")
        return cls(facts.columns, facts.notes)


def lone_text(frame: pd.DataFrame) -> str | None:
    """Return the column of texts, of two words or more on average, if no other column is worth learning from.

    >>> lone_text(pd.DataFrame({"id": [7, 8], "note": ["a red car", "the blue sea"]}))
    'note'
    """
    kinds = {name: kind_of(frame[name]) for name in frame.columns}
    useful = [
        name
        for name, kind in kinds.items()
        if kind not in COLUMN_KINDS
        or (not _names_rows(name, frame[name], kind, "the table") and len(distinct(frame[name])[1]) > 1)
    ]
    if len(useful) != 1 or kinds[name := useful[0]] != "category":
        return None
    objection = _objection(frame[name], "category")
    lengths = [len(words) for cell in frame[name].tolist() if (words := _words(cell))]
    is_text = objection is not None and objection[1] == "text" and sum(lengths) >= 2 * max(len(lengths), 1)
    return name if is_text else None


class _StoredEncoding(StoredFacts):
    """What `Encoding.to_dict` stores."""

    columns: tuple[Column, ...]
    notes: list[str]


def _measure(name: str, kind: Any, cells: pd.Series[Any], where: str) -> Column | None:
    """Learn a column of numbers, booleans or dates; None if all values are the same."""
    numbers = values(cells, kind, name, where)
    missing = np.isnan(numbers)
    present = numbers[~missing]
    gaps = bool(missing.mean() > GAPS)
    if not len(present) or (present.min() == present.max() and not gaps):
        return None
    origin = float(math.floor(present.min())) if kind == "date" else 0.0
    return Column(name, kind, fill=float(np.median(present)), origin=origin, gaps=gaps)


def _category(name: str, cells: pd.Series[Any]) -> Column | None:
    """Learn a column of categories; None if there is only one."""
    codes, level_names = levels(cells)
    kept = _kept(codes, level_names)
    column = Column(
        name, "category", levels=kept, other=len(kept) < len(level_names), gaps=bool((codes < 0).mean() > GAPS)
    )
    return column if len(column.names) > 1 else None


def _kept(codes: Labels, names: list[str]) -> tuple[str, ...]:
    """Return the levels that get a feature, sorted."""
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    enough = min(RARE, counts.sum() / 50)
    common = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return tuple(names[at] for at in sorted(common.tolist()) if counts[at] >= enough)


def _text(name: str, cells: pd.Series[Any]) -> Column | None:
    """Learn a column of texts; None if they are codes, of fewer than two words on average."""
    documents = [set(_words(cell)) for cell in cells.tolist()]
    filled = [words for words in documents if words]
    if not filled or sum(map(len, filled)) < 2 * len(filled):
        return None
    counts = Counter(word for words in filled for word in words)
    lowest = min(RARE, len(filled) / 50)
    useful = [word for word, count in counts.items() if max(lowest, 2) <= count < len(filled)]
    common = sorted(useful, key=lambda word: (-counts[word], word))
    kept = tuple(sorted(common[:MOST_WORDS]))
    weights = tuple(float(f"{math.log(len(filled) / counts[word]) + 1:.6g}") for word in kept)
    gaps = len(documents) - len(filled) > GAPS * len(documents)
    return Column(name, "text", levels=kept, weights=weights, gaps=gaps) if kept else None


def _words(cell: Any) -> list[str]:
    return _WORD.findall(cell.casefold()) if isinstance(cell, str) else []


def _write_words(cells: pd.Series[Any], words: tuple[str, ...], weights: tuple[float, ...], out: Array) -> None:
    """Write the TF-IDF of words, of length 1, of cells (N,) into zeros (N, len(words) or more)."""
    place = {word: at for at, word in enumerate(words)}
    for row, cell in enumerate(cells.tolist()):
        for word, count in Counter(_words(cell)).items():
            if (at := place.get(word)) is not None:
                out[row, at] = (1 + math.log(count)) * weights[at]
    lengths = np.linalg.norm(out[:, : len(words)], axis=1, keepdims=True)
    out[:, : len(words)] /= np.where(lengths > 0, lengths, 1)


def _objection(cells: pd.Series[Any], kind: str) -> tuple[str, str] | None:
    """Return why a column cannot be a feature, and a key of `_HINTS`; None if it can."""
    if kind not in COLUMN_KINDS:
        return ("lists", "list") if kind in ("list", "ndarray", "tuple") else (kind, "")
    if kind != "category":
        return None
    codes, names = levels(cells)
    if len(names) > 1 and all(map(names_image, names)):
        return "paths of images", "image"
    kept = set(_kept(codes, names))
    beyond = np.array([level not in kept for level in names], bool)[codes[codes >= 0]]
    if (len(names) > MOST_LEVELS and beyond.mean() > 0.5) or 1 < len(names) == len(codes):
        return f"text, {len(names):,} different in {len(codes):,} rows", "text"
    return None


def _names_rows(name: str, cells: pd.Series[Any], kind: str, where: str) -> bool:
    """Whether a column only numbers the rows, or names what they belong to.

    By its name with many different values (a shop_id of 20 shops is a category), as whole numbers that count the rows,
    or as all different words without spaces.
    """
    if kind not in COLUMN_KINDS or len(cells) < 2:
        return False
    unique = not cells.isna().any() and cells.is_unique
    if name.casefold() in ROW_NAMES or _ROW_NAME.fullmatch(name):
        many = cells.nunique() > min(MOST_LEVELS, len(cells) / 2) and len(cells) >= FEW_ROWS
        return (unique and name.casefold() in ROW_NAMES) or ((unique or many) and _is_whole(name, cells, kind, where))
    if not unique:
        return False
    if kind == "number" and len(cells) >= FEW_ROWS and _is_whole(name, cells, kind, where):
        steps = np.diff(values(cells, "number", name, where))
        return bool((steps == 1).all() or (steps == -1).all())
    return kind == "category" and not any(re.search(r"\s", level) or names_image(level) for level in levels(cells)[1])


def _is_whole(name: str, cells: pd.Series[Any], kind: str, where: str) -> bool:
    """Whether a column holds no fractions; floats may be whole numbers with gaps."""
    if kind != "number":
        return True
    present = values(cells, "number", name, where)
    return bool((present[~np.isnan(present)] % 1 == 0).all())


def _ordered(column: Column, cells: pd.Series[Any]) -> bool:
    """Whether numbers or dates only rise, or only fall, from row to row."""
    if column.kind not in ("number", "date") or len(cells) < FEW_ROWS or cells.isna().any():
        return False
    steps = np.diff(values(cells, column.kind, column.name, ""))
    return bool((steps > 0).all() or (steps < 0).all())


def _notes(columns: list[Column], left_out: dict[str, list[str]], frame: pd.DataFrame) -> list[str]:
    """Describe what was done, one line each."""
    return [*_used_notes(columns, frame), *_unused_notes(columns, left_out, frame)]


def _used_notes(columns: list[Column], frame: pd.DataFrame) -> list[str]:
    notes = []
    for column in columns:
        count = int((distinct(frame[column.name])[0] < 0).sum())  # a text of spaces is missing too
        if count == 0:
            continue
        fill = f"{column.fill:g}"
        if column.kind == "date":
            fill = str(np.datetime64(math.floor(column.fill), "D"))  # any year, unlike `datetime.date`
        done = {"category": "are no category", "text": "have no words"}.get(
            column.kind, f"filled with its median {fill}"
        )
        flag = f", and a column says which ({count / len(frame):.1%})" if column.gaps else ""
        notes.append(f"{count:,} missing in column {column.name!r}, {done}{flag}")
    for kind, became in _BECAME.items():
        if names := [_summary(column) for column in columns if column.kind == kind]:
            notes.append(f"{became}: {listed(names)}")
    return notes


def _unused_notes(columns: list[Column], left_out: dict[str, list[str]], frame: pd.DataFrame) -> list[str]:
    notes = []
    if left_out["rows"]:
        notes.append(f"left out because they only number or name the rows: {listed(left_out['rows'])} {_BACK}")
    if left_out["codes"]:
        notes.append(f"left out, texts or codes that are nearly all different: {listed(left_out['codes'])}")
    if left_out["alike"]:
        notes.append(f"left out, numbers that differ beyond the 16th digit only: {listed(left_out['alike'])}")
    if left_out["constant"]:
        notes.append(f"left out, the same in every row or empty: {listed(left_out['constant'])}")
    if ordered := [column.name for column in columns if _ordered(column, frame[column.name])]:
        rises = f"{listed(ordered)}: only rises or falls from row to row"
        notes.append(f"{rises}; if it only numbers the rows, leave it out with --exclude")
    return notes


def _summary(column: Column) -> str:
    """Return the name of a column, and the number of its features if it has several."""
    if column.kind not in ("category", "text"):
        return column.name
    return f"{column.name} ({len(column.levels)}{', rare ones together' if column.other else ''})"


def _cells(frame: pd.DataFrame, name: str, where: str) -> pd.Series[Any]:
    require_columns(frame.columns, [name], where)
    cells = frame[name]
    if not isinstance(cells, pd.Series):
        raise InputError(f"{where} has {cells.shape[1]} columns named {name!r}")
    return cells
