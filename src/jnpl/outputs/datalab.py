"""The findings as an issue type of cleanlab's Datalab, beside its own: outliers, near duplicates and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

if TYPE_CHECKING:
    from jnpl.judging.findings import Findings

ISSUE_NAME = "jnpl_label"


def add_to_datalab(lab: Any, findings: Findings) -> None:
    """Add the label issues of the findings to a Datalab, as issue type `jnpl_label`.

    `lab.get_issues("jnpl_label")` then has `is_jnpl_label_issue` and `jnpl_label_score`, the label quality (0 where a
    sample could not be read), and `lab.report()` shows them.

    Args:
        lab: a `cleanlab.Datalab` of the same samples in the same order.
        findings: one row per sample.
    """
    require("cleanlab", "bench")
    count = len(lab.data)
    if count != len(findings.ids):
        raise InputError(f"the Datalab has {count} samples, but the findings have {len(findings.ids)}")
    _register()
    lab.find_issues(issue_types={ISSUE_NAME: {"findings": findings}})


def _register() -> None:
    """Make the issue type known to cleanlab; its classes can be imported only where it is installed."""
    import pandas as pd  # noqa: PLC0415 (slow to import)
    from cleanlab.datalab.internal.issue_manager import IssueManager  # noqa: PLC0415 (an extra)
    from cleanlab.datalab.internal.issue_manager_factory import REGISTRY, register  # noqa: PLC0415
    from cleanlab.datalab.internal.task import Task  # noqa: PLC0415

    if ISSUE_NAME in REGISTRY[Task.CLASSIFICATION]:
        return

    class JNPLLabelIssueManager(IssueManager):  # type: ignore[misc, unused-ignore]
        """Label issues by jnpl: one training on all data, without cross-validation."""

        description = "Examples whose given label is probably wrong, according to jnpl."
        issue_name = ISSUE_NAME
        verbosity_levels: ClassVar[dict[int, list[str]]] = {0: [], 1: [], 2: [], 3: []}

        def find_issues(self, findings: Findings, **_: Any) -> None:
            """Fill the columns of the issue type."""
            quality = np.nan_to_num(findings.label_quality, nan=0.0)
            columns = {f"is_{ISSUE_NAME}_issue": findings.is_label_issue, f"{ISSUE_NAME}_score": quality}
            self.issues = pd.DataFrame(columns)
            self.summary = self.make_summary(score=float(quality.mean()))
            self.info = {"noise_rate": findings.noise_rate}

    register(JNPLLabelIssueManager, task="classification")
