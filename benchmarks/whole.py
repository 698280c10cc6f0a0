"""CPU seconds and memory of whole commands, from process start to findings and report, beside those of rivals.

    python benchmarks/whole.py --data DIR [--rows find-10000 ...] [--repeats 3]     # results/whole.jsonl, README.md
    python benchmarks/whole.py --data DIR --rows million --repeats 1    # not among the rows by default: minutes more

The rival of vectors is what users of cleanlab run, in a process of its own too: five-fold logistic regression on the
same standardised vectors, its C as chosen in docs/owners.md, and `find_label_issues`; of a table the same with
histogram gradient boosting; of a folder of photographs it is `jnpl embed` alone. All run with one thread, in turns, and
the least of `--repeats` counts: a busy machine only adds. Vectors are those of CIFAR-10, CIFAR-100 and flowers, with
labels by people or 20 % wrong ones; the million is generated (`load.py`), and has no rival. Turns measured at the same
commit are kept, those of another commit are replaced: the command goes on where it was stopped. The first turn compiles
the modules, so that at least two should run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from jnpl.experiments import results
from jnpl.internal import provenance
from jnpl.internal.files import write_text

RESULTS, README = Path(__file__).parent / "results" / "whole.jsonl", Path(__file__).parent / "README.md"
BLOCK = re.compile(r"(<!-- whole: generated -->\n).*?(<!-- end -->)", re.DOTALL)
FIND = [sys.executable, "-m", "jnpl", "find"]
STARTER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""
VECTORS = """
import sys
import numpy as np
from cleanlab.filter import find_label_issues
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
data = np.load(sys.argv[1])
x, y = data["x"].astype(np.float32), data["y"]
x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-6)
probs = np.zeros((len(x), y.max() + 1))
for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(x, y):
    probs[held] = LogisticRegression(C=float(sys.argv[2]), max_iter=200).fit(x[train], y[train]).predict_proba(x[held])
print(find_label_issues(y, probs, n_jobs=1).sum())
"""
TABLE = """
import sys
import pandas as pd
from cleanlab.filter import find_label_issues
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
table = pd.read_csv(sys.argv[1])
x, y = table.drop(columns="label"), table["label"].astype("category").cat.codes.to_numpy()
probs = cross_val_predict(HistGradientBoostingClassifier(random_state=0), x, y, cv=5, method="predict_proba")
print(find_label_issues(y, probs, n_jobs=1).sum())
"""


class Row(NamedTuple):
    """A row of the table: its data, what `jnpl find` runs with beside them, the rival's command, and the goals."""

    title: str
    write: Callable[[Path, Path], None]  # (data sets, file or folder to write)
    file: str
    rival: tuple[str, ...]  # after `python`; {} is the file
    ratio: float | None = None
    seconds: float | None = None
    gib: float | None = None


def _vectors(name: str, column: str, samples: int) -> Callable[[Path, Path], None]:
    def write(data: Path, target: Path) -> None:
        import owners  # noqa: PLC0415 (slow to import)

        source = owners.embedded(name, data)
        labels = owners.labels_of(name, column, 0, data, source)
        np.savez(target, x=np.asarray(source.inputs.array())[:samples].mean(1, dtype=np.float32), y=labels[:samples])

    return write


def _million(data: Path, target: Path) -> None:
    import load  # noqa: PLC0415

    del data
    load.write_vectors(target, 1_000_000, 100, 128)


def _photographs(data: Path, target: Path) -> None:
    with tarfile.open(data / "flowers.tar") as archive:
        archive.extractall(target.parent, filter="data")


def _letter(data: Path, target: Path) -> None:
    table = pd.read_csv(data / "letter.csv.gz")
    random = np.random.default_rng(0)
    wrong, classes = random.random(len(table)) < 0.2, table["label"].unique()
    table["label"] = np.where(wrong, random.choice(classes, len(table)), table["label"])
    table.to_csv(target, index=False)


def _folds(c: str) -> tuple[str, ...]:
    return ("-c", VECTORS, "{}", c)


_EMBED = ("-m", "jnpl", "embed", "{}", "--threads", "1", "--cache")
ROWS = {
    "find-2000": Row("2,000 x 1,280, 5 classes", _vectors("flowers", "symm20", 2000), "v.npz", _folds("1e-3"), 1.5),
    "find-10000": Row("10,000 x 1,280, 10 classes", _vectors("cifar10", "worse", 10_000), "v.npz", _folds("1e-4"), 0.9),
    "find-50000": Row("50,000 x 1,280, 10 classes", _vectors("cifar10", "worse", 50_000), "v.npz", _folds("1e-4"), 0.5),
    "find-20000": Row(
        "20,000 x 1,280, 100 classes", _vectors("cifar100", "human", 20_000), "v.npz", _folds("1e-3"), 0.5
    ),
    "million": Row("1,000,000 x 128, 100 classes", _million, "v.npz", (), None, 300, 2.0),
    "photographs": Row("2,000 photographs, beside `jnpl embed`", _photographs, "flowers", _EMBED, 1.15),
    "table": Row("20,000 rows of a table (letter)", _letter, "letter.csv", ("-c", TABLE, "{}"), 1.0),
}


def measure(command: list[str], compiled: Path) -> tuple[float, float]:
    """Return the CPU seconds of a command and its children, and its peak memory in GiB.

    Modules are compiled, as they are once installed: the first turn fills the folder `compiled`.
    """
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": str(compiled)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    started = [sys.executable, "-S", "-c", STARTER, *command]  # a small process: memory begins with that of the parent
    done = subprocess.run(started, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    spent, kib = map(float, done.stdout.split())
    return spent, kib / 2**20


def run(name: str, data: Path, repeats: int) -> None:
    """Measure a row in turns with its rival, and store each turn; those of the same commit are not measured again."""
    row, commit = ROWS[name], provenance.commit().removesuffix("-dirty")
    stored = results.read(RESULTS).get(name, {"results": {}})["results"]
    turns: dict[str, list[tuple[float, float]]] = {"jnpl": [], "rival": []}
    if stored.get("commit") == commit:
        turns |= stored["all"]
    if len(turns["jnpl"]) >= repeats:
        return
    with tempfile.TemporaryDirectory() as place:
        target, compiled = Path(place, row.file), Path(place, "compiled")
        row.write(data, target)
        for number in range(len(turns["jnpl"]), repeats):
            fresh = ["-o", f"{place}/run{number}", "--cache", f"{place}/cache{number}", "--threads", "1"]
            turns["jnpl"].append(measure([*FIND, str(target), *fresh], compiled))
            if row.rival:
                cache = [f"{place}/embed{number}"] if row.rival[-1] == "--cache" else []
                command = [part.replace("{}", str(target)) if part == "{}" else part for part in row.rival]
                turns["rival"].append(measure([sys.executable, *command, *cache], compiled))
            least = {who: list(map(min, zip(*values, strict=True))) for who, values in turns.items() if values}
            facts = {"least": least, "all": turns, "versions": provenance.versions(), "commit": commit}
            results.add(RESULTS, {"name": name, "results": facts})
            print(name, json.dumps(least), flush=True)


def block(done: dict[str, dict[str, object]]) -> str:
    """Return the part of README.md that is generated."""
    lines = [
        "CPU seconds of whole processes, imports included, one thread, least of some turns; memory is the peak.",
        "",
        "| work | `jnpl find` | rival | ratio | goal | memory | of the rival |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        if name not in done:
            continue
        least: dict[str, list[float]] = done[name]["results"]["least"]  # type: ignore[index]
        (spent, gib), rival = least["jnpl"], least.get("rival")
        ratio = None if rival is None else spent / rival[0]
        goals = [
            f"{limit:g}{unit}" for limit, unit in ((row.ratio, ""), (row.seconds, " s"), (row.gib, " GiB")) if limit
        ]
        met = [
            limit is None or (value is not None and value <= limit)
            for value, limit in ((ratio, row.ratio), (spent, row.seconds), (gib, row.gib))
        ]
        cells = [
            row.title,
            f"{spent:.1f} s",
            "" if rival is None else f"{rival[0]:.1f} s",
            "" if ratio is None else f"{ratio:.2f}",
            f"{', '.join(goals)}: {'met' if all(met) else '**not met**'}",
            f"{gib:.2f} GiB",
            "" if rival is None else f"{rival[1]:.2f} GiB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets, as for owners.py")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=[name for name in ROWS if name != "million"])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for name in args.rows:
        run(name, args.data.resolve(), args.repeats)
        text = BLOCK.sub(lambda match: match[1] + block(results.read(RESULTS)) + match[2], README.read_text("utf-8"))
        write_text(README, text)


if __name__ == "__main__":
    main()
