"""`jnpl corrupt`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from jnpl.cli.options import AsJson, DataRoot
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible
from jnpl.noise.kinds import KINDS, MAP_NAMES, kinds_that_take

if TYPE_CHECKING:
    from jnpl.data.label_files import LabelFile
    from jnpl.noise.noisy_labels import NoisyLabels


def corrupt(
    labels: Annotated[
        Path, typer.Argument(help="Clean labels: .npy, .npz, .csv, .parquet, .txt, or a named data set.")
    ],
    *,
    kind: Annotated[str, typer.Option(help=f"{', '.join([*KINDS][:-1])} or {[*KINDS][-1]}.")] = "symm",
    rate: Annotated[
        float | None, typer.Option(help="Share of the labels of each source class to change, 0 to 1; not for matrix.")
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            help=f"For {kinds_that_take('mapping')}: {', '.join(MAP_NAMES)}, "
            'a JSON object {"source": "target"} or a .json file.'
        ),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option(
            help=f"For {kinds_that_take('matrix')}: .npy or .csv; rows are clean classes, columns noisy ones."
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help=f"For {kinds_that_take('features')}: .npy, or .npz with x. Default: x of the labels' own .npz."
        ),
    ] = None,
    num_classes: Annotated[int | None, typer.Option(help="Number of classes. Default: from the labels.")] = None,
    count: Annotated[
        str | None, typer.Option(help="exact (per class) or bernoulli. Default: exact; for matrix bernoulli.")
    ] = None,
    inclusive: Annotated[
        bool, typer.Option("--inclusive", help=f"For {kinds_that_take('inclusive')}: also draw the true class.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same labels everywhere.")] = 0,
    key: Annotated[str | None, typer.Option(help="Name of the labels in an .npz. Default: y or labels.")] = None,
    label_column: Annotated[str, typer.Option(help="The label column of a table.")] = "label",
    data_root: DataRoot = None,
    val_size: Annotated[
        int, typer.Option(min=0, help="CIFAR: training images left out; use the recipe's data.val_size.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The .npz to write. Default: <labels>.<kind><rate>.npz beside the labels."),
    ] = None,
    table: Annotated[
        Path | None, typer.Option(help="Also write the input table with a column noisy_label added.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add label noise to clean labels. jnpl find and jnpl train take the result with --labels.

    The file also holds the clean labels, the kind of noise, the seed and a hash. The rate is per source class: asymm
    0.4 on CIFAR-10 changes 20 % of all labels, because only five of its ten classes are sources.
    """
    from jnpl.data import label_files
    from jnpl.noise import generate as noise

    source = _named(str(labels), data_root, val_size)
    if source is None:
        source = label_files.read_labels(labels, key=key, label_column=label_column)
    source = label_files.without_gaps(source, num_classes)
    if kind in KINDS and "features" in KINDS[kind].needs and features is None and labels.suffix.lower() == ".npz":
        features = labels
    result = noise.corrupt(
        source.labels,
        kind,
        rate,
        num_classes=source.class_count(num_classes),
        mapping=None if mapping is None else label_files.read_mapping(mapping, source.class_names),
        matrix=None if matrix is None else label_files.read_matrix(matrix),
        features=None if features is None else label_files.read_features(features),
        seed=seed,
        count=cast("noise.Count | None", count),  # checked by noise.corrupt
        inclusive=inclusive,
        class_names=source.class_names if source.holds_names else None,
    )
    amount = "" if result.rate is None else f"{result.rate:g}"
    out = out or labels.with_name(f"{labels.stem}.{result.kind}{amount}.npz")
    inputs = [path for path in (labels, features, matrix) if path is not None]
    _check_target(out, ".npz", inputs, force=force)
    if table is not None:
        if source.table is None:
            raise InputError(f"--table needs labels from a .csv or .parquet table, got {str(labels)!r}")
        _check_target(table, labels.suffix.lower(), inputs, force=force)
        with label_files.writing_table(table, source, result.labels):
            result.save(out)
    else:
        result.save(out)
    if result.rate and not result.is_noisy.any():
        typer.echo("jnpl: note: no label changed; counts are rounded down in every class (see --count)", err=True)
    if as_json:
        typer.echo(json.dumps(_facts(result, out)))
    else:
        _summarise(result, out, table)


def _named(name: str, root: Path | None, val_size: int) -> "LabelFile | None":
    """Return the true labels of a named data set, or None if there is none of this name."""
    from jnpl.data.datasets import DATASETS
    from jnpl.data.label_files import LabelFile
    from jnpl.data.opening import open_source

    if name not in DATASETS:
        return None
    source = open_source(name, root=root, val_size=val_size)
    true = source.labels if source.true_labels is None else source.true_labels
    names = tuple(map(str, source.class_names)) if isinstance(source.class_names[0], str) else None
    return LabelFile(true, names)


def _check_target(path: Path, suffix: str, inputs: list[Path], *, force: bool) -> None:
    if path.suffix.lower() != suffix:
        raise InputError(f"the output {str(path)!r} must end in {suffix}")
    if not path.parent.is_dir():
        raise InputError(f"no such directory: {str(path.parent)!r}")
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise InputError(f"{str(path)!r} is a file that this command reads; choose another name")
    if path.is_dir() or (path.exists() and not force):
        raise InputError(f"{str(path)!r} exists; choose another name, or overwrite it with --force")


def _facts(result: "NoisyLabels", out: Path) -> dict[str, object]:
    return {
        "out": str(out),
        "samples": result.labels.size,
        "classes": result.num_classes,
        "kind": result.kind,
        "rate": result.rate,
        "rate_realised": result.rate_realised,
        "changed": int(result.is_noisy.sum()),
        "seed": result.seed,
        "sha256": result.sha256,
    }


def _summarise(result: "NoisyLabels", out: Path, table: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    per_class = "" if result.rate is None else f", {result.rate:g} of each source class requested"
    lines = {
        "changed": f"{int(result.is_noisy.sum()):,} of {result.labels.size:,} labels",
        "noise": f"{result.kind}, {result.num_classes} classes, seed {result.seed}, {result.count}",
        "rate": f"{result.rate_realised:.4f} of all labels{per_class}",
        "sha256": result.sha256,
        "written": str(out) if table is None else f"{out}, {table}",
    }
    console = Console(highlight=False, soft_wrap=True)
    for name, text in lines.items():
        console.print(Text(f"{name:8} ", style="bold") + Text(visible(text)))
    if result.num_classes > 14:
        return
    names = result.class_names or [str(label) for label in range(result.num_classes)]
    grid = Table("clean \\ noisy", box=None, header_style="bold")
    for name in names:
        grid.add_column(Text(visible(name)), justify="right")
    for name, row in zip(names, result.matrix, strict=True):
        grid.add_row(Text(visible(name), style="bold"), *(f"{value:.2f}" if value else "." for value in row))
    console.print(grid)
