"""One run, from data to findings and classifier: open -> embed -> choose -> train -> judge -> write.

Every entrance comes here: `jnpl find` and `jnpl train`, `find_label_issues`, `JNPLClassifier`, Learn in the review,
fine-tuning and the experiments. What differs between them is an argument: a run folder or memory, a network of the
user's, decisions of a review. The data themselves are opened by `jnpl.data.opening`.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jnpl.analysis.data_report import describe_data
from jnpl.analysis.leaks import column_lines
from jnpl.analysis.neighbours import short_vectors
from jnpl.analysis.reference import Reference, copies_of
from jnpl.data.loading.prepare import default_workers
from jnpl.data.opening import open_source, open_test
from jnpl.data.split import hold_out, to_hold_out
from jnpl.embedding.choice import AUTO, embed_for_training, is_fitted, uses_backbone
from jnpl.embedding.compute import DEFAULT_VIEWS, EmbeddingOptions, process_device, process_rank
from jnpl.internal.devices import threads_for
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.progress import part_of
from jnpl.judging import scoring
from jnpl.judging.consensus import with_consensus
from jnpl.judging.out_of_fold import FOLDS, deal_folds
from jnpl.judging.trees import tree_predictions
from jnpl.methods.registry import METHODS
from jnpl.models.build import FINETUNE
from jnpl.recipes.automatic import adapt_recipe, tag_recipe
from jnpl.recipes.load import DEFAULT
from jnpl.run_folder import TAGS, RunFolder
from jnpl.training.checkpoint import CheckpointInterval
from jnpl.training.epoch_log import check_trackers
from jnpl.training.finetune import backbone_to_finetune, finetuning_recipe
from jnpl.training.interrupt import StopRequest, watch
from jnpl.training.processes import WAIT, agree, make_fabric
from jnpl.training.pseudo_labels import pseudo_label_settings
from jnpl.training.reporting import Reporter
from jnpl.training.run_results import RunNotes, RunResult, TagRunResult, summarise
from jnpl.training.run_setup import RunSettings
from jnpl.training.session import Session
from jnpl.training.tag_training import judge_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.data.options import OpenOptions
    from jnpl.data.source import Labels, Source
    from jnpl.judging.findings import Findings
    from jnpl.judging.trees import TreePredictions
    from jnpl.models.build import Factory
    from jnpl.recipes.schema import Recipe
    from jnpl.training.epoch_view import EpochView

_MANY = 20_000  # samples from which the search for duplicates takes so long that a line says what is going on
_TREE_WORK = 500  # operations of the trees for each number of a table, about
_STOPPED_JUDGING = "stopped while labels were judged; run the same command again to resume"
_STOPPED_SEARCHING = "stopped while duplicates were searched for; run the same command again to resume"
__all__ = [
    "CheckpointInterval",
    "OpenedData",
    "Origin",
    "RunOptions",
    "RunResult",
    "open_data",
    "run",
    "run_recipe",
    "run_tags",
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run embeds, what it trains, and what is special to one entrance."""

    recipe: str | None = None  # a name or .toml file as the user gave it; None: the default, adapted to the data
    method: str | None = None  # the method to use in place of the recipe's own
    changes: Mapping[str, Any] = field(default_factory=dict)  # changed settings of the recipe by dotted name
    backbone: str = AUTO  # "auto", "none" or a name
    quality: str = AUTO  # "fast", "auto" or "best": which backbone and size "auto" chooses
    views: int = DEFAULT_VIEWS  # embeddings per image
    cache: str | os.PathLike[str] | None = None  # the folder of cached embeddings
    finetune: bool = False  # train the backbone too, after a head on its embeddings
    classify: bool = False  # go on to train a classifier on pseudo-labels, if recipe and method say how
    seed: int = 0  # decides first weights, order of the samples, augmentation and all other draws
    strict: bool = False  # refuse data with unreadable samples instead of leaving those out
    every: CheckpointInterval | None = None  # how often to write a checkpoint, by default every minute
    trackers: Sequence[str] = ()  # experiment trackers to log to as well (`jnpl.training.epoch_log.TRACKERS`)
    # a module or factory in place of the recipe's model; only for a run in memory
    network: nn.Module | Factory | None = None


class OpenedData(NamedTuple):
    """Opened data, the positions (M,) of samples to hold out of training, and the decisions of an earlier review."""

    source: Source
    held_out: Labels | None = None
    reviewed: dict[str, Any] | None = None


class EmbeddedData(NamedTuple):
    """The data of a run as they are and embedded, both without held-out samples.

    `held_out` has id and given label of those. `changes` are the changed settings that the embedding has not used,
    `choices` lines about the backbone.
    """

    source: Source
    embedded: Source
    held_out: list[dict[str, Any]]
    changes: dict[str, Any]
    choices: list[str]


class ChosenRecipe(NamedTuple):
    """The recipe, the data that it trains on, and a line for each automatic choice."""

    recipe: Recipe
    source: Source
    choices: list[str]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the data of a run came from, for data.json: the command, and the options to open the data again."""

    command: Sequence[str] = ()
    options: dict[str, Any] | None = None
    thumbnails: bool = False


def run(
    opened: OpenedData,
    options: RunOptions,
    folder: RunFolder | None = None,
    *,
    origin: Origin | None = None,
    report: Reporter | None = None,
    observe: Callable[[EpochView], None] | None = None,
) -> RunResult | None:
    """Embed, choose the recipe, train, judge and write.

    Args:
        folder: the run folder; a run that was interrupted there continues, a finished one is not repeated. None: a run
            in memory, which writes no file and no checkpoint.
        observe: called at the end of every epoch, in the first process.

    Returns:
        Results, findings, history and classifier; None in all but the first of several processes that share a run
        folder.
    """
    report = report or Reporter()
    data = embed_data(opened, options, report)
    chosen = choose_recipe(data, options, report)

    def complete() -> None:
        if folder is not None:
            choices = [*chosen.choices, *column_lines(data.embedded)]
            write_data(folder, data, choices, opened.reviewed, origin or Origin(), report)

    return run_recipe(
        chosen.source,
        chosen.recipe,
        folder,
        seed=options.seed,
        every=options.every,
        strict=options.strict,
        report=report,
        track=options.trackers,
        classify=options.classify,
        network=options.network,
        observe=observe,
        complete=complete,
    )


def open_data(
    data: Any,
    options: OpenOptions,
    *,
    test: Any = None,
    holdout: float | None = None,
    seed: int = 0,
    decide: Callable[[Source], OpenedData] = OpenedData,
) -> OpenedData:
    """Open training data, and test data of the same form or a share of them to hold out.

    Args:
        data: what `open_source` takes.
        holdout: share of the data to keep out of training and test on.
        seed: of the choice of held-out samples.
        decide: adds the decisions of a review to the opened data.
    """
    opened = decide(open_source(data, options))
    source = opened.source if test is None else open_test(opened.source, test, options)
    held_out = None if holdout is None else to_hold_out(source, holdout, seed)
    return OpenedData(source, held_out, opened.reviewed)


def embed_data(opened: OpenedData, options: RunOptions, report: Reporter) -> EmbeddedData:
    """Embed the data if a pretrained backbone suits them and the recipe, and hold samples out."""
    source, positions, _ = opened
    held_out = [] if positions is None else _named(source, positions)
    if positions is not None and is_fitted(source, options.backbone):
        source, positions = hold_out(source, positions), None  # test data take no part in it
    embedded, changes, choices = _embedded(source, options, report)
    if positions is not None:  # after the embedding: the cache is that of the whole data
        source, embedded = hold_out(source, positions), hold_out(embedded, positions)
    return EmbeddedData(source, embedded, held_out, changes, choices)


def _embedded(source: Source, options: RunOptions, report: Reporter) -> tuple[Source, dict[str, Any], list[str]]:
    """Return the data to train on, the changes without those that the embedding has used, and lines about it."""
    changes = dict(options.changes)
    of_images = {"views": options.views != DEFAULT_VIEWS, "size": changes.get("data.size") is not None}
    given = of_images | {"quality": options.quality != AUTO and source.kind == "vector"}
    if source.kind != "image" and (strange := [name for name, is_given in given.items() if is_given]):
        raise InputError(f"{strange[0]} (--{strange[0]}) has no meaning for {source.name}, which holds {source.kind}s")
    named_recipe = options.recipe not in (None, DEFAULT)  # then a network is trained from scratch by default
    own_recipe, model = named_recipe or changes.get("weights") is not None, str(changes.get("model", AUTO))
    if not uses_backbone(source, options.backbone, own_recipe=own_recipe, model=model):
        return source, changes, []
    workers = changes.get("engine.workers")
    rank, world = process_rank()
    if rank or os.environ.get("LOCAL_RANK", "0") != "0":  # under torchrun, and started by --devices
        report.quiet(True)
    with report.embedding() as progress:
        embedding = EmbeddingOptions(
            views=options.views,
            cache=None if options.cache is None else Path(options.cache),
            workers=default_workers() if workers is None else workers,
            device=process_device(str(changes.get("engine.accelerator", AUTO))),
            rank=rank,
            world=world,
            progress=progress,
            note=report.note,
        )
        embedded, lines = embed_for_training(
            source, options.backbone, size=changes.get("data.size"), quality=options.quality, options=embedding
        )
    if embedded.backbone is not None:
        changes.pop("data.size", None)  # the embedding has used it
    return embedded, changes, lines


def choose_recipe(data: EmbeddedData, options: RunOptions, report: Reporter) -> ChosenRecipe:
    """Return the recipe that suits the data; with fine-tuning, a head is trained first."""
    if options.finetune:
        backbone = backbone_to_finetune(data.embedded)
        report.note("fine-tuning: first a head on the embeddings, then the whole network")
        engine = {name: value for name, value in data.changes.items() if name.startswith("engine.")}
        head_recipe = adapt_recipe(data.embedded, None, options.method, engine).recipe
        head = run_recipe(data.embedded, head_recipe, seed=options.seed, report=report)
        model = None if head is None else head.model
        recipe = finetuning_recipe(data.embedded, backbone, model, options.method, data.changes, cache=options.cache)
        return ChosenRecipe(recipe, data.source, data.choices)
    recipe, adapted = adapt_recipe(data.embedded, options.recipe, options.method, data.changes)
    # The line about a backbone is on the screen already.
    report.choices = adapted if data.embedded.backbone is not None else [*data.choices, *adapted]
    return ChosenRecipe(recipe, data.embedded, [*data.choices, *adapted])


def run_recipe(
    source: Source,
    recipe: Recipe,
    folder: RunFolder | Path | None = None,
    *,
    seed: int = 0,
    every: CheckpointInterval | None = None,
    strict: bool = False,
    report: Reporter | None = None,
    track: Sequence[str] = (),
    classify: bool = False,
    network: nn.Module | Factory | None = None,
    observe: Callable[[EpochView], None] | None = None,
    complete: Callable[[], None] = lambda: None,
) -> RunResult | None:
    """Train a method on all given labels, judge them, and write: the second half of `run`, with a recipe as it is.

    Arguments that are not named here are those of `RunOptions`.

    Args:
        source: the data, with labels that may be wrong.
        recipe: method, network, training plan and engine.
        folder: the run folder, or None for a run in memory.
        track: the experiment trackers.
        observe: called at the end of every epoch, in the first process.
        complete: writes further files to the run folder, in the first process, once findings and model are there: the
            run is not finished before. For a run that was finished before it is called again.
    """
    folder = RunFolder(folder) if isinstance(folder, Path) else folder
    check_trackers(track, folder)
    report, method = report or Reporter(), METHODS[recipe.method.name]
    if recipe.engine.num_nodes > 1 and process_rank()[0] == 0:
        machines = f"{recipe.engine.num_nodes} machines, on which this command must be started too"
        report.note(f"waiting for {machines}; gives up after {WAIT.total_seconds() / 60:g} minutes")
    fabric = make_fabric(recipe.engine, has_unused_parameters=method.has_unused_parameters)
    if not fabric.is_global_zero:
        report.quiet(True)
    source_to_judge = None
    if source.decided is not None and not method.supports_decided_labels:
        report.note(f"{recipe.method.name} takes the decided labels for given ones: it cannot trust them more")
        labels = np.where(source.decided >= 0, source.decided, source.labels)
        source_to_judge, source = source, replace(source, labels=labels, decided=None)
    pseudo = pseudo_label_settings(recipe, method) if classify else None
    interval = every or CheckpointInterval()
    settings = RunSettings(source, recipe, seed, strict, interval, pseudo, network, observe, source_to_judge)
    if folder is None:
        return _train_and_judge(Session(settings, None, fabric, report), settings, None, fabric, report)
    identity, is_new = _identity(settings), not folder.path.exists()
    if (done := _finished(folder, identity, fabric, report, complete)) is not None:
        return RunResult(done, folder.findings, folder.read_log()) if fabric.is_global_zero else None
    with _locked(folder, identity, fabric, is_new=is_new):
        session = Session(settings, folder, fabric, report)
        if fabric.is_global_zero:
            folder.begin(identity)
        session.resume()
        with watch() as stop_request:
            result = _train_and_judge(session, settings, folder, fabric, report, stop_request, track)
            _finish(folder, identity, result, complete, stop_request)
        return result


def _finished(
    folder: RunFolder, identity: dict[str, Any], fabric: Fabric, report: Reporter, complete: Callable[[], None]
) -> dict[str, Any] | None:
    """Return the results of a run that was finished before; None if there is something to do."""
    done = agree(fabric, lambda: folder.open(identity))
    if done is not None:
        report.note(f"{folder.path} is finished; nothing to do")
        if fabric.is_global_zero:
            with folder.lock():
                complete()
    return done


@contextmanager
def _locked(folder: RunFolder, identity: dict[str, Any], fabric: Fabric, *, is_new: bool) -> Iterator[None]:
    """Lock the folder of a run that begins or resumes; a new one is removed again if nothing is written."""
    with ExitStack() as stack:
        if is_new:
            stack.callback(folder.remove_unused)
        agree(fabric, lambda: stack.enter_context(folder.lock()))
        agree(fabric, lambda: folder.open(identity))  # another run may have been here since
        yield
        fabric.barrier()


def _finish(
    folder: RunFolder,
    identity: dict[str, Any],
    result: RunResult | TagRunResult | None,
    complete: Callable[[], None],
    stop_request: StopRequest,
) -> None:
    """Write the model, what `complete` writes, and the results."""
    if result is not None and result.model is not None:
        result.model.write(folder, result.results)
        with stop_request.at_once(_STOPPED_SEARCHING):
            complete()
        folder.write(identity, "finished", result.results)


def _identity(settings: RunSettings) -> dict[str, Any]:
    """Return what must be the same for a run to resume, as run.json has it."""
    source, recipe, pseudo = settings.source, settings.recipe, settings.pseudo_labels
    changed = {}
    if recipe.model.startswith(FINETUNE) and recipe.weights is not None:
        changed["weights"] = PurePath(recipe.weights).name  # a hash (`training.finetune`), in a cache that may move
    return {
        "seed": settings.seed,
        "data": source.name,
        "fingerprint": source.fingerprint(),
        # `second` has the settings of pseudo-labels
        "recipe": recipe.model_dump(mode="json", exclude={"engine", "description", "pseudo"}) | changed,
        "second": None if pseudo is None else pseudo.as_json(),
        "precision": recipe.engine.precision,  # the one engine setting that changes the numbers for good
    }


def _train_and_judge(
    session: Session,
    settings: RunSettings,
    folder: RunFolder | None,
    fabric: Fabric,
    report: Reporter,
    stop_request: StopRequest | None = None,
    trackers: Sequence[str] = (),
) -> RunResult | None:
    """Train the method, judge the labels by it, and train a classifier on pseudo-labels if the settings say so.

    Returns:
        The result; None in all but the first of several processes that share a run folder.
    """
    stop_request = stop_request or StopRequest()
    judged = JudgedLabels()
    with session.running(stop_request, trackers):
        if session.state.phase.pseudo:  # resumed after the labels were judged
            judged = JudgedLabels(None if folder is None else folder.findings, notes=session.state.notes)
        else:
            session.train_method()
            with stop_request.at_once(_STOPPED_JUDGING), report.judging() as progress:
                in_all = folder is None or settings.pseudo_labels is not None
                judged = judge(session, settings, fabric, progress, in_all=in_all)
            if folder is not None and fabric.is_global_zero and judged.findings is not None:
                folder.save_findings(judged.findings)
        if settings.pseudo_labels is not None and judged.findings is not None:
            session.train_classifier(judged.findings.is_label_issue, judged.probs, judged.notes)
    if judged.findings is None or not (folder is None or fabric.is_global_zero):
        return None
    source, path = settings.source_to_judge or settings.source, None if folder is None else folder.path
    return summarise(source, judged.findings, session.trained(), judged.notes, path)


class JudgedLabels(NamedTuple):
    """Findings (None in processes that do not need them), probabilities (N, C) by which labels were judged, if they
    were, and lines for the user."""

    findings: Findings | None = None
    probs: npt.NDArray[np.floating[Any]] | None = None
    notes: RunNotes = RunNotes()


def judge(
    session: Session, settings: RunSettings, fabric: Fabric, progress: Callable[[float], None], *, in_all: bool = False
) -> JudgedLabels:
    """Judge the given labels by the trained method; all processes predict, the first one judges, or all of them."""
    state, verdict = session.state, settings.recipe.verdict
    training_set, network = state.training_set(), state.method.classifier
    trees = _tree_predictions(settings, part_of(progress, 0.0, 0.6))
    begun = 0.0 if trees is None else 0.6
    unseen = scoring.unseen_probs(
        verdict,
        network,
        training_set,
        trees,
        of_siblings=state.records.unseen,
        linear=settings.model_name == "linear",
        weight_decay=settings.recipe.train.weight_decay,
        seed=settings.seed,
        progress=part_of(progress, begun, 0.7),
    )
    final = scoring.final_probs(verdict, network, training_set, trees, unseen, part_of(progress, 0.7, 0.8))
    source = settings.source_to_judge or settings.source
    records, show = state.records, part_of(progress, 0.8, 1.0)
    findings = None

    def judge_by(probs: npt.NDArray[np.floating[Any]] | None) -> Findings:
        quality = records.quality()
        return scoring.judge_labels(source, records.ledger, quality, verdict, state.unreadable, probs, unseen, show)

    if fabric.is_global_zero or in_all:
        findings = judge_by(final.probs)
        if fabric.world_size == 1 and scoring.follows_uneven_rule(findings, verdict):
            final = scoring.final_probs(verdict.model_copy(update={"score": "posterior"}), network, training_set, trees)
            final, findings = final._replace(judged_by=scoring.BY_RULE), judge_by(final.probs)
        findings = replace(findings, groups=source.groups)
        if source.votes is not None:
            findings = with_consensus(findings, source.votes, final.probs, unseen, verdict.threshold)
    return JudgedLabels(findings, final.probs, RunNotes(tuple(state.method.notes()), final.judged_by))


def _tree_predictions(settings: RunSettings, progress: Callable[[float], None]) -> TreePredictions | None:
    """Return what decision trees predict for the rows of a table, if the recipe asks for them."""
    source, seed = settings.source, settings.seed
    if not settings.recipe.verdict.trees:
        return None
    values = np.stack([source.inputs.read(at) for at in range(len(source))])
    labels = scoring.trusted_labels(source.labels, source.decided)
    fold = deal_folds(labels, min(FOLDS, len(source)), seed)
    with threads_for(_TREE_WORK * values.size):
        return tree_predictions(
            values, labels, fold, len(source.class_names), weights=source.weights, seed=seed, progress=progress
        )


def run_tags(
    opened: OpenedData,
    options: RunOptions,
    folder: RunFolder | None = None,
    *,
    origin: Origin | None = None,
    report: Reporter | None = None,
) -> TagRunResult:
    """Embed, train a head with one output per tag, judge and write: `run` for data with several tags per sample.

    The head takes seconds, so that a run which was interrupted trains it again, on the cached embeddings.
    """
    report = report or Reporter()
    _refuse_for_tags(opened.source, options)
    data = embed_data(opened, options, report)
    if data.embedded.kind != "vector":
        raise InputError(f"several tags per sample need embeddings of the {data.embedded.kind}s: --backbone names one")
    recipe, adapted = tag_recipe(data.embedded, data.changes)
    identity = {
        "kind": TAGS,
        "seed": options.seed,
        "data": data.embedded.name,
        "fingerprint": data.embedded.fingerprint(),
        "recipe": recipe.model_dump(mode="json", include={"data", "train"}) | {"threshold": recipe.verdict.threshold},
    }
    fabric = make_fabric(recipe.engine.model_copy(update={"accelerator": "cpu"}))
    judge_now = partial(judge_tags, data.embedded, recipe, fabric, report, seed=options.seed, strict=options.strict)
    if folder is None:
        return judge_now()
    choices = [*data.choices, *adapted, *column_lines(data.embedded)]
    complete = partial(write_data, folder, data, choices, opened.reviewed, origin or Origin(), report)
    is_new = not folder.path.exists()
    if (done := _finished(folder, identity, fabric, report, complete)) is not None:
        return TagRunResult(done, folder.tag_findings)
    with _locked(folder, identity, fabric, is_new=is_new), watch() as stop_request:
        folder.begin(identity)
        with stop_request.at_once(_STOPPED_JUDGING):
            result = judge_now(folder.path)
        folder.save_tag_findings(result.findings)
        _finish(folder, identity, result, complete, stop_request)
    return result


def _refuse_for_tags(source: Source, options: RunOptions) -> None:
    """Raise an InputError for options that have no meaning for several tags per sample."""
    chosen = {
        "--recipe": options.recipe not in (None, DEFAULT),
        "--method": options.method is not None,
        "--finetune": options.finetune,
        "--weights": options.changes.get("weights") is not None,
        "--track": bool(options.trackers),
        "a network of your own": options.network is not None or "model" in options.changes,
    }
    if strange := [name for name, is_chosen in chosen.items() if is_chosen]:
        raise InputError(f"{strange[0]} has no meaning for several tags per sample ({source.name})")
    if options.changes.get("verdict.threshold") in ("per-class", "1/c"):
        raise InputError("--threshold per-class and 1/c have no meaning for several tags per sample")
    if process_rank()[1] > 1:
        raise InputError("several tags per sample are judged by one process: leave out --devices and --num-nodes")


def write_data(
    folder: RunFolder,
    data: EmbeddedData,
    choices: Sequence[str],
    reviewed: Mapping[str, Any] | None,
    origin: Origin,
    report: Reporter,
) -> None:
    """Write what the report and the review show of the data: duplicates, outliers, small pictures, data.json."""
    if len(data.embedded) >= _MANY:
        report.note("looking for duplicates and outliers, and writing what the report shows")
    with report.searching() as progress:
        short = short_vectors(data.embedded)
        described = describe_data(data.embedded, folder.sample_findings, data.held_out, progress, short)
        options, backbone = origin.options, data.embedded.backbone
        if options is not None and backbone is not None:  # as it was chosen: later, "auto" may choose another one
            options = {**options, "backbone": backbone.facts["name"], "size": backbone.facts.get("size")}
        reference = None if folder.has_tags else Reference.of(data.embedded, short=short)
        if reference is not None:
            with replacing(folder.reference_vectors) as draft:
                reference.save(draft)
            test = data.embedded.test
            if test is not None and (copies := copies_of(reference, test)):
                they_are = "is a training sample" if len(copies) == 1 else "are training samples"
                which = f"{len(copies):,} of the {len(test):,} test samples {they_are}, or nearly"
                line = f"{which}: the test accuracy is too high"
                report.note(line)
                choices = [*choices, line]
        folder.write_data(
            described,
            command=origin.command,
            choices=choices,
            options=options,
            reviewed=dict(reviewed or {}),
            thumbnails=origin.thumbnails,
        )


def _named(source: Source, positions: Labels) -> list[dict[str, Any]]:
    """Return id and given label of some samples."""
    ids, names = source.ids[positions].tolist(), source.class_names
    if source.tags is not None:
        rows = [[names[tag] for tag in np.flatnonzero(row)] for row in source.tags[positions]]
        labels: list[Any] = [json.dumps(row, ensure_ascii=False) for row in rows]
    else:
        labels = [names[label] for label in source.labels[positions].tolist()]
    return [{"id": name, "label": label} for name, label in zip(ids, labels, strict=True)]
