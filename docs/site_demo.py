"""The report and the review page of the site, made at every build from the handwritten digits that scikit-learn ships.

A part of the digits are put into the folder of another class, `jnpl find` runs on the folder, and what the server of
`jnpl review` would answer is stored beside its page; docs/demo/server.js answers from that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from PIL import Image
from sklearn.datasets import load_digits

from jnpl import noise
from jnpl.cli.review import data_opener
from jnpl.outputs.review.ranking import Filter, Ranking
from jnpl.outputs.review.review_session import ReviewSession
from jnpl.outputs.review.samples import Samples
from jnpl.outputs.review.server import run_facts
from jnpl.run_folder import RunFolder

if TYPE_CHECKING:
    from typing import Any

HERE = Path(__file__).parent
SAMPLES, RATE, SIDE, MARGIN = 500, 0.08, 96, 12
STATIC = {
    "icon.svg": "outputs.review:page/icon.svg",
    "report.css": "outputs.report:report.css",
    "review.css": "outputs.review:page/review.css",
    "sample.js": "outputs.review:page/sample.js",
    "review.js": "outputs.review:page/review.js",
}
PICTURES = {
    "sample.js": {'`/image/${item.position}${small ? "?small=true" : ""}`': "`image/${item.position}.png`"},
    "review.js": {"`/image/${position}`": "`image/${position}.png`"},
}


@cache
def files() -> dict[str, str | bytes]:
    """Return path below demo/ -> content."""
    with TemporaryDirectory() as place:
        digits(Path(place, "digits"))
        command = [sys.executable, "-m", "jnpl", "find", "./digits", "-o", "run"]
        subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
        run = RunFolder(Path(place, "run"))
        made: dict[str, str | bytes] = {"report.html": run.report_page.read_text("utf-8"), **page()}
        made["demo.json"] = json.dumps(answers(run))
        for position, name in enumerate(run.findings.ids.tolist()):
            made[f"image/{position}.png"] = Path(place, "digits", name).read_bytes()
    return made


def digits(folder: Path) -> None:
    """Write a folder of digits, some of them in the folder of another class."""
    bunch = load_digits()
    given = noise.symmetric(bunch.target[:SAMPLES], RATE, 10, seed=0)
    for number, (pixels, label) in enumerate(zip(bunch.images, given.tolist(), strict=False)):
        target = folder / str(label) / f"{number:03}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray((255 - pixels * 255 / 16).clip(0, 255).astype("uint8"))
        sheet = Image.new("L", (SIDE, SIDE), 255)
        sheet.paste(image.resize((SIDE - 2 * MARGIN,) * 2, Image.Resampling.BICUBIC), (MARGIN, MARGIN))
        sheet.save(target)


def page() -> dict[str, str | bytes]:
    """Return the page of the review and its files, with paths that work on a site."""
    html = (resources.files("jnpl.outputs.review") / "page/review.html").read_text("utf-8")
    title = '<h1 class="unseen">Label review</h1>'
    note = (
        '<p class="small">A demo: handwritten digits, some with a wrong label. Decisions stay in this tab; Learn needs '
        'jnpl itself. <a href="report.html">The report</a>, <a href="../start/">start</a></p>'
    )
    export = html[html.index('      <a href="/export/csv"') : html.index("</p>", html.index('<a href="/export/csv"'))]
    audit = next(line for line in html.splitlines() if 'href="/audit"' in line)
    changes = {
        '"/static/': '"',
        '<script src="sample.js"': '<script src="server.js"></script>\n<script src="sample.js"',
        export: "      jnpl review exports them as CSV, Parquet and for Label Studio.",
        audit: "",
        title: f"{title}\n  {note}",
    }
    for before, after in changes.items():
        html = replaced(html, before, after)
    made: dict[str, str | bytes] = {"review.html": html}
    for name, place in STATIC.items():
        package, _, path = place.partition(":")
        text = (resources.files(f"jnpl.{package}") / path).read_text("utf-8")
        for before, after in PICTURES.get(name, {}).items():
            text = replaced(text, before, after)
        made[name] = text
    return made


def replaced(text: str, before: str, after: str) -> str:
    """Return the text with all occurrences replaced; there must be one."""
    if before not in text:
        raise ValueError(f"the page of the review has no {before!r} any more")
    return text.replace(before, after)


def answers(run: RunFolder) -> dict[str, Any]:
    """Return what the server would answer about every sample."""
    with closing(ReviewSession(run, Samples(run, *data_opener(run, None)))) as session:
        session.samples.start()
        session.samples.wait(600)
        everything = session.page(Filter(list="all"), 0, SAMPLES)["items"]
        items = [session.sample(Filter(list="all"), item["position"])["item"] for item in everything]
        ranking = Ranking(run.findings)
        for item in items:  # of an unclear suspect the page shows another class than the ranking has
            at = item["position"]
            item["ranked"] = {"suggested": int(ranking.suggested[at]), "confidence": float(ranking.confidence[at])}
        suspects = [item["position"] for item in items if item["suspect"]]
        facts = run_facts(session, "digits", "you") | {"lists": {"duplicates": None, "outliers": None}}
        similar = {at: [item["position"] for item in session.similar(at, 24)["items"][1:]] for at in suspects}
        return {
            "run": facts,
            "items": items,
            "examples": {at: session.examples(at) for at in suspects},
            "similar": similar,
        }
