"""`jnpl predict`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20  # rows on the screen, and lines about samples that cannot be read


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[
        str,
        typer.Argument(
            help="What jnpl find takes, with labels or without; also a folder of images of any depth, or one image."
        ),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write all predictions: a new .csv, .parquet or .json file.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="train, test or validation, of an .npz or a data set with a name.")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Where named data sets lie. Default: JNPL_DATA, or a cache folder.")
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="A table's column of image paths.")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="A table's column of labels to compare with. Default: label, if it is there.")
    ] = None,
    feature_column: Annotated[
        list[str] | None,
        typer.Option(help="A table's column (repeat it), for a model that was not trained on a table."),
    ] = None,
    embedding_column: Annotated[str | None, typer.Option(help="A table's column of embeddings.")] = None,
    text_column: Annotated[str | None, typer.Option(help="A table's column of texts, with --embed.")] = None,
    embed: Annotated[
        str | None, typer.Option(help="What makes vectors of texts, as in training: MODULE:FUNCTION.")
    ] = None,
    image_root: Annotated[
        Path | None, typer.Option(help="Where a table's image paths start. Default: beside it.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    workers: Annotated[int | None, typer.Option(min=0, help="Decoding processes. Default: one a core.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of -o, if it is there; never a file of a run.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Label new data with the model of a run.

    A row per sample: id, predicted_label, confidence, and the probability of every class. What cannot be read is
    reported and has an empty prediction. If the data have labels, the accuracy is told.
    """
    if out is not None:
        from jnpl.internal.tables import suffix_of
        from jnpl.outputs.export.targets import refuse_target

        suffix_of(out)
        refuse_target(out, run, overwrite=overwrite, read=data)
    import torch

    from jnpl.data.loading.prepare import default_workers
    from jnpl.data.new_data import TableColumns, open_new
    from jnpl.internal.tables import json_rows
    from jnpl.outputs.predict import predict as label
    from jnpl.outputs.saved_model import load

    if threads is not None:
        torch.set_num_threads(threads)
    find_own_modules(run, embed)
    model = load(run, device)
    columns = TableColumns(
        image_column, label_column, feature_column or None, embedding_column, text_column, embed, image_root
    )
    new = open_new(
        data, model.classes, kind=model.kind, encoding=model.encoding, part=part, root=data_root, columns=columns
    )
    begin, rows, problems = time.monotonic(), list[dict[str, Any]](), 0

    def show(frame: "pd.DataFrame") -> None:
        if out is None and (as_json or len(rows) < SHOWN):
            rows.extend(json_rows(frame))

    def problem(name: str, reason: str) -> None:
        nonlocal problems
        problems += 1
        if problems <= SHOWN:
            typer.echo(f"cannot be read: {name} ({reason})", err=True)

    workers = default_workers() if workers is None else workers
    told = label(model, new, out=out, workers=workers, show=show, problem=problem)
    if problems > SHOWN:
        typer.echo(f"... and {problems - SHOWN:,} more", err=True)
    told = {"run": str(run), "data": data, **told, "seconds": time.monotonic() - begin}
    if as_json:
        typer.echo(json.dumps({**told, **({"predictions": rows} if out is None else {"out": str(out)})}))
    else:
        _show(told, rows, out)


def find_own_modules(run: Path, embed: str | None = None) -> None:
    """Let a network or a function of one's own be imported from the working directory, if the run or `embed` has one.

    The folder comes last: a file in it that is called as a package of ours is not run in its place.
    """
    try:
        model = json.loads((run / "model.json").read_text("utf-8"))["model"]
    except (OSError, ValueError, LookupError, TypeError):
        model = ""  # loading it says what is wrong
    if ":" in str(model) or embed is not None:
        sys.path.append(str(Path.cwd()))


def _show(told: dict[str, Any], rows: list[dict[str, Any]], out: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    table = Table(box=None)
    for column in ("id", "predicted", "confidence"):
        table.add_column(column, justify="left" if column == "id" else "right")
    for row in rows[:SHOWN]:
        if row["confidence"] is not None:
            table.add_row(Text(str(row["id"])), Text(str(row["predicted_label"])), f"{row['confidence']:.3f}")
    if out is None:
        console.print(table)
        if told["samples"] > SHOWN:
            console.print(f"... of {told['samples']:,} samples; -o FILE writes all of them")
    counts = sorted(told["predicted_labels"].items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{name} {count:,}" for name, count in counts[:10])
    more = f", and {len(counts) - 10} more classes" if len(counts) > 10 else ""
    console.print(f"{told['predicted']:,} samples predicted: {listed}{more}")
    if told["unreadable"]:
        console.print(f"{told['unreadable']:,} could not be read")
    if "accuracy" in told:
        console.print(f"accuracy {told['accuracy']:.3f} on the {told['labelled']:,} samples with a label")
    if told.get("unknown_labels"):
        console.print(f"{told['unknown_labels']:,} samples have labels that the model was not trained on")
    if out is not None:
        console.print(f"every prediction: {out}")
