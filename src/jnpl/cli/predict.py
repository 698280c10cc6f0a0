"""`jnpl predict`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli import options
from jnpl.cli.options import (
    AsJson,
    DataRoot,
    EmbeddingColumn,
    EmbedFunction,
    ImageColumn,
    ImageRoot,
    Overwrite,
    TextColumn,
    Threads,
    TrustCode,
    Workers,
)
from jnpl.internal.importing import find_user_modules
from jnpl.internal.json_files import read_json
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from jnpl.run_folder import RunFolder

SHOWN = 20  # predictions and unreadable samples to print


def predict(
    run: options.RunArgument,
    data: Annotated[
        str,
        typer.Argument(
            help="Data as for jnpl find, with or without labels; or a folder of images at any depth, or one image."
        ),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for all predictions: .csv, .parquet or .json.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="Predict only the train, test or validation part of an .npz, a named data set or a table with splits."
        ),
    ] = None,
    data_root: DataRoot = None,
    image_column: ImageColumn = None,
    label_column: Annotated[
        str | None, typer.Option(help="A table's column of labels to compare with. Default: label, if it exists.")
    ] = None,
    feature_column: Annotated[
        list[str] | None,
        typer.Option(help="A table's column of numbers (may be repeated). A model of a table knows its columns."),
    ] = None,
    embedding_column: EmbeddingColumn = None,
    text_column: TextColumn = None,
    embed: EmbedFunction = None,
    image_root: ImageRoot = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    workers: Workers = None,
    threads: Threads = None,
    trust_code: TrustCode = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Label new data with the model of a run.

    Gives one row per sample: id, predicted_label, confidence, and the probability of every class; of several tags per
    sample, predicted_tags in place of both. Samples that cannot be read are reported and have no prediction. If the
    data have labels, the accuracy is printed.
    """
    from jnpl.run_folder import RunFolder

    folder = RunFolder(run)
    if out is not None:
        from jnpl.internal.tables import suffix_of
        from jnpl.outputs.output_paths import refuse_target

        suffix_of(out)
        refuse_target(out, folder, overwrite=overwrite, read=data)
    import torch

    from jnpl.data.loading.prepare import default_workers
    from jnpl.data.new_data import open_new
    from jnpl.data.options import OpenOptions
    from jnpl.internal.tables import json_rows
    from jnpl.outputs.predict import predict as label
    from jnpl.outputs.saved_model import load

    if threads is not None:
        torch.set_num_threads(threads)
    find_user_modules(embed, *(own_modules(folder) if trust_code else ()))
    model = load(run, device, trust_code=trust_code)
    options = OpenOptions(
        root=data_root,
        image_column=image_column,
        label_column=label_column,
        feature_columns=feature_column or None,
        embedding_column=embedding_column,
        text_column=text_column,
        embed=embed,
        image_root=image_root,
    )
    several = model.thresholds is not None
    new = open_new(data, model.classes, options, kind=model.kind, encoding=model.encoding, part=part, several=several)
    begin, rows, problems = time.monotonic(), list[dict[str, Any]](), 0

    def show(frame: "pd.DataFrame") -> None:
        if out is None and (as_json or len(rows) < SHOWN):
            rows.extend(json_rows(frame))

    def problem(name: str, reason: str) -> None:
        nonlocal problems
        problems += 1
        if problems <= SHOWN:
            typer.echo(f"cannot be read: {visible(name)} ({visible(reason)})", err=True)

    workers = default_workers() if workers is None else workers
    facts = label(model, new, out=out, workers=workers, show=show, problem=problem)
    if problems > SHOWN:
        typer.echo(f"... and {problems - SHOWN:,} more", err=True)
    facts = {"run": str(run), "data": data, **facts, "seconds": time.monotonic() - begin}
    if as_json:
        typer.echo(json.dumps({**facts, **({"predictions": rows} if out is None else {"out": str(out)})}))
    else:
        _show(facts, rows, out)


def own_modules(run: "RunFolder") -> list[str]:
    """Return the names of the network and the backbone of a run, either of which may be the user's own code."""
    try:
        facts = read_json(run.model_facts)
        return [str(facts["model"]), str((facts.get("backbone") or {}).get("name", ""))]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []  # loading the model reports the error


def _table(rows: list[dict[str, Any]]) -> "Table":
    """Return the first predictions, of those samples that could be read."""
    from rich.table import Table
    from rich.text import Text

    table, tags = Table(box=None), bool(rows) and "predicted_tags" in rows[0]
    for column in ("id", "tags") if tags else ("id", "predicted", "confidence"):
        table.add_column(column, justify="left" if column in ("id", "tags") else "right")
    for row in rows[:SHOWN]:
        if tags:
            table.add_row(Text(visible(row["id"])), Text(visible(", ".join(row["predicted_tags"] or ()))))
        elif row["confidence"] is not None:
            table.add_row(Text(visible(row["id"])), Text(visible(row["predicted_label"])), f"{row['confidence']:.3f}")
    return table


def _show(facts: dict[str, Any], rows: list[dict[str, Any]], out: Path | None) -> None:
    from jnpl.cli.summary import console_for_output

    console = console_for_output()
    if out is None:
        console.print(_table(rows))
        if facts["samples"] > SHOWN:
            console.print(f"... of {facts['samples']:,} samples; -o FILE writes all of them")
    counts = sorted(facts["predicted_labels"].items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{visible(name)} {count:,}" for name, count in counts[:10])
    more = f", and {len(counts) - 10} more classes" if len(counts) > 10 else ""
    console.print(f"{facts['predicted']:,} samples predicted: {listed}{more}")
    if facts["unreadable"]:
        console.print(f"{facts['unreadable']:,} could not be read")
    if "accuracy" in facts:
        console.print(f"accuracy {facts['accuracy']:.3f} on the {facts['labelled']:,} samples with a label")
    if "f1" in facts:
        console.print(f"F1 {facts['f1']:.3f} of the predicted tags, against those in the data")
    if facts.get("unknown_labels"):
        console.print(f"{facts['unknown_labels']:,} samples have labels that the model was not trained on")
    if out is not None:
        console.print(f"every prediction: {visible(out)}")
