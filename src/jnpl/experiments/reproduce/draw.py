"""From results to what people look at: figures, tables, index.html, and one JSON that says it all."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__
from jnpl.experiments.reproduce import captions, page, style, tables
from jnpl.experiments.reproduce.claims import verdicts
from jnpl.experiments.reproduce.figures.confidence import figure1, figure2, figure6
from jnpl.experiments.reproduce.figures.learning import figure3, figure4, figure5
from jnpl.experiments.reproduce.items import ITEMS
from jnpl.experiments.results import FILE
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.results import Results

FIGURES: dict[str, Callable[[Results], Figure]] = {
    "fig1": figure1,
    "fig2": figure2,
    "fig3": figure3,
    "fig4": figure4,
    "fig5": figure5,
    "fig6": figure6,
}
TABLES: dict[str, dict[str, Callable[[Results], str]]] = {
    "table1": {"md": tables.markdown1, "csv": tables.csv1, "tex": tables.latex1},
    "table2": {"md": tables.markdown2, "csv": tables.csv2, "tex": tables.latex2},
}
SUMMARY = "reproduce.json"
_FIRST = {True: "png", False: "md"}


def check_folder(out: Path, scale: str) -> None:
    """Refuse a folder that shows another scale, or holds files of others: they would be lost."""
    file = out / SUMMARY
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file: --out is the folder for all that is made")
    if not file.is_file():
        names = [page.FILE, *(f"{item}.{kind}" for item in FIGURES for kind in style.FORMATS)]
        names += [f"{item}.{kind}" for item, kinds in TABLES.items() for kind in kinds]
        lost = [name for name in names if (out / name).exists()]
        if lost and not (out / FILE).is_file():
            raise InputError(f"{str(out / lost[0])!r} is not of jnpl reproduce: give another folder by --out")
        return
    try:
        told = json.loads(file.read_text("utf-8"))["scale"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{str(file)!r} is not of jnpl reproduce: give another folder by --out") from error
    if told != scale:
        raise InputError(f"{str(out)!r} holds what was made at scale {told}: give another folder by --out for {scale}")


def draw(results: Results, items: Sequence[str], out: Path) -> list[Path]:
    """Write the items, index.html and reproduce.json to a folder; returns the files.

    Items that lie there from before are drawn again: the page shows them all.
    """
    make_folder(out)
    written: list[Path] = []
    before = {item for item in ITEMS if (out / f"{item}.{_FIRST[item in FIGURES]}").is_file()}
    items = [item for item in ITEMS if item in items or (item in before and _is_known(results, item))]
    for item in items:
        written += figure(results, item, out) if item in FIGURES else table(results, item, out)
    write_text(out / page.FILE, page.render(results, items, out))
    write_text(out / SUMMARY, json.dumps(summary(results, items), indent=1) + "\n")
    return [*written, out / page.FILE, out / SUMMARY]


def _is_known(results: Results, item: str) -> bool:
    """Whether there is anything to draw, or never will be at this scale."""
    return bool(captions.used(results, item)) or not captions.lacking(results, item)


def figure(results: Results, item: str, out: Path, name: str | None = None) -> list[Path]:
    """PNG and SVG of one figure."""
    drawn = FIGURES[item](results)
    style.foot(drawn, captions.foot(results, item))
    return style.save(drawn, out, name or item)


def table(results: Results, item: str, out: Path) -> list[Path]:
    """Markdown, CSV and LaTeX of one table."""
    paths = []
    for kind, text in TABLES[item].items():
        paths.append(out / f"{item}.{kind}")
        write_text(paths[-1], text(results))
    return paths


def summary(results: Results, items: Sequence[str]) -> dict[str, Any]:
    """Every cell with settings, seed, noise hash, version, time and figures; every claim with its verdict."""
    kept = (
        "name",
        "cell",
        "recipe",
        "data",
        "seed",
        "classify",
        "noise_sha256",
        "versions",
        "commit",
        "device",
        "engine",
    )
    cells = []
    for each in results.every:
        figures = {key: value for key, value in each.told["results"].items() if "curve" not in key}
        cells.append({**{key: each.told.get(key) for key in kept}, "results": figures, "current": each.is_current})
    return {
        "version": __version__,
        "scale": results.scale.name,
        "what": results.scale.what,
        "missing": results.missing,
        "items": [ITEMS[item]._asdict() for item in items],
        "verdicts": [asdict(verdict) for verdict in verdicts(results)],
        "cells": cells,
    }
