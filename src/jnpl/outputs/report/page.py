"""The report of a run folder as one page, report.html, which needs no network.

The script (themes, sorting, pages of suspects) is optional: without it the page shows everything. A
Content-Security-Policy with the hash of that script forbids all other scripts and all requests, so that even a file
name that escaping missed could do no harm.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.internal.files import write_text
from jnpl.outputs.report import charts, page_tables, reading, text

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.outputs.report.reading import RunFacts

FILE = "report.html"
_MAX_PAIRS, _MAX_PAIRS_ALONE = 10, 30  # most confused pairs: beside the heat map, and in its place


def write(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run folder to `out`, by default report.html in the folder; returns its path."""
    target = run / FILE if out is None else out
    write_text(target, render(reading.read(run)))
    return target


def render(facts: RunFacts) -> str:
    """Return the whole page as HTML."""
    files = resources.files("jnpl.outputs.report")
    script = (files / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("jnpl.outputs.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=text.percent, quality=text.quality, plain=text.plain, counted=text.counted, duration=text.duration
    )
    page = environment.get_template("report.html.j2").render(
        **_context(facts),
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup((files / "report.css").read_text("utf-8")),  # noqa: S704 - our own file
        script_hash=f"sha256-{digest}",
    )
    return page.strip() + "\n"


def _context(facts: RunFacts) -> dict[str, Any]:
    findings = facts.findings
    names = page_tables.class_names(findings)
    heat = page_tables.heat_map(findings, names)
    found = page_tables.suspects(findings, names, facts.pictures, facts.data.columns)
    shown_columns, hidden_columns = page_tables.column_names(facts.data.columns)
    epoch_names, epoch_rows = page_tables.epochs(facts.lines)
    return {
        "data_name": text.plain(facts.run.data or facts.name, 80),
        "summary": findings.summary(),
        "rate": findings.noise_rate if facts.results.noise_rate is None else facts.results.noise_rate,
        "noise": findings.noise,
        "expected_wrong": page_tables.expected_wrong(findings),
        "look_wrong": page_tables.look_wrong(findings),
        "results": facts.results,
        "notes": _notes(facts),
        "choices": [
            text.plain(line, 400) for line in (*facts.data.choices, *filter(_names_judges, facts.results.notes))
        ],
        "threshold_reason": _threshold_reason(findings.threshold_info),
        "doubtful_test": bool(facts.data.held_out) and not facts.data.true_labels,
        "threshold_span": charts.threshold_span(findings),
        "charts": charts.draw(facts),
        "has_accuracy": bool(charts.accuracy_keys(facts.lines)),
        "names": names,
        "heat": heat,
        "pairs": page_tables.confused_pairs(findings, names, _MAX_PAIRS if heat else _MAX_PAIRS_ALONE),
        "classes": page_tables.classes(findings, names),
        "suspects": found,
        "with_thumbnails": bool(facts.pictures),
        "with_pictures": any(each.picture for each in found),
        "given_options": page_tables.class_options([each.given_number for each in found], names),
        "suggested_options": page_tables.class_options([each.suggested_number for each in found], names),
        "columns": shown_columns,
        "hidden_columns": hidden_columns,
        "problems": page_tables.data_problems(facts),
        "most_problems": page_tables.MAX_PROBLEMS,
        "epoch_names": epoch_names,
        "epoch_rows": epoch_rows,
        "epochs_logged": len(charts.first_seed(facts.lines)),
        "command": None if facts.data.command is None else text.plain(shlex.join(facts.data.command), 20_000),
        "facts": page_tables.origin(facts),
        "settings": page_tables.settings(facts.run.recipe),
        "version": __version__,
        "folder": text.plain(facts.name, 80),
    }


def _notes(facts: RunFacts) -> list[str]:
    """Return warnings about the run, for the top of the page."""
    notes = []
    if facts.run.status not in (None, "finished"):
        notes.append("The run was not finished when this page was written: results of its second part may be missing.")
    if facts.findings.noise_rate > 0.5:
        notes.append(
            "More than half of the labels look wrong: the network may need more epochs, "
            f"or the {'threshold is' if charts.threshold_span(facts.findings) is None else 'thresholds are'} too high."
        )
    return notes + [text.plain(note, 400) for note in facts.results.notes if not _names_judges(note)]


def _names_judges(note: str) -> bool:
    """Whether a note says which models judged the labels: a fact, and nothing to do."""
    return note.startswith("judged by ")


def _threshold_reason(info: dict[str, Any]) -> str:
    reason = str(info.get("reason", "given")).removeprefix("one for each given class, ")  # the page says so
    return "" if reason == "given" else text.plain(reason, 200)
