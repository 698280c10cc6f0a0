"""Export the findings on images as a data set for FiftyOne: `fiftyone.Dataset.from_json(FILE, rel_dir=PHOTOS)`.

The format is what `SampleCollection.write_json` of FiftyOne writes, and needs neither FiftyOne nor its database here.
"""

import json
from typing import Any

from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.internal.tables import json_rows
from jnpl.judging.findings import Findings
from jnpl.outputs.export.findings_table import findings_rows
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.review.reviewed_labels import reviewed_run

_FIELDS = "fiftyone.core.fields."
_CLASSIFICATION = f"{_FIELDS}EmbeddedDocumentField(fiftyone.core.labels.Classification)"
_TAG = "label issue"


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the samples of a run; returns their number."""
    if request.out.suffix.lower() != ".json":
        raise InputError(f"FiftyOne imports .json files, got {str(request.out)!r}")
    made = data_set(reviewed_run(request.run).findings, request.run.path.resolve().name, issues=request.issues)
    write_text(request.out, json.dumps(made, ensure_ascii=False, allow_nan=False, indent=1) + "\n")
    return {"samples": len(made["samples"])}


def data_set(findings: Findings, name: str, *, issues: bool = False) -> dict[str, Any]:
    """Return the data set as FiftyOne's JSON; with `issues`, only the label issues, worst first.

    Paths are those of the findings, relative to the data folder. Label issues have a tag; samples that could not be
    read have no label quality.
    """
    if findings.paths is None:
        raise InputError("FiftyOne shows images: this run's data are no image files")
    return {
        "name": name,
        "media_type": "image",
        "sample_fields": {
            "given_label": _CLASSIFICATION,
            "suggested_label": _CLASSIFICATION,
            "label_quality": f"{_FIELDS}FloatField",
            "is_label_issue": f"{_FIELDS}BooleanField",
        },
        "info": {
            "source": "jnpl",
            "noise_rate": findings.noise_facts["noise_rate"],
            "label_quality": "0..1, lower is worse",
        },
        "samples": [_sample(row) for row in json_rows(findings_rows(findings, issues=issues))],
    }


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "filepath": row["path"],
        "tags": [_TAG] if row["is_label_issue"] else [],
        "given_label": _classification(row["given_label"]),
        "suggested_label": _classification(row["suggested_label"], row["suggested_confidence"]),
        "label_quality": row["label_quality"],
        "is_label_issue": row["is_label_issue"],
    }


def _classification(label: Any, confidence: float | None = None) -> dict[str, Any] | None:
    if label is None:
        return None
    return {"_cls": "Classification", "tags": [], "label": str(label), "confidence": confidence}
