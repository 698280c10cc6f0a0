"""`jnpl report`: one file, one line; one JSON object if asked."""

import json
import webbrowser

import pytest
from tests.helpers.runs import findings

from jnpl.internal import locks
from jnpl.run_folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    """A folder with findings."""
    findings().save(tmp_path / "a run")
    return tmp_path / "a run"


@pytest.fixture
def report(jnpl, folder):
    """Run `jnpl report` on the folder: options -> stdout, stderr."""

    def call(*options):
        code, out, err = jnpl("report", folder, *options)
        assert code == 0, err
        return out, err

    return call


@pytest.fixture
def refused(jnpl):
    """Run `jnpl report`, expect a mistake: -> the one line."""

    def call(*args):
        code, out, err = jnpl("report", *args)
        assert (code, out, err.count("\n"), err[:6]) == (2, "", 1, "jnpl: "), err
        return err

    return call


def is_page(path):
    return path.read_text("utf-8").startswith("<!doctype html>")


def test_it_writes_into_the_folder_and_says_where(report, folder):
    assert report() == (f"report: {folder / 'report.html'}\n", "")
    assert is_page(folder / "report.html")


def test_json_and_another_place(report, folder, tmp_path):
    page = tmp_path / "page.html"
    out, _ = report("-o", page, "--json")
    assert out.count("\n") == 1
    assert json.loads(out) == {"run": str(folder), "report": str(page), "bytes": page.stat().st_size}
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("opens", [True, False])
def test_the_browser(report, folder, monkeypatch, opens):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or opens)
    _, err = report("--open")
    assert asked == [(folder / "report.html").resolve().as_uri()]
    assert ("no browser" in err) == (not opens)


def test_what_is_there_stays(report, refused, folder, tmp_path):
    page, before = tmp_path / "page.html", (folder / "findings.csv").read_bytes()
    page.write_text("mine")
    for options in ((), ("--budget", 1)):
        assert "page.html' is there already; name another file, or give" in refused(folder, "-o", page, *options)
        assert page.read_text() == "mine"
    report("-o", page, "--overwrite")
    assert is_page(page)
    assert "is a file of the run itself" in refused(folder, "-o", folder / "findings.csv", "--overwrite")
    assert (folder / "findings.csv").read_bytes() == before


def test_a_refused_command_leaves_the_findings_as_they_are(report, refused, folder):
    before = (folder / "findings.csv").read_bytes()
    (folder / "run.json").write_text("{")
    assert "run.json' cannot be read" in refused(folder, "--budget", 1)
    (folder / "run.json").write_text("{}")
    if locks.AVAILABLE:
        with RunFolder(folder).lock():
            assert "another run is using" in refused(folder, "--budget", 1, "--replace")
    assert (folder / "findings.csv").read_bytes() == before
    assert "--replace goes with" in refused(folder, "--replace")
    assert report("--budget", 1)[1] == ""  # a view
    assert "<em>1</em> of" in (folder / "report.html").read_text("utf-8")
    assert (folder / "findings.csv").read_bytes() == before
    assert report("--budget", 1, "--replace")[1] == "jnpl: the run now has 1 label issue; its findings are replaced\n"
    assert (folder / "findings.csv").read_bytes() != before


def test_the_page_of_the_run_itself_is_always_written_anew(report, folder):
    for options in ((), ("-o", folder / "report.html"), ("-o", folder / ".." / folder.name / "report.html")):
        (folder / "report.html").write_text("old")
        report(*options)
        assert is_page(folder / "report.html")


def test_findings_are_read_once(report, folder, loads):
    report("--budget", 1)
    assert loads == [folder]
