"""Decisions that people made elsewhere: exports of Label Studio, CVAT and FiftyOne, or a table of one's own."""

from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import numpy.typing as npt

from jnpl.data.label_files import LabelRows, WithoutLabel, read_label_rows
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable, require_text_file
from jnpl.internal.json_files import parse_json

_FIELD = "decision"  # of FiftyOne, where no other is named
_TAGS = {kind.name.lower(): kind for kind in WithoutLabel}  # "drop" and "unsure"


def read_decisions(
    path: Path, ids: npt.NDArray[Any], *, id_column: str = "id", label_column: str | None = None
) -> LabelRows:
    """Return (id, label) rows of a file of decisions; a `WithoutLabel` for samples to drop, or that stay as they are.

    - Label Studio's JSON: the last annotation of each task; a skipped task is unsure. The id is `data.id`, as `jnpl
      export` writes it, else the path in `data`.
    - CVAT for images 1.1 (.xml): the tag of each image.
    - FiftyOne's JSON: a classification field, `decision` unless `label_column` names another; tags drop and unsure.
    - any other .csv, .parquet or .json: a table (`read_label_rows`).

    Args:
        ids: of the samples (N,): paths in an export may have folders before them.
        id_column: of a table.
        label_column: of a table, by default label, or the field of FiftyOne.
    """
    if path.suffix.lower() == ".xml":
        return _as_ids(_from_cvat(path), ids, path)
    content, read = _json(path) if path.suffix.lower() == ".json" else None, None
    if isinstance(content, dict) and isinstance(samples := content.get("samples"), list):
        what, read = "FiftyOne", lambda: _from_fiftyone(samples, label_column or _FIELD, path)
    elif isinstance(content, list) and any(isinstance(task, dict) and "annotations" in task for task in content):
        what, read = "Label Studio", lambda: _from_label_studio(content)
    if read is None:
        return read_label_rows(path, columns=(id_column, label_column or "label"))
    try:
        rows = read()
    except (AttributeError, LookupError, TypeError):  # an entry of another kind
        raise InputError(f"{str(path)!r} cannot be read as an export of {what}: an entry is of another kind") from None
    return _as_ids(rows, ids, path)


def _json(path: Path) -> Any:
    try:
        return parse_json(require_text_file(path).read_text("utf-8-sig"))
    except (OSError, ValueError):  # `read_label_rows` says what is wrong
        return None


def _from_label_studio(tasks: list[Any]) -> LabelRows:
    rows: LabelRows = []
    for task in tasks:
        annotations = [made for made in task.get("annotations") or () if isinstance(made, dict)]
        if not annotations:
            continue
        data, last = task.get("data") or {}, annotations[-1]
        name = data.get("id", next((value for value in data.values() if isinstance(value, str)), ""))
        chosen = [
            label for result in last.get("result") or () for label in (result.get("value") or {}).get("choices") or ()
        ]
        skipped = last.get("was_cancelled") or not chosen
        rows.append((str(name), WithoutLabel.UNSURE if skipped else _only(chosen, name)))
    return rows


def _only(labels: list[Any], name: object) -> Any:
    """Return the label of a sample; several are an InputError."""
    if other := [label for label in labels if label != labels[0]]:
        raise InputError(
            f"the decisions name {name!r} with the labels {labels[0]!r} and {other[0]!r}: a sample has one"
        )
    return labels[0]


def _from_cvat(path: Path) -> LabelRows:
    try:
        root = ET.fromstring(require_text_file(path).read_bytes())  # noqa: S314 - expat refuses exploding entities
    except (OSError, ET.ParseError) as error:
        raise InputError(f"{str(path)!r} cannot be read as an export of CVAT: {error}") from None
    images = [
        (image.get("name", ""), [tag.get("label", "") for tag in image.iter("tag")]) for image in root.iter("image")
    ]
    return [(name, _only(labels, name)) for name, labels in images if labels]


def _from_fiftyone(samples: list[Any], field: str, path: Path) -> LabelRows:
    rows: LabelRows = []
    for sample in samples:
        tag = next((_TAGS[tag] for tag in sample.get("tags") or () if tag in _TAGS), None)
        label = sample.get(field)
        label = label.get("label") if isinstance(label, dict) else label
        if tag is not None or label is not None:
            rows.append((str(sample.get("filepath", "")), label if tag is None else tag))
    if not rows:
        raise InputError(
            f"no sample in {str(path)!r} has a label in the field {field!r}, or the tag drop or unsure; "
            "label_column (--label-column) names the field"
        )
    return rows


def _as_ids(rows: LabelRows, ids: npt.NDArray[Any], path: Path) -> LabelRows:
    """Return rows whose paths are ids: folders before them, and an address in front, are left out."""
    if not rows:
        raise InputError(f"{str(path)!r} has no decisions")
    if strange := [label for _, label in rows if not isinstance(label, str | int | WithoutLabel)]:
        raise InputError(f"{str(path)!r} has a label that is no text: {printable(str(strange[0])[:80])}")
    names = {str(name) for name in ids.tolist()} if len(ids) else set[str]()
    return [(_id_of(name, names), label) for name, label in rows]


def _id_of(name: str, names: set[str]) -> str:
    """Return the id that a path ends with, or the path itself.

    >>> _id_of("/data/local-files/?d=photos/a%20cat/1.jpg", {"a cat/1.jpg"})
    'a cat/1.jpg'
    """
    for text in (name, unquote(name.rsplit("?d=", 1)[-1])):
        parts = text.replace("\\", "/").split("/")
        for start in range(len(parts)):
            if (candidate := "/".join(parts[start:])) in names:
                return candidate
    return name
