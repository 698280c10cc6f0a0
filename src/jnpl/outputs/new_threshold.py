"""Another threshold for a finished run: its label issues are chosen anew, without training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.internal.json_files import read_json
from jnpl.judging.findings import Findings
from jnpl.run_folder import RunFolder

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
    Findings.load(run)  # a folder without findings is an error before a lock is put into it
    with RunFolder(run).held():
        facts = _run_facts(run)
        findings = Findings.load(run).with_threshold(value)
        findings.save(run)
        issues = int(findings.is_label_issue.sum())
        if facts.get("results"):
            facts["results"].pop("relabel_accuracy", None)  # of the issues before
            facts["results"] |= {"issues": issues, "noise_rate": findings.noise_rate}
            write_text(run / "run.json", json.dumps(facts, indent=1) + "\n")
    return issues


def _run_facts(run: Path) -> dict[str, Any]:
    """Return run.json; empty if there is none, as beside findings that were saved alone."""
    file = run / "run.json"
    if not file.exists():
        return {}
    try:
        facts = read_json(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{str(file)!r} cannot be read: {error}") from error
    if not isinstance(facts, dict) or not isinstance(facts.get("results") or {}, dict):
        raise InputError(f"{str(file)!r} cannot be used: it is not that of a run")
    return facts
