"""`jnpl report`: one file, one line; one JSON object if asked."""

from __future__ import annotations

import json
import webbrowser

import pytest
import typer

from jnpl.cli import app as cli
from jnpl.cli.report import report
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.run_folder import RunFolder


@pytest.fixture
def jnpl_report(capsys):
    """Arguments -> stdout, stderr."""
    app = typer.Typer()
    app.command()(report)

    def call(*args):
        app(args=[str(arg) for arg in args], standalone_mode=False)
        return capsys.readouterr()

    return call


def test_it_writes_into_the_folder_and_says_where(jnpl_report, make_run):
    folder = make_run()
    out, err = jnpl_report(folder)
    assert out == f"report: {folder / 'report.html'}\n"
    assert err == ""
    assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_json_and_another_place(jnpl_report, make_run, tmp_path):
    folder, page = make_run(), tmp_path / "page.html"
    out, _ = jnpl_report(folder, "-o", page, "--json")
    assert out.count("\n") == 1
    assert json.loads(out) == {"run": str(folder), "report": str(page), "bytes": page.stat().st_size}
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("opens", [True, False])
def test_the_browser(jnpl_report, make_run, monkeypatch, opens):
    asked = []
    monkeypatch.setattr(webbrowser, "open", lambda address: asked.append(address) or opens)
    folder = make_run("a run")
    _, err = jnpl_report(folder, "--open")
    assert asked == [(folder / "report.html").resolve().as_uri()]
    assert ("no browser" in err) == (not opens)


def test_a_folder_without_findings(jnpl_report, tmp_path):
    with pytest.raises(InputError, match="holds no findings"):
        jnpl_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_program_says_it_in_one_line(capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(tmp_path / "nowhere")])
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("jnpl: ")
    assert err.count("\n") == 1


def test_what_is_there_stays(jnpl_report, make_run, tmp_path):
    folder, page = make_run(), tmp_path / "page.html"
    page.write_text("mine")
    with pytest.raises(InputError, match=r"page.html' is there already; name another file, or give --overwrite"):
        jnpl_report(folder, "-o", page)
    assert page.read_text() == "mine"
    jnpl_report(folder, "-o", page, "--overwrite")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    before = (folder / "findings.csv").read_bytes()
    with pytest.raises(InputError, match="is a file of the run itself"):
        jnpl_report(folder, "-o", folder / "findings.csv", "--overwrite")
    assert (folder / "findings.csv").read_bytes() == before


def test_a_refused_command_leaves_the_findings_as_they_are(jnpl_report, make_run, tmp_path):
    folder, page = make_run(), tmp_path / "page.html"
    page.write_text("mine")
    before = (folder / "findings.csv").read_bytes()
    with pytest.raises(InputError, match="is there already"):
        jnpl_report(folder, "-o", page, "--budget", 1)
    (folder / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run.json' cannot be read"):
        jnpl_report(folder, "--budget", 1)
    (folder / "run.json").write_text("{}")
    if locks.AVAILABLE:
        with RunFolder(folder).lock(), pytest.raises(InputError, match="another run is using"):
            jnpl_report(folder, "--budget", 1)
    assert (folder / "findings.csv").read_bytes() == before
    assert jnpl_report(folder, "--budget", 1).err == "jnpl: the run now has 1 label issues; its findings are replaced\n"
    assert (folder / "findings.csv").read_bytes() != before


def test_the_page_of_the_run_itself_is_always_written_anew(jnpl_report, make_run):
    folder = make_run()
    for options in ((), ("-o", folder / "report.html"), ("-o", folder / ".." / folder.name / "report.html")):
        (folder / "report.html").write_text("old")
        jnpl_report(folder, *options)
        assert (folder / "report.html").read_text("utf-8").startswith("<!doctype html>")
