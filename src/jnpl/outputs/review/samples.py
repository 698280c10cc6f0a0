"""What the page shows of a sample: its picture, text or row, its candidates, and samples that are similar.

The data are opened again in the background, as the run opened them. Until then, and if they are gone, the page shows
what the run folder has: small pictures and the rows of the worst suspects.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.analysis.sure_samples import UnitVectors, surest, vectors_of
from jnpl.data.source import Inputs, Source, UnreadableError
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.pictures import encoded, media_type
from jnpl.internal.tables import is_missing
from jnpl.judging.excerpts import UsualCells
from jnpl.outputs.review.ranking import Mask, Positions, Ranking
from jnpl.run_folder import THUMBNAIL_SIDE, RunFolder

if TYPE_CHECKING:
    from jnpl.outputs.saved_model import SavedModel

LARGE, SMALL = 1024, 320  # pixels of the longer side of a picture
MAX_TEXT = 20_000  # characters
_MAX_CELLS = 300  # columns of a row
_POOL = 1000  # decided samples of a class among which the nearest are searched for
_WAIT = 30.0  # seconds that a picture waits for the data
_QUALITY = 88  # of a JPEG
Value = TypeVar("Value")


class Beside(NamedTuple):
    """A sample and the two classes between which its columns are compared."""

    position: int
    given: int
    suggested: int


class RecentCache:
    """The values that were used last, at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key; `make` is called if it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                kept: Value = self._kept[key]
                return kept
        value = make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


class Samples:
    """The samples of a run, as far as they can be shown.

    `open_data` opens the data of the run again, embedded as the run embedded them; None, for a `reason`, if it cannot.
    """

    def __init__(
        self,
        run: RunFolder,
        open_data: Callable[[], Source] | None,
        reason: str | None = None,
        *,
        trust_code: bool = False,
    ) -> None:
        self.trust_code = trust_code
        self._run, self._findings, self._open_data = run, run.sample_findings, open_data
        self.source: Source | None = None
        self.problem = reason
        self._opened = threading.Event()
        self._thumbnails, self._table = run.thumbnails(), run.data_facts.columns
        self.kind: str = run.data_facts.kind or ("image" if self._thumbnails else "vector")
        self.duplicate_groups, self.outliers = _special_lists(run)
        self._pictures, self._pools, self._searched = RecentCache(512), RecentCache(16), RecentCache(2)
        self._model: SavedModel | None = None
        self._vectors: UnitVectors | None = None
        self._usual: UsualCells | None = None
        if open_data is None:
            self._opened.set()

    def start(self) -> None:
        """Open the data and the model in the background."""
        if self._open_data is not None:
            threading.Thread(target=self._open, name="jnpl-open-data", daemon=True).start()

    def _open(self) -> None:
        try:
            source = self._open_data() if self._open_data is not None else None
            if source is not None:
                if [str(name) for name in source.ids.tolist()] != [str(name) for name in self._findings.ids.tolist()]:
                    raise InputError("the data are not those of the run any more: other samples, or another order")  # noqa: TRY301
                values = vectors_of(source)
                self._vectors = None if values is None else UnitVectors(values)
                if not self._run.has_tags:
                    if source.cells is not None and source.texts is None and source.ids.dtype.kind in "iu":
                        self._usual = UsualCells(source.cells.iloc[source.ids], self._findings.given_labels)
                    from jnpl.outputs.saved_model import SavedModel  # noqa: PLC0415 - imports torch

                    with suppress(InputError):  # a run of the library has no model: there are no candidates
                        self._model = SavedModel.load(self._run.path, trust_code=self.trust_code, head_only=True)
                self.source = source
        except Exception as error:  # noqa: BLE001 - the page says why, and goes on without the data
            self.problem = str(error) if isinstance(error, InputError | OSError) else one_line(error)
        finally:
            self._opened.set()

    @property
    def state(self) -> str:
        """Return "opening", "ready" or "missing"."""
        if not self._opened.is_set():
            return "opening"
        return "missing" if self.source is None else "ready"

    def wait(self, seconds: float = _WAIT) -> Source | None:
        """Return the data, once they are open; None if they cannot be opened."""
        self._opened.wait(seconds)
        return self.source

    @property
    def has_vectors(self) -> bool:
        """Whether samples can be compared, now that the data are open."""
        return self.source is not None and self._vectors is not None

    def picture(self, position: int, side: int) -> tuple[bytes, str] | None:
        """Return the picture of a sample, at most `side` pixels wide and high, and its media type; None without one."""
        source = self.wait() if side > THUMBNAIL_SIDE or position not in self._thumbnails else self.source
        inputs = None if source is None else _pictures(source)
        content = self._thumbnails.get(position)
        if inputs is not None:
            with suppress(UnreadableError, OSError, InputError):
                make = lambda: encoded(inputs.read(position), side, _QUALITY)  # noqa: E731
                content = self._pictures.get_or_make((position, side), make)
        return None if content is None else (content, media_type(content) or "image/jpeg")

    def content(self, position: int, limit: int = MAX_TEXT, beside: Beside | None = None) -> dict[str, Any]:
        """Return {"kind": "image"}, {"kind": "text", "text"} or {"kind": "row", "cells": [(name, value), ...]}.

        A text has at most `limit` characters. With `beside`, the columns come first in which that sample is least like
        its given and most like its suggested class; its own row has "usual" too, what is usual in both classes.
        """
        if self.kind == "image":
            return {"kind": "image"}
        source = self.source
        if source is not None and source.texts is not None:
            text = str(source.texts[position])
            return {"kind": "text", "text": text[:limit], "cut": len(text) > limit}
        if source is not None and source.cells is not None:
            return {"kind": "row", **self._cells(source.cells, source.ids, position, beside)}
        if source is not None and source.kind == "vector":
            numbers = source.inputs.read(position)[:_MAX_CELLS].tolist()
            return {"kind": "row", "cells": [(f"feature {at}", f"{value:.4g}") for at, value in enumerate(numbers)]}
        names, stored = ([], None) if self._table is None else (self._table.names, self._table.rows.get(position))
        if stored is not None and names == ["text"]:
            return {"kind": "text", "text": str(stored[0]), "cut": False}
        return {"kind": "row", "cells": list(zip(names, map(_plain, stored or ()), strict=False))}

    def _cells(
        self, cells: pd.DataFrame, rows: npt.NDArray[Any], position: int, beside: Beside | None
    ) -> dict[str, Any]:
        """Return the cells of a row, and what is usual in two classes."""
        row = cells.iloc[int(rows[position])]
        shown = [(str(name), _plain(row.iloc[at])) for at, name in enumerate(row.index)]
        if self._usual is None or beside is None:
            return {"cells": shown[:_MAX_CELLS]}
        like = cells.iloc[[int(rows[beside.position])]]
        scores = self._usual.unusual(like, np.array([beside.given]), np.array([beside.suggested]))[0]
        order = np.argsort(-scores, kind="stable")[:_MAX_CELLS].tolist()
        ordered = {"cells": [shown[at] for at in order]}
        if position != beside.position or beside.given == beside.suggested:
            return ordered
        usual = [self._usual.usual(label) for label in beside[1:]]
        return {**ordered, "usual": {"labels": beside[1:], "cells": [[row[at] for row in usual] for at in order]}}

    def matching(self, text: str) -> Mask:
        """Return the samples (N,) whose id or text contains a text, in upper or lower case."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import
        import pyarrow.compute as pc  # noqa: PLC0415

        def hits(name: str, values: npt.NDArray[Any]) -> Mask:
            make = lambda: pa.array(map(str, values.tolist()), pa.large_string())  # noqa: E731
            matches = pc.match_substring(self._searched.get_or_make(name, make), text, ignore_case=True)
            return np.asarray(matches.to_numpy(zero_copy_only=False), bool)

        mask, source = hits("ids", self._findings.ids), self.source
        if source is not None and source.texts is not None:
            mask |= hits("texts", source.texts)
        return mask

    def candidates(self, position: int, ranking: Ranking, count: int) -> list[tuple[int, float]]:
        """Return the most probable classes of a sample and their probabilities; empty if there is no model."""
        if ranking.candidates is not None and ranking.candidate_probs is not None:
            stored = zip(ranking.candidates[position], ranking.candidate_probs[position], strict=True)
            return [(int(label), float(p)) for label, p in stored if label >= 0][:count]
        source, model = self.source, self._model
        if source is None or model is None:
            return []
        import torch  # noqa: PLC0415 - loaded by now

        try:
            if len(model.sample_shape) == 3:
                inputs = _pictures(source) or source.inputs
                sample = inputs.read(position, model.sample_shape[0])
            elif (vectors := source.inputs.array()) is not None:
                sample = vectors[position].astype(np.float32)
            else:
                sample = source.inputs.read(position)
            probs = model.forward(torch.from_numpy(np.ascontiguousarray(sample))[None])[0]
        except (UnreadableError, OSError, RuntimeError):
            return []
        best = np.argsort(-probs, kind="stable")[:count]
        return [(int(label), float(probs[label])) for label in best]

    def nearest(self, position: int, among: Positions, count: int) -> list[int]:
        """Return those of `among` (M,) that are most similar to a sample, by cosine similarity, without itself.

        Without vectors, the first ones.
        """
        if self._vectors is None:
            return [int(at) for at in among[among != position][:count]]
        return self._vectors.nearest(position, among, count)

    def examples(
        self, position: int, label: int, ranking: Ranking, count: int, decided: npt.NDArray[np.int64]
    ) -> list[int]:
        """Return the samples nearest to one among those that surely have a label: a class, or a tag.

        Surely have it the surest of the ranking, and those that somebody gave it: `decided` (N,), -1 for no decision.
        """
        pool = self._pools.get_or_make((label, ranking.number), lambda: surest(ranking.findings, label))
        pool = pool[(decided[pool] == -1) | (decided[pool] == label)]
        return self.nearest(position, np.union1d(pool, np.flatnonzero(decided == label)[:_POOL]), count)


def _pictures(source: Source) -> Inputs | None:
    return source.inputs if source.kind == "image" else source.pictures


def _plain(value: Any) -> str:
    """Return a cell as text; empty for a missing value."""
    if is_missing(value):
        return ""
    return (f"{value:.6g}" if isinstance(value, float) else str(value))[:MAX_TEXT]


def _special_lists(run: RunFolder) -> tuple[Positions | None, Mask | None]:
    """Return (N,) the group of near duplicates with different labels or -1, and outliers; None if not searched for."""
    stored, findings = run.neighbours(), run.sample_findings
    if stored is None:
        return None, None
    group, outliers = stored
    if len(group) != len(findings.given_labels):
        return None, None
    low = np.full(group.max(initial=-1) + 1, findings.num_classes)
    high = np.full(len(low), -1)
    members = np.flatnonzero(group >= 0)
    np.minimum.at(low, group[members], findings.given_labels[members])
    np.maximum.at(high, group[members], findings.given_labels[members])
    group[members] = np.where((low != high)[group[members]], group[members], -1)
    return group, outliers
