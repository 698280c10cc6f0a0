"""index.html: all items on one self-contained page, with the pictures inside."""

from __future__ import annotations

import base64
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.experiments.reproduce.captions import caption, used
from jnpl.experiments.reproduce.items import ITEMS, verdicts
from jnpl.training.reporting import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.experiments.reproduce.runs import PaperRuns

FILE = "index.html"


class Block(NamedTuple):
    """A table, or a line of text between tables."""

    text: str
    head: list[str]
    rows: list[list[str]]


def render(runs: PaperRuns, items: Sequence[str], folder: Path) -> str:
    """Return the HTML page of items, with the pictures in `folder` inside."""
    environment = Environment(
        loader=PackageLoader("jnpl.experiments.reproduce", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (resources.files("jnpl.experiments.reproduce") / "page.css").read_text("utf-8")
    shown = [_item(runs, item, folder) for item in items]
    shown_runs = {each.cell.name: each for item in items for each in used(runs, item)}.values()
    page = environment.get_template("page.html.j2").render(
        items=shown,
        verdicts=[each for each in verdicts(runs) if each.item in items],
        scale=runs.scale,
        style=Markup(style),  # noqa: S704 - our own file
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
    return {"name": item, "caption": caption(runs, item), "picture": encoded, "blocks": own_blocks}


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
