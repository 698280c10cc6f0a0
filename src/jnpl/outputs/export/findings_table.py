"""Export the findings as one table: .csv, .parquet or .json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.findings.findings import Findings
from jnpl.internal.tables import table_writer

if TYPE_CHECKING:
    import os

    import pandas as pd

    from jnpl.outputs.export.targets import ExportRequest


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the table of a run; returns the number of rows."""
    findings = Findings.load(request.run)
    return {"rows": write(findings, request.out, f".{request.target}", issues=request.issues)}


def write(findings: Findings, out: str | os.PathLike[str], suffix: str, *, issues: bool = False) -> int:
    """Write `findings_rows` as .csv, .parquet or .json, as `suffix` says; returns the number of rows."""
    frame = findings_rows(findings, issues=issues)
    with table_writer(out, suffix) as put:
        put(frame)
    return len(frame)


def findings_rows(findings: Findings, *, issues: bool = False) -> pd.DataFrame:
    """Return `Findings.table` with texts of pandas' type "string"; with `issues`, only those, worst first."""
    frame = findings.table
    if issues:
        order = np.argsort(findings.label_quality, kind="stable")
        frame = frame.iloc[order[findings.is_label_issue[order]]]
    texts = [name for name in frame.columns if frame[name].dtype == object]
    return frame.astype(dict.fromkeys(texts, "string"))
