"""Export the findings as one table: .csv, .parquet, .json, or a .csv with the columns of cleanlab."""

from typing import Any

import numpy as np
import pandas as pd

from jnpl.data.tags import separator_for
from jnpl.internal.tables import table_writer
from jnpl.judging.findings import Findings
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.review.reviewed_labels import reviewed_run


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the table of a run; returns the number of rows."""
    findings = reviewed_run(request.run).findings
    if isinstance(findings, TagSetFindings):
        pairs = findings.pair_findings
        frame = pairs.suspects.drop(columns=["position", "is_issue"]) if request.issues else pairs.table
        if request.target == "csv":
            mark = separator_for(pairs.tag_names)
            frame = frame.map(lambda cell: mark.join(cell) if isinstance(cell, list) else cell)
        with table_writer(request.out, f".{request.target}") as put:
            put(frame)
        return {"rows": len(frame)}
    for_cleanlab = request.target == "cleanlab"
    frame = cleanlab_table(findings) if for_cleanlab else findings_rows(findings, issues=request.issues)
    with table_writer(request.out, ".csv" if for_cleanlab else f".{request.target}") as put:
        put(frame)
    return {"rows": len(frame)}


def findings_rows(findings: Findings, *, issues: bool = False) -> pd.DataFrame:
    """Return `Findings.table` with texts of pandas' type "string"; with `issues`, only those, worst first."""
    frame = findings.table
    if issues:
        order = np.argsort(findings.label_quality, kind="stable")
        frame = frame.iloc[order[findings.is_label_issue[order]]]
    texts = [name for name in frame.columns if frame[name].dtype == object]
    return frame.astype(dict.fromkeys(texts, "string"))


def cleanlab_table(findings: Findings) -> pd.DataFrame:
    """Return one row per sample in the order of the data, with the columns of CleanLearning and Datalab.

    `label_quality` (CleanLearning) and `label_score` (Datalab) are the same: 0..1, lower is worse. Labels are names,
    as Datalab has them; where they are numbers from 0, CleanLearning.fit takes the frame as it is.
    """
    named = findings_rows(findings).rename(columns={"suggested_label": "predicted_label"})
    named["label_score"] = named["label_quality"]
    predicted = [findings.names[label] for label in findings.suggested_labels.tolist()]  # the given one where unclear
    named["predicted_label"] = pd.Series(predicted, named.index).astype(named["predicted_label"].dtype)
    return named[["id", "is_label_issue", "label_quality", "label_score", "given_label", "predicted_label"]]
