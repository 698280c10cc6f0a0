"""`jnpl audit`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli import options
from jnpl.cli.options import AsJson, Overwrite, TrustCode
from jnpl.cli.review import Page, serve_page, user_name
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.outputs.audit_session import AuditSession

_CLASSES = 20  # that are printed


def audit(
    run: options.RunArgument,
    *,
    count: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, help="How many labels to check. Default: 50, or those drawn before."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the labels to check to this table and open no page; fill in `label`."),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(help="Read the answers from such a table: the right label of each, or unsure, or wrong."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Where the data of the run are now. Default: where they were during the run.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the page. Default: a free one.")] = None,
    reviewer: Annotated[str | None, typer.Option(help="Your name beside your answers. Default: user name.")] = None,
    trust_code: TrustCode = False,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Check labels drawn at random: an unbiased share of wrong labels, with an exact interval.

    A page shows one sample after the other with its given label, without what the run thinks of it; keys answer.
    Answers are kept in audit.json in the run folder, and the next call continues. They replace the estimate of the run
    and adjust label quality and threshold; the report is renewed. With --json, only the result so far is printed.
    """
    from jnpl.outputs.audit_session import AuditSession
    from jnpl.run_folder import RunFolder

    folder = RunFolder(run)
    session = AuditSession(folder, count)
    facts = session.facts()
    if out is not None:
        _write_table(session, out, overwrite=overwrite)
    if answers is not None:
        session.answer(_read_table(session, answers), by=(reviewer or user_name())[:80])
    page_wanted = out is None and answers is None and not as_json
    if page_wanted:
        serve_page(folder, Page(data, "127.0.0.1", port, None, reviewer, trust_code, show), session)
    if session.facts().answers or facts.answers:
        session.apply()
    result = session.result()
    if as_json:
        typer.echo(json.dumps(result))
    else:
        for line in summary(result):
            typer.echo(visible(line))


def summary(result: dict[str, Any]) -> list[str]:
    """Return the result in lines."""
    left, run = result["drawn"] - result["answered"], shlex.quote(result["run"])
    lines = [f"{result['answered']:,} of {result['drawn']:,} labels are checked"] if left else []
    if "noise_rate" not in result:
        return [*lines, "no label was judged yet: there is no result"]
    low, high = result["noise_interval"]
    lines.append(
        f"{result['wrong']:,} of {result['checked']:,} checked labels are wrong: share of wrong labels "
        f"{result['noise_rate']:.1%} ({low:.1%} to {high:.1%} with 90 % confidence)"
    )
    if result["unsure"]:
        lines.append(f"  {result['unsure']:,} more were left as unsure; the interval allows for both answers")
    for row in result["by_class"][:_CLASSES]:
        low, high = row["noise_interval"]
        shares = f"{row['wrong']:,} of {row['checked']:,} wrong ({low:.0%} to {high:.0%})"
        lines.append(f"  {row['class']}: {shares}")
    if len(result["by_class"]) > _CLASSES:
        lines.append(f"  ... and {len(result['by_class']) - _CLASSES:,} more classes (--json)")
    if result["more_to_halve"] is not None:
        total = result["drawn"] + result["more_to_halve"]
        lines.append(f"{result['more_to_halve']:,} more checks would halve the interval: jnpl audit {run} -n {total}")
    return lines


def _write_table(session: "AuditSession", out: Path, *, overwrite: bool) -> None:
    """Write id and given label of the labels that are not checked yet, in order, with an empty column label; texts with
    their beginning."""
    import pandas as pd

    from jnpl.internal.tables import suffix_of, table_writer
    from jnpl.outputs.output_paths import refuse_target

    suffix_of(out)
    refuse_target(out, session.run, overwrite=overwrite)
    facts, findings = session.facts(), session.run.findings
    rows = [at for at in facts.positions if at not in facts.labels]
    given = [session.names[int(findings.given_labels[at])] for at in rows]
    table = pd.DataFrame({"id": [findings.ids[at] for at in rows], "given_label": given, "label": ""})
    excerpts = [] if findings.excerpts is None else findings.excerpts.tolist()
    if excerpts and None not in excerpts:  # texts; of a table only suspects have some, which would tell them
        table["sample"] = [excerpts[at] for at in rows]
    with table_writer(out) as write:
        write(table)
    session.keep()
    name = visible(out)
    typer.echo(f"jnpl: {len(rows):,} labels to check: {name}; fill in label, then --answers {name}", err=True)


def _read_table(session: "AuditSession", answers: Path) -> list[tuple[int, int]]:
    """Return position and answer of the rows of a table that are filled in."""
    from jnpl.internal.tables import load_table, require_columns, unescaped
    from jnpl.judging.audit import UNSURE_LABEL, WRONG_LABEL

    table = load_table(answers)
    require_columns(map(str, table.columns), ("id", "label"), repr(str(answers)))
    findings, rows = session.run.findings, []
    place = {str(findings.ids[at]): at for at in session.facts().positions}
    labels = {str(name): number for number, name in enumerate(session.names)}
    words = {"wrong": WRONG_LABEL, "unsure": UNSURE_LABEL} | labels
    answered: dict[str, str] = {}
    for cells in zip(table["id"].astype(str), table["label"].astype("string").fillna(""), strict=True):
        name, label = (text if text in place or text in words else unescaped(text) for text in cells)
        if not label.strip():
            continue
        if name not in place or label not in words:
            what = (
                f"id {name!r} is not one of the labels to check"
                if name not in place
                else f"label {label!r} is no class"
            )
            raise InputError(f"{str(answers)!r}: {what}")
        if answered.setdefault(name, label) != label:
            raise InputError(f"{str(answers)!r}: id {name!r} has the label {answered[name]!r} and the label {label!r}")
        rows.append((place[name], words[label]))
    return rows
