"""`jnpl check`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jnpl.cli import options
from jnpl.cli.options import AsJson, Cache, DataRoot, GroupColumn, Threads, TrustCode, Workers
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.outputs.checking import CheckedBatch

_SHOWN = 10  # label issues to list
FAILED = 3  # exit code


def check(
    run: options.RunArgument,
    data: Annotated[str, typer.Argument(help="New labelled data, in the same form as the run's.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder to write: findings, report, for jnpl review.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="A table's column of given labels. Default: as in the run.")
    ] = None,
    group_column: GroupColumn = None,
    data_root: DataRoot = None,
    fail_above: Annotated[
        str | None, typer.Option(help="Exit with 3 if surely more labels are wrong than this share, such as 2%.")
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(help="Exit with 3 on any of new-issues, leaks, unknown-classes, shift, separated by commas."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="Output of an earlier --json, whose label issues pass this time.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="File to write: JUnit XML.")] = None,
    sarif: Annotated[Path | None, typer.Option(help="File to write: SARIF 2.1.0.")] = None,
    workers: Workers = None,
    threads: Threads = None,
    cache: Cache = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Judge new labelled data with a finished run, and compare them with its data.

    Lists labels that look wrong, classes that the run does not know, samples like nothing in the run, copies of its
    samples, and whether classes, noise rate or samples have shifted. Columns are those of the run. With --fail-above or
    --fail-on, the exit code is 3 if the data do not pass, and a line says why.
    """
    from jnpl.outputs.gate import new_issues, parse_share, parse_signals, read_baseline, reasons, refuse_other_file

    refuse_other_file(junit, "junit")
    refuse_other_file(sarif, "sarif")
    share, names = None if fail_above is None else parse_share(fail_above), parse_signals(fail_on)
    listed = set() if baseline is None else read_baseline(baseline)
    from jnpl.run_folder import RunFolder

    target = None if out is None else RunFolder(out)
    if target is not None:
        target.check_outside(data)
        target.check_place()
    import torch

    from jnpl.api.check import check_data, origin_of
    from jnpl.outputs.checking import summary
    from jnpl.outputs.gate import write_junit, write_sarif
    from jnpl.training.reporting import Reporter

    if threads is not None:
        torch.set_num_threads(threads)
    changes = {"label_column": label_column, "group_columns": group_column or None, "root": data_root}
    opening = {name: value for name, value in changes.items() if value is not None}
    report = Reporter()
    with options.collected_log() as report.first:
        batch = check_data(run, data, None, opening, cache=cache, workers=workers, trust_code=trust_code, report=report)
    for line in report.first:  # that no note of the embedding has printed
        typer.echo(f"jnpl: {visible(line)}", err=True)
    report.first = []
    if target is not None:
        from jnpl.outputs.report import page

        batch.write(target, origin_of(RunFolder(run), data, opening, ["jnpl", *sys.argv[1:]]), report)
        page.write(target)
    failed = reasons(batch, share, names, listed)
    if junit is not None:
        write_junit(junit, batch, failed, listed)
    if sarif is not None:
        write_sarif(sarif, batch, data, listed)
    if as_json:
        place = {} if out is None else {"out": str(out)}
        facts = {"run": str(run), "data": data, **place, **summary(batch), "failed": failed, **_details(batch)}
        typer.echo(json.dumps(facts))
    else:
        _show(batch, new_issues(batch, listed).tolist()[:_SHOWN], out)
    if failed:
        typer.echo(f"jnpl: the gate failed: {visible('; '.join(failed))}", err=True)
        raise typer.Exit(FAILED)


def _details(batch: "CheckedBatch") -> dict[str, object]:
    """Return what `--json` adds to the counts: the comparison with the run, and every label issue."""
    from jnpl.cli.summary import SUSPECT_COLUMNS, group_facts
    from jnpl.internal.provenance import plain
    from jnpl.outputs.gate import new_issues

    rows = batch.findings.table.iloc[new_issues(batch)]
    facts = {name: value for name, value in batch.facts.items() if name != "run"}
    return {**facts, **group_facts(batch.findings), "suspects": plain(rows[SUSPECT_COLUMNS].to_dict(orient="records"))}


def _show(batch: "CheckedBatch", listed: list[int], out: Path | None) -> None:
    from jnpl.cli.summary import console_for_output, estimate, headline, worst_labels

    console, findings = console_for_output(), batch.findings
    issues, samples = int(findings.is_label_issue.sum()), len(findings.given_labels)
    console.print(f"{headline(issues, samples, findings)}{estimate(findings)}")
    for sentence in batch.facts["sentences"]:
        console.print(visible(sentence))
    if listed:
        console.print(worst_labels(findings, listed))
    if out is not None:
        console.print(f"report: {visible(out / 'report.html')}")
