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

from jnpl.errors import InputError

if TYPE_CHECKING:
    from jnpl.run import Every


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
        typer.Option(help="Given labels from `jnpl corrupt` in place of the data's own, which are then true."),
    ] = None,
    image_column: Annotated[str | None, typer.Option(help="A table's column of image paths.")] = None,
    label_column: Annotated[str | None, typer.Option(help="A table's column of given labels. Default: label.")] = None,
    true_label_column: Annotated[str | None, typer.Option(help="A table's column of true labels.")] = None,
    feature_column: Annotated[
        list[str] | None, typer.Option(help="A table's column to learn from (repeat it). Default: all numeric ones.")
    ] = None,
    embedding_column: Annotated[str | None, typer.Option(help="A table's column of embeddings.")] = None,
    image_root: Annotated[
        Path | None, typer.Option(help="Where a table's image paths start. Default: beside it.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="cifar10n: worse, aggre, random1 to random3; cifar100n: noisy, noisy_coarse.")
    ] = None,
    coarse: Annotated[bool, typer.Option("--coarse", help="cifar100: the 20 super-classes.")] = False,
    balanced: Annotated[bool, typer.Option("--balanced", help="clothing1m: as many of each class.")] = False,
    size: Annotated[int | None, typer.Option(min=8, help="Pixels to train images of files at. Default: 64.")] = None,
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

    Writes findings.csv, findings.parquet, metrics.jsonl, run.json and the model to the run folder. Killed at any
    moment, the same command goes on where it was.
    """
    _run(**{**locals(), "classify": False})


@wraps(find)
def train(**options: Any) -> None:
    """Find the wrong labels, then train a classifier that they do not fool."""
    _run(**options, classify=True)


train.__name__ = "train"
train.__doc__ = """Find the wrong labels, then train a classifier that they do not fool.

    For jnpl and nlnl a fresh network learns from the labels that were kept, and from pseudo-labels in place of the
    others; the other methods have a classifier of their own. Killed at any moment, the same command goes on.
    """


def _run(
    data: str, *, out: Path, recipe: str | None, method: str | None, change: list[str] | None, data_root: Path | None,
    labels: Path | None, image_column: str | None, label_column: str | None, true_label_column: str | None,
    feature_column: list[str] | None, embedding_column: str | None, image_root: Path | None, noise: str | None,
    coarse: bool, balanced: bool, size: int | None, weights: str | None, devices: int | None, accelerator: str | None,
    num_nodes: int | None, precision: str | None, workers: int | None, cache: Path | None, checkpoint_every: str,
    strict: bool, tensorboard: bool, threads: int | None, seed: int, as_json: bool, classify: bool,
) -> None:  # fmt: skip
    every = _every(checkpoint_every)
    overrides = {
        "method.name": method, "weights": weights, "engine.devices": devices, "engine.accelerator": accelerator,
        "engine.num_nodes": num_nodes, "engine.precision": precision, "engine.workers": workers,
        "engine.cache": cache, "data.size": size,
    }  # fmt: skip
    from jnpl.config import load_recipe

    changes = [*(change or []), *(f"{key}={_quoted(value)}" for key, value in overrides.items() if value is not None)]
    recipe = recipe or ("fast" if method in (None, "jnpl") else "small")  # fast is made for jnpl alone
    settings = load_recipe(recipe, changes)
    if not data.strip():
        raise InputError("DATA is empty; name a folder, a table, an .npz or a data set (jnpl datasets)")
    import torch

    from jnpl.data.opening import open_source
    from jnpl.progress import Reporter
    from jnpl.run import find as run
    from jnpl.run import with_labels

    if threads is not None:
        torch.set_num_threads(threads)
    if ":" in settings.model:
        sys.path.insert(0, str(Path.cwd()))  # a module of one's own, as `python -m` would find it
    source = open_source(
        data, root=data_root, image_column=image_column, label_column=label_column, true_label_column=true_label_column,
        feature_columns=feature_column or None, embedding_column=embedding_column, image_root=image_root, noise=noise,
        val_size=settings.data.val_size, coarse=coarse, balanced=balanced,
    )  # fmt: skip
    if labels is not None:
        source = with_labels(source, labels)
    if source.kind == "image" and settings.data.size is None and not hasattr(source.inputs, "values"):
        settings = load_recipe(recipe, [*changes, "data.size=64"])
    result = run(
        source, settings, out, seed=seed, every=every, strict=strict, report=Reporter(), tensorboard=tensorboard,
        classify=classify,
    )  # fmt: skip
    if result is None:
        return  # not the first of several processes
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result, out)


def _quoted(value: object) -> str:
    """A value as TOML has it: a path called 12 or none is still a path."""
    return str(value) if isinstance(value, int) else json.dumps(str(value), ensure_ascii=False)


def _every(text: str) -> "Every":
    match = re.fullmatch(r"(\d+)([ms]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise InputError(f"--checkpoint-every takes epochs (5), minutes (10m) or seconds (30s), got {text!r}")
    from jnpl.run import Every

    amount = int(match[1])
    if not match[2]:
        return Every(epochs=amount, seconds=None)
    return Every(seconds=amount * (60.0 if match[2] == "m" else 1.0))


def _show(result: dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from jnpl.findings import Findings

    console = Console(highlight=False)
    found = f"{result['issues']:,} of {result['samples']:,} labels look wrong ({result['noise_rate']:.1%})"
    console.print(f"{found}, {result['classes']} classes, {result['epochs']} epochs, {result['seconds']:.0f} s")
    if result["noise_rate"] > 0.5:
        console.print("more than half: the network has hardly learnt yet (more epochs?), or the threshold is too high")
    for line in _accuracies(result):
        console.print(line)
    if "ap" in result:
        console.print(f"AP {result['ap']:.3f}: true labels are known, wrong ones rank before right ones so well")
    for line in result.get("notes", ()):
        console.print(line)
    if result.get("unreadable"):
        console.print(f"{result['unreadable']:,} samples could not be read and were left out")
    table = Table(title="the worst suspects", title_justify="left", box=None)
    for column in ("id", "given", "suggested", "label quality", "confidence"):
        table.add_column(column, justify="left" if column == "id" else "right")
    for row in Findings.load(out).worst(min(10, result["issues"])).itertuples():
        numbers = (f"{row.label_quality:.2g}", f"{row.suggested_confidence:.3f}")
        table.add_row(str(row.id), str(row.given_label), str(row.suggested_label), *numbers)
    if result["issues"]:
        console.print(table)
    console.print(f"every label with its quality: {out / 'findings.csv'}")


def _accuracies(result: dict[str, Any]) -> list[str]:
    """Lines about test data, if there were any."""
    if "test_accuracy" not in result:
        return []
    best, when = f"best epoch {result['best_test_accuracy']:.3f}, an oracle", "after the last epoch"
    if "last_test_accuracy" in result:
        when = "of the epoch that validation data chose"
        best = f"last epoch {result['last_test_accuracy']:.3f}; {best}"
    lines = [f"test accuracy {result['test_accuracy']:.3f} {when} ({best})"]
    each = {name[14:]: value for name, value in result.items() if name.startswith("test_accuracy_")}
    if each:
        lines.append(f"  the mean of {', '.join(f'{name} {value:.3f}' for name, value in each.items())}")
    if "filter_test_accuracy" in result:
        lines.append(f"test accuracy of the filter, before pseudo-labels: {result['filter_test_accuracy']:.3f}")
    return lines
