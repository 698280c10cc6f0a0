"""Worker processes that are spawned, as on Windows and macOS, not forked."""

import subprocess
import sys

from tests.helpers.runs import photos

from jnpl import Findings

SCRIPT = """
import multiprocessing, sys
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    from jnpl.cli.app import main
    main(sys.argv[1:])
"""
READ = ("--backbone", "none", "--workers", "1", "--set", "engine.memory_limit=0")  # images stay files, read by a worker


def test_images_are_decoded_in_spawned_workers(tmp_path):
    photos(tmp_path / "photos")
    (tmp_path / "spawned.py").write_text(SCRIPT)
    options = ("--set", "train.epochs=1", "--threads", "1", "--no-report", *READ)
    command = [sys.executable, "spawned.py", "find", "photos", "-o", "run", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(Findings.load(tmp_path / "run").ids) == 12
