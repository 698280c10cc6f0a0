"""A process that is watched stops when its parent ends."""

import os
import subprocess
import sys

import pytest

from jnpl.experiments.parent_watch import main
from jnpl.internal import locks

SLEEPER = """
import signal, sys, time
from pathlib import Path
def stop(*_):
    Path(sys.argv[1], "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1], "begun").touch()
for _ in range(600):
    time.sleep(0.1)
"""
HOLDER = """
import subprocess, sys
command = [sys.executable, "-m", "jnpl.experiments.parent_watch", "sleeper", sys.argv[1]]
child = subprocess.Popen(command, stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such signals on Windows")
def test_a_process_stops_when_its_parent_is_killed(tmp_path, monkeypatch, wait):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    with holder:
        assert int(holder.stdout.readline()) > 0
        wait((tmp_path / "begun").exists, holder)
        assert not (tmp_path / "saved").exists()
        holder.kill()
    wait((tmp_path / "saved").exists)


def test_arguments_are_passed_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "shown.py").write_text("import sys\nif __name__ == '__main__':\n    print(sys.argv[1:])\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["parent_watch", "shown", "a", "--b"])
    main()
    assert capsys.readouterr().out == "['a', '--b']\n"
