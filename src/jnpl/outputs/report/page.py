"""The report of a run folder as one page, report.html, which needs no network.

The script (themes, sorting, pages of suspects) is optional: without it the page shows everything. A
Content-Security-Policy with the hash of that script forbids all other scripts and all requests, so that even a file
name that escaping missed could do no harm.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.internal.files import write_text
from jnpl.outputs.report import charts, reading, tables, text, thumbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.outputs.report.reading import DataFile, RunFacts

FILE = "report.html"
_PAIRS, _PAIRS_ALONE = 10, 30  # most confused pairs: beside the heat map, and in its place
_MOST_PROBLEMS = 100  # rows of each kind


def write(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run folder to `out`, by default report.html in the folder, and return where it lies."""
    target = run / FILE if out is None else out
    write_text(target, render(reading.read(run)))
    return target


def render(facts: RunFacts) -> str:
    """Return the whole page as HTML."""
    room = resources.files("jnpl.outputs.report")
    script = (room / "report.js").read_text("utf-8")
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
        style=Markup((room / "report.css").read_text("utf-8")),  # noqa: S704 - our own file
        script_hash=f"sha256-{digest}",
    )
    return page.strip() + "\n"


def _context(facts: RunFacts) -> dict[str, Any]:
    findings = facts.findings
    names = tables.class_names(findings)
    heat = tables.heat_map(findings, names)
    found = tables.suspects(findings, names, facts.pictures, facts.data.columns)
    shown_columns, hidden_columns = tables.column_names(facts.data.columns)
    epoch_names, epoch_rows = tables.epochs(facts.lines)
    return {
        "data_name": text.plain(facts.run.data or facts.name, 80),
        "summary": findings.summary(),
        "rate": findings.noise_rate if facts.results.noise_rate is None else facts.results.noise_rate,
        "results": facts.results,
        "notes": _notes(facts),
        "choices": [text.plain(line, 400) for line in facts.data.choices],
        "threshold_reason": _threshold_reason(findings.threshold_info),
        "doubtful_test": bool(facts.data.held_out) and not facts.data.true_labels,
        "threshold_span": charts.threshold_span(findings),
        "charts": charts.draw(facts),
        "has_accuracy": bool(charts.accuracy_keys(facts.lines)),
        "names": names,
        "heat": heat,
        "pairs": tables.confused_pairs(findings, names, _PAIRS if heat else _PAIRS_ALONE),
        "classes": tables.classes(findings, names),
        "suspects": found,
        "most_suspects": thumbs.MOST,
        "with_pictures": any(each.picture for each in found),
        "given_options": _options([each.given_number for each in found], names),
        "suggested_options": _options([each.suggested_number for each in found], names),
        "columns": shown_columns,
        "hidden_columns": hidden_columns,
        "problems": _problems(facts),
        "most_problems": _MOST_PROBLEMS,
        "epoch_names": epoch_names,
        "epoch_rows": epoch_rows,
        "epochs_logged": len(charts.first_seed(facts.lines)),
        "command": None if facts.data.command is None else text.plain(shlex.join(facts.data.command), 20_000),
        "facts": _facts(facts),
        "settings": [(text.plain(key), text.plain(value, 400)) for key, value in _flat(facts.run.recipe)],
        "version": __version__,
        "folder": text.plain(facts.name, 80),
    }


def _notes(facts: RunFacts) -> list[str]:
    """Warnings about the run, for the top of the page."""
    notes = []
    if facts.run.status not in (None, "finished"):
        notes.append("The run was not finished when this page was written: figures of its second part may be missing.")
    if facts.findings.noise_rate > 0.5:
        notes.append(
            "More than half of the labels look wrong: the network has hardly learnt yet (more epochs may help), "
            f"or the {'threshold is' if charts.threshold_span(facts.findings) is None else 'thresholds are'} too high."
        )
    return notes + [text.plain(note, 400) for note in facts.results.notes]


def _threshold_reason(info: dict[str, Any]) -> str:
    reason = str(info.get("reason", "given")).removeprefix("one for each given class, ")  # the page says so
    return "" if reason == "given" else text.plain(reason, 200)


def _options(numbers: Sequence[int], names: Sequence[str]) -> list[tuple[int, str, int]]:
    """Classes to filter by, in their order: number, name, how many suspects."""
    if not numbers:
        return []
    present, counts = np.unique(numbers, return_counts=True)
    return [(number, names[number], count) for number, count in zip(present.tolist(), counts.tolist(), strict=True)]


def _problems(facts: RunFacts) -> dict[str, Any]:
    """The data's own problems; None for what was not looked for. Lists are cut, their numbers count all."""
    data, mask = facts.data, facts.findings.unreadable
    unreadable, unread = None, data.unreadable_samples
    if data.unreadable is not None:
        unreadable = [(text.plain(each.id), text.plain(each.reason)) for each in data.unreadable]
    elif mask is not None:
        unreadable = [(text.plain(name), "not told") for name in facts.findings.ids[mask].tolist()]
    tiny = None
    if data.tiny_classes is not None:
        tiny = [(text.plain(each.name, 60), each.count) for each in data.tiny_classes]
    return {
        "unreadable": None if unreadable is None else unreadable[:_MOST_PROBLEMS],
        "unread": len(unreadable or ()) if unread is None else unread,
        "compared": data.compared,
        "duplicates": _duplicates(data) if data.compared else None,
        "tiny": tiny,
    }


def _duplicates(data: DataFile) -> dict[str, Any] | None:
    """The first groups, those with differing labels before the others, and how many samples there are in all."""
    if data.duplicates is None:
        return None
    groups = sorted(data.duplicates, key=lambda group: not group.differ)
    listed = [
        {
            "ids": [text.plain(name) for name in group.ids[:10]],
            "more": max(group.size - len(group.ids[:10]), 0),
            "labels": [text.plain(name, 60) for name in dict.fromkeys(group.labels)][:10],
            "differ": group.differ,
        }
        for group in groups[:_MOST_PROBLEMS]
    ]
    samples, differ = data.duplicate_samples, data.conflicting_samples
    samples = sum(group.size for group in groups) if samples is None else samples
    differ = sum(group.size for group in groups if group.differ) if differ is None else differ
    rest = samples - sum(group.size for group in groups[:_MOST_PROBLEMS])
    return {"groups": listed, "samples": samples, "differ": differ, "rest": max(rest, 0)}


def _facts(facts: RunFacts) -> list[tuple[str, str]]:
    """Where the run comes from."""
    run = facts.run
    rows: list[tuple[str, object]] = [("data", run.data), ("seed", run.seed), ("precision", run.precision)]
    rows += [(f"version of {name}", version) for name, version in run.versions.items()]
    rows += [("fingerprint of the data", run.fingerprint)]
    return [(text.plain(name), text.plain(value)) for name, value in rows if value is not None]


def _flat(settings: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{key}.")
        else:
            rows.append((f"{before}{key}", json.dumps(value, ensure_ascii=False)))
    return rows
