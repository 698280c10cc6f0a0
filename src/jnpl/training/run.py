"""One run: data and recipe in, findings and a classifier out; a run in a folder resumes exactly after a kill."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.judging.findings import Findings
from jnpl.methods.registry import METHODS
from jnpl.models.build import FINETUNE
from jnpl.run_folder import RunFolder
from jnpl.training.checkpoint import CheckpointInterval
from jnpl.training.interrupt import watch
from jnpl.training.processes import agree, make_fabric
from jnpl.training.pseudo_labels import pseudo_label_settings
from jnpl.training.reporting import Reporter
from jnpl.training.run_results import RunResult
from jnpl.training.run_settings import RunSettings
from jnpl.training.session import Session
from jnpl.training.tracking import check_trackers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.data.source import Source
    from jnpl.models.build import Factory
    from jnpl.recipes.schema import Recipe
    from jnpl.training.epoch_view import EpochView

_STOPPED = "stopped while duplicates were searched for; run the same command again to resume"
__all__ = ["CheckpointInterval", "RunResult", "find"]


def find(
    source: Source,
    recipe: Recipe,
    out: Path | None = None,
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
    """Train a method on all given labels and judge them.

    Args:
        source: the data, with labels that may be wrong.
        recipe: method, network, training plan and engine.
        out: the run folder; a run that was interrupted there continues, a finished one is not repeated. None: a run
            in memory, which writes no file and no checkpoint.
        seed: decides first weights, order of the samples, augmentation and all other draws.
        every: how often to write a checkpoint, by default every minute.
        strict: refuse data with unreadable samples instead of leaving those out.
        report: prints progress.
        track: experiment trackers to log to as well (`jnpl.training.tracking.TRACKERS`).
        classify: go on to train a classifier on pseudo-labels, if recipe and method say how.
        network: a module or factory in place of the recipe's model; only for a run in memory.
        observe: called at the end of every epoch, in the first process.
        complete: writes further files to the run folder, in the first process, once findings and model are there: the
            run is not finished before. For a run that was finished before it is called again.

    Returns:
        Results, findings, history and classifier; None in all but the first of several processes that share a run
        folder.
    """
    check_trackers(track, out)
    report = report or Reporter()
    fabric = make_fabric(recipe.engine, has_unused_parameters=METHODS[recipe.method.name].has_unused_parameters)
    if not fabric.is_global_zero:
        report.quiet(True)
    judged = None
    if source.decided is not None and not METHODS[recipe.method.name].supports_decided_labels:
        report.note(f"{recipe.method.name} takes the decided labels for given ones: it cannot trust them more")
        known = np.where(source.decided >= 0, source.decided, source.labels)
        judged, source = source, replace(source, labels=known, decided=None)
    pseudo = pseudo_label_settings(recipe, METHODS[recipe.method.name]) if classify else None
    interval = every or CheckpointInterval()
    settings = RunSettings(source, recipe, seed, strict, interval, pseudo, network, observe, judged)
    if out is None:
        session = Session(settings, None, fabric, report)
        session.train()
        return session.result()
    return _find_in_folder(settings, RunFolder(out), fabric, report, complete, track)


def _find_in_folder(
    settings: RunSettings,
    folder: RunFolder,
    fabric: Fabric,
    report: Reporter,
    complete: Callable[[], None],
    track: Sequence[str],
) -> RunResult | None:
    identity, is_new = _identity(settings), not folder.path.exists()
    done = agree(fabric, lambda: folder.open(identity))
    if done is not None:
        report.note(f"{folder.path} is finished; nothing to do")
        if not fabric.is_global_zero:
            return None
        complete()
        return RunResult(done, Findings.load(folder.path), folder.read_log())
    with ExitStack() as held:
        if is_new:
            held.callback(folder.remove_unused)
        agree(fabric, lambda: held.enter_context(folder.lock()))
        agree(fabric, lambda: folder.open(identity))  # another run may have been here since
        session = Session(settings, folder, fabric, report)
        if fabric.is_global_zero:
            folder.begin(identity)
        session.resume()
        result = None
        with watch() as stop_request:
            session.train(stop_request, track=track)
            if fabric.is_global_zero:
                result = session.result()
                if result.model is not None:
                    result.model.write(folder.path, result.results)
                with stop_request.at_once(_STOPPED):
                    complete()
                folder.write(identity, "finished", result.results)
        fabric.barrier()
    return result


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
