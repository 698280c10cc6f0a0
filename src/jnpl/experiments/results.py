"""Files of results: JSON Lines, one line per run, one file per suite or output folder."""

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, require_file, write_text
from jnpl.internal.json_files import parse_json

FILE = "results.jsonl"  # its name in the output folder of `jnpl bench` and `jnpl reproduce`


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Read a file of results, which need not exist: run name -> its line; of two lines with one name the later counts.

    An incomplete last line is left out, and a message says so.
    """
    stored: dict[str, dict[str, Any]] = {}
    try:
        lines = require_file(path).read_text("utf-8").split("\n") if path.exists() else [""]
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read as a file of results: {error}") from error
    if lines[-1]:
        print(f"jnpl: the last line of {str(path)!r} is incomplete and is left out", file=sys.stderr)
    for number, line in enumerate(lines[:-1], 1):
        try:
            result = parse_json(line)
        except ValueError:
            result = None
        facts = result if isinstance(result, dict) else {}
        if not (isinstance(facts.get("results"), dict) and isinstance(facts.get("name"), str)):
            raise InputError(f"line {number} of {str(path)!r} is not the result of a run")
        stored[facts["name"]] = facts
    return stored


def contains(path: Path, name: str) -> bool:
    """Whether the file has a line for the run of this name. Files that have not changed are not read again."""
    try:
        now = path.stat()
    except OSError:
        return False
    return name in _names(path, now.st_mtime_ns, now.st_size, now.st_ino)


@lru_cache(maxsize=16)
def _names(path: Path, *_version: int) -> frozenset[str]:
    return frozenset(read(path))


def add(path: Path, *results: dict[str, Any]) -> None:
    """Add the lines of runs, replacing older ones of the same names.

    The file is replaced as a whole, under a lock: several experiments can write to it, and a kill leaves the old file.
    """
    make_folder(path.parent)
    with locks.alone(path.with_name(f".{path.name}.lock")):
        lines = {**read(path), **{result["name"]: result for result in results}}
        text = (json.dumps(line, separators=(",", ":"), ensure_ascii=False) for line in lines.values())
        write_text(path, "".join(f"{line}\n" for line in text))
