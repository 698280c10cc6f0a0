"""An audit in progress: what is drawn, stored, undone, extended, and how the run follows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.runs import many_findings

from jnpl import Findings
from jnpl.internal.errors import InputError
from jnpl.judging.audit import UNSURE_LABEL, WRONG_LABEL
from jnpl.outputs.audit_session import AuditSession
from jnpl.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    """A run folder without a training: 300 samples, 4 classes, a quarter of the labels wrong."""
    run = RunFolder(tmp_path / "run")
    many_findings(300, 4, 0.25, threshold="auto").save(run.path)
    results = {"issues": 1, "noise_rate": 0.5, "samples": 300, "classes": 4}
    run.path.joinpath("run.json").write_text(
        json.dumps({"format": "jnpl run 1", "status": "finished", "results": results})
    )
    return run


def right_labels(run):
    """What a person answers, who knows that a quality below 1/2 means a wrong label."""
    findings = run.model_findings
    wrong = findings.label_quality < 0.5
    return np.where(wrong, findings.suggested_labels, findings.given_labels), wrong


def check(session, count):
    truth, _ = right_labels(session.run)
    facts = session.facts()
    waiting = [at for at in facts.positions if at not in facts.labels][:count]
    return session.answer([(at, int(truth[at])) for at in waiting], "Ann")


def test_an_audit_resumes_and_replaces_what_the_run_says(folder):
    before = folder.findings
    check(AuditSession(folder, 40), 25)
    session = AuditSession(RunFolder(folder.path))  # another process
    assert (len(session.facts().positions), session.result()["answered"]) == (40, 25)
    check(session, 15)
    session.apply()
    result, after = session.result(), Findings.load(folder.path)
    low, high = after.noise_interval
    assert low <= right_labels(folder)[1].mean() <= high
    assert (result["noise_rate"], result["noise_interval"]) == (after.noise_rate, [low, high])
    assert "from 40 labels checked at random" in result["noise_sentence"]
    assert sum(each["checked"] for each in result["by_class"]) == 40
    stored = RunFolder(folder.path).run_facts.results
    assert stored.noise_rate == after.noise_rate
    assert RunFolder(folder.path).model_findings == before
    assert result["more_to_halve"] > 40


def test_undo_takes_answers_back_one_by_one_and_without_any_the_estimate_of_the_run_returns(folder):
    before = folder.findings
    session = AuditSession(folder, 10)
    check(session, 2)
    session.apply()
    assert folder.findings != before
    session.undo()
    assert len(session.undo().answers) == len(session.undo().answers) == 0
    session.apply()
    assert folder.findings == before


def test_more_labels_follow_those_that_were_drawn(folder):
    session = AuditSession(folder, 10)
    first = check(session, 10)
    session.apply()  # which changes the qualities, but not those that labels are drawn by
    more = session.extend(15)
    assert more.positions[:10] == first.positions
    assert (len(more.positions), len(more.labels)) == (25, 10)
    assert len(AuditSession(folder, 5).facts().positions) == 25


def test_a_new_threshold_and_a_new_training_keep_the_audit(folder):
    session = AuditSession(folder, 30)
    check(session, 30)
    session.apply()
    rate = folder.findings.noise_rate
    assert folder.change_threshold("budget=7") == 7
    assert folder.findings.noise_rate == rate
    session.apply()
    assert folder.findings.is_label_issue.sum() == 7
    trained = many_findings(300, 4, 0.25, threshold="auto")
    folder.save_findings(replace(trained, label_quality=trained.label_quality**2))
    assert folder.findings.noise.checked == 30
    assert Findings.load(folder.path).noise.checked == 30


@pytest.mark.parametrize(("position", "label"), [(-1, 0), (0, 4), (0, -3)])
def test_answers_that_cannot_be_are_refused(folder, position, label):
    session = AuditSession(folder, 3)
    at = next(at for at in range(300) if at not in session.facts().positions) if position < 0 else 0
    place = at if position < 0 else session.facts().positions[0]
    with pytest.raises(InputError, match="not one of the 3 to check" if position < 0 else "0 to 3"):
        session.answer([(place, label)], "Ann")
    assert not session.facts().answers


def test_all_unsure_is_no_result(folder):
    session = AuditSession(folder, 3)
    session.answer([(at, UNSURE_LABEL) for at in session.facts().positions], "Ann")
    session.apply()
    assert session.result() == {
        "run": str(folder.path),
        "drawn": 3,
        "answered": 3,
        "checked": 0,
        "wrong": 0,
        "unsure": 3,
    }
    session.answer([(session.facts().positions[0], WRONG_LABEL)], "Ann")
    assert session.result()["noise_rate"] == 1


@pytest.mark.parametrize(
    "change",
    [{"fingerprint": "other"}, {"positions": [1, 1, 2]}, {"positions": [0, 1, 300]}, {"part": [0, 1, 9]}, {"part": []}],
)
def test_an_audit_of_other_labels_is_refused(folder, change):
    facts = AuditSession(folder, 3).facts()
    folder.write_audit(facts.model_copy(update=change))
    with pytest.raises(InputError, match=r"about other labels|what no audit of these labels does"):
        AuditSession(folder).facts()


def test_named_labels_are_decided_and_decided_ones_are_not_drawn(folder):
    truth, wrong = right_labels(folder)
    session = AuditSession(folder, 30)
    first, second, third, *_ = [at for at in session.facts().positions if wrong[at]]
    session.answer([(first, int(truth[first])), (second, WRONG_LABEL), (third, UNSURE_LABEL)], "Ann")
    session.apply()
    after = RunFolder(folder.path).findings
    assert np.flatnonzero(after.is_decided).tolist() == [first]
    assert after.decided_labels[first] == truth[first]
    assert not after.is_label_issue[first]
    assert after.is_label_issue[second]  # wrong, nobody knows what it is
    decided = Findings.load(folder.path / "before-audit").with_decisions(np.where(np.arange(300) < 100, truth, -1))
    assert (decided.audit_sample(300) >= 100).all()
    checked = {int(at): int(truth[at]) for at in decided.audit_sample(200)}
    assert decided.audited(checked).noise_rate == pytest.approx((truth != decided.given_labels).mean())  # all are known
