"""Export tasks for Label Studio, with the suggested label as a prediction, and the labelling interface for them.

The format is that of https://labelstud.io/guide/predictions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import pandas as pd

from jnpl.data.sources.table import read
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing, write_text
from jnpl.internal.tables import json_rows
from jnpl.internal.terminal import visible
from jnpl.judging.findings import Findings
from jnpl.outputs.export.findings_table import findings_rows
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.output_paths import refuse_target
from jnpl.outputs.review.reviewed_labels import reviewed_run

LOCAL_FILES = "/data/local-files/?d="  # how Label Studio reaches files below its LOCAL_FILES_DOCUMENT_ROOT
MODEL_VERSION = "jnpl"
_FACTS = ("given_label", "label_quality", "is_label_issue")  # beside the sample, to sort and filter by


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the tasks of a run; returns their number and the path of the labelling interface."""
    refuse_target(config_of(request.out), request.run, overwrite=request.overwrite)
    findings = reviewed_run(request.run).findings
    table = None if request.data is None else read(Path(request.data))
    return write(findings, request.out, image_prefix=request.image_prefix, table=table, issues=request.issues)


def write(
    findings: Findings,
    out: Path,
    *,
    image_prefix: str | None = None,
    table: pd.DataFrame | None = None,
    issues: bool = False,
) -> dict[str, Any]:
    """Write the tasks (.json) and, beside them, the labelling interface (.config.xml).

    Images are `image_prefix` and their path, quoted as in an address. Rows have a text: their cells in `table`, the
    data's own, which may have more rows than the run saw; else their id. Samples that could not be read are left out.
    """
    if out.suffix.lower() != ".json":
        raise InputError(f"Label Studio imports .json files, got {str(out)!r}")
    if table is not None:
        _refuse_table(findings, table)
    config, count = config_of(out), 0
    prefix = LOCAL_FILES if image_prefix is None else image_prefix
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for task in tasks(findings, prefix, table, issues=issues):
            file.write((",\n" if count else "[\n") + json.dumps(task, ensure_ascii=False, allow_nan=False))
            count += 1
        file.write("\n]\n" if count else "[]\n")
    write_text(config, interface(findings))
    return {"tasks": count, "config": str(config)}


def config_of(out: Path) -> Path:
    """Return the path of the labelling interface for the tasks in `out`."""
    return out.with_suffix(".config.xml")


def tasks(
    findings: Findings, prefix: str, table: pd.DataFrame | None = None, *, issues: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield a task per sample; with `issues`, only the label issues, worst first."""
    frame = findings_rows(findings, issues=issues)
    if findings.unreadable is not None:
        frame = frame[~findings.unreadable[frame.index.to_numpy()]]
    for position, row in zip(frame.index.tolist(), json_rows(frame), strict=True):
        name = "text" if findings.paths is None else "image"
        if findings.paths is not None:
            shown = prefix + quote(Path(row["path"]).as_posix().lstrip("/"), safe="/")
        elif table is None:
            shown = f"sample {row['id']}"
        else:  # ids are row numbers of the data, of which the run may hold a part, or names
            cells = table.iloc[row["id"] if findings.ids.dtype.kind in "iu" else position]
            shown = "\n".join(f"{column}: {cell}" for column, cell in cells.items())
            shown = str(cells.iloc[0]) if len(cells) == 1 else shown
        task: dict[str, Any] = {"data": {name: shown, "id": str(row["id"]), **{key: row[key] for key in _FACTS}}}
        if row["suggested_confidence"] is not None:
            result = [choice(findings, str(position), row["suggested_label"])]
            prediction = {"model_version": MODEL_VERSION, "score": row["label_quality"], "result": result}
            task["predictions"] = [prediction]
        yield task


def choice(findings: Findings, name: str, label: object) -> dict[str, Any]:
    """Return the choice of a label, as predictions and annotations hold it."""
    return {
        "id": f"{MODEL_VERSION}-{name}",
        "type": "choices",
        "from_name": "label",
        "to_name": "text" if findings.paths is None else "image",
        "value": {"choices": [visible(label)]},
    }


def interface(findings: Findings) -> str:
    """Return the labelling interface of the tasks as XML: the sample, its given label, and the classes.

    XML cannot hold control characters: in names of classes, here and in the tasks, they are escaped.
    """
    sample = '<Image name="image" value="$image"/>'
    if findings.paths is None:
        sample = '<Text name="text" value="$text"/>'
    name = "text" if findings.paths is None else "image"
    choices = "".join(f"    <Choice value={quoteattr(visible(label))}/>\n" for label in findings.names)
    return (
        f'<View>\n  <Header value="given label: $given_label"/>\n  {sample}\n'
        f'  <Choices name="label" toName="{name}" choice="single" showInLine="true">\n{choices}  </Choices>\n</View>\n'
    )


def _refuse_table(findings: Findings, table: pd.DataFrame) -> None:
    if findings.ids.dtype.kind not in "iu":
        if len(table) != len(findings.ids):
            raise InputError(f"the table has {len(table)} rows, but the run's data {len(findings.ids)}")
        return
    low, high = int(findings.ids.min()), int(findings.ids.max())
    if low < 0 or high >= len(table):
        raise InputError(f"the table has {len(table)} rows, but the run's are {low} to {high} (counted from 0)")
