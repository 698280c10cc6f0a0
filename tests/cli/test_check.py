import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.checked import bad_batch, frame
from tests.helpers.command import jnpl

yaml = pytest.importorskip("yaml", reason="PyYAML is in the group `docs`")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two new tables: good.csv and bad.csv."""
    folder = tmp_path_factory.mktemp("tables")
    frame(300, 0.0, 5).drop(columns="true").to_csv(folder / "good.csv", index=False)
    bad_batch().to_csv(folder / "bad.csv", index=False)
    return folder


def test_the_gate_fails_with_3_and_says_why(capsys, checked_run, tables, tmp_path):
    files = ("--junit", str(tmp_path / "j.xml"), "--sarif", str(tmp_path / "s.json"))
    told = ("--fail-above", "2%", "--fail-on", "leaks,unknown-classes")
    code, out, err = jnpl(capsys, "check", str(checked_run), str(tables / "bad.csv"), "--json", *told, *files)
    facts = json.loads(out)
    assert code == 3
    assert len(facts["failed"]) == 3
    assert err.count("the gate failed: ") == 1
    assert (tmp_path / "j.xml").is_file()
    assert (tmp_path / "s.json").is_file()
    assert facts["samples"] == 300
    assert facts["noise_interval"][0] > 0.02
    (tmp_path / "known.json").write_text(out)
    known = ("--baseline", str(tmp_path / "known.json"), "--fail-on", "new-issues")
    code, _, err = jnpl(capsys, "check", str(checked_run), str(tables / "bad.csv"), *known)
    assert (code, err) == (0, "")


def test_good_labels_pass(capsys, checked_run, tables):
    code, out, err = jnpl(capsys, "check", str(checked_run), str(tables / "good.csv"), "--fail-above", "2%")
    assert (code, err) == (0, "")
    assert "of 300 labels" in out


def test_what_reading_the_data_tells_is_told(capsys, checked_run, tables, tmp_path):
    (tmp_path / "wide.csv").write_text((tables / "good.csv").read_text(), "utf-16")
    code, _, err = jnpl(capsys, "check", str(checked_run), str(tmp_path / "wide.csv"))
    assert (code, err.count("\n")) == (0, 1)
    assert "is not UTF-8: read as UTF-16" in err


def test_the_folder_has_a_report_and_can_be_applied(capsys, checked_run, tables, tmp_path):
    code, out, _ = jnpl(capsys, "check", str(checked_run), str(tables / "bad.csv"), "-o", str(tmp_path / "out"))
    assert code == 0
    assert "report: " in out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Compared with the run" in page
    assert "the run does not know the class dog (10 samples)" in page
    assert jnpl(capsys, "apply", str(tmp_path / "out"), "-o", str(tmp_path / "new.csv"))[0] == 0
    assert jnpl(capsys, "report", str(tmp_path / "out"))[0] == 0


def test_groups_are_told(capsys, checked_run, tmp_path):
    rows = frame(400, 0.05, 8).drop(columns="true").assign(who=["ann", "bob"] * 200)
    wrong = np.arange(1, 400, 4)
    rows.loc[wrong, "label"] = rows.loc[wrong, "label"].map({"ant": "bee", "bee": "cow", "cow": "ant"})
    rows.to_csv(tmp_path / "new.csv", index=False)
    given = ("check", str(checked_run), str(tmp_path / "new.csv"), "--group-column", "who")
    code, out, _ = jnpl(capsys, *given, "-o", str(tmp_path / "out"), "--json")
    groups = {row["group"]: row for row in json.loads(out)["groups"]["who"]}
    assert code == 0
    assert groups["bob"]["differs"]
    assert groups["bob"]["low"] <= 0.53 <= groups["bob"]["high"]
    assert groups["ann"]["low"] <= 0.05 <= groups["ann"]["high"]
    assert "who bob: " in jnpl(capsys, *given)[1]
    assert "Groups by who" in (tmp_path / "out" / "report.html").read_text()


@pytest.fixture
def fake_jnpl(tmp_path):
    """A `jnpl` that writes its arguments to a file and fails as a gate does."""
    program = tmp_path / "bin" / "jnpl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor each; do echo "$each" >> "$ARGUMENTS"; done\nexit 3\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "ARGUMENTS": str(tmp_path / "arguments")}


def test_the_action_passes_its_inputs_and_the_exit_code(fake_jnpl):
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    step = action["runs"]["steps"][1]
    given = {"run": "a run", "data": "-new.csv", "fail-above": "2%", "fail-on": "", "baseline": "$(date)"}
    places = {name: value.removeprefix("${{ inputs.").removesuffix(" }}") for name, value in step["env"].items()}
    assert set(places.values()) <= set(action["inputs"])
    env = {name: given[place] for name, place in places.items()}
    done = subprocess.run(["bash", "-e", "-c", step["run"]], env=os.environ | fake_jnpl | env, check=False)
    assert done.returncode == 3
    assert Path(fake_jnpl["ARGUMENTS"]).read_text().splitlines() == [
        *("check", "--sarif", "jnpl-check.sarif", "--junit", "jnpl-check.xml", "--fail-above", "2%"),
        *("--baseline", "$(date)", "--", "a run", "-new.csv"),
    ]


def test_the_hook_runs_the_command(fake_jnpl):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["pass_filenames"] is False
    done = subprocess.run([*hook["entry"].split(), "run", "new.csv"], env=os.environ | fake_jnpl, check=False)
    assert done.returncode == 3
    assert Path(fake_jnpl["ARGUMENTS"]).read_text().split() == ["check", "run", "new.csv"]
