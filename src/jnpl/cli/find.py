"""`jnpl find` and `jnpl train`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
import re
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.training.run import Every


def find(
    data: Annotated[
        str,
        typer.Argument(help="An image folder, a .csv or .parquet table, an .npz, a name (jnpl datasets) or hf:NAME."),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder; an unfinished run there goes on.")],
    recipe: Annotated[
        str | None, typer.Option(help="A name (jnpl recipes) or a .toml file. Default: fast; with --method: small.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Another method than the recipe's (jnpl methods), with its own settings.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value, such as train.epochs=20.")
    ] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Where named data sets lie. Default: JNPL_DATA, or a cache folder.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Given labels in place of the data's own: of `jnpl apply`, or of `jnpl corrupt`."),
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="A table's column of image paths.")] = None,
    label_column: Annotated[str | None, typer.Option(help="A table's column of given labels. Default: label.")] = None,
    true_label_column: Annotated[str | None, typer.Option(help="A table's column of true labels.")] = None,
    feature_column: Annotated[
        list[str] | None, typer.Option(help="A table's column to learn from (repeat it). Default: all.")
    ] = None,
    embedding_column: Annotated[str | None, typer.Option(help="A table's column of embeddings.")] = None,
    text_column: Annotated[str | None, typer.Option(help="A table's column of texts, with --embed.")] = None,
    embed: Annotated[
        str | None, typer.Option(help="What makes vectors of texts: MODULE:FUNCTION, list of texts -> (n, F).")
    ] = None,
    image_root: Annotated[
        Path | None, typer.Option(help="Where a table's image paths start. Default: beside it.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="cifar10n: worse, aggre, random1 to random3; cifar100n: noisy, noisy_coarse.")
    ] = None,
    coarse: Annotated[bool, typer.Option("--coarse", help="cifar100: the 20 super-classes.")] = False,
    balanced: Annotated[bool, typer.Option("--balanced", help="clothing1m: as many of each class.")] = False,
    size: Annotated[
        int | None, typer.Option(min=8, help="Pixels to train images of files at. Default: as suits them.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of the data to keep aside and test on, such as 0.1.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="Data to test on, of the same form as DATA.")] = None,
    threshold: Annotated[
        str | None, typer.Option(help="Label quality below which a label is an issue: 0.5, auto, per-class or 1/c.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Suspects to list.")] = 20,
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    weights: Annotated[
        str | None, typer.Option(help="Pretrained weights: a path, or an address ending in #sha256:...")
    ] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Processes, one a device.")] = None,
    accelerator: Annotated[str | None, typer.Option(help="cpu, gpu, mps or auto.")] = None,
    num_nodes: Annotated[int | None, typer.Option(min=1, help="Machines.")] = None,
    precision: Annotated[str | None, typer.Option(help="32, bf16-mixed or 16-mixed.")] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Decoding processes. Default: one a core.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for decoded images that do not fit in memory.")] = None,
    checkpoint_every: Annotated[
        str, typer.Option(help="Epochs (5), minutes (10m) or seconds (30s) between checkpoints.")
    ] = "1m",
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a sample that cannot be read.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log for TensorBoard.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of each process.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Weights, order, crops and draws follow from it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Train once on the given labels and say which are wrong.

    Writes findings.csv, findings.parquet, report.html, metrics.jsonl, run.json and the model to the run folder. Killed
    at any moment, the same command goes on where it was.
    """
    _run(**{**locals(), "classify": False})


@wraps(find)
def train(**options: Any) -> None:
    """Find the wrong labels, then train a classifier that they do not fool."""
    _run(**options, classify=True)


train.__name__ = "train"
train.__doc__ = """Find the wrong labels, then train a classifier that they do not fool.

    For jnpl and nlnl a network learns from what the filter found: kept labels, and pseudo-labels in place of the
    others; the other methods have a classifier of their own. A run folder of `jnpl find` goes on from what it found.
    With --labels corrected.csv it learns from the labels that `jnpl apply` wrote. Killed at any moment, the same
    command goes on.
    """


def _run(
    data: str,
    *,
    out: Path,
    recipe: str | None,
    method: str | None,
    change: list[str] | None,
    data_root: Path | None,
    labels: Path | None,
    image_column: str | None,
    label_column: str | None,
    true_label_column: str | None,
    feature_column: list[str] | None,
    embedding_column: str | None,
    text_column: str | None,
    embed: str | None,
    image_root: Path | None,
    noise: str | None,
    coarse: bool,
    balanced: bool,
    size: int | None,
    holdout: float | None,
    test: str | None,
    threshold: str | None,
    top: int,
    report: bool,
    weights: str | None,
    devices: int | None,
    accelerator: str | None,
    num_nodes: int | None,
    precision: str | None,
    workers: int | None,
    cache: Path | None,
    checkpoint_every: str,
    strict: bool,
    tensorboard: bool,
    threads: int | None,
    seed: int,
    as_json: bool,
    classify: bool,
) -> None:
    every = _every(checkpoint_every)
    overrides = {
        "weights": weights,
        "verdict.threshold": threshold,
        "engine.devices": devices,
        "engine.accelerator": accelerator,
        "engine.num_nodes": num_nodes,
        "engine.precision": precision,
        "engine.workers": workers,
        "engine.cache": cache,
        "data.size": size,
    }
    if not data.strip():
        raise InputError("DATA is empty; name a folder, a table, an .npz or a data set (jnpl datasets)")
    if holdout is not None and test is not None:
        raise InputError("--holdout and --test exclude each other")
    import torch

    from jnpl.recipes.automatic import adapt_recipe
    from jnpl.recipes.load import load_default_recipe, parse_changes
    from jnpl.training.progress import Reporter
    from jnpl.training.run import find as run

    changes = parse_changes(change or ()) | {key: value for key, value in overrides.items() if value is not None}
    first = load_default_recipe(recipe, method, changes)
    if threads is not None:
        torch.set_num_threads(threads)
    if ":" in first.model or embed is not None:
        sys.path.append(str(Path.cwd()))  # a module of one's own, after all that is installed
    columns: dict[str, Any] = {
        "image_column": image_column,
        "label_column": label_column,
        "feature_columns": feature_column or None,
        "embedding_column": embedding_column,
        "text_column": text_column,
        "embed": embed,
        "image_root": image_root,
        "root": data_root,
    }
    own = {
        "true_label_column": true_label_column,
        "noise": noise,
        "val_size": first.data.val_size,
        "coarse": coarse,
        "balanced": balanced,
    }
    source, held_out = _open(data, columns, own, labels, holdout, test, seed)
    say = Reporter()
    settings, choices = adapt_recipe(source, recipe, method, changes)
    say.first = list(choices)
    result = run(
        source,
        settings,
        out,
        seed=seed,
        every=every,
        strict=strict,
        report=say,
        tensorboard=tensorboard,
        classify=classify,
    )
    if result is None:
        return  # not the first of several processes
    from jnpl.cli.summary import facts, show
    from jnpl.outputs import data_report as dossier

    command = ["jnpl", *sys.argv[1:]]
    dossier.write(out, source, command=command, choices=choices, held_out=held_out, report=report)
    if as_json:
        typer.echo(json.dumps(result | facts(out, top)))
    else:
        show(result, out, top)


def _open(
    data: str,
    columns: dict[str, Any],
    own: dict[str, Any],
    labels: Path | None,
    holdout: float | None,
    test: str | None,
    seed: int,
) -> "tuple[Source, list[dict[str, Any]]]":
    """The data to learn from, with test data, and id and given label of those that are kept aside."""
    from jnpl.data import split
    from jnpl.data.corrected_labels import with_labels
    from jnpl.data.opening import TABLES, open_source

    source = open_source(data, **columns, **own)
    if labels is not None:
        source = with_labels(source, labels)
    aside: list[dict[str, Any]] = []
    if holdout is not None:
        positions = split.to_hold_out(source, holdout, seed)
        named = zip(source.ids[positions].tolist(), source.labels[positions].tolist(), strict=True)
        aside = [{"id": name, "label": source.class_names[label]} for name, label in named]
        source = split.hold_out(source, positions)
    if test is not None:
        if source.encoding is not None and Path(test).suffix.lower() in TABLES:
            columns = {**columns, "feature_columns": None, "encoding": source.encoding}  # which knows the columns
        source = split.with_test(source, open_source(test, **columns))
    return source, aside


def _every(text: str) -> "Every":
    match = re.fullmatch(r"(\d+)([ms]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise InputError(f"--checkpoint-every takes epochs (5), minutes (10m) or seconds (30s), got {text!r}")
    from jnpl.training.run import Every

    amount = int(match[1])
    if not match[2]:
        return Every(epochs=amount, seconds=None)
    return Every(seconds=amount * (60.0 if match[2] == "m" else 1.0))
