"""A cell that only counts, for tests of the grid: `python -m tests.helpers.tally CELL.json` resumes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from jnpl.internal.settings import Settings


class Tally(Settings):
    """Counts to `steps`, a line in `count` each; then writes its result, or fails."""

    name: str
    steps: int = 1
    pause: float = 0.0
    fails: str = ""  # says this and leaves with code 2
    dies: int = 0  # so many lives end by SIGKILL after a step


def main() -> int:
    """Run one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cell", type=Path)
    parser.add_argument("--data-root", type=Path)
    args = parser.parse_args()
    cell = Tally.model_validate_json(args.cell.read_text("utf-8"))
    count = args.cell.parent / "count"
    lives = args.cell.parent / "lives"
    with lives.open("a") as file:
        file.write("x")
    while (done := count.stat().st_size if count.exists() else 0) < cell.steps:
        time.sleep(cell.pause)
        with count.open("a") as file:
            file.write("x")
        if cell.dies >= lives.stat().st_size:
            os.kill(os.getpid(), 9)
    if cell.fails:
        print("a long story", cell.fails, sep="\n", file=sys.stderr)
        return 2
    (args.cell.parent / "result.json").write_text(json.dumps({"results": {"steps": done}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
