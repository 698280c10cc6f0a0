"""The program: exit codes, what the operating system refuses, --debug, and names that would command a terminal."""

import errno
import json
import os
import shlex
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from tests.helpers.command import jnpl
from tests.helpers.marks import posix
from tests.helpers.runs import findings, vector_model

from jnpl.experiments import demo as demo_run
from jnpl.internal.errors import InputError

NASTY = ("\x1b[2Jcat\n", "d\rog", "\u202eeel")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "/no/entry/x"),
            "cannot read or write '/no/entry/x': Permission denied",
        ),
        (OSError(errno.EROFS, "Read-only file system", "out"), "cannot read or write 'out': Read-only file system"),
        (OSError(errno.ENAMETOOLONG, "File name too long", b"n"), "cannot read or write 'n': File name too long"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot read or write: No space left on device"),
        (MemoryError(), "there is not enough memory"),
        (np._core._exceptions._ArrayMemoryError((9,), np.dtype(float)), "there is not enough memory"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
            "there is not enough memory",
        ),
        (torch.OutOfMemoryError("CUDA out of memory"), "there is not enough memory"),
        (InputError("two\nlines"), "two lines"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else "",
)
def test_what_is_refused_is_one_line(error, line, capsys, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(demo_run, "prepare_folder", fail)
    code, out, err = jnpl(capsys, "demo")
    assert (code, out, err.count("\n"), err.startswith(f"jnpl: {line}")) == (2, "", 1, True), err
    code, out, err = jnpl(capsys, "demo", "--debug")
    assert (code, "Traceback" in err, err.splitlines()[-1].startswith(f"jnpl: {line}")) == (2, True, True)


@pytest.mark.parametrize(("option", "setting"), [("--epochs", "epochs"), ("--batch-size", "batch_size")])
def test_an_option_that_is_a_setting_is_answered_with_it(capsys, option, setting):
    code, out, err = jnpl(capsys, "find", "data.csv", option, "3")
    assert (code, out) == (2, "")
    assert err == f"jnpl: No such option: {option}; give --set train.{setting}=VALUE (see jnpl find --help)\n"


def test_a_fault_of_our_own_is_a_traceback(capsys, monkeypatch):
    monkeypatch.setattr(demo_run, "prepare_folder", lambda *_: {}["none"])
    with pytest.raises(KeyError):
        jnpl(capsys, "demo")


def test_debug_goes_anywhere(capsys):
    for args in (("--debug", "report", "none"), ("report", "--debug", "none"), ("report", "none", "--debug")):
        code, _, err = jnpl(capsys, *args)
        assert (code, "Traceback" in err) == (2, True)
    assert "Traceback" not in jnpl(capsys, "report", "none")[2]
    assert jnpl(capsys, "report", "--", "--debug")[2].startswith("jnpl: '--debug' is no folder")


def start(*args, stdout):
    return subprocess.Popen([sys.executable, "-m", "jnpl", *args], stdout=stdout, stderr=subprocess.PIPE, text=True)


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")  # noqa: PTH110
def test_an_output_that_is_full_and_a_reader_that_left():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        first = start("recipes", stdout=full)
        second = start("recipes", "--json", stdout=full)
    read, write = os.pipe()
    third = start("recipes", stdout=write)
    os.close(read)
    os.close(write)
    line = "jnpl: cannot read or write: No space left on device\n"
    assert [(each.communicate()[1], each.returncode) for each in (first, second)] == [(line, 2), (line, 2)]
    assert (third.communicate()[1], third.returncode) == ("", 1)


@posix
def test_letters_that_the_output_lacks_and_an_output_that_is_closed(tmp_path):
    (tmp_path / "y.csv").write_text("label\n" + "猫\ndog\n" * 10, "utf-8")
    command = [sys.executable, "-m", "jnpl", "corrupt", str(tmp_path / "y.csv"), "--rate", "0.3", "-o"]
    narrow = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = run([*command, str(tmp_path / "a.npz")], env=narrow)
    assert (done.returncode, "Error" in done.stderr) == (0, False)
    assert "\\u732b" in done.stdout
    for number, closed in enumerate((">&-", ">&- 2>&-")):
        file = tmp_path / f"{number}.npz"
        done = run(["sh", "-c", f"{shlex.join([*command, str(file)])} {closed}"])
        assert (done.returncode, "Error" in done.stderr, file.exists()) == (0, False, True)


def test_names_do_not_command_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [f"{name}/\x1b]0;owned\x07{at}.png" for at, name in enumerate(np.array(NASTY)[[0, 0, 0, 1, 1, 2]])]
    findings(paths=paths, class_names=NASTY).save("run")
    (tmp_path / "run" / "data.json").write_text(json.dumps({"root": str(tmp_path)}))
    vector_model(tmp_path / "model", classes=list(NASTY))
    np.savez("new.npz", x=np.eye(4, dtype=np.float32))
    outputs = [
        jnpl(capsys, "apply", "run"),
        jnpl(capsys, "apply", "run", "--link", "tree", "-o", "x.csv"),
        jnpl(capsys, "predict", "model", "new.npz"),
        jnpl(capsys, "predict", "model", "\x1b[2J.npz"),
        jnpl(capsys, "export", "run", "--to", "label-studio", "-o", "\x1b[2J.json"),
        jnpl(capsys, "report", "run", "-o", "\x1b[2J.html"),
    ]
    for _, out, err in outputs:
        assert not set(out + err) & {"\x1b", "\x07", "\r", "\u202e"}
    assert r"1 labelled \x1b[2Jcat\n becomes d\rog" in outputs[0][1]
    assert r"\x1b[2Jcat\n" in outputs[2][1]
