"""Open whatever the user names as DATA: a path, a name, or an object with samples and labels.

A new form of data is a loader in `jnpl.data.sources` and one entry in `FORMS`; a new data set with a name is an entry
in `jnpl.data.datasets`.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jnpl.data.datasets import DATASETS, import_loader
from jnpl.data.options import ModelInputs, OpenOptions
from jnpl.data.source import Source
from jnpl.data.sources.user_embedding import Embed
from jnpl.data.spellings import common_spellings, spelling_key, warning, with_spellings
from jnpl.data.split import with_test
from jnpl.data.tags import checked_tags
from jnpl.internal.errors import InputError
from jnpl.internal.tables import DATA_SUFFIXES, data_suffix

HUB = "hf:"
_OF_ALL = ("labels", "merge_classes", "one_class", "seed")  # options that every form of data takes
_FEW_SAMPLES = 20  # up to which every sample may have a class of its own
_LOG = logging.getLogger("jnpl")
_COLUMNS = ("image_column", "label_column", "true_label_column", "feature_columns", "exclude", "embedding_column")
_HUB = (*_COLUMNS, "text_column", "multi_label")
_TABLE = (*_HUB, "group_columns", "label_columns", "tag_columns", "embed", "encoding", "image_root", "skip_unlabelled")


def open_source(data: Any, options: OpenOptions | None = None, **changes: Any) -> Source:
    """Open data of any form as a `Source`.

    A name goes before a path: write `./cifar10` for a folder of that name; a Path is always a path. An option that the
    form of the data does not take is an InputError.

    Args:
        data: text is a name of `jnpl.data.datasets.DATASETS`, `hf:NAME`, or a path: a folder of class folders or of
            `datasets.save_to_disk`, a .csv, .tsv or .parquet table, an .npz, or boxes: a COCO .json or the data.yaml of
            YOLO. Otherwise a Source, a data frame, a
            pair (x, y), a Hugging Face data set, or any data set of (input, label) items.
        options: how to open the data.
        **changes: options by name, such as `label_column="species"`.

    Returns:
        Inputs, given labels and what else is known: true labels, test and validation data.

    Example:
        >>> source = open_source(([[0.5, 1.0], [2.0, 3.0]], ["cat", "dog"]))
        >>> source.labels, source.class_names
        (array([0, 1]), ('cat', 'dog'))
    """
    names = [field.name for field in fields(OpenOptions)]
    if strange := [name for name in changes if name not in names]:
        near = difflib.get_close_matches(strange[0], names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise InputError(f"no option {strange[0]!r} for opening data; {hint}")
    options = replace(options or OpenOptions(), **changes)
    source = _open(data, options)
    if options.labels is not None:
        from jnpl.data.label_files import with_labels  # noqa: PLC0415 - only where it is asked for

        source = with_labels(source, Path(options.labels))
    if source.tags is not None:
        return checked_tags(source, merge=options.merge_classes)
    if options.multi_label or options.tag_columns:
        raise InputError(f"{source.name} has one label per sample: multi_label and tag_columns need lists or columns")
    source = with_one_spelling(source, merge=options.merge_classes)
    if len(source.class_names) < 2 and not options.one_class:
        raise InputError(f"{source.name} has 1 class; at least 2 are needed")
    refuse_identifiers(source, data, options)
    return source


def refuse_identifiers(source: Source, data: Any = None, options: OpenOptions | None = None) -> None:
    """Refuse labels of more than 20 samples if more than half of the samples have one of their own."""
    counts, samples = np.bincount(source.labels), len(source)
    if samples <= _FEW_SAMPLES or 2 * np.count_nonzero(counts == 1) <= samples:
        return
    values = np.count_nonzero(counts)
    form, options = _form_of(data), options or OpenOptions()
    if form is None or "label_column" not in form.options or options.labels or options.label_columns:
        many = f"{source.name} has {values:,} different labels for {samples:,} samples"
        raise InputError(f"{many}: they look like identifiers, not classes")
    column = f"label column {options.label_column or 'label'!r} has {values:,} values in {samples:,} rows"
    raise InputError(f"{column}: it looks like an identifier; name another with label_column (--label-column)")


def with_one_spelling(source: Source, *, merge: bool) -> Source:
    """Return the source with one class for each set of names that differ in spelling only, or warn of them."""
    if common := common_spellings(source):
        if merge:
            return with_spellings(source, common)
        _LOG.warning("%s", warning(source, common))
    return source


def open_test(source: Source, test: Any, options: OpenOptions) -> Source:
    """Return a source with test data from elsewhere, opened with the options of the source that suit them."""
    opened = open_source(test, options.for_test(source.encoding, test))
    if options.merge_classes:
        opened = with_spellings(opened, {spelling_key(name): name for name in source.class_names})
    return with_test(source, opened)


def load_new(data: Any, model: ModelInputs) -> dict[str, Any] | None:
    """Load data that need no labels, as `open_new` takes them; None if only `open_source` opens such data."""
    form, loader = _form_of(data), "arrays:new_samples"
    if form is not None:
        loader = form.new
    elif _is_path(data):
        loader = "folder:load_new" if Path(data).exists() else ""
    if not loader:
        return None
    _check_options(data, form, model.options)
    loaded: dict[str, Any] | None = import_loader(loader)(data, model)
    return loaded


def options_taken(data: Any, options: OpenOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults and that data of this form take."""
    form = _form_of(data)
    taken = ("root", "merge_classes", *(() if form is None else form.options))
    return {name: value for name, value in options.changed().items() if name in taken}


def _check_options(data: Any, form: Form | None, options: OpenOptions) -> dict[str, Any]:
    """Return the options that this form takes and that differ from their defaults; others are an InputError."""
    what, taken = f"data of type {type(data).__name__}", tuple[str, ...]()
    if form is not None:
        what, taken = form.title.format(str(data)), form.options
    elif _is_path(data):
        what = repr(str(data))
    changed = {name: value for name, value in options.changed().items() if name not in (*_OF_ALL, "root")}
    if strange := [name for name in changed if name not in (*taken, "embed")]:
        raise InputError(f"{', '.join(strange)} has no meaning for {what}")
    return {name: value for name, value in changed.items() if name in taken}


def _form_of(data: Any) -> Form | None:
    """Return the form of data; None for a Source, and what has no form that is known here."""
    if _is_name(data):
        return Form(data, _is_name, DATASETS[data].loader, DATASETS[data].options)
    return next((form for form in FORMS if form.fits(data)), None)


def _open(data: Any, options: OpenOptions) -> Source:
    form, embed = _form_of(data), options.embed
    if form is None and _is_path(data):
        raise _unknown_path(data)
    taken = _check_options(data, form, options)
    if isinstance(data, Source):
        return _embedded(data, embed)
    if form is None:
        raise InputError(f"data must be a path, a name, a data frame, (x, y) or a data set, not {type(data).__name__}")
    if _is_name(data):
        return _embedded(DATASETS[data].load({**taken, "root": options.root, "seed": options.seed}), embed)
    source: Source = import_loader(form.loader)(data.removeprefix(HUB) if isinstance(data, str) else data, **taken)
    return source if "embed" in taken else _embedded(source, embed)


def _embedded(source: Source, embed: str | Embed | None) -> Source:
    if embed is None:
        return source
    from jnpl.data.sources.user_embedding import embed_with  # noqa: PLC0415 - only where it is asked for

    return embed_with(source, embed)


def _unknown_path(data: str | os.PathLike[str]) -> InputError:
    if Path(data).exists():
        kinds = f"a folder of class folders, one of {', '.join(DATA_SUFFIXES)}, an .npz, or a .json or .yaml of boxes"
        return InputError(f"data is {kinds}, not {str(data)!r}")
    near = difflib.get_close_matches(str(data), DATASETS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    names = f"{', '.join(DATASETS)}, hf:NAME"
    return InputError(f"no such file or folder: {str(data)!r}, and no data set has this name ({names}){hint}")


def _is_name(data: Any) -> bool:
    return isinstance(data, str) and data in DATASETS


def _is_path(data: Any) -> bool:
    return isinstance(data, str | os.PathLike)


def _is_table(data: Any) -> bool:
    if _is_path(data):
        text = os.fspath(data)
        return not text.startswith(HUB) and bool(data_suffix(text)) and not Path(text).is_dir()
    return _comes_from(data, "pandas") and hasattr(data, "columns")


def _is_hub(data: Any) -> bool:
    return data.startswith(HUB) if isinstance(data, str) else _comes_from(data, "datasets")


def _is_saved_dataset(data: Any) -> bool:
    """Whether data is a folder that `datasets.save_to_disk` or `jnpl export --to hf` has written."""
    if not _is_path(data) or not Path(data).is_dir():
        return False
    is_there = [(Path(data) / name).is_file() for name in ("dataset_dict.json", "state.json", "dataset_info.json")]
    return is_there[0] or (is_there[1] and is_there[2])


def _is_folder(data: Any) -> bool:
    return _is_path(data) and Path(data).is_dir()


def _is_boxes(data: Any) -> bool:
    """Whether data is a .json (COCO), a .yaml, or a folder with a data.yaml (YOLO)."""
    if not _is_path(data):
        return False
    path = Path(data)
    return (path.suffix.lower() in (".json", ".yaml", ".yml") and path.is_file()) or (path / "data.yaml").is_file()


def _is_npz(data: Any) -> bool:
    return _is_path(data) and Path(data).suffix.lower() == ".npz" and Path(data).exists()


def _is_pair(data: Any) -> bool:
    return isinstance(data, tuple) and len(data) == 2


def _is_dataset(data: Any) -> bool:
    other = isinstance(data, str | os.PathLike | np.ndarray | Source)
    return not other and hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _comes_from(data: Any, library: str) -> bool:
    """Whether the class of `data`, or a base class of it, is of a library; without importing the library."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(data).__mro__)


class Form(NamedTuple):
    """A form of data: what it fits, and what loads it."""

    title: str  # in error messages; {!r} stands for the data as text
    fits: Callable[[Any], bool]
    loader: str  # "module:function" in `jnpl.data.sources`; every form imports its own libraries only
    options: tuple[str, ...] = ()
    new: str = ""  # what loads data to predict, with or without labels, if it is not the same


FORMS = (  # the first that fits is taken
    Form("a table", _is_table, "table:load", _TABLE, "table:load_new"),
    Form("a Hugging Face data set", _is_hub, "huggingface:load", (*_HUB, "config")),
    Form("the data set {!r}", _is_saved_dataset, "huggingface:load_folder", _HUB),
    Form("the boxes {!r}", _is_boxes, "boxes:load", ("crops", "image_root", "multi_label")),
    Form("the folder {!r}", _is_folder, "folder:load", new="folder:load_new"),
    Form("the .npz {!r}", _is_npz, "arrays:load", new="arrays:load_new"),
    Form("data of type tuple", _is_pair, "arrays:from_pair"),
    Form("a data set of items", _is_dataset, "torch_dataset:from_dataset", new="arrays:new_samples"),
)
