"""Export the findings as a .csv with the columns of cleanlab."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jnpl.findings.findings import Findings
from jnpl.internal.tables import table_writer
from jnpl.outputs.export.findings_table import findings_rows

if TYPE_CHECKING:
    import os

    import pandas as pd

    from jnpl.outputs.export.targets import ExportRequest


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the table of a run; returns the number of rows."""
    return {"rows": write(Findings.load(request.run), request.out)}


def write(findings: Findings, out: str | os.PathLike[str]) -> int:
    """Write `cleanlab_table` as a .csv; returns the number of rows."""
    table = cleanlab_table(findings)
    with table_writer(out, ".csv") as put:
        put(table)
    return len(table)


def cleanlab_table(findings: Findings) -> pd.DataFrame:
    """Return one row per sample in the order of the data, with the columns of CleanLearning and Datalab.

    `label_quality` (CleanLearning) and `label_score` (Datalab) are the same: 0..1, lower is worse. Labels are names,
    as Datalab has them; where they are numbers from 0, CleanLearning.fit takes the frame as it is.
    """
    found = findings_rows(findings)
    named = found.rename(columns={"suggested_label": "predicted_label"})
    named["label_score"] = named["label_quality"]
    return named[["id", "is_label_issue", "label_quality", "label_score", "given_label", "predicted_label"]]
