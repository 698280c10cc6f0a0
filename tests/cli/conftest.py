"""For the tests of commands: run `jnpl` in this process."""

import sys

import pytest

from jnpl import Findings
from jnpl.cli import app as cli


@pytest.fixture
def jnpl(capfd):
    """Run `jnpl`: arguments -> exit code, stdout, stderr, as file descriptors see them."""

    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out, err

    return call


@pytest.fixture
def run(jnpl, tmp_path, monkeypatch):
    """Run `jnpl` in a folder of its own: arguments -> exit code, stdout, stderr, as file descriptors see them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    return jnpl


@pytest.fixture
def refused(run):
    """Run `jnpl`, expect a mistake: -> the one line."""

    def call(*args: object) -> str:
        code, out, err = run(*args)
        assert (code, out) == (2, ""), err
        assert err.startswith("jnpl: ")
        assert err.endswith("\n")
        assert err.count("\n") == 1, err
        return err

    return call


@pytest.fixture
def loads(monkeypatch):
    """The folders whose findings were read, one after another."""
    folders, real = [], Findings.load
    monkeypatch.setattr(Findings, "load", lambda folder: folders.append(folder) or real(folder))
    return folders


@pytest.fixture(autouse=True)
def _few_trees(few_trees):
    """What the trees find is tested in tests/judging."""
