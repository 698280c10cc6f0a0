"""The report of a run folder as one page, report.html, which needs no network.

The script (themes, sorting, pages of suspects) is optional: without it the page shows everything. A
Content-Security-Policy with the hash of that script forbids all other scripts and all requests, so that even a file
name that escaping missed could do no harm.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from jnpl._version import __version__
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.judging.caveats import noise_sentence, stated
from jnpl.judging.findings import Findings
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.judging.threshold import as_threshold
from jnpl.outputs.report import charts, page_tables, text
from jnpl.outputs.review.reviewed_labels import reviewed_run
from jnpl.run_folder import RunFolder, StoredResults

_MAX_PAIRS, _MAX_PAIRS_ALONE = 10, 30  # most confused pairs: beside the heat map, and in its place


def write(run: RunFolder, out: Path | None = None, threshold: str | None = None) -> Path:
    """Write the report of a run to `out`, by default report.html in its folder; return the path.

    A `threshold`, as in `Findings.from_probs`, chooses the label issues of this page alone.
    """
    target = run.report_page if out is None else out
    write_text(target, render(run, threshold))
    return target


def render(run: RunFolder, threshold: str | None = None) -> str:
    """Return the whole page as HTML. Only the findings must be there, every other file of the run may be missing."""
    if not run.path.is_dir():
        raise InputError(f"{str(run.path)!r} is no folder; name a run folder, as `jnpl find DATA -o RUN` writes it")
    if not run.has_findings():
        reason = "a finished run has them; repeat its command if it was stopped"
        raise InputError(f"{str(run.path)!r} holds no findings: {reason}")
    files = resources.files("jnpl.outputs.report")
    script = (files / "report.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = _template().render(
        **_context(run, threshold),
        script=Markup(script),  # noqa: S704 - our own file
        style=Markup((files / "report.css").read_text("utf-8")),  # noqa: S704 - our own file
        script_hash=f"sha256-{digest}",
    )
    return page.strip() + "\n"


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("jnpl.outputs.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=text.percent,
        quality=text.quality,
        plain=text.plain,
        counted=text.counted,
        duration=text.duration,
        breakable=_breakable,
    )
    return environment.get_template("report.html.j2")


def _breakable(name: str) -> Markup:
    """Let a file name break after its folder and before its extension, not in it."""
    return Markup("<wbr>").join(re.split(r"(?<=/)(?=[^/]+$)|(?=\.\w{1,5}$)", name))


def _context(run: RunFolder, threshold: str | None) -> dict[str, Any]:
    findings, lines, pictures = reviewed_run(run).findings, run.read_log(), run.thumbnails()
    if threshold is not None:
        rule = as_threshold(threshold)
        if isinstance(findings, TagSetFindings):
            findings = TagSetFindings.of(findings.pair_findings.with_threshold(rule))
        else:
            findings = findings.with_threshold(rule)
    data, results = run.data_facts, run.run_facts.results or StoredResults()
    folder_name = run.path.resolve().name
    names = page_tables.printable_names(findings)
    tags = findings.tags if isinstance(findings, TagSetFindings) else None
    heat = None if tags is not None else page_tables.heat_map(findings, names)
    suspects, examples = page_tables.suspects(findings, names, pictures, data)
    shown_columns, hidden_columns = page_tables.column_names(data.columns)
    epoch_names, epoch_rows = page_tables.epochs(lines)
    reason = str(findings.threshold_info.get("reason", "given"))
    reason = reason.removeprefix("one for each given class, ")  # the page says so
    return {
        "next_steps": _next_steps(run, findings),
        "data_name": text.plain(run.run_facts.data or folder_name, 80),
        "summary": findings.summary() if tags is None else findings.summary() | {"classes": len(tags.tag_names)},
        "tag_noise": None if tags is None else tags.noise,
        "tag_counts": None if tags is None else {name: tags.summary()[name] for name in ("missing", "extra")},
        "tags": page_tables.tags(findings),
        "has_tags": tags is not None,
        "decided": int(findings.is_decided.sum()),
        "findings": findings,
        "noise": findings.noise,
        "stated": None if findings.noise is None else stated(findings.noise),
        "results": results,
        "notes": _notes(run, findings, results),
        "comparison": _comparison(run),
        "choices": [text.plain(line, 400) for line in (*data.choices, results.judged_by) if line],
        "threshold_reason": "" if reason == "given" else text.plain(reason, 200),
        "doubtful_test": bool(data.held_out) and not data.true_labels,
        "threshold_span": charts.threshold_span(findings),
        "charts": charts.draw(findings, lines),
        "has_accuracy": bool(charts.accuracy_keys(lines)),
        "names": names,
        "heat": heat,
        "pairs": [] if tags else page_tables.confused_pairs(findings, names, _MAX_PAIRS if heat else _MAX_PAIRS_ALONE),
        "groups": page_tables.groups(findings),
        "annotators": page_tables.annotators(findings),
        "classes": [] if tags else page_tables.classes(findings, names),
        "suspects": suspects,
        "examples": examples,
        "evidence": any(suspect.examples for suspect in suspects),
        "with_thumbnails": bool(pictures),
        "with_pictures": any(suspect.picture for suspect in suspects),
        "given_options": page_tables.filter_options(suspects, "given", findings),
        "suggested_options": page_tables.filter_options(suspects, "suggested", findings),
        "columns": shown_columns,
        "hidden_columns": hidden_columns,
        "problems": page_tables.data_problems(findings, data, pictures),
        "most_problems": page_tables.MAX_PROBLEMS,
        "epoch_names": epoch_names,
        "epoch_rows": epoch_rows,
        "epochs_logged": len(charts.first_seed(lines)),
        "command": None if data.command is None else text.plain(shlex.join(data.command), 20_000),
        "facts": page_tables.origin(run.run_facts),
        "settings": page_tables.settings(run.run_facts.recipe or {}),
        "version": __version__,
        "folder": text.plain(folder_name, 80),
    }


def _next_steps(run: RunFolder, findings: Findings) -> list[tuple[str, str]]:
    """Return commands with what they are for; none where nothing says where the samples are (`jnpl demo`)."""
    if not (run.path / "data.json").is_file():
        return []
    name = text.plain(shlex.quote(str(run.path)), 300)
    if not findings.is_label_issue.any():
        return [
            (f"jnpl report {name} --budget {min(20, len(findings.is_label_issue))}", "shows the most doubtful labels")
        ]
    return [
        (f"jnpl review {name}", "to decide about the suspects on a page"),
        (f"jnpl apply {name}", "to write the corrected labels"),
    ]


def _notes(run: RunFolder, findings: Findings, results: StoredResults) -> list[str]:
    """Return warnings about the run, for the top of the page."""
    notes = []
    if run.run_facts.status not in (None, "finished"):
        notes.append("The run was not finished when this page was written: results of its second part may be missing.")
    noise = findings.noise
    if noise is not None and noise.caveat is not None:
        sentence = noise_sentence(noise, shlex.quote(str(run.path)))
        notes.append(text.plain(f"{sentence[0].upper()}{sentence[1:]}.", 400))
    if findings.noise_rate > 0.5 and not isinstance(findings, TagSetFindings):
        notes.append(
            "More than half of the labels look wrong: the network may need more epochs, "
            f"or the {'threshold is' if charts.threshold_span(findings) is None else 'thresholds are'} too high."
        )
    return notes + [text.plain(note, 400) for note in results.notes if note != results.judged_by]


def _comparison(run: RunFolder) -> dict[str, Any] | None:
    """Return how checked samples compare with the run that judged them; None in other runs."""
    if (facts := run.comparison) is None:
        return None
    copies = [{name: text.plain(value) for name, value in copy.model_dump().items()} for copy in facts.copies]
    return {
        "run": text.plain(facts.run, 200),
        "sentences": [text.plain(sentence, 400) for sentence in facts.sentences],
        "copies": copies[: page_tables.MAX_PROBLEMS],
        "far": [text.plain(sample.id) for sample in facts.far][: page_tables.MAX_PROBLEMS],
    }
