"""index.html: all items on one page that opens anywhere, with its pictures inside."""

from __future__ import annotations

import base64
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.experiments.reproduce import tables
from jnpl.experiments.reproduce.captions import Caption, caption, used
from jnpl.experiments.reproduce.claims import verdicts
from jnpl.training.reporting import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.experiments.reproduce.results import Results

FILE = "index.html"


class Block(NamedTuple):
    """A table, or a line of text between tables."""

    text: str
    head: list[str]
    rows: list[list[str]]


def render(results: Results, items: Sequence[str], folder: Path) -> str:
    """The page of items whose pictures lie in `folder`."""
    environment = Environment(
        loader=PackageLoader("jnpl.experiments.reproduce", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (resources.files("jnpl.experiments.reproduce") / "page.css").read_text("utf-8")
    shown = [_item(results, item, folder) for item in items]
    runs = {each.cell.name: each for item in items for each in used(results, item)}.values()
    page = environment.get_template("page.html.j2").render(
        items=shown,
        verdicts=[each for each in verdicts(results) if each.item in items],
        scale=results.scale,
        style=Markup(style),  # noqa: S704 - our own file
        version=__version__,
        runs=len(runs),
        stale=sum(not each.is_current for each in runs),
        commits=sorted({str(each.told.get("commit", "unknown")) for each in runs}),
        time=in_words(sum(each.get("seconds") or 0.0 for each in runs)),
    )
    return page.strip() + "\n"


def _item(results: Results, item: str, folder: Path) -> dict[str, Any]:
    told: Caption = caption(results, item)
    picture = folder / f"{item}.png"
    encoded = (
        base64.b64encode(picture.read_bytes()).decode() if picture.is_file() and item not in tables.MARKDOWN else None
    )
    blocks_here = blocks(tables.MARKDOWN[item](results)) if item in tables.MARKDOWN else []
    return {"name": item, "caption": told, "picture": encoded, "blocks": blocks_here}


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
