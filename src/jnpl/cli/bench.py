"""`jnpl bench` and `jnpl bench status`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli.options import Address, AsJson, DataRoot, EngineName, Gpus, Jobs, show_line
from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

if TYPE_CHECKING:
    from jnpl.experiments.spec import RunSpec

_IMAGES = 5_000  # of CIFAR: two cores train on them in minutes

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results (required). The unfinished runs in it are resumed."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Methods to compare, such as ce,fast,cleanlab. Default: all.")
    ] = None,
    data: Annotated[str, typer.Option(help="cifar10, cifar10n, digits, wine, breast-cancer or iris.")] = "cifar10",
    noise: Annotated[
        list[str] | None,
        typer.Option(
            help="symm:0.4, asymm:0.2, instance:0.3 or none (may be repeated). Default: symm:0.4; cifar10n: human."
        ),
    ] = None,
    images: Annotated[
        int | None,
        typer.Option(min=1, help="Number of training samples. Default: 5,000 for CIFAR, all for other data."),
    ] = None,
    pixels: Annotated[int | None, typer.Option(help="CIFAR: side of the images, 16 or 32 pixels. Default: 16.")] = None,
    net: Annotated[
        str, typer.Option(help="The network. Default: auto (resnet8 for images, mlp for vectors).")
    ] = "auto",
    epochs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Epochs for every method.")] = 30,
    batch_size: Annotated[int, typer.Option(min=2, max=1_000_000, help="Samples per step.")] = 64,
    padding: Annotated[int, typer.Option(min=0, help="CIFAR: padding before a random crop; 0: flip only.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of seeds, from 1 on, of noise and training.")
    ] = 3,
    jobs: Jobs = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on data with known true labels: wrong labels found, test accuracy, time.

    Writes results.jsonl with a line for each method, noise and seed, table.md and ap-time.png. Stopped at any moment,
    an experiment is resumed by the same command. The variant cleanlab needs jnpl[bench], --engine ray needs jnpl[ray].
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    if out is None:
        raise InputError("Missing option '--out' / '-o'. (see jnpl bench --help)")
    from jnpl.experiments import result_tables as tables
    from jnpl.experiments.execute import RunEngine, run_all
    from jnpl.experiments.results import FILE
    from jnpl.experiments.run_data import check
    from jnpl.experiments.variants import BENCH, CIFAR, TABLE
    from jnpl.models.build import MODELS

    names = list(TABLE) if rows is None else list(dict.fromkeys(name.strip() for name in rows.split(",")))
    if unknown := [name for name in names if name not in BENCH]:
        raise InputError(f"there is no variant {unknown[0]!r}; there are {', '.join(BENCH)}")
    kinds = [_noise(text) for text in noise or ["human" if data == "cifar10n" else "symm:0.4"]]
    is_cifar = data in CIFAR
    same = {
        "data": data,
        "images": images or (_IMAGES if is_cifar else None),
        "net": net,
        "epochs": epochs,
        "pixels": pixels or (16 if is_cifar else None),
        "batch_size": batch_size,
        "padding": padding,
    }
    specs = [
        _spec({**same, "variant": name, "noise": kind, "rate": rate, "seed": seed})
        for seed in range(1, seeds + 1)
        for kind, rate in kinds
        for name in names
    ]
    if any(BENCH[name].folds for name in names):
        require("cleanlab", "bench")
    tables.check_folder(out)
    where = RunEngine(engine, address, gpus)
    if net != "auto" and net not in MODELS:
        raise InputError(f"unknown network {net!r}: auto, or one of {', '.join(MODELS)}")
    check(specs, data_root)
    failed = run_all(specs, out / FILE, out / "work", jobs, data_root, show_line, engine=where)
    text = tables.write(out / FILE, out) if len(failed) < len(specs) else ""
    if as_json:
        summary = tables.summary(tables.load(out / FILE))
        typer.echo(json.dumps({"out": str(out), "cells": len(specs), "failed": failed, "rows": summary}))
    else:
        typer.echo(text)
    if failed:
        raise typer.Exit(1)


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of jnpl bench or jnpl reproduce.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show the state of an experiment: runs done, running, waiting and failed (with the error), and the time left."""
    from jnpl.experiments.status import read

    progress = read(folder)
    typer.echo(json.dumps({"dir": str(folder), **progress.facts()}) if as_json else progress.text())


def _refuse_options(context: typer.Context) -> None:
    """Refuse options before a subcommand, which would ignore them: `jnpl bench --rows ce status DIR`."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
            command = context.invoked_subcommand
            raise InputError(f"{option} before {command} is an option of jnpl bench, not of jnpl bench {command}")


def _noise(text: str) -> tuple[str, float]:
    """Parse a kind of noise and its rate, such as symm:0.4."""
    kind, sign, rate = text.strip().partition(":")
    try:
        return kind, float(rate) if sign else 0.0
    except ValueError:
        raise InputError(f"--noise takes a kind and a rate, such as symm:0.4, got {text!r}") from None


def _spec(settings: dict[str, Any]) -> "RunSpec":
    from pydantic import ValidationError

    from jnpl.experiments.spec import RunSpec

    try:
        return RunSpec.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        got = f", got {first['input']!r}" if field else ""
        raise InputError(f"{field}{': ' if field else ''}{first['msg'].removeprefix('Value error, ')}{got}") from None
