"""Check the built distributions: `python .ci/check_dist.py dist` (`make dist` builds them first).

The wheel is below 1 MB and holds the package only, the sdist holds no results. Then the wheel is installed into an
empty environment, where `jnpl doctor` and `jnpl demo` must work, away from the working copy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

LIMIT = 1_000_000  # bytes of the wheel
ROOT = Path(__file__).parent.parent


def check_contents(folder: Path) -> Path:
    """Return the wheel, after a look at what it and the sdist contain."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    size = wheel.stat().st_size
    if size >= LIMIT:
        raise SystemExit(f"{wheel.name} has {size:,} bytes; the limit is {LIMIT:,}")
    stray = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith(("jnpl/", "jnpl-"))]
    with tarfile.open(sdist) as archive:
        results = [name for name in archive.getnames() if "/benchmarks/results" in name]
    if stray or results:
        raise SystemExit(f"unexpected files: {', '.join((stray + results)[:5])}")
    print(f"{wheel.name}: {size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes")
    return wheel


def check_installed(wheel: Path) -> None:
    """Install the wheel into an empty environment and run the program there."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "venv")
        venv.create(environment, with_pip=True)
        programs = environment / ("Scripts" if os.name == "nt" else "bin")
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, env=variables, check=True, stdout=subprocess.PIPE, text=True)
            return done.stdout

        run(str(programs / "python"), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel))
        jnpl = str(programs / "jnpl")
        print(run(jnpl, "--version"), end="")
        run(jnpl, "doctor")
        found = json.loads(run(jnpl, "demo", "--json"))
        for name, figures in found["methods"].items():
            print(f"demo, {name}: test accuracy {figures['test_accuracy']:.3f}, AP {figures['ap']:.3f}")
        if found["methods"]["jnpl"]["ap"] <= found["methods"]["ce"]["ap"]:
            raise SystemExit("the demo from the wheel does not find the wrong labels")


if __name__ == "__main__":
    check_installed(check_contents(Path(sys.argv[1]).resolve()).resolve())
