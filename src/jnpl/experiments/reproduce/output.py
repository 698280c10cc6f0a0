"""The output folder of `jnpl reproduce`: figures, tables, index.html with all of them, and reproduce.json."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.experiments import style
from jnpl.experiments.reproduce import captions
from jnpl.experiments.reproduce.items import FIGURES, ITEMS, verdicts
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json
from jnpl.training.reporting import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.runs import PaperRuns

SUMMARY, PAGE = "reproduce.json", "index.html"


def _formats(item: str) -> tuple[str, ...]:
    return tuple(ITEMS[item].files) or style.FORMATS


def check_folder(out: Path, scale: str) -> None:
    """Refuse a folder with results of another scale or other files that would be overwritten."""
    file = out / SUMMARY
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file: --out is the folder for all that is made")
    if not file.is_file():
        names = [PAGE, *(f"{name}.{kind}" for name in ITEMS for kind in _formats(name))]
        lost = [name for name in names if (out / name).exists()]
        if lost:  # ours come after the summary
            raise InputError(f"{str(out / lost[0])!r} is not of jnpl reproduce: give another folder by --out")
        return
    try:
        before = read_json(file)["scale"]
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
    write_text(out / SUMMARY, json.dumps(summary(runs, items), indent=1) + "\n")  # first: it marks the folder as ours
    for item in items:
        written += _write(runs, item, out)
    write_text(out / PAGE, render(runs, items, out))
    return [*written, out / PAGE, out / SUMMARY]


def _is_known(runs: PaperRuns, item: str) -> bool:
    """Whether the item has runs, or needs none at this scale."""
    return bool(captions.used(runs, item)) or not captions.lacking(runs, item)


def figure(runs: PaperRuns, item: str) -> Figure:
    """Draw one figure, with the command that makes it at the bottom."""
    draw_item = ITEMS[item].draw
    if draw_item is None:
        raise InputError(f"{item} is a table, not a figure")
    drawn: Figure = draw_item(runs)
    style.foot(drawn, captions.foot(runs, item))
    return drawn


def _write(runs: PaperRuns, item: str, out: Path) -> list[Path]:
    """Write a figure as PNG and SVG, or a table as Markdown, CSV and LaTeX."""
    paths = [out / f"{item}.{kind}" for kind in _formats(item)]
    if item in FIGURES:
        drawn = figure(runs, item)
        return [style.save(drawn, path) for path in paths]
    for path, text in zip(paths, ITEMS[item].files.values(), strict=True):
        write_text(path, text(runs))
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


class Block(NamedTuple):
    """A table, or a line of text between tables."""

    text: str
    head: list[str]
    rows: list[list[str]]


def render(runs: PaperRuns, items: Sequence[str], folder: Path) -> str:
    """Return index.html: all items on one self-contained page, with the pictures in `folder` inside."""
    environment = Environment(
        loader=PackageLoader("jnpl.experiments.reproduce", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sheet = (resources.files("jnpl.experiments.reproduce") / "page.css").read_text("utf-8")
    shown = [_item(runs, item, folder) for item in items]
    shown_runs = {each.cell.name: each for item in items for each in captions.used(runs, item)}.values()
    page = environment.get_template("page.html.j2").render(
        items=shown,
        verdicts=[each for each in verdicts(runs) if each.item in items],
        scale=runs.scale,
        style=Markup(sheet),  # noqa: S704 - our own file
        version=__version__,
        runs=len(shown_runs),
        stale=sum(not each.is_current for each in shown_runs),
        commits=sorted({str(each.line.get("commit", "unknown")) for each in shown_runs}),
        time=in_words(sum(each.get("seconds") or 0.0 for each in shown_runs)),
    )
    return page.strip() + "\n"


def _item(runs: PaperRuns, item: str, folder: Path) -> dict[str, Any]:
    picture, table = folder / f"{item}.png", ITEMS[item].files.get("md")
    encoded = base64.b64encode(picture.read_bytes()).decode() if picture.is_file() and table is None else None
    own_blocks = [] if table is None else blocks(table(runs))
    return {"name": item, "caption": captions.caption(runs, item), "picture": encoded, "blocks": own_blocks}


def blocks(markdown: str) -> list[Block]:
    """The tables and lines of a Markdown text of ours.

    >>> blocks("A line.\\n\\n| a | b |\\n| --- | --- |\\n| 1 | 2 |\\n")
    [Block(text='A line.', head=[], rows=[]), Block(text='', head=['a', 'b'], rows=[['1', '2']])]
    """
    found = []
    for part in markdown.strip().split("\n\n"):
        lines = part.splitlines()
        if not lines[0].startswith("|"):
            found.append(Block(part.replace("**", ""), [], []))
            continue
        head, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
        found.append(Block("", head, rows))
    return found
