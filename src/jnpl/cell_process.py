"""A cell of a grid as a process of its own: `python -m MODULE CELL.json --results DIR [--data-root DIR]`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jnpl.errors import InputError
from jnpl.files import write_text
from jnpl.interrupt import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Told(NamedTuple):
    """The name of a cell, and the JSON that its results are."""

    name: str
    text: str


def run_as_process(
    module: str,
    description: str | None,
    run: Callable[[Path, Path | None], Told],
    clean: Callable[[Path], None],
    args: Sequence[str] | None = None,
) -> int:
    """Run one cell, write its JSON whole, then `clean` its folder; `run` takes the cell's file and the data root.

    Exit code 0 done, 2 wrong input, 128 + signal interrupted.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("cell", type=Path, help="JSON of a cell")
    parser.add_argument("--results", type=Path, required=True, help="where {name}.json goes")
    parser.add_argument("--data-root", type=Path)
    given = parser.parse_args(args)
    if hasattr(os, "nice"):
        os.nice(5)
    try:
        told = run(given.cell, given.data_root)
    except InputError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        return stop.code
    write_text(given.results / f"{told.name}.json", told.text)
    clean(given.cell.parent)
    return 0
