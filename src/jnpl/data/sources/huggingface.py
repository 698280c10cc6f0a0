"""Data sets of the Hugging Face hub, saved ones, and `datasets.Dataset` objects (extra `hf`)."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.options import OpenOptions
from jnpl.data.source import Array, InMemory, Inputs, Labels, Source, Texts, UnreadableError
from jnpl.data.sources.arrays import as_labels, number_together
from jnpl.data.tags import tags_of_lists
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import require
from jnpl.internal.tables import require_columns

if TYPE_CHECKING:
    from jnpl.data.sources.encoding import Encoding

TRAIN = ("train", "training")
TEST = ("test", "testing", "validation", "valid", "val")  # the first that is there serves as test data
# What `jnpl export --to hf` writes beside the images.
_EXPORTED = {"id", "label", "given_label", "label_quality", "is_label_issue", "suggested_confidence"}
LABEL_NAMES = ("label", "labels", "target")


@dataclass(frozen=True)
class HubImages(Inputs):
    """The images of a `datasets.Dataset` with one undecoded image column: uint8 RGB (H, W, 3)."""

    dataset: Any
    column: str

    kind = "image"

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the image at `position`; with `size`, resized to (size, size). Raises UnreadableError."""
        from jnpl.data.sources.images import ImageFiles, decode  # noqa: PLC0415 - Pillow is slow to load

        stored = self.dataset[position][self.column]
        if stored is None:
            raise UnreadableError("no image")
        if stored["bytes"] is not None:
            return decode(io.BytesIO(stored["bytes"]), size)
        return ImageFiles([stored["path"]]).read(0, size)

    def sizes(self) -> Labels:
        """Return the bytes of each image (N,); 0 where the data set holds only its path."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        lengths = [
            pc.fill_null(pc.binary_length(pc.struct_field(chunk, "bytes")), 0).to_numpy(zero_copy_only=False)
            for chunk in self.dataset.data.column(self.column).chunks
            if pa.types.is_struct(chunk.type)
        ]
        byte_counts = np.concatenate([np.zeros(0, np.int64), *lengths]).astype(np.int64)
        chosen = getattr(self.dataset, "_indices", None)  # rows that were selected or shuffled
        return byte_counts if chosen is None else byte_counts[chosen.column(0).to_numpy()]


def load(
    name_or_dataset: Any, options: OpenOptions | None = None, *, name: str | None = None, **changes: Any
) -> Source:
    """Load a data set of the Hugging Face hub, or open a `datasets.Dataset` or `DatasetDict`.

    The split `train`, or the only one, is the data; `test`, else `validation`, is the test data. Images are decoded
    when they are read. Code that comes with a data set is never run.

    Args:
        name_or_dataset: a name on the hub, a Dataset or a DatasetDict.
        options: how to open it. By default, the images are in the only column of images, without one the features are
            those of a table; the labels are in `label`, `labels` or `target`, else in the only column of classes. Lists
            are tags.
        name: of the source; by default that on the hub.
        **changes: options by name.
    """
    datasets = require("datasets", "hf")
    options = replace(options or OpenOptions(), **changes)
    name = name or (name_or_dataset if isinstance(name_or_dataset, str) else "dataset")
    has_inputs = _names_inputs(options)
    whole = _fetch(datasets, name, options.config) if isinstance(name_or_dataset, str) else name_or_dataset
    train, test = _splits(whole, name)
    label, truth = options.label_column or _label_column(train, datasets, name), options.true_label_column
    require_columns(train.features, [label, *options.columns()], name)
    if not has_inputs:
        options = replace(options, image_column=_image_column(train, datasets, name))
    if (inner := getattr(train.features[label], "feature", None)) is not None:
        return _of_tags(datasets, name, train, label, inner, options)
    names = getattr(train.features[label], "names", None)
    named = {"labels": _labels(train, label, name)}
    if truth is not None:
        named["true_labels"] = _labels(train, truth, name, names)
    if test is not None and _is_labelled(test, label):
        named["test"] = _labels(test, label, name)
    numbered, classes = number_together(named, names)
    if options.text_column is not None:
        return _of_texts(name, options.text_column, (train, test), numbered, classes)
    encoding = None
    if options.image_column is None and options.embedding_column is None:
        from jnpl.data.sources.table import learn  # noqa: PLC0415 - needs pandas, which images do without

        aside = {column for column in (label, truth) if column is not None}
        encoding = learn(_frame(train), aside, classes, name, options.feature_columns, options.exclude or ())
    inputs = partial(_inputs, datasets, name, options.image_column, options.embedding_column, encoding)
    held_out = None
    if test is not None and "test" in numbered:
        held_out = Source(f"{name}/test", inputs(test), numbered["test"], classes, np.arange(len(test)))
    stored = None if encoding is None else encoding.to_dict()
    true, ids = numbered.get("true_labels"), np.arange(len(train))
    return Source(name, inputs(train), numbered["labels"], classes, ids, true, held_out, encoding=stored)


def load_folder(path: str | Path, options: OpenOptions | None = None, **changes: Any) -> Source:
    """Open a folder that `datasets.save_to_disk` or `jnpl export --to hf` has written; its options as in `load`."""
    datasets = require("datasets", "hf")
    try:
        stored = datasets.load_from_disk(os.fspath(path))
    except Exception as error:  # the disk, Arrow and JSON raise different errors
        raise InputError(f"cannot load the data set {str(path)!r}: {one_line(error)}") from error
    if set(getattr(stored, "features", ())) == _EXPORTED:
        raise InputError(f"{str(path)!r} holds labels without samples: the data of its run were not image files")
    return load(stored, options, name=Path(path).resolve().name or str(path), **changes)


def _names_inputs(options: OpenOptions) -> bool:
    """Return whether the options name the inputs; two kinds are an error."""
    kinds = ("image_column", "feature_columns", "embedding_column", "text_column")
    if len(named := [name for name in kinds if getattr(options, name) is not None]) > 1:
        raise InputError(f"the inputs are images, features, embeddings or texts, but {' and '.join(named)} are given")
    return bool(named)


def _of_texts(
    name: str,
    column: str,
    splits: tuple[Any, Any],
    numbered: dict[str, Labels],
    classes: tuple[str, ...] | tuple[int, ...],
) -> Source:
    """Return texts of a training split and, where it has labels, a test split."""
    from jnpl.data.sources.sample_columns import texts_of  # noqa: PLC0415 - needs pandas, which images do without

    def source(split: Any, name: str, labels: Labels, **more: Any) -> Source:
        texts, unreadable = texts_of(_frame(split)[column], column, name)
        ids = np.arange(len(texts))
        return Source(name, Texts(texts), labels, classes, ids, texts=texts, unreadable=unreadable, **more)

    train, test = splits
    held_out = source(test, f"{name}/test", numbered["test"]) if "test" in numbered else None
    return source(train, name, numbered["labels"], true_labels=numbered.get("true_labels"), test=held_out)


def _of_tags(datasets: Any, name: str, train: Any, label: str, inner: Any, options: OpenOptions) -> Source:
    """Return the training split, of which the label column holds lists of tags: names, or numbers of classes."""
    cells, names = list(train.with_format(None)[label]), getattr(inner, "names", None)
    if names is not None:
        cells = [[names[tag] for tag in cell or ()] for cell in cells]
    tags = tags_of_lists(cells, f"column {label!r} of {name}")
    none = np.zeros(len(train), np.int64)
    if options.text_column is not None:
        source = _of_texts(name, options.text_column, (train, None), {"labels": none}, tags.names)
        return replace(source, tags=tags.given)
    encoding = None
    if options.image_column is None and options.embedding_column is None:
        from jnpl.data.sources.table import learn  # noqa: PLC0415 - needs pandas, which images do without

        left_out = options.exclude or ()
        encoding = learn(_frame(train), {label}, tags.names, name, options.feature_columns, left_out)
    inputs = _inputs(datasets, name, options.image_column, options.embedding_column, encoding, train)
    stored = None if encoding is None else encoding.to_dict()
    return Source(name, inputs, none, tags.names, np.arange(len(train)), encoding=stored, tags=tags.given)


def _inputs(
    datasets: Any,
    name: str,
    image_column: str | None,
    embedding_column: str | None,
    encoding: Encoding | None,
    split: Any,
) -> Inputs:
    if image_column is not None:
        return _images(split, image_column, datasets, name)
    if encoding is not None:  # learnt on the training split
        return InMemory(encoding.apply(_frame(split), name))
    from jnpl.data.sources.table import vectors  # noqa: PLC0415 - needs pandas, which images do without

    return InMemory(vectors(_frame(split), set(), name, embedding_column=embedding_column), embedded=True)


def _frame(split: Any) -> Any:
    """Return a split as a data frame, classes by their names."""
    frame = split.with_format(None).to_pandas()
    for column, kind in split.features.items():
        if (names := getattr(kind, "names", None)) is not None:
            codes = frame[column].fillna(-1).astype(np.int64).to_numpy()
            frame[column] = np.array([*names, None], object)[codes]
    return frame


def _fetch(datasets: Any, name: str, config: str | None) -> Any:
    if not name.strip():
        raise InputError("hf: names no data set; write hf:USER/NAME, as on the Hugging Face hub")
    try:
        return datasets.load_dataset(name, config)
    except Exception as error:  # the hub, the network, the disk and the data raise different errors
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"cannot load {name!r} from the Hugging Face hub: {lines[0][:300]}") from error


def _splits(whole: Any, name: str) -> tuple[Any, Any]:
    """Return the training split and the test split, or None."""
    if hasattr(whole, "features") and hasattr(whole, "__len__"):
        return whole, None
    if not hasattr(whole, "keys"):
        raise InputError(f"a datasets.Dataset or DatasetDict is needed, not {type(whole).__name__} (no streaming)")
    splits = list(whole.keys())
    train = next((split for split in TRAIN if split in splits), splits[0] if len(splits) == 1 else None)
    if train is None:
        raise InputError(f"{name} has the splits {', '.join(splits)} and none of them is train; pass one of them")
    if not hasattr(whole[train], "__len__"):
        raise InputError(f"{name} is streamed; load it whole")
    test = next((split for split in TEST if split in splits and split != train), None)
    return whole[train], None if test is None else whole[test]


def _label_column(dataset: Any, datasets: Any, name: str) -> str:
    named = next((column for column in LABEL_NAMES if column in dataset.features), None)
    kinds = {column: getattr(kind, "feature", kind) for column, kind in dataset.features.items()}  # inside of lists
    classes = [column for column, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)]
    if named is None and len(classes) != 1:
        raise InputError(f"name the label column of {name} with label_column: {', '.join(dataset.features)}")
    return named or str(classes[0])


def _image_column(dataset: Any, datasets: Any, name: str) -> str | None:
    columns = [column for column, kind in dataset.features.items() if isinstance(kind, datasets.Image)]
    if len(columns) > 1:
        raise InputError(f"{name} has several columns of images; choose one with image_column: {', '.join(columns)}")
    return columns[0] if columns else None


def _images(dataset: Any, column: str, datasets: Any, name: str) -> HubImages:
    kind = dataset.features.get(column)
    if not isinstance(kind, datasets.Image) and getattr(kind, "dtype", None) not in ("string", "binary"):
        raise InputError(f"column {column!r} of {name} must hold images, not {kind}")
    undecoded = dataset.with_format(None).select_columns([column]).cast_column(column, datasets.Image(decode=False))
    return HubImages(undecoded, column)


def _labels(dataset: Any, column: str, name: str, names: list[str] | None = None) -> list[str] | list[int]:
    """Return the N labels of a column: its class names if it has any, else numbers into `names`."""
    kind = dataset.features.get(column)
    if kind is None:
        raise InputError(f"the test data of {name} have no column {column!r}")
    values = list(dataset.with_format(None)[column])
    class_names = getattr(kind, "names", None)
    if (
        class_names is None
        and names is not None
        and all(isinstance(value, int) and value < len(names) for value in values)
    ):
        class_names = names
    if class_names is not None:
        if hidden := [row for row, value in enumerate(values) if value is None or value < 0]:
            raise InputError(f"{name} has no label in column {column!r} of row {hidden[0]} (counted from 0)")
        return [str(class_names[value]) for value in values]
    return as_labels(values, f"column {column!r} of {name}")


def _is_labelled(test: Any, column: str) -> bool:
    """Whether the test data have labels; hidden ones are -1."""
    if column not in test.features:
        return False
    return not any(value is None or value == -1 for value in test.with_format(None)[column])
