"""Trainings that several files here look at."""

import subprocess
import sys

import pytest
from tests.helpers import pair as script
from tests.helpers import toy
from tests.helpers.paths import ROOT

from jnpl.internal import locks


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """The folder of what two processes trained, started once by torchrun for all workers of pytest-xdist.

    `toy.npz`, `shared.npz` (250 samples: a last batch of 26, and odd shares) and `odd.npz` (97 samples: the last batch
    is a single one, which joins the one before) are its data; the rest is what `tests/helpers/pair.py` writes.
    """
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "popen-gw" in base.name else base) / "two processes"  # workers have folders beside each other
    with locks.alone(out.with_suffix(".lock")):
        if not (out / "ended").exists():
            for name in ("methods", "fast", "toy"):
                (out / name).mkdir(parents=True)
            for name, samples in (("toy", 240), ("shared", 250), ("odd", 97)):
                toy.write(out / f"{name}.npz", samples=samples)
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
            command = [*launch, "-m", script.__name__, str(out)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            (out / "ended").write_text(f"{done.returncode}\n{done.stderr[-4000:]}")
    code, _, said = (out / "ended").read_text().partition("\n")
    assert code == "0", said
    return out
