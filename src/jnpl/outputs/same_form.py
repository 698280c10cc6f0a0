"""The data of a run in their own form with corrected labels: a COCO .json, or the label files of YOLO."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.data.options import OpenOptions
from jnpl.data.sources.boxes import label_file, read_boxes, read_coco_file, read_label_lines, with_class
from jnpl.data.spellings import spelling_key
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.outputs.image_folder import new_folder
from jnpl.outputs.output_paths import refuse_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from jnpl.data.sources.boxes import Boxes
    from jnpl.outputs.corrections import CorrectedLabels
    from jnpl.run_folder import RunFolder


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
    if not opening.crops:
        raise InputError("--same-form is for runs on boxes (--crops)")
    path = Path(str(options.get("data")))
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
