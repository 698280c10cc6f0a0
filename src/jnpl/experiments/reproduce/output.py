"""The output folder of `jnpl reproduce`: figures, tables, index.html, and reproduce.json with everything."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__
from jnpl.experiments.reproduce import captions, index_page, style
from jnpl.experiments.reproduce.items import FIGURES, ITEMS, verdicts
from jnpl.experiments.results import FILE
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.experiments.reproduce.runs import PaperRuns

SUMMARY = "reproduce.json"


def _formats(item: str) -> tuple[str, ...]:
    return tuple(ITEMS[item].files) or style.FORMATS


def check_folder(out: Path, scale: str) -> None:
    """Refuse a folder with results of another scale or other files that would be overwritten."""
    file = out / SUMMARY
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file: --out is the folder for all that is made")
    if not file.is_file():
        names = [index_page.FILE, *(f"{name}.{kind}" for name in ITEMS for kind in _formats(name))]
        lost = [name for name in names if (out / name).exists()]
        if lost and not (out / FILE).is_file():
            raise InputError(f"{str(out / lost[0])!r} is not of jnpl reproduce: give another folder by --out")
        return
    try:
        before = json.loads(file.read_text("utf-8"))["scale"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{str(file)!r} is not of jnpl reproduce: give another folder by --out") from error
    if before != scale:
        raise InputError(
            f"{str(out)!r} holds what was made at scale {before}: give another folder by --out for {scale}"
        )


def draw(runs: PaperRuns, items: Sequence[str], out: Path) -> list[Path]:
    """Write the items, index.html and reproduce.json to a folder; returns the files.

    Items that lie there from before are drawn again: the page shows them all.
    """
    make_folder(out)
    written: list[Path] = []
    before = {item for item in ITEMS if (out / f"{item}.{_formats(item)[0]}").is_file()}
    items = [item for item in ITEMS if item in items or (item in before and _is_known(runs, item))]
    for item in items:
        written += figure(runs, item, out) if item in FIGURES else table(runs, item, out)
    write_text(out / index_page.FILE, index_page.render(runs, items, out))
    write_text(out / SUMMARY, json.dumps(summary(runs, items), indent=1) + "\n")
    return [*written, out / index_page.FILE, out / SUMMARY]


def _is_known(runs: PaperRuns, item: str) -> bool:
    """Whether the item has runs, or needs none at this scale."""
    return bool(captions.used(runs, item)) or not captions.lacking(runs, item)


def figure(runs: PaperRuns, item: str, out: Path, name: str | None = None) -> list[Path]:
    """Write one figure as PNG and SVG."""
    draw_item = ITEMS[item].draw
    if draw_item is None:
        raise InputError(f"{item} is a table, not a figure")
    drawn = draw_item(runs)
    style.foot(drawn, captions.foot(runs, item))
    return style.save(drawn, out, name or item)


def table(runs: PaperRuns, item: str, out: Path) -> list[Path]:
    """Write one table as Markdown, CSV and LaTeX."""
    paths = []
    for kind, text in ITEMS[item].files.items():
        paths.append(out / f"{item}.{kind}")
        write_text(paths[-1], text(runs))
    return paths


def summary(runs: PaperRuns, items: Sequence[str]) -> dict[str, Any]:
    """Return reproduce.json: every cell with settings, seed, noise hash, version, time and figures; every verdict."""
    kept = ("name", "cell", "recipe", "data", "noise_sha256", "versions", "commit", "device", "engine")
    cells = []
    for each in runs.every:
        facts = {key: each.line.get(key) for key in kept} | {"seed": each.cell.seed, "classify": each.cell.classify}
        figures = {key: value for key, value in each.line["results"].items() if "curve" not in key}
        cells.append({**facts, "results": figures, "current": each.is_current})
    return {
        "version": __version__,
        "scale": runs.scale.name,
        "what": runs.scale.what,
        "missing": runs.missing,
        "items": [{key: getattr(ITEMS[item], key) for key in ("name", "title", "claim")} for item in items],
        "verdicts": [asdict(verdict) for verdict in verdicts(runs)],
        "cells": cells,
    }
