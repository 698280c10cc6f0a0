"""`jnpl find` and `jnpl train`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli import options
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder
    from jnpl.training.checkpoint import CheckpointInterval


_INHERITED = (  # by a run that extends another one
    *("data_root", "image_column", "label_column", "label_columns", "true_label_column", "feature_column", "exclude"),
    *("group_column", "skip_unlabelled", "merge_classes", "embedding_column", "text_column", "embed", "image_root"),
    *("noise", "coarse", "balanced", "backbone", "quality", "views", "size", "cache"),
)


@dataclass(frozen=True, kw_only=True)
class FindOptions:
    """The arguments and options of `jnpl find` and `jnpl train`."""

    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images with one sub-folder per class, a table (.csv, .tsv, .parquet), an .npz, boxes "
            "(COCO .json, YOLO data.yaml), a name (jnpl datasets), hf:NAME, or a folder of datasets.save_to_disk."
        ),
    ]
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder. An unfinished run in it is resumed.")]
    recipe: Annotated[
        str | None,
        typer.Option(
            help="All settings of the training: a name (jnpl recipes) or a .toml file. Images are then trained on from "
            "scratch. Default: fast-embeddings on embeddings; from scratch fast, with --method small."
        ),
    ] = None
    method: Annotated[str | None, typer.Option(help="Method to use in place of the recipe's (jnpl methods).")] = None
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value, such as train.epochs=20.")
    ] = None
    data_root: options.DataRoot = None
    labels: Annotated[
        Path | None,
        typer.Option(help="File of given labels, from jnpl apply or jnpl corrupt, in place of the data's own."),
    ] = None
    review: Annotated[
        Path | None,
        typer.Option(
            help="Run folder with decisions of jnpl review: decided labels are trusted, dropped samples left out."
        ),
    ] = None
    extend: Annotated[
        Path | None,
        typer.Option(
            help="Run folder whose data are trained on together with DATA; its options and the decisions of its review "
            "are kept."
        ),
    ] = None
    image_column: options.ImageColumn = None
    label_column: Annotated[str | None, typer.Option(help="A table's column of given labels. Default: label.")] = None
    label_columns: Annotated[
        str | None,
        typer.Option(
            help="A table's columns of labels by several annotators, separated by commas; cells may be empty."
        ),
    ] = None
    multi_label: Annotated[
        bool,
        typer.Option(
            "--multi-label", help="A sample may have several tags: labels are lists, such as cat;dog, or JSON."
        ),
    ] = False
    tag_columns: Annotated[
        str | None, typer.Option(help="A table's columns of 0 and 1, one for each tag, separated by commas.")
    ] = None
    true_label_column: Annotated[
        str | None, typer.Option(help="A table's column of true labels, if you know them: only to measure.")
    ] = None
    feature_column: Annotated[
        list[str] | None, typer.Option(help="A table's column to learn from (may be repeated). Default: all.")
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option(help="A table's column that is not learnt from (may be repeated).")
    ] = None
    group_column: options.GroupColumn = None
    skip_unlabelled: Annotated[
        bool, typer.Option("--skip-unlabelled", help="Leave out the rows of a table that have no label.")
    ] = False
    crops: Annotated[
        bool, typer.Option("--crops", help="COCO and YOLO: take each box as a sample with one label, its class.")
    ] = False
    merge_classes: Annotated[
        bool,
        typer.Option("--merge-classes", help="Merge classes whose names differ only in case, blanks or Unicode form."),
    ] = False
    embedding_column: options.EmbeddingColumn = None
    text_column: options.TextColumn = None
    embed: options.EmbedFunction = None
    image_root: options.ImageRoot = None
    noise: Annotated[
        str | None, typer.Option(help="cifar10n: worse, aggre, random1 to random3; cifar100n: noisy, noisy_coarse.")
    ] = None
    coarse: Annotated[bool, typer.Option("--coarse", help="cifar100: the 20 super-classes.")] = False
    balanced: Annotated[
        bool, typer.Option("--balanced", help="clothing1m: the same number of samples of each class.")
    ] = False
    backbone: options.Backbone = "auto"
    quality: options.Quality = "auto"
    views: options.Views = 2
    finetune: Annotated[
        bool, typer.Option("--finetune", help="Images: train the backbone too, after the head; slow without a GPU.")
    ] = False
    size: Annotated[
        int | None,
        typer.Option(min=8, max=4096, help="Side in pixels at which the network sees images. Default: by the data."),
    ] = None
    holdout: Annotated[
        float | None, typer.Option(help="Share of the data to keep out of training and test on, such as 0.1.")
    ] = None
    test: Annotated[str | None, typer.Option(help="Test data, in the same form as DATA.")] = None
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Label quality below which a label is an issue: auto (the median of three estimates), a number "
            "(0.5), per-class, or 1/c (1 / classes)."
        ),
    ] = None
    budget: Annotated[int | None, typer.Option(min=1, help="List as many label issues as you can check.")] = None
    top: Annotated[int, typer.Option(min=0, help="Number of label issues to list.")] = 20
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True
    weights: Annotated[
        str | None,
        typer.Option(
            help="Start from these weights, not from random ones: a path, or an address ending in #sha256:... Images "
            "are then not embedded."
        ),
    ] = None
    devices: Annotated[int | None, typer.Option(min=1, help="Number of processes, one per device.")] = None
    accelerator: Annotated[str | None, typer.Option(help="cpu, gpu, mps or auto.")] = None
    num_nodes: Annotated[int | None, typer.Option(min=1, help="Number of machines.")] = None
    precision: Annotated[
        str | None, typer.Option(help="Share of the label issues that should truly be wrong, such as 0.9.")
    ] = None
    float_format: Annotated[
        str | None, typer.Option(help="Floating-point numbers to train with: 32, bf16-mixed, or on a GPU 16-mixed.")
    ] = None
    workers: options.Workers = None
    cache: options.Cache = None
    checkpoint_every: Annotated[
        str, typer.Option(help="Epochs (5), minutes (10m) or seconds (30s) between checkpoints.")
    ] = "1m"
    strict: Annotated[bool, typer.Option("--strict", help="Stop at a sample that cannot be read.")] = False
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="The same as --track tensorboard.")] = False
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also log every epoch to tensorboard, mlflow or wandb (extras); repeatable."),
    ] = None
    threads: options.Threads = None
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the automatic choices, and all that is logged of every epoch.")
    ] = False
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of weights, sample order, augmentation and sampled labels.")
    ] = 0
    as_json: options.AsJson = False

    def trackers(self) -> list[str]:
        """Return the experiment trackers to log to."""
        return [*(self.track or ()), *(["tensorboard"] if self.tensorboard else [])]

    def changes(self) -> dict[str, Any]:
        """Return the changed settings of the recipe by dotted name; options win over --set."""
        from jnpl.recipes.load import changed_settings

        return changed_settings(
            self.change or (),
            {
                **vars(self),
                "threshold": options.threshold(self.threshold, self.precision, self.budget),
                "cache": self.cache if self.backbone == "none" else None,
            },
        )


@options.takes(FindOptions)
def find(command: FindOptions) -> None:
    """Find the wrong labels: train once on the given labels and list those that look wrong.

    Images and texts are turned into vectors by a pretrained network first (--backbone), which is done once. Writes
    findings.csv, findings.parquet, report.html, metrics.jsonl, run.json and the model, a classifier, to the run folder.
    The same command resumes a run that was stopped at any moment.
    """
    _run(command, classify=False)


@options.takes(FindOptions)
def train(command: FindOptions) -> None:
    """Find the wrong labels, then train a classifier that is robust to them.

    On images and texts, by default, jnpl find trains this classifier already, and both do the same. On tables, and from
    scratch, a network is then trained on the kept labels and on pseudo-labels for the others. A run folder of jnpl
    find is continued. --labels corrected.csv trains on the labels that jnpl apply wrote. The same command resumes a run
    that was stopped at any moment.
    """
    _run(command, classify=True)


def _run(command: FindOptions, *, classify: bool) -> None:
    every = _checkpoint_interval(command.checkpoint_every)
    _check_options(command)
    if command.extend is not None:
        command = _with_options_of(command, command.extend)
    import torch

    from jnpl import pipeline
    from jnpl.analysis.leaks import warn_of_leaks
    from jnpl.embedding.compute import process_rank
    from jnpl.internal.importing import find_user_modules
    from jnpl.outputs.run_source import RunDataOptions
    from jnpl.recipes.load import load_default_recipe
    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter

    changes = command.changes()
    recipe = load_default_recipe(command.recipe, command.method, changes)  # mistakes are reported before data are read
    if command.threads is not None:
        torch.set_num_threads(command.threads)
    find_user_modules(recipe.model, command.backbone, command.embed)
    data_options = RunDataOptions.from_json(vars(command))
    folder = RunFolder(command.out)
    folder.check_outside(command.data)
    folder.check_place()
    if process_rank()[0] == 0:
        folder.check_writable()
    reporter = Reporter(verbose=command.verbose)
    with options.collected_log() as reporter.first:
        opened = data_options.open(recipe.data.val_size)
        warn_of_leaks(opened.source)
    kept = len(opened.source) - (0 if opened.held_out is None else len(opened.held_out))
    identity = {"seed": command.seed, "data": opened.source.name}
    folder.check_data(identity, kept, len(opened.source.class_names))  # before embedding
    origin = pipeline.Origin(command=["jnpl", *sys.argv[1:]], options=data_options.to_json(), thumbnails=command.report)
    run_options = replace(
        data_options.run_options(changes),
        finetune=command.finetune,
        classify=classify,
        strict=command.strict,
        every=every,
        trackers=command.trackers(),
    )
    run = pipeline.run if opened.source.tags is None else pipeline.run_tags
    result = run(opened, run_options, folder, origin=origin, report=reporter)
    if result is not None:  # else not the first of several processes
        _show(command, folder, result.results)


def _check_options(command: FindOptions) -> None:
    """Refuse options that exclude each other, before anything slow is imported."""
    if not command.data.strip():
        raise InputError("DATA is empty; name a folder, a table, an .npz or a data set (jnpl datasets)")
    if command.holdout is not None and command.test is not None:
        raise InputError("--holdout and --test exclude each other")
    if command.float_format not in (None, *options.FLOAT_FORMATS):
        raise InputError(f"--float-format takes {', '.join(options.FLOAT_FORMATS)}, got {command.float_format!r}")
    if command.finetune and command.recipe is not None:
        raise InputError(f"--finetune has a recipe of its own, got --recipe {command.recipe}; change it with --set")


def _with_options_of(command: FindOptions, run: Path) -> FindOptions:
    """Return the options with those of a run, where they say how data are opened and embedded and are not given."""
    from jnpl.internal.importing import is_own_code
    from jnpl.run_folder import RunFolder

    if run.resolve() == command.out.resolve():
        raise InputError(f"--extend and --out are the same run folder, {str(run)!r}: name a new one")
    folder = RunFolder(run)
    stored = {} if not len(folder.findings.ids) else folder.require_data_facts().options or {}
    is_default = [name for name in _INHERITED if getattr(command, name) == getattr(FindOptions, name)]
    taken = {name: stored[name] for name in is_default if stored.get(name) not in (None, [])}
    for name in ("embed", "backbone"):
        if isinstance(code := taken.get(name), str) and (name == "embed" or is_own_code(code)):
            raise InputError(f"{str(run)!r} was embedded by code, {code!r}: give --{name} again")
    return replace(command, **taken)


def _show(command: FindOptions, folder: "RunFolder", results: dict[str, Any]) -> None:
    """Write the report of a finished run, and print its summary."""
    from jnpl.cli import summary
    from jnpl.outputs.report import page

    facts, show = (summary.tag_facts, summary.show_tags) if folder.has_tags else (summary.facts, summary.show)
    if command.report:
        page.write(folder)
    if command.as_json:
        typer.echo(json.dumps(results | facts(folder, command.top)))
    else:
        show(results, folder, command.top)


def _checkpoint_interval(text: str) -> "CheckpointInterval":
    match = re.fullmatch(r"([0-9]{1,9})([ms]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise InputError(f"--checkpoint-every takes epochs (5), minutes (10m) or seconds (30s), got {text!r}")
    from jnpl.training.checkpoint import CheckpointInterval

    amount = int(match[1])
    if not match[2]:
        return CheckpointInterval(epochs=amount, seconds=None)
    return CheckpointInterval(seconds=amount * (60.0 if match[2] == "m" else 1.0))
