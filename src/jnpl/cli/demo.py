"""`jnpl demo`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import Annotated

import typer

from jnpl.cli.options import AsJson


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder. An earlier demo in it is replaced.")] = Path(
        "jnpl-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="The first seed, of split, noise, weights and sampling.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=10_000, help="Number of seeds to average over.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Find 40 % wrong labels among handwritten digits, in about a minute and without a download."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from jnpl.experiments import demo as demo_run

    demo_run.prepare_folder(out)
    settings = demo_run.DemoSettings()
    with Progress(
        TextColumn("{task.description:24}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("reading the digits", total=len(demo_run.METHODS) * seeds * settings.epochs)

        def on_epoch(name: str, at: int) -> None:
            progress.update(task, advance=1, description=f"{demo_run.TITLES[name]}, seed {at}")

        result = demo_run.run(out, list(range(seed, seed + seeds)), settings, on_epoch)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        demo_run.show(result, Console(highlight=False))
