"""The data of a run in their own form with corrected labels: a COCO .json, label files of YOLO, or a table of tags."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.options import OpenOptions
from jnpl.data.source import Array, Labels
from jnpl.data.sources.boxes import Boxes, label_file, read_boxes, read_coco_file, read_label_lines, with_class
from jnpl.data.spellings import spelling_key
from jnpl.data.tags import SEPARATORS, YES, separator_for
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable, replacing, write_text
from jnpl.internal.json_files import parse_json
from jnpl.internal.tables import data_suffix, is_missing, load_parquet, load_table, require_columns, save_parquet
from jnpl.outputs.image_folder import new_folder
from jnpl.outputs.output_paths import refuse_target
from jnpl.run_folder import RunFolder

if TYPE_CHECKING:
    from jnpl.outputs.corrections import CorrectedLabels


def same_form_writer(
    run: RunFolder, target: Path | None, *, overwrite: bool
) -> Callable[[CorrectedLabels], int] | None:
    """Return a function that writes the data with corrected labels to `target`, and returns the number of changes.

    The data of the run are opened now, so that a mistake is known before anything is written. Only classes are
    changed; boxes that are left out are removed; everything else stays as it is.
    """
    if target is None:
        return None
    options = run.require_data_facts().options or {}
    opening = OpenOptions.from_json(options)
    path = Path(str(options.get("data")))
    suffix = data_suffix(path)
    if not opening.crops and not (run.has_tags and suffix):
        raise InputError("--same-form is for runs on boxes (--crops) and on tables of several tags per sample")
    if suffix:
        if data_suffix(target) != suffix:
            raise InputError(f"--same-form writes a {suffix} as {str(path)!r} is, got {str(target)!r}")
        refuse_target(target, run, overwrite=overwrite, read=path)
        table = _TagTable(path, opening)
        return lambda corrected: table.write(corrected, target)
    boxes = read_boxes(path, opening.image_root)
    is_coco = path.suffix.lower() == ".json"
    if is_coco:
        if target.suffix.lower() != ".json":
            raise InputError(f"--same-form writes a .json as {str(path)!r} is, got {str(target)!r}")
        refuse_target(target, run, overwrite=overwrite, read=path)

    def write(corrected: CorrectedLabels) -> int:
        changes = _changes(corrected, boxes, opening, path)
        if is_coco:
            _write_coco(path, target, {boxes.places[row]: number for row, number in changes.items()})
        else:
            _write_yolo(boxes, target, changes)
        return len(changes)

    return write


class _TagTable:
    """A table with several tags per row, whose cells of tags can be replaced; the others are written as they are."""

    def __init__(self, path: Path, opening: OpenOptions) -> None:
        self._path, self._columns, self._options = path, list(opening.tag_columns or ()), opening
        self._suffix = data_suffix(path)
        self._frame = load_table(path)  # of a .csv, all cells are texts
        self._list_column = None if self._columns else opening.label_column or "label"
        self._names = self._columns or [str(self._list_column)]
        require_columns(self._frame.columns, self._names, repr(str(path)))

    def write(self, corrected: CorrectedLabels, target: Path) -> int:
        """Write the table without dropped samples, with the tags of changed ones replaced; return their number."""
        rows, kept = self._rows(corrected.findings.ids), set(corrected.rows.tolist())
        cells = {name: self._frame[name].tolist() for name in self._names}
        changed = 0
        for at, is_changed, (before, after) in zip(
            corrected.rows.tolist(), corrected.changed.tolist(), corrected.tags(), strict=True
        ):
            if is_changed:
                changed += 1
                for name, column in cells.items():
                    column[rows[at]] = self._cell(name, column[rows[at]], before, after)
        dropped = [rows[at] for at in range(len(rows)) if at not in kept]
        keep = np.setdiff1d(np.arange(len(self._frame)), dropped)
        if self._suffix == ".parquet":
            self._write_parquet(target, cells, keep)
        else:
            self._write_csv(target, cells, keep)
        return changed + len(dropped)

    def _rows(self, ids: Array) -> list[int]:
        """Return the row of each sample: its number, or that of its path, of which one row after another is taken."""
        if ids.dtype.kind in "iu":
            if int(ids.max()) >= len(self._frame):
                raise InputError(f"{str(self._path)!r} has changed since the run: it has {len(self._frame)} rows now")
            return [int(row) for row in ids]
        names, wanted = ids.tolist(), set(ids.tolist())
        for column in self._frame.columns:
            places: dict[str, list[int]] = {}
            for row, cell in enumerate(self._frame[column].tolist()):
                name = printable(Path(cell).as_posix()) if isinstance(cell, str) and cell else f"row {row}"
                places.setdefault(name, []).append(row)
            if wanted <= places.keys():
                return [places[name].pop(0) if len(places[name]) > 1 else places[name][0] for name in names]
        raise InputError(
            f"{str(self._path)!r} has changed since the run: no column has its samples, such as {names[0]!r}"
        )

    def _cell(self, name: str, old: Any, before: list[str], after: list[str]) -> Any:
        """Return a cell with other tags, in the form of the one that it replaces, or of others of its column."""
        if self._list_column is None:
            has = name in after
            return old if (name in before) == has else self._words[name].get(has, type(old)(has))
        is_list = isinstance(old, list | tuple | np.ndarray)
        is_json = isinstance(old, str) and (old.strip() or self._first_text).startswith("[")
        old_tags = (
            list(old) if is_list else parse_json(old or "[]") if is_json else str(old).split(self._mark.strip() or None)
        )
        keys = {spelling_key(tag): tag for tag in after}
        stay = [tag for tag in old_tags if keys.pop(spelling_key(tag), None) is not None]
        tags = [*stay, *keys.values()]
        if is_json:
            return json.dumps(tags, ensure_ascii=False)
        return tags if is_list else self._mark.join(str(tag).strip() for tag in tags)

    @cached_property
    def _words(self) -> dict[str, dict[bool, Any]]:
        """Column of 0 and 1 -> what stands for yes and for no in it."""
        cells = {name: self._frame[name].unique().tolist() for name in self._columns}
        return {name: {str(cell).strip().casefold() in YES: cell for cell in cells[name]} for name in cells}

    @cached_property
    def _texts(self) -> list[str]:
        return [cell.strip() for cell in self._frame[self._list_column] if isinstance(cell, str) and cell.strip()]

    @property
    def _first_text(self) -> str:
        return next(iter(self._texts), "")

    @cached_property
    def _mark(self) -> str:
        """What stands between two tags in a text, with the spaces around it."""
        for mark in SEPARATORS:
            for text in self._texts:
                if mark in text and (around := re.search(rf"\s*{re.escape(mark)}\s*", text)):
                    return around[0]
        return separator_for(self._texts)

    def _write_csv(self, target: Path, cells: dict[Any, list[Any]], keep: Labels) -> None:
        frame = self._frame.assign(**cells).iloc[keep]
        opened: Any = gzip.open if self._suffix.endswith(".gz") else open
        with replacing(target) as draft, opened(draft, "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if self._suffix.startswith(".tsv") else ",", lineterminator="\n")
            writer.writerow(frame.columns)
            writer.writerows(frame.itertuples(index=False))

    def _write_parquet(self, target: Path, cells: dict[Any, list[Any]], keep: Labels) -> None:
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        table = load_parquet(self._path)
        for name, column in cells.items():
            at = table.schema.get_field_index(name)
            plain = [
                cell.tolist() if isinstance(cell, np.ndarray) else None if is_missing(cell) else cell for cell in column
            ]
            table = table.set_column(at, table.schema.field(at), pa.array(plain, table.schema.field(at).type))
        with replacing(target) as draft:
            save_parquet(draft, table.take(pa.array(keep)))


def _changes(corrected: CorrectedLabels, boxes: Boxes, options: OpenOptions, path: Path) -> dict[int, int | None]:
    """Return row of a box -> its new number, None where it is left out."""
    findings = corrected.findings
    row_of = {name: row for row, name in enumerate(boxes.ids)}
    number_of = {name: number for number, name in boxes.names.items()}
    names, keys = [str(name) for name in findings.names], [spelling_key(name) for name in findings.names]
    new: list[int | None] = [None] * len(findings.ids)
    for at, label in zip(corrected.rows.tolist(), corrected.labels.tolist(), strict=True):
        new[at] = label
    changes = dict[int, int | None]()
    for name, given, label in zip(findings.ids.tolist(), findings.given_labels.tolist(), new, strict=True):
        row = row_of.get(name)
        now = None if row is None else spelling_key(boxes.names[int(boxes.numbers[row])])
        if row is None or (options.labels is None and now != keys[given]):
            raise InputError(f"{str(path)!r} has changed since the run: it has no {names[given]!r} {name!r} now")
        if label is None or keys[label] != now:
            changes[row] = None if label is None else number_of[names[label]]
    return changes


def _write_coco(path: Path, target: Path, changes: dict[int, int | None]) -> None:
    """Write a COCO .json with other categories by annotation id."""
    content = read_coco_file(path)
    kept = [entry for entry in content["annotations"] if changes.get(entry["id"], 0) is not None]
    for entry in kept:
        entry["category_id"] = changes.get(entry["id"], entry["category_id"])
    write_text(target, json.dumps(content | {"annotations": kept}, ensure_ascii=False) + "\n")


def _write_yolo(boxes: Boxes, target: Path, changes: dict[int, int | None]) -> None:
    """Write a folder with all label files, in folders as in the data."""
    files = [Path(os.path.abspath(label_file(boxes.root, image))) for image in boxes.images]  # noqa: PTH100
    base = Path(os.path.commonpath([os.path.abspath(boxes.root), *files]))  # noqa: PTH100
    by_image: dict[int, dict[int, int | None]] = {}
    for row, number in changes.items():
        by_image.setdefault(int(boxes.image_of[row]), {})[boxes.places[row]] = number
    with new_folder(target) as draft:
        for image, file in enumerate(files):
            if (lines := read_label_lines(file)) is None:
                continue
            for place, number in by_image.get(image, {}).items():
                lines[place - 1] = b"" if number is None else with_class(lines[place - 1], number)
            copy = draft / file.relative_to(base)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(b"".join(lines))
