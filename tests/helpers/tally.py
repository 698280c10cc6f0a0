"""A run that only counts, for tests of the experiment: `python -m tests.helpers.tally SETTINGS.json` resumes."""

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
    parser.add_argument("settings", type=Path)
    parser.add_argument("--data-root", type=Path)
    args = parser.parse_args()
    spec = Tally.model_validate_json(args.settings.read_text("utf-8"))
    count = args.settings.parent / "count"
    lives = args.settings.parent / "lives"
    with lives.open("a") as file:
        file.write("x")
    while (done := count.stat().st_size if count.exists() else 0) < spec.steps:
        time.sleep(spec.pause)
        with count.open("a") as file:
            file.write("x")
        if spec.dies >= lives.stat().st_size:
            os.kill(os.getpid(), 9)
    if spec.fails:
        print("a long story", spec.fails, sep="\n", file=sys.stderr)
        return 2
    (args.settings.parent / "result.json").write_text(json.dumps({"results": {"steps": done}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
