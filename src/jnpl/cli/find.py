"""`jnpl find` and `jnpl train`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import os
import re
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from jnpl.cli import options
from jnpl.internal.errors import InputError
from jnpl.internal.tables import data_suffix

if TYPE_CHECKING:
    from jnpl.data.source import Labels, Source
    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter
    from jnpl.training.run import CheckpointInterval

_MANY = 20_000  # samples from which the search for duplicates takes so long that a line says what is going on


@dataclass(frozen=True, kw_only=True)
class FindOptions:
    """The arguments and options of `jnpl find` and `jnpl train`."""

    data: Annotated[
        str,
        typer.Argument(
            help="A folder of images with one sub-folder per class, a table (.csv, .tsv, .parquet), an .npz, a name "
            "(jnpl datasets), hf:NAME, or a folder of datasets.save_to_disk."
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
    image_column: options.ImageColumn = None
    label_column: Annotated[str | None, typer.Option(help="A table's column of given labels. Default: label.")] = None
    true_label_column: Annotated[
        str | None, typer.Option(help="A table's column of true labels, if you know them: only to measure.")
    ] = None
    feature_column: Annotated[
        list[str] | None, typer.Option(help="A table's column to learn from (may be repeated). Default: all.")
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option(help="A table's column that is not learnt from (may be repeated).")
    ] = None
    skip_unlabelled: Annotated[
        bool, typer.Option("--skip-unlabelled", help="Leave out the rows of a table that have no label.")
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
            help="Label quality below which a label is an issue: auto (those more likely wrong than right), a number "
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
        str | None,
        typer.Option(
            help="Share of the label issues that should truly be wrong, such as 0.9. With 32, bf16-mixed or 16-mixed: "
            "the floating-point numbers to train with."
        ),
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
        from jnpl.recipes.load import parse_changes

        share = options.share_of_issues(self.precision)
        own = {
            "weights": self.weights,
            "verdict.threshold": options.threshold(self.threshold, share, self.budget),
            "engine.devices": self.devices,
            "engine.accelerator": self.accelerator,
            "engine.num_nodes": self.num_nodes,
            "engine.precision": None if share else self.precision,
            "engine.workers": self.workers,
            "engine.cache": self.cache if self.backbone == "none" else None,
            "data.size": self.size,
        }
        return parse_changes(self.change or ()) | {key: value for key, value in own.items() if value is not None}

    def columns(self) -> dict[str, Any]:
        """Return the keyword arguments of `open_source` that training and test data share."""
        return {
            "image_column": self.image_column,
            "label_column": self.label_column,
            "feature_columns": self.feature_column or None,
            "exclude": self.exclude or None,
            "skip_unlabelled": self.skip_unlabelled,
            "embedding_column": self.embedding_column,
            "text_column": self.text_column,
            "embed": self.embed,
            "image_root": self.image_root,
            "root": self.data_root,
        }

    def to_json(self) -> dict[str, Any]:
        """Return all options for data.json, with absolute paths: `open_again` opens the same data with them."""
        stored = asdict(self)
        for name, value in stored.items():
            if isinstance(value, Path) or (name in ("data", "test", "recipe") and value and Path(value).exists()):
                stored[name] = os.path.abspath(value)  # noqa: PTH100 - keeps a symbolic link of the user
        return stored


@options.takes(FindOptions)
def find(given: FindOptions) -> None:
    """Find the wrong labels: train once on the given labels and list those that look wrong.

    Images and texts are turned into vectors by a pretrained network first (--backbone), which is done once. Writes
    findings.csv, findings.parquet, report.html, metrics.jsonl, run.json and the model, a classifier, to the run folder.
    The same command resumes a run that was stopped at any moment.
    """
    _run(given, classify=False)


@options.takes(FindOptions)
def train(given: FindOptions) -> None:
    """Find the wrong labels, then train a classifier that is robust to them.

    On images and texts, by default, jnpl find trains this classifier already, and both do the same. On tables, and from
    scratch, a network is then trained on the kept labels and on pseudo-labels for the others. A run folder of jnpl
    find is continued. --labels corrected.csv trains on the labels that jnpl apply wrote. The same command resumes a run
    that was stopped at any moment.
    """
    _run(given, classify=True)


def _run(given: FindOptions, *, classify: bool) -> None:
    every = _checkpoint_interval(given.checkpoint_every)
    _check_options(given)
    import torch

    from jnpl.embedding.compute import process_rank
    from jnpl.recipes.automatic import adapt_recipe
    from jnpl.recipes.load import load_default_recipe
    from jnpl.run_folder import RunFolder
    from jnpl.training.finetune import finetuning_recipe
    from jnpl.training.reporting import Reporter
    from jnpl.training.run import find as run

    changes = given.changes()
    recipe = load_default_recipe(given.recipe, given.method, changes)  # mistakes are reported before data are read
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    options.find_own_modules(recipe.model, given.backbone, given.embed)
    folder = RunFolder(given.out)
    folder.check_outside(given.data)
    folder.check_place()
    if process_rank()[0] == 0:
        folder.check_writable()
    reporter = Reporter(verbose=given.verbose)
    with options.collected_log() as reporter.first:
        opened, positions, reviewed = _open(given, recipe.data.val_size)
    kept = len(opened) - (0 if positions is None else len(positions))
    folder.check_data({"seed": given.seed, "data": opened.name}, kept, len(opened.class_names))  # before embedding
    opened, embedded, held_out, changes, chosen = _embed(given, opened, positions, changes, reporter)
    if given.finetune:
        recipe = finetuning_recipe(embedded, given.method, changes, reporter, seed=given.seed, cache=given.cache)
        source, choices = opened, chosen
    else:
        recipe, adapted = adapt_recipe(embedded, given.recipe, given.method, changes)
        source, choices = embedded, [*chosen, *adapted]
        reporter.choices = choices if source.backbone is None else list(adapted)  # else one is on the screen already
    from jnpl.analysis.data_report import describe_data

    def complete() -> None:
        if len(embedded) >= _MANY:
            reporter.note("looking for duplicates and outliers, and writing what the report shows")
        with reporter.searching() as show:
            facts = describe_data(embedded, folder.findings, held_out, show)
            folder.write_data(
                facts,
                command=["jnpl", *sys.argv[1:]],
                choices=choices,
                options=given.to_json(),
                reviewed=reviewed,
                thumbnails=given.report,
            )

    result = run(
        source,
        recipe,
        given.out,
        seed=given.seed,
        every=every,
        strict=given.strict,
        report=reporter,
        track=given.trackers(),
        classify=classify,
        complete=complete,
    )
    if result is not None:  # else not the first of several processes
        _show(given, folder, result.results)


def _check_options(given: FindOptions) -> None:
    """Refuse options that exclude each other, before anything slow is imported."""
    if not given.data.strip():
        raise InputError("DATA is empty; name a folder, a table, an .npz or a data set (jnpl datasets)")
    if given.holdout is not None and given.test is not None:
        raise InputError("--holdout and --test exclude each other")
    if given.finetune and given.recipe is not None:
        raise InputError(f"--finetune has a recipe of its own, got --recipe {given.recipe}; change it with --set")


def _show(given: FindOptions, folder: "RunFolder", results: dict[str, Any]) -> None:
    """Write the report of a finished run, and print its summary."""
    from jnpl.cli.summary import facts, show
    from jnpl.outputs.report import page

    if given.report:
        page.write(folder)
    if given.as_json:
        typer.echo(json.dumps(results | facts(folder, given.top)))
    else:
        show(results, folder, given.top)


class _EmbeddedData(NamedTuple):
    """The data of a run as they are and embedded, without held-out samples, and what `embed_first` says."""

    opened: "Source"
    embedded: "Source"
    held_out: list[dict[str, Any]]  # id and given label
    changes: dict[str, Any]
    chosen: list[str]


def _embed(
    given: FindOptions, opened: "Source", positions: "Labels | None", changes: dict[str, Any], reporter: "Reporter"
) -> _EmbeddedData:
    from jnpl.data.split import hold_out
    from jnpl.embedding.choice import is_fitted
    from jnpl.training.embed_first import embed_first

    held_out = [] if positions is None else _named(opened, positions)
    if positions is not None and is_fitted(opened, given.backbone):
        opened, positions = hold_out(opened, positions), None  # test data take no part in it
    embedded, changes, chosen = embed_first(
        opened, given.backbone, given.recipe, changes, reporter, views=given.views, cache=given.cache
    )
    if positions is not None:  # after the embedding: the cache is that of the whole data
        opened, embedded = hold_out(opened, positions), hold_out(embedded, positions)
    return _EmbeddedData(opened, embedded, held_out, changes, chosen)


def open_again(stored: dict[str, Any], *, trust_code: bool = False) -> "Source":
    """Return the data of a run, embedded as in the run, by the options that `FindOptions.to_json` wrote.

    Options that name code to run are refused, unless `trust_code` allows them.
    """
    from jnpl.internal.importing import refuse_code
    from jnpl.recipes.load import load_default_recipe
    from jnpl.training.reporting import Reporter

    given = stored_options(stored)
    changes = given.changes()
    recipe = load_default_recipe(given.recipe, given.method, changes)
    if not trust_code:
        refuse_code(recipe.model, given.backbone, embed=given.embed)
    options.find_own_modules(recipe.model, given.backbone, given.embed)
    reporter = Reporter()
    reporter.quiet(True)
    opened, positions, _ = _open(given, recipe.data.val_size)
    return _embed(given, opened, positions, changes, reporter).embedded


def stored_options(stored: dict[str, Any]) -> FindOptions:
    """Return the options that `FindOptions.to_json` wrote; a value of another type is an InputError."""
    from pydantic import TypeAdapter, ValidationError

    known = {each.name for each in fields(FindOptions)}
    try:
        return TypeAdapter(FindOptions).validate_python({name: stored[name] for name in stored if name in known})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise InputError(f"the options in data.json cannot be used: {name}: {first['msg']}") from None


def _open(given: FindOptions, val_size: int) -> "tuple[Source, Labels | None, dict[str, Any]]":
    """Return the data, with test data from elsewhere, the positions to hold out, or None, and decisions of --review."""
    from jnpl.data import split
    from jnpl.data.label_files import with_labels
    from jnpl.data.opening import open_source

    columns = given.columns()
    source = open_source(
        given.data,
        **columns,
        true_label_column=given.true_label_column,
        noise=given.noise,
        val_size=val_size,
        coarse=given.coarse,
        balanced=given.balanced,
    )
    if given.labels is not None:
        source = with_labels(source, given.labels)
    reviewed: dict[str, Any] = {}
    if given.review is not None:
        from jnpl.outputs.review.decisions import given_decisions, with_review

        whole, source = source, with_review(source, given.review)
        reviewed = given_decisions(whole, source)
    if given.test is not None:
        if source.encoding is not None and data_suffix(given.test):
            columns |= {
                "feature_columns": None,
                "exclude": None,
                "encoding": source.encoding,
            }  # which knows the columns
        source = split.with_test(source, open_source(given.test, **columns))
    held = None if given.holdout is None else split.to_hold_out(source, given.holdout, given.seed)
    return source, held, reviewed


def _named(source: "Source", positions: "Labels") -> list[dict[str, Any]]:
    """Return id and given label of some samples."""
    rows = zip(source.ids[positions].tolist(), source.labels[positions].tolist(), strict=True)
    return [{"id": name, "label": source.class_names[label]} for name, label in rows]


def _checkpoint_interval(text: str) -> "CheckpointInterval":
    match = re.fullmatch(r"([0-9]{1,9})([ms]?)", text.strip())
    if not match or int(match[1]) == 0:
        raise InputError(f"--checkpoint-every takes epochs (5), minutes (10m) or seconds (30s), got {text!r}")
    from jnpl.training.run import CheckpointInterval

    amount = int(match[1])
    if not match[2]:
        return CheckpointInterval(epochs=amount, seconds=None)
    return CheckpointInterval(seconds=amount * (60.0 if match[2] == "m" else 1.0))
