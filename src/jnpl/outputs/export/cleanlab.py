"""Findings with the columns that cleanlab's users know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jnpl.findings.findings import Findings
from jnpl.internal.tables import table_writer
from jnpl.outputs.export.findings import rows

if TYPE_CHECKING:
    import os

    import pandas as pd

    from jnpl.outputs.export.registry import ExportRequest


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the table of a run's findings with cleanlab's columns."""
    return {"rows": write(Findings.load(request.run), request.out)}


def write(findings: Findings, out: str | os.PathLike[str]) -> int:
    """Write `frame` as a .csv; returns how many rows."""
    table = frame(findings)
    with table_writer(out, ".csv") as put:
        put(table)
    return len(table)


def frame(findings: Findings) -> pd.DataFrame:
    """One row per sample in the order of the data, columns as CleanLearning's and Datalab's label issues have them.

    `label_quality` (CleanLearning) and `label_score` (Datalab) are the same: 0..1, lower is worse. Labels are names,
    as Datalab has them; where they are numbers from 0, CleanLearning.fit takes the frame as it is.
    """
    found = rows(findings)
    named = found.rename(columns={"suggested_label": "predicted_label"})
    named["label_score"] = named["label_quality"]
    return named[["id", "is_label_issue", "label_quality", "label_score", "given_label", "predicted_label"]]
