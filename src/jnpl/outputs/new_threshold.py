"""Another threshold for a finished run: its label issues are chosen anew, without training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from jnpl.findings.findings import Findings
from jnpl.internal.files import write_text

if TYPE_CHECKING:
    from pathlib import Path


def choose_issues(run: Path, threshold: str) -> int:
    """Replace the findings of a run by those with another threshold; return the number of label issues.

    Args:
        run: the folder of a finished run.
        threshold: a number, or a rule of `Findings.from_probs`.

    Returns:
        How many labels are issues now. The count in run.json follows.
    """
    try:
        value: float | str = float(threshold)
    except ValueError:
        value = threshold
    findings = Findings.load(run).with_threshold(value)
    findings.save(run)
    issues = int(findings.is_label_issue.sum())
    file = run / "run.json"
    if file.is_file():
        facts = json.loads(file.read_text("utf-8"))
        if facts.get("results"):
            facts["results"] |= {"issues": issues, "noise_rate": findings.noise_rate}
            write_text(file, json.dumps(facts, indent=1) + "\n")
    return issues
