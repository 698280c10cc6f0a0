"""`jnpl report`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, as jnpl find and jnpl train write it.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page to write. Default: report.html in the run folder.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the page of -o, if it is there; the run's own always is.")
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Write what a run found as one HTML page to read, print or send: it opens offline and needs no other file."""
    from jnpl.outputs.report import page

    if out is not None and not _is_own(out, run, page.FILE):
        from jnpl.outputs.export.targets import refuse_target

        refuse_target(out, run, overwrite=overwrite)
    written = page.write(run, out)
    if show:
        import webbrowser

        if not webbrowser.open(written.resolve().as_uri()):
            typer.echo("jnpl: note: no browser could be opened", err=True)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "report": str(written), "bytes": written.stat().st_size}))
    else:
        typer.echo(f"written  {written}")


def _is_own(out: Path, run: Path, name: str) -> bool:
    """Whether `out` is the run's own page, which a report may always replace."""
    return out.name == name and out.parent.exists() and run.exists() and out.parent.samefile(run)
