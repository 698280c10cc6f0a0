import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from tests.helpers.checked import bad_batch, frame

from jnpl.api.check import check_data
from jnpl.internal.errors import InputError
from jnpl.outputs import gate
from jnpl.training.reporting import Reporter


@pytest.fixture(scope="module")
def batch(checked_run):
    return check_data(checked_run, bad_batch(), None, {}, report=Reporter(verbose=False))


def test_every_reason_is_told(batch):
    told = gate.reasons(batch, 0.02, ("new-issues", "leaks", "unknown-classes", "shift"))
    assert len(told) == 5
    assert "above 2%" in told[0]
    assert "labels are very unlikely to be right, first" in told[1]
    assert "5 samples are the same" in told[2]
    assert "the class dog (10 samples)" in told[3]
    assert gate.reasons(batch, 0.9, ()) == []


def test_a_clean_batch_passes(checked_run):
    clean = check_data(checked_run, frame(300, 0.0, 5).drop(columns="true"), None, {}, report=Reporter(verbose=False))
    assert gate.reasons(clean, 0.02, ("new-issues", "leaks", "unknown-classes")) == []


def test_issues_in_the_baseline_pass(batch, tmp_path):
    issues = [at for at in gate.new_issues(batch).tolist() if at in batch.facts["alarming"]]
    assert len(issues) > 50
    file = tmp_path / "issues.json"
    file.write_text(json.dumps({"suspects": [{"id": at} for at in issues]}))
    known = gate.read_baseline(file)
    assert gate.reasons(batch, 0.2, ("new-issues",), known) == []
    file.write_text(json.dumps({"suspects": [{"id": at} for at in issues[1:]]}))
    told = gate.reasons(batch, None, ("new-issues",), gate.read_baseline(file))
    assert told == [f"1 label is very unlikely to be right and not in the baseline, first {issues[0]}"]
    file.write_text("[]")
    with pytest.raises(InputError, match="output of an earlier"):
        gate.read_baseline(file)


@pytest.mark.parametrize("text", ["two", "-1%", "100%", "nan"])
def test_a_share_that_is_none(text):
    with pytest.raises(InputError, match=r"such as 2% or 0\.02"):
        gate.parse_share(text)


def test_names_of_signals():
    assert gate.parse_signals("leaks, shift") == ["leaks", "shift"]
    with pytest.raises(InputError, match="got 'leak'"):
        gate.parse_signals("leak")


def test_junit(batch, tmp_path):
    gate.write_junit(tmp_path / "junit.xml", batch, ["too many"], {"100"})
    suite = ET.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    cases = suite.findall("testcase")
    assert cases[0].get("name") == "gate"
    assert cases[0].find("failure").get("message") == "too many"
    assert int(suite.get("tests")) == len(cases)
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
    assert "100" not in {case.get("name") for case in cases}
    assert {"jnpl.check.wrong-label", "jnpl.check.unknown-class"} <= {case.get("classname") for case in cases}
    gate.write_junit(tmp_path / "junit.xml", batch, [])
    assert ET.parse(tmp_path / "junit.xml").getroot().find("testsuite/testcase/failure") is not None


def test_sarif(batch, tmp_path):
    gate.write_sarif(tmp_path / "check.sarif", batch, "data/new rows.csv", {"100"})
    log = json.loads((tmp_path / "check.sarif").read_text())
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in ("warning", "note")
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "data/new%20rows.csv"
    copy = next(result for result in run["results"] if result["partialFingerprints"]["jnplSample/v1"].endswith(":100"))
    assert copy["locations"][0]["physicalLocation"]["region"] == {"startLine": 102}
    assert copy["baselineState"] == "unchanged"


def test_sarif_names_files_from_the_working_directory(batch, tmp_path, monkeypatch):
    names = np.array([f"ant/{at}.png" for at in batch.findings.ids], object)
    findings = replace(batch.findings, ids=names, paths=names)
    facts = {**batch.facts, "copies": [], "far": []}
    for here, root, start in (
        (tmp_path, tmp_path / "new photos", "new%20photos/ant/"),
        (tmp_path / "new photos", tmp_path / "new photos", "ant/"),
        (tmp_path / "elsewhere", tmp_path / "new photos", "file:///"),
        (tmp_path / "elsewhere", "../new photos", "file:///"),
        (tmp_path / "elsewhere", "../elsewhere/new", "new/ant/"),
    ):
        here.mkdir(exist_ok=True)
        monkeypatch.chdir(here)
        source = replace(batch.data.source, root=str(root))
        photos = replace(batch, findings=findings, facts=facts, data=batch.data._replace(source=source))
        gate.write_sarif(tmp_path / "check.sarif", photos, "new photos")
        results = json.loads((tmp_path / "check.sarif").read_text())["runs"][0]["results"]
        assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith(start)


@pytest.mark.parametrize(("kind", "write"), [("sarif", gate.write_sarif), ("junit", gate.write_junit)])
def test_what_was_written_before_and_empty_files_may_be_replaced(kind, write, batch, tmp_path):
    file = tmp_path / "check"
    gate.refuse_other_file(file, kind)
    file.touch()
    gate.refuse_other_file(file, kind)
    write(file, batch, [] if kind == "junit" else "data.csv")
    gate.refuse_other_file(file, kind)


def test_what_cannot_be_told_does_not_pass(batch):
    signals = {name: line for name, line in batch.signals.items() if name == "leaks"}  # a column tells the label, say
    alone = replace(batch, facts={**batch.facts, "compared": False, "signals": signals})
    assert len(gate.reasons(alone, None, ("new-issues",))) == 1
    assert gate.reasons(alone, None, ("leaks",)) == [signals["leaks"]]
    for name in ("unknown-classes", "shift"):
        with pytest.raises(InputError, match=f"--fail-on {name} cannot be told by the run .* keeps no vectors"):
            gate.reasons(alone, None, (name,))
