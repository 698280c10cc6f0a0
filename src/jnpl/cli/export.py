"""`jnpl export`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import Annotated

import typer

from jnpl.cli import options
from jnpl.cli.options import AsJson, Overwrite, TrustCode
from jnpl.internal.importing import find_user_modules
from jnpl.internal.terminal import visible
from jnpl.outputs.export.targets import TARGETS, ExportRequest, targets_with


def _help() -> str:
    names: dict[str, list[str]] = {}  # description -> targets
    for name, target in TARGETS.items():
        names.setdefault(target.description, []).append(name)
    return "; ".join(f"{', '.join(targets)}: {description}" for description, targets in names.items()) + "."


def export(
    run: options.RunArgument,
    *,
    to: Annotated[str, typer.Option(help=_help())],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; for hf, a new folder.")],
    issues: Annotated[
        bool, typer.Option("--issues", help=f"Only the label issues, worst first ({targets_with('issues')}).")
    ] = False,
    image_prefix: Annotated[
        str | None,
        typer.Option(
            help=f"Text before the images' paths ({targets_with('image_prefix')}). Default: /data/local-files/?d="
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help=f"The run's own table, to show its rows; for models, data to check them on ({targets_with('data')})."
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help=f"Folder of the images ({targets_with('root')}). Default: where they were during the run."),
    ] = None,
    trust_code: TrustCode = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the findings of a run, or its model, in a form that other programs read."""
    from jnpl.cli.predict import own_modules
    from jnpl.outputs.export.targets import export as write
    from jnpl.run_folder import RunFolder

    folder = RunFolder(run)
    request = ExportRequest(folder, to, out, issues, image_prefix, data, root, overwrite, trust_code)
    if trust_code:
        find_user_modules(*own_modules(folder))
    facts = write(request)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "to": to, "out": str(out), **facts}))
        return
    typer.echo("".join(f"{name}: {visible(value)}\n" for name, value in facts.items()) + f"written: {visible(out)}")
