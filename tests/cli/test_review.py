"""`jnpl review`: its options and their mistakes, and `--review` of find and train."""

import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest

from jnpl import Findings
from jnpl.cli.review import leading_to
from jnpl.internal.errors import UntrustedCodeError
from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.review.reviewed_labels import with_review
from jnpl.outputs.run_source import open_run_data
from jnpl.run_folder import RunFolder

QUICK = ("--set", "train.epochs=1", "--set", "stages.refine.epochs=1")


def decide(run, *decisions):
    store = open_store(RunFolder(run))
    store.decide(decisions, reviewer="Ann", tab="t")
    store.close()


@pytest.fixture
def finished(run, tmp_path):
    """A finished run on 60 vectors in data.npz."""
    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (random.normal(size=(3, 128))[y] + random.normal(size=(60, 128))).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    code, _, err = run("find", "data.npz", "-o", "run", "--json", "--no-report")
    assert code == 0, err
    return tmp_path / "run"


def test_a_terminal_hears_at_once_that_a_run_is_opened(run, finished, monkeypatch):
    arguments = ("review", "run", "--no-open", "--token", "short")
    assert "opening" not in run(*arguments)[2]
    monkeypatch.setattr("jnpl.cli.review.sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    assert run(*arguments)[2].startswith("opening run run ...\njnpl: --token needs")


def test_the_token_may_come_from_the_environment(run, finished, monkeypatch):
    monkeypatch.setenv("JNPL_REVIEW_TOKEN", "too short")
    code, _, err = run("review", "run", "--no-open")
    assert (code, "--token needs at least 16 characters, got 9" in err) == (2, True)
    monkeypatch.setenv("JNPL_REVIEW_TOKEN", "a secret of the environment")
    with socket.create_server(("127.0.0.1", 0)) as taken:  # the token is accepted, the port is not
        code, _, err = run("review", "run", "--host", "127.0.0.1", "--port", taken.getsockname()[1])
    assert (code, "cannot listen" in err) == (2, True)
    assert "JNPL_REVIEW_TOKEN" in run("review", "--help")[1]


def test_a_run_remembers_how_to_open_its_data(finished, tmp_path, monkeypatch):
    stored = json.loads((finished / "data.json").read_text("utf-8"))["options"]
    assert stored["data"] == str(tmp_path / "data.npz")
    monkeypatch.chdir("/")
    source = open_run_data(stored)
    assert source.ids.tolist() == Findings.load(finished).ids.tolist()
    assert open_run_data({**stored, "an option of a later version": 1}).kind == "vector"


@pytest.mark.parametrize(
    "named", [{"embed": "own_code:make"}, {"backbone": "own_code:make"}, {"change": ["model=own_code:make"]}]
)
def test_code_that_a_run_names_is_not_run_without_leave(finished, tmp_path, monkeypatch, named):
    (tmp_path / "own_code.py").write_text("from pathlib import Path\nPath('was_run').touch()\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    stored = json.loads((finished / "data.json").read_text("utf-8"))["options"]
    with pytest.raises(UntrustedCodeError, match=r"code of its own, 'own_code:make', .* --trust-code"):
        open_run_data({**stored, **named})
    assert not (tmp_path / "was_run").exists()
    assert str(tmp_path) not in sys.path


def test_decisions_are_trusted_in_a_new_run(run, finished, tmp_path):
    findings = Findings.load(finished)
    store = open_store(RunFolder(finished))
    new = (int(findings.given_labels[4]) + 1) % 3
    store.decide([NewDecision(4, "relabel", new), NewDecision(7, "drop")], reviewer="Ann", tab="t")
    store.close()
    code, out, err = run("train", "data.npz", "-o", "second", "--review", "run", "--json", "--no-report")
    assert code == 0, err
    assert json.loads(out)["samples"] == 59
    table = Findings.load(tmp_path / "second").table.set_index("id")
    assert 7 not in table.index
    assert (table.loc[4, "suggested_label"], table.loc[4, "label_quality"]) == (new, 0.0)
    code, _, err = run("find", "data.npz", "-o", "third", "--review", "third")
    assert (code, err.count("\n"), "holds no findings" in err) == (2, 1, True)


def test_decisions_of_all_rounds_count(run, finished, tmp_path):
    given = Findings.load(finished).given_labels
    decide(finished, NewDecision(4, "relabel", int(given[4] + 1) % 3), NewDecision(5, "keep"), NewDecision(7, "drop"))
    code, _, err = run("find", "data.npz", "-o", "second", "--review", "run", "--no-report", *QUICK)
    assert code == 0, err
    second = tmp_path / "second"
    stored = json.loads((second / "data.json").read_text("utf-8"))
    assert stored["decided"] == [{"id": 4, "label": int(given[4] + 1) % 3}, {"id": 5, "label": int(given[5])}]
    assert stored["dropped"] == [7]
    # Sample 10 is at position 9 there. Of sample 5 the second reviewer thinks otherwise.
    decide(second, NewDecision(9, "relabel", int(given[10] + 1) % 3), NewDecision(5, "drop"))
    code, out, err = run("apply", "second", "-o", "all.csv", "--json")
    assert (code, json.loads(out)["reviewed"], json.loads(out)["reviewed_before"]) == (0, 2, 1), err
    corrected = pd.read_csv(tmp_path / "all.csv").set_index("id").label
    assert sorted({*range(60)} - {*corrected.index}) == [5, 7]
    changed = [number for number in corrected.index if corrected[number] != given[number]]
    assert changed == [4, 10]
    assert corrected[changed].tolist() == ((given[changed] + 1) % 3).tolist()
    source = with_review(open_run_data({**stored["options"], "review": None}), second)  # a third round
    assert sorted({*range(60)} - {*source.ids.tolist()}) == [5, 7]
    assert source.ids[source.decided >= 0].tolist() == [4, 10]
    assert np.flatnonzero(RunFolder(second).findings.decided).tolist() == [4, 5]


def test_a_round_without_a_review_of_its_own_hands_on_what_it_was_given(run, finished, tmp_path):
    given = Findings.load(finished).given_labels
    decide(finished, NewDecision(4, "relabel", int(given[4] + 1) % 3))
    code, _, err = run("find", "data.npz", "-o", "second", "--review", "run", "--no-report", *QUICK)
    assert code == 0, err
    stored = json.loads((tmp_path / "second" / "data.json").read_text("utf-8"))
    source = with_review(open_run_data({**stored["options"], "review": None}), tmp_path / "second")
    assert source.ids[source.decided >= 0].tolist() == [4]
    assert run("apply", "second", "-o", "all.csv")[0] == 0
    assert pd.read_csv(tmp_path / "all.csv").set_index("id").label[4] == (given[4] + 1) % 3


def test_the_command_line_of_the_browser_does_not_hold_the_token(tmp_path):
    with leading_to("http://127.0.0.1:1/?token=a&b", tmp_path) as address:
        assert "token" not in address
        page = Path(unquote(urlsplit(address).path))
        assert 'content="0; url=http://127.0.0.1:1/?token=a&amp;b"' in page.read_text("utf-8")
        assert page.stat().st_mode & 0o077 == 0 or sys.platform == "win32"
    assert list(tmp_path.iterdir()) == []
