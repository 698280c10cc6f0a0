"""Label issues as an issue type of cleanlab's Datalab."""

from __future__ import annotations

import numpy as np
import pytest

from jnpl import Findings
from jnpl.internal.errors import InputError
from jnpl.outputs.datalab import add_to_datalab

cleanlab = pytest.importorskip("cleanlab", reason="cleanlab is not installed: it comes with the extra `bench`")
pytestmark = pytest.mark.filterwarnings("ignore")  # cleanlab's own
PROBS = [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]] * 4
LABELS = [0, 0, 1] * 4


def make(count=12):
    names = np.array(["cat", "dog"])
    return cleanlab.Datalab({"label": names[LABELS[:count]].tolist()}, label_name="label", verbosity=0)


def test_our_label_quality_is_an_issue_column(capsys):
    lab, findings = make(), Findings.from_probs(PROBS, LABELS, class_names=["cat", "dog"])
    add_to_datalab(lab, findings)
    found = lab.get_issues("jnpl_label")
    assert found["is_jnpl_label_issue"].tolist() == findings.is_label_issue.tolist()
    np.testing.assert_allclose(found["jnpl_label_score"], findings.label_quality)
    assert {"is_jnpl_label_issue", "jnpl_label_score"} <= set(lab.get_issues().columns)
    row = lab.get_issue_summary("jnpl_label").iloc[0]
    assert row["num_issues"] == 8
    lab.report(verbosity=0)
    assert "jnpl_label" in capsys.readouterr().out


def test_it_stands_beside_the_issues_of_cleanlab():
    lab, findings = make(), Findings.from_probs(PROBS, LABELS)
    lab.find_issues(pred_probs=np.array(PROBS), issue_types={"label": {}})
    add_to_datalab(lab, findings)
    add_to_datalab(lab, findings)  # again: the same
    assert {"is_label_issue", "is_jnpl_label_issue"} <= set(lab.get_issues().columns)


def test_other_samples_are_refused():
    with pytest.raises(InputError, match="Datalab has 9 samples, but the findings have 12"):
        add_to_datalab(make(9), Findings.from_probs(PROBS, LABELS))
