"""`jnpl embed` in two processes of torchrun: one cache, the bytes of a single process, one of them prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.helpers.command import jnpl
from tests.helpers.marks import posix

if TYPE_CHECKING:
    import pytest

pytestmark = posix
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
WORDS = ["sun", "rain", "wind", "snow", "film", "book", "song", "play"]


def write(path: Path, count: int = 1300) -> Path:
    """Write a table of texts: three blocks of embeddings."""
    random = np.random.default_rng(0)
    rows = [(at % 2, " ".join(random.choice(WORDS[4 * (at % 2) :], 6))) for at in range(count)]
    path.write_text("label,text\n" + "".join(f"{label},{text}\n" for label, text in rows), "utf-8")
    return path


def options(data: Path, out: Path, cache: Path) -> tuple[str, ...]:
    named = ("--text-column", "text", "--cache", str(cache), "--threads", "1")
    return ("embed", str(data), "-o", str(out), "--json", *named)


def test_two_processes_of_torchrun_write_the_bytes_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, (one, two) = write(tmp_path / "texts.csv"), (tmp_path / name for name in ("one", "two"))
    code, alone, err = jnpl(capsys, *options(data, tmp_path / "one.npz", one))
    assert code == 0, err
    done = subprocess.run(
        [sys.executable, *TORCHRUN, "-m", "jnpl", *options(data, tmp_path / "two.npz", two)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(text)["samples"] for text in (alone, done.stdout)] == [1300, 1300]  # exactly one object each
    for name in ("values.f16", "blocks"):
        assert next(one.glob(f"*/{name}")).read_bytes() == next(two.glob(f"*/{name}")).read_bytes()
    assert np.array_equal(*(np.load(tmp_path / f"{name}.npz")["x"] for name in ("one", "two")))
