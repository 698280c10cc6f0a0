"""Options for opening data: which columns of a table hold what, and which labels and samples of a named data set."""

# No `from __future__ import annotations`: pydantic reads the types of the fields at run time.
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from jnpl.data.source import Kind
from jnpl.internal.errors import InputError
from jnpl.internal.tables import data_suffix

_STORED_AS = {
    "root": "data_root",
    "feature_columns": "feature_column",
    "group_columns": "group_column",
}  # in data.json, as on the command line
_Options = TypeVar("_Options")
_PATHS = ("root", "image_root", "labels")


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """How to open data: the options of `jnpl.data.opening.open_source`, with or without labels in the data.

    Attributes:
        root: folder of the named data sets.
        image_column: tables and the hub: the column of images, or of their paths.
        label_column: tables and the hub: the column of given labels.
        label_columns: tables: columns of labels by several annotators, in place of `label_column`; cells may be empty.
        tag_columns: tables: columns of 0 and 1, one for each tag, in place of `label_column`.
        multi_label: a sample may have several tags: the labels are lists, such as "cat;dog".
        true_label_column: tables and the hub: the column of true labels.
        feature_columns: tables and the hub: the columns to learn from.
        exclude: tables and the hub: the columns that are not learnt from.
        group_columns: tables: columns that group the samples, such as annotator or date; they are not learnt from.
        embedding_column: tables and the hub: the column of vectors.
        text_column: tables and the hub: the column of texts.
        embed: the function that turns texts or images into vectors, or its place as "module:function"; None: they stay
            as they are, for a backbone.
        encoding: tables: how another table's columns became features (`Source.encoding`), to do the same here.
        image_root: tables and COCO: the folder that image paths are relative to.
        crops: COCO and YOLO: take each box as a sample.
        skip_unlabelled: tables: leave out rows without a label.
        merge_classes: make one class of those that differ only in case, blanks or Unicode form.
        one_class: accept data of a single class, for a run that knows others.
        labels: a file of given labels, as `jnpl apply` and `jnpl corrupt` write it, in place of the data's own.
        noise: cifar10n and cifar100n: which of the human labels.
        config: the hub: the configuration of the data set.
        val_size: CIFAR: number of training images to hold out for validation.
        coarse: cifar100: use the 20 super-classes.
        balanced: clothing1m: keep equally many samples of each class.
        seed: of the split of digits and of the choice of `balanced`.

    Example:
        >>> options = OpenOptions(label_column="species", image_root="/photos")
        >>> OpenOptions.from_json(options.to_json()) == options
        True
    """

    __pydantic_config__ = ConfigDict(arbitrary_types_allowed=True)

    root: str | os.PathLike[str] | None = None
    image_column: str | None = None
    label_column: str | None = None
    label_columns: Sequence[str] | None = None
    tag_columns: Sequence[str] | None = None
    multi_label: bool = False
    true_label_column: str | None = None
    feature_columns: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    group_columns: Sequence[str] | None = None
    embedding_column: str | None = None
    text_column: str | None = None
    embed: str | Callable[[list[Any]], Any] | None = None
    encoding: dict[str, Any] | None = None
    image_root: str | os.PathLike[str] | None = None
    crops: bool = False
    skip_unlabelled: bool = False
    merge_classes: bool = False
    one_class: bool = False
    labels: str | os.PathLike[str] | None = None
    noise: str | None = None
    config: str | None = None
    val_size: int = 0
    coarse: bool = False
    balanced: bool = False
    seed: int = 0

    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {
            name: value
            for name, (value, default) in values.items()
            if value is not default and not (name == "exclude" and len(value) == 0)
        }

    def columns(self) -> list[str]:
        """Return the names of the columns that the options name."""
        single = (self.image_column, self.embedding_column, self.text_column, self.label_column, self.true_label_column)
        several = [
            *(self.feature_columns or self.exclude or ()),
            *(self.group_columns or ()),
            *(self.label_columns or ()),
            *(self.tag_columns or ()),
        ]
        return [*several, *(column for column in single if column is not None)]

    def for_test(self, encoding: dict[str, Any] | None, test: Any) -> "OpenOptions":
        """Return the options that test data share with other data, whose columns became features by `encoding`."""
        of_data = {"true_label_column", "labels", "noise", "config", "val_size", "coarse", "balanced", "seed"}
        defaults: dict[str, Any] = {field.name: field.default for field in fields(self) if field.name in of_data}
        shared = replace(self, **defaults)
        is_table = hasattr(test, "columns") or (isinstance(test, str | os.PathLike) and bool(data_suffix(test)))
        if encoding is None or not is_table:
            return shared
        return replace(shared, feature_columns=None, exclude=None, encoding=encoding)

    def to_json(self) -> dict[str, Any]:
        """Return the options as entries of data.json, with absolute paths; `from_json` reads them."""
        if callable(self.embed):
            raise InputError("a function that embeds cannot be stored; name it as module:function")
        stored: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _PATHS and value is not None:
                value = os.path.abspath(value)  # noqa: PTH100 - keeps a symbolic link of the user
            stored[_STORED_AS.get(field.name, field.name)] = value
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "OpenOptions":
        """Return the options that `to_json` wrote; a value of another type is an InputError."""
        names = {field.name: _STORED_AS.get(field.name, field.name) for field in fields(cls)}
        values = {name: stored[place] for name, place in names.items() if stored.get(place, []) != []}
        for several in ("label_columns", "tag_columns"):
            if isinstance(columns := values.get(several), str):  # of the command line
                values[several] = [column.strip() for column in columns.split(",")]
        return read_options(cls, values)


@dataclass(frozen=True)
class ModelInputs:
    """What a trained model takes, and how to open data to predict for it: these need no labels."""

    classes: tuple[Any, ...]
    kind: Kind
    encoding: dict[str, Any] | None
    options: OpenOptions
    part: str | None
    several: bool

    def refuse_part(self, what: str) -> None:
        """Refuse the name of a part for data that have none."""
        if self.part is not None:
            raise InputError(f"part={self.part!r} has no meaning for {what}")


def read_options(kind: type[_Options], stored: Mapping[str, Any]) -> _Options:
    """Return a dataclass of options from data.json, without other names; a value of another type is an InputError."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    try:
        return TypeAdapter(kind).validate_python({name: value for name, value in stored.items() if name in names})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"the options in data.json cannot be used: {name}: {first['msg']}") from None
