"""A disk that is full: one line, exit code 2, and nothing half-written.

The limit of a file's size (RLIMIT_FSIZE) stands for a full disk: the operating system refuses to write further.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.runs import findings, photos, vector_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of POSIX")
SCRIPT = """
import contextlib, io, json, os, resource, signal, sys
from jnpl.cli.app import main
import jnpl.outputs.export.onnx, onnxscript, datasets
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def run(limit, args):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(args)
        except SystemExit as stop:
            code = stop.code
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return code, err.getvalue()
print(json.dumps([run(*each) for each in json.loads(sys.argv[1])]))
"""
QUICK = ["--set", "train.epochs=2", "--threads", "1", "--workers", "0", "--no-report"]
CASES = [
    (10_000, ["find", "data.npz", "-o", "first", *QUICK], "File too large"),
    (200, ["export", "model", "--to", "onnx", "-o", "model.onnx"], "cannot write 'model.onnx': File too large"),
    (200, ["export", "run", "--to", "hf", "-o", "hf"], "cannot write 'hf': File too large"),
    (200, ["export", "run", "--to", "csv", "-o", "a.csv"], "cannot write 'a.csv': File too large"),
    (200, ["predict", "model", "data.npz", "-o", "a.csv"], "cannot write 'a.csv': File too large"),
    (200, ["apply", "run", "--copy", "tree", "-o", "a.csv"], "File too large"),
    (200, ["report", "run", "-o", "a.html"], "cannot write 'a.html': File too large"),
    (200, ["corrupt", "data.npz", "--rate", "0.4", "-o", "n.npz"], "cannot write 'n.npz': File too large"),
    (3000, ["find", "photos", "-o", "second", *QUICK, "--backbone", "none", "--cache", "cache"], "File too large"),
]


def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path):
    photos(tmp_path / "photos")
    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 3)
    paths = [
        f"{name}/{at}.png"
        for name, at in zip(("cat", "cat", "cat", "dog", "dog", "eel"), (0, 1, 2, 0, 1, 0), strict=True)
    ]
    findings(paths=paths).save(tmp_path / "run")
    (tmp_path / "run" / "data.json").write_text(json.dumps({"root": str(tmp_path / "photos")}))
    vector_model(tmp_path / "model")
    before = {path.name for path in tmp_path.iterdir()}
    words = json.dumps([(limit, args) for limit, args, _ in CASES])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for (_, args, message), (code, err) in zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True):
        assert "Traceback" not in err, err
        assert code == 2, (args, err)
        assert err.splitlines()[-1].startswith("jnpl: "), err
        assert message in err.splitlines()[-1], err
    left = {path.name for path in tmp_path.iterdir()} - before
    assert left <= {"first", "cache", "second"}
    assert list((tmp_path / "cache").iterdir()) == []
