"""Predict the labels of new data with a saved model: one row per sample, one batch at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.data.new_data import NewData
from jnpl.data.tags import separator_for
from jnpl.internal.tables import suffix_of, table_writer

if TYPE_CHECKING:
    from jnpl.outputs.saved_model import Part, SavedModel

NO_CLASS = -2  # in `NewData.labels`: a label that the model was not trained on


def predict(
    model: SavedModel,
    data: NewData,
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int = 0,
    show: Callable[[pd.DataFrame], None] = lambda _: None,
    problem: Callable[[str, str], None] = lambda _id, _reason: None,
) -> dict[str, Any]:
    """Predict all samples, and write the predictions to `out` (.csv, .parquet or .json) if it is given.

    `show` is called with every batch as a data frame, with a dict of probabilities per row, `problem` with the id of
    every sample that cannot be read and the reason.

    Returns counts: samples, predicted, unreadable, predictions of each class; with labels also the number of readable
    samples whose label the model knows, and the accuracy on them; with tags F1, over all pairs of sample and tag.
    """
    source, labels = data.source, data.labels
    hits = tagged = 0  # predicted tags that are given, and given tags
    counts = np.zeros(len(model.classes), np.int64)
    right = labelled = unreadable = 0
    with ExitStack() as stack:
        nested = out is not None and suffix_of(out) == ".json"
        write = None if out is None else stack.enter_context(table_writer(out))
        for part in model.parts(source, workers):
            for position, reason in part.problems.items():
                problem(str(source.ids[position]), reason)
            unreadable += len(part.problems)
            read = _read(part)
            if model.thresholds is not None:
                tags = model.chosen(part.probs[read])
                counts += tags.sum(axis=0)
                if data.tags is not None:
                    given_tags = data.tags[part.start : part.start + len(read)][read]
                    hits, tagged = hits + int((tags & given_tags).sum()), tagged + int(given_tags.sum())
            else:
                predicted = part.probs[read].argmax(1)
                counts += np.bincount(predicted, minlength=len(counts))
            if labels is not None and model.thresholds is None:
                given_labels = labels[part.start : part.start + len(read)][read]
                right += int((predicted == given_labels).sum())
                labelled += int((given_labels >= 0).sum())
            rows = _frame(model, data, part, nested=True)
            show(rows)
            if write is not None:
                write(rows if nested else _frame(model, data, part, nested=False))
    results: dict[str, Any] = {
        "samples": len(source),
        "predicted": len(source) - unreadable,
        "unreadable": unreadable,
        "predicted_labels": {str(name): int(count) for name, count in zip(model.classes, counts, strict=True)},
    }
    if data.tags is not None:
        results["f1"] = 2 * hits / max(tagged + int(counts.sum()), 1)
    if labels is not None:
        results |= {"labelled": labelled, "unknown_labels": int((labels == NO_CLASS).sum())}
        if labelled:
            results["accuracy"] = right / labelled
    return results


def _frame(model: SavedModel, data: NewData, part: Part, *, nested: bool) -> pd.DataFrame:
    """Return the rows of a part: id, predicted_label, confidence, and a column p_CLASS per class or, nested, one dict.

    Of tags there is `predicted_tags`, their names or, nested, a list of them, in place of label and confidence. Where
    samples are read one by one there is a column `problem`, empty for those that could be read.
    """
    source, probs = data.source, part.probs
    stop = part.start + len(probs)
    read = _read(part)
    ids = source.ids[part.start : stop]
    columns: dict[str, Any] = {
        "id": ids if ids.dtype.kind in "iu" else pd.array([str(name) for name in ids], dtype="string")
    }
    columns |= _predicted(model, probs, read, nested=nested)
    if nested:
        columns["probabilities"] = [_named(model.classes, row) for row in probs.tolist()]
    else:
        columns |= {f"p_{name}": probs[:, at] for at, name in enumerate(model.classes)}
    if source.unreadable is not None or (source.inputs.array() is None and source.inputs.texts() is None):
        reasons = [part.problems.get(position) for position in range(part.start, stop)]
        columns["problem"] = pd.array(reasons, dtype="string")
    return pd.DataFrame(columns)


def _predicted(
    model: SavedModel, probs: npt.NDArray[np.float32], read: npt.NDArray[np.bool_], *, nested: bool
) -> dict[str, Any]:
    """Return the columns of what is predicted: label and confidence, or tags."""
    if model.thresholds is not None:
        names = tuple(map(str, model.classes))
        lists = [[names[at] for at in np.flatnonzero(row).tolist()] for row in model.chosen(probs)]
        cells = [names_of_row if is_read else None for names_of_row, is_read in zip(lists, read.tolist(), strict=True)]
        mark = separator_for(names)
        return {"predicted_tags": cells if nested else [None if cell is None else mark.join(cell) for cell in cells]}
    whole = all(type(name) is int for name in model.classes)
    labels = model.named(np.where(read[:, None], probs, 0)).astype(object)
    labels[~read] = None
    return {
        "predicted_label": pd.array(labels.tolist(), dtype="Int64" if whole else "string"),
        "confidence": probs.max(1),
    }


def _read(part: Part) -> npt.NDArray[np.bool_]:
    """Return (B,) true where a sample could be read."""
    return np.asarray(~np.isnan(part.probs[:, 0]))


def _named(classes: tuple[Any, ...], probs: list[float]) -> dict[str, float] | None:
    if probs[0] != probs[0]:  # nan: it was not read
        return None
    return {str(name): float(f"{p:.9g}") for name, p in zip(classes, probs, strict=True)}
