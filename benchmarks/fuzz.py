"""Read damaged and forged files of every kind, and count what is read, what is refused, and what is a mistake of ours.

    python benchmarks/fuzz.py [--examples 100000] [--seed 0] [--reader NAME] [--log FILE]

The readers and their files are those of tests/helpers/fuzzing.py, which tests/test_fuzz.py tries 80 times each. Every
example is a good file with up to four steps of damage (bytes flipped, inserted, removed, repeated, cut) or, for JSON,
with an entry replaced by another value. Anything but a result or an InputError is a failure, as is a reader that takes
more than 20 seconds. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `tests.helpers`

from tests.helpers import fuzzing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100_000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=list(fuzzing.READERS), help="only this one")
    parser.add_argument("--log", type=Path, help="also write the summary to this file, as JSON Lines")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("jnpl").setLevel(logging.ERROR)
    names = [args.reader] if args.reader else list(fuzzing.READERS)
    each = -(-args.examples // len(names))
    lines = []
    for name in names:
        lines.append(fuzz(name, each, args.seed))
        print(json.dumps(lines[-1]), flush=True)
    total = {
        "reader": "all",
        **{key: sum(line[key] for line in lines) for key in ("examples", "read", "refused", "failures")},
        "seconds": round(sum(line["seconds"] for line in lines), 1),
        "slowest_ms": max(line["slowest_ms"] for line in lines),
        "peak_mb": max(line["peak_mb"] for line in lines),
    }
    print(json.dumps(total))
    if args.log is not None:
        args.log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, total]))
    return 1 if total["failures"] else 0


def fuzz(name: str, examples: int, seed: int) -> dict[str, object]:
    """Try so many variants of a file; returns counts, the slowest example and the largest memory so far."""
    reader, begin, random = fuzzing.READERS[name], time.monotonic(), Random(f"{seed} {name}")
    counts = {"read": 0, "refused": 0, "failures": 0}
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        good = reader.good(Path(folder))

        for _ in range(examples):
            content = fuzzing.variant(reader, good, random)
            started = time.monotonic()
            try:
                counts["read" if reader.try_one(Path(folder), content) else "refused"] += 1
            except Exception:  # noqa: BLE001 - what is looked for
                counts["failures"] += 1
                if counts["failures"] <= 3:
                    print(f"{name}: {content[:200]!r}", file=sys.stderr)
                    traceback.print_exc()
            slowest = max(slowest, time.monotonic() - started)
    return {
        "reader": name,
        "examples": sum(counts.values()),
        **counts,
        "seconds": round(time.monotonic() - begin, 1),
        "slowest_ms": round(1000 * slowest),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    sys.exit(main())
