"""`jnpl embed` in two processes of torchrun: one cache, the bytes of a single process, one of them prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
WORDS = ["sun", "rain", "wind", "snow", "film", "book", "song", "play"]


def write(path: Path, count: int = 1300) -> Path:
    """Write a table of texts: three blocks of embeddings."""
    random = np.random.default_rng(0)
    rows = [(at % 2, " ".join(random.choice(WORDS[4 * (at % 2) :], 6))) for at in range(count)]
    path.write_text("label,text\n" + "".join(f"{label},{text}\n" for label, text in rows), "utf-8")
    return path


def embed(data: Path, out: Path, cache: Path, *launch: str) -> dict[str, object]:
    command = [sys.executable, *launch, "-m", "jnpl", "embed", str(data), "-o", str(out), "--json", "--threads", "1"]
    options = ["--text-column", "text", "--cache", str(cache)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    facts: dict[str, object] = json.loads(done.stdout)  # exactly one object
    return facts


def test_two_processes_of_torchrun_write_the_bytes_of_one(tmp_path: Path) -> None:
    data = write(tmp_path / "texts.csv")
    caches = [tmp_path / name for name in ("one", "two")]
    facts = [
        embed(data, tmp_path / f"{cache.name}.npz", cache, *launch)
        for cache, launch in zip(caches, ((), TORCHRUN), strict=True)
    ]
    assert [each["samples"] for each in facts] == [1300, 1300]
    for name in ("values.f16", "blocks"):
        one, two = (next(cache.glob(f"*/{name}")).read_bytes() for cache in caches)
        assert one == two
    assert np.array_equal(*(np.load(tmp_path / f"{cache.name}.npz")["x"] for cache in caches))
