"""New data for a trained model: with labels or without, in any form that training takes, and a few more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jnpl.data.opening import load_new, open_source, options_taken
from jnpl.data.options import ModelInputs, OpenOptions
from jnpl.data.source import Array, InMemory, Inputs, Kind, Labels, Source
from jnpl.data.sources.arrays import WHOLE_NUMBER
from jnpl.data.sources.user_embedding import embed_inputs
from jnpl.data.spellings import spelling_key
from jnpl.data.split import part as part_of
from jnpl.data.tags import Mask, Tags, with_names
from jnpl.internal.errors import InputError

PARTS = ("train", "test", "validation")


@dataclass(frozen=True, eq=False)
class NewData:
    """Samples to predict, and their labels if the data have any; the labels inside `source` have no meaning.

    `labels` are class numbers of the model (N,): -1 where a sample has no label, -2 where the model does not know it.
    `tags` are those of a model of tags (N, T).
    """

    source: Source
    labels: Labels | None = None
    tags: Mask | None = None


def open_new(
    data: Any,
    classes: Sequence[Any],
    options: OpenOptions | None = None,
    *,
    kind: Kind,
    encoding: dict[str, Any] | None = None,
    part: str | None = None,
    several: bool = False,
) -> NewData:
    """Open data to predict, for a model with these classes and this kind of input.

    Args:
        data: everything that `open_source` takes, and a folder of images of any depth, one image file, a table without
            labels, an .npz with x only, a data frame, and arrays, tensors or lists (N, ...). In a folder every file
            that is not hidden is a sample; its label is the outermost folder around it that has the name of a class.
        encoding: of the table that the model was trained on (`Source.encoding`).
        part: "train", "test" or "validation" of data that have parts.
        several: the classes are tags, of which a sample may have several.
    """
    options = options or OpenOptions()
    if part is not None and part not in PARTS:
        raise InputError(f"part is one of {', '.join(PARTS)}, not {part!r}")
    if options.embed is not None and kind != "vector":
        raise InputError(f"embed (--embed) has no meaning for a model of {kind}s: it was not trained on vectors")
    model = ModelInputs(tuple(classes), kind, encoding, options, part, several)
    if (fields := load_new(data, model)) is not None:
        return _of_loaded(model, **fields)
    are_boxes = "crops" in options_taken(data, OpenOptions(crops=True))
    source = open_source(data, replace(options, crops=are_boxes and not several))
    chosen = {"test": source.test, "validation": source.validation}.get(part or "train", source)
    if chosen is None:
        raise InputError(f"{source.name} has no {part} data")
    tags = None if chosen.tags is None else Tags(chosen.tags, tuple(map(str, chosen.class_names)))
    return _of_source(model, chosen, [chosen.class_names[label] for label in chosen.labels.tolist()], tags)


def _of_loaded(
    model: ModelInputs,
    inputs: Inputs,
    name: str,
    *,
    ids: Array | None = None,
    labels: Sequence[Any] | None = None,
    unreadable: dict[int, str] | None = None,
    tags: Tags | None = None,
    rows: Labels | None = None,
) -> NewData:
    """Return samples that a loader has read (`Form.new`), or those in some rows (M,), as the model takes them."""
    if len(inputs) == 0:
        raise InputError(f"{name} holds no samples")
    if model.options.embed is not None:
        values, unreadable = embed_inputs(inputs, model.options.embed, name, unreadable)
        inputs = InMemory(values)
    none, ids = np.zeros(len(inputs), np.int64), np.arange(len(inputs)) if ids is None else ids
    new = _of_source(model, Source(name, inputs, none, model.classes, ids, unreadable=unreadable), labels, tags)
    if rows is None:
        return new
    class_numbers = None if new.labels is None else new.labels[rows]
    return NewData(part_of(new.source, rows), class_numbers, None if new.tags is None else new.tags[rows])


def _of_source(model: ModelInputs, source: Source, labels: Sequence[Any] | None, tags: Tags | None) -> NewData:
    if model.several:
        return NewData(source, tags=None if tags is None else with_names(tags, model.classes).given)
    return NewData(source, None if labels is None else _class_numbers(labels, model.classes))


def _class_numbers(labels: Sequence[Any], classes: Sequence[Any]) -> Labels | None:
    """Return the class numbers (N,) of labels given by name (None: no label); None if no sample has a label."""
    whole = all(type(name) is int for name in classes)
    keys = [spelling_key(name) for name in classes]
    count = Counter(keys)
    number = {str(name): at for at, name in enumerate(classes)}
    by_spelling = {key: at for at, key in enumerate(keys) if count[key] == 1}

    def class_number(label: Any) -> int:
        if label is None:
            return -1
        text = str(label)
        if whole and WHOLE_NUMBER.fullmatch(text):
            text = str(int(text.partition(".")[0]))  # 07 and 7.0 are 7, as in training
        return number.get(text, by_spelling.get(spelling_key(label), -2))

    class_numbers = np.array([class_number(label) for label in labels], np.int64)
    return None if (class_numbers == -1).all() else class_numbers
