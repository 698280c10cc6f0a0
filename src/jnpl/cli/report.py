"""`jnpl report`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import Annotated

import typer

from jnpl.cli import options
from jnpl.cli.options import AsJson
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible


def report(
    run: options.RunArgument,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page to write. Default: report.html in the run folder.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace the page of -o if it exists. The run's own is always replaced."),
    ] = False,
    threshold: Annotated[
        str | None, typer.Option(help="New threshold of label quality: auto, a number (0.5), per-class or 1/c.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Share of the label issues that should truly be wrong, such as 0.9.")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="List as many label issues as you can check.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make these the label issues of the run, for review and apply too.")
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the findings of a run as one HTML page, which needs no network and no other file.

    With --threshold, --precision or --budget, the page shows label issues that are chosen anew; nothing is trained. The
    findings of the run stay as they are, unless --replace is given.
    """
    from jnpl.outputs.report import page
    from jnpl.run_folder import RunFolder

    folder, rule = RunFolder(run), options.threshold(threshold, precision, budget)
    if out is not None and not _is_same(out, folder.report_page):  # which is always replaced
        from jnpl.outputs.output_paths import refuse_target

        refuse_target(out, folder, overwrite=overwrite)  # before the findings are replaced
    if replace and rule is None:
        raise InputError("--replace goes with --threshold, --precision or --budget")
    if replace and rule is not None:
        count = folder.change_threshold(rule)
        issues = "label issue" if count == 1 else "label issues"
        typer.echo(f"jnpl: the run now has {count:,} {issues}; its findings are replaced", err=True)
    written = page.write(folder, out, None if replace else rule)
    if show:
        import webbrowser

        if not webbrowser.open(written.resolve().as_uri()):
            typer.echo("jnpl: note: no browser could be opened", err=True)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "report": str(written), "bytes": written.stat().st_size}))
    else:
        typer.echo(f"report: {visible(written)}")


def _is_same(path: Path, other: Path) -> bool:
    """Return whether two paths name the same place in folders that exist."""
    folders = path.parent, other.parent
    return path.name == other.name and all(folder.exists() for folder in folders) and folders[0].samefile(folders[1])
