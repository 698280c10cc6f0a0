"""A cell of a grid as a process of its own: `python -m MODULE CELL.json [--data-root DIR]`."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnpl.experiments.bench.job import RESULT
from jnpl.internal import provenance
from jnpl.internal.devices import available_device
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text
from jnpl.training.interrupt import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jnpl.recipes.schema import Recipe


def run_as_process(
    module: str,
    description: str | None,
    run: Callable[[str, Path, Path | None], dict[str, Any]],
    args: Sequence[str] | None = None,
) -> int:
    """Run one cell, write result.json beside its file, then remove the folder that it trained in.

    `run` takes the cell's JSON, the folder to train in and the data root. Exit code 0 done, 2 wrong input, 128 + signal
    interrupted.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("cell", type=Path, help="JSON of a cell")
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args(args)
    work = given.cell.parent / "run"
    try:
        result = run(given.cell.read_text("utf-8"), work, given.data_root)
    except InputError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        return stop.code
    write_text(given.cell.parent / RESULT, json.dumps(result, separators=(",", ":")) + "\n")
    shutil.rmtree(work, ignore_errors=True)
    return 0


def lower_priority() -> None:
    """Let others on this machine go first. Only for a process that runs nothing but a cell."""
    if hasattr(os, "nice"):
        os.nice(5)


def open_work(work: Path, same: dict[str, Any]) -> list[str]:
    """Keep what a killed life left in `work` if `same` is the same, else begin anew; the commits of its lives."""
    file = work / "same.json"
    before = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if before.get("same") != json.loads(json.dumps(same)):
        shutil.rmtree(work, ignore_errors=True)
        before = {}
    make_folder(work)
    commits = list(dict.fromkeys([*before.get("commits", []), provenance.commit()]))
    write_text(file, json.dumps({"same": same, "commits": commits}, indent=1) + "\n")
    return commits


def placed(recipe: Recipe) -> Recipe:
    """Where the recipe says, unless the grid has reserved a share of a GPU for the cell."""
    place = os.environ.get("JNPL_BENCH_ACCELERATOR")
    engine = recipe.engine.model_copy(update={"accelerator": place})
    return recipe if place is None else recipe.model_copy(update={"engine": engine})


def device(recipe: Recipe) -> str:
    """Where it trains: times of different devices do not compare."""
    return available_device(recipe.engine.accelerator).type
