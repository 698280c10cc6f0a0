"""A run while it trains: phase after phase, first the method, then a classifier on pseudo-labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from jnpl.data.loading.feed import Feed
from jnpl.internal.allocator import keep_freed_memory
from jnpl.internal.devices import threads_for
from jnpl.internal.errors import LearningError
from jnpl.internal.settings import flat_settings
from jnpl.methods import registry
from jnpl.training import checkpoint, pseudo_labels
from jnpl.training.epoch_log import EpochLog
from jnpl.training.heads import in_blocks, train_heads, trains_heads, write_records
from jnpl.training.interrupt import StopRequest
from jnpl.training.learner import BestWeights, Learner
from jnpl.training.loop import train
from jnpl.training.phases import make_phases
from jnpl.training.run_callback import RunCallback
from jnpl.training.run_results import RunNotes, TrainedRun, accuracies
from jnpl.training.run_setup import RunSettings, RunSetup
from jnpl.training.training_state import TrainingState

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter

_STOPPED = "stopped at the end of a phase; run the same command again to resume"


class Session:
    """A run while it trains: first the method, then, if its settings say so, a classifier on pseudo-labels.

    It knows nothing of judging labels: `jnpl.pipeline` does that between the two, by what is in `state`. With `folder`
    None the run is in memory: it writes no file and saves no checkpoint.
    """

    def __init__(self, settings: RunSettings, folder: RunFolder | None, fabric: Fabric, report: Reporter) -> None:
        self._settings, self._folder, self._report = settings, folder, report
        self._setup = setup = RunSetup(settings, fabric, report.note)
        method = registry.make(setup.task, settings.recipe.method)
        phases = make_phases(settings.recipe, method, settings.pseudo_labels)
        selects = any(phase.select for phase in phases)
        validation = settings.source.validation if selects else None
        validation_feed = None if validation is None else setup.feeds.make(validation)
        records = setup.empty_records(of_heads=trains_heads(settings.recipe, method, phases, fabric))
        self._state = TrainingState(setup, phases, Learner(method, phases[0].plan, fabric), records)
        self._state.set_phase()
        self._state.begin_heads()
        self._blocks: Feed | None = None  # the samples as `train_heads` takes them
        self._chosen_accuracy: dict[str, float] = {}  # test accuracy of the best weights of the phase before
        self._log = EpochLog(folder if fabric.is_global_zero else None, report)
        self._callback = RunCallback(self._state, folder, self._log, report, validation_feed)
        size = sum(weight.numel() for weight in method.model.parameters())
        data = f"{settings.source.name}: {len(settings.source):,} samples, {setup.task.num_classes} classes"
        report.note(f"{data}; {settings.model_name}, {size:,} weights, on {fabric.device}")
        if selects and validation is None:
            name = settings.recipe.method.name
            report.note(f"{name} has no validation data to choose the best epoch: it keeps the last weights")

    @property
    def state(self) -> TrainingState:
        """The method being trained, its records, and how far the run is."""
        return self._state

    def resume(self) -> None:
        """Continue from the newest whole checkpoint in the folder, if there is one."""
        if self._folder is None:
            return
        self._state.resume(self._folder.checkpoints, self._report.note)
        self._setup.fabric.barrier()
        names = [phase.name for phase in self._state.phases for _ in range(phase.plan.epochs)]
        self._log.resume(self._state.position.total, names if len(self._state.phases) > 1 else None)

    @contextmanager
    def running(self, stop_request: StopRequest, trackers: Sequence[str] = ()) -> Iterator[None]:
        """Prepare the process for training while the block runs: signals, experiment trackers, memory."""
        self._callback.stop_request = stop_request
        keep_freed_memory()
        facts = flat_settings(self._settings.recipe.model_dump(mode="json")) | {"seed": self._settings.seed}
        with self._log.tracked(trackers, facts, self._state.position.total):
            yield

    def _threads(self) -> AbstractContextManager[None]:
        """Return the context in which a network for vectors is trained by one thread, unless its layers are large."""
        if len(self._setup.feeds.shape) > 1 or self._setup.fabric.device.type != "cpu":
            return nullcontext()
        state = self._state
        head = None if state.heads is None else state.heads.weight.numel()
        weights = head or sum(weight.numel() for weight in state.method.model.parameters())
        return threads_for(weights * state.phase.plan.batch_size)

    def train_method(self) -> None:
        """Train the stages of the method, from the present position."""
        state = self._state
        while True:
            self._train_phase()
            if state.following_phase is None or state.following_phase.pseudo:
                self._blocks = None
                return
            state.next_phase()
            state.set_phase()
            state.method.begin_stage(state.training_set())
            if state.phase.fresh:
                state.method.reset_networks(self._setup.task.build)
                state.records = state.empty_records()
            state.learner.replan(state.phase.plan, fresh=state.phase.fresh)
            state.begin_heads()

    def train_classifier(
        self,
        is_label_issue: npt.NDArray[np.bool_],
        probs: npt.NDArray[np.floating[Any]] | None = None,
        notes: RunNotes = RunNotes(),  # noqa: B008 - a tuple
    ) -> None:
        """Train a classifier on pseudo-labels, from the present position, if the settings have such phases.

        Args:
            is_label_issue: (N,) whether a given label is probably wrong.
            probs: (N, C) by which the labels were judged; None: what was recorded in training.
            notes: lines for the user, which the checkpoints keep.
        """
        state = self._state
        state.notes = notes
        if state.phase.pseudo:
            self._train_phase()
        while state.following_phase is not None:
            state.next_phase()
            self._begin_pseudo_labels(is_label_issue, probs if state.phase.number == 0 else None)
            self._train_phase()

    def _train_phase(self) -> None:
        """Run the loop to the end of the phase, and take the weights that it ends with."""
        state, fabric = self._state, self._setup.fabric
        # The loop seeds the global generators for dropout: others find them as they were.
        gpus = [fabric.device] if fabric.device.type == "cuda" else []
        self._blocks = None if state.heads is None else in_blocks(state.feed, self._blocks)
        feed = self._blocks or state.feed
        shown = self._report.training(state.epochs, feed.steps(), state.position)
        with shown, torch.random.fork_rng(gpus), self._threads():
            plan, position = state.phase.plan, state.position
            try:
                if state.heads is not None:
                    train_heads(state.heads, state.method, feed, plan, position, self._callback)
                    write_records(state.heads, state.records, position.total - 1)
                else:
                    wrapped = (state.learner.wrapped, state.learner.wrapped_optimizer)
                    train(*wrapped, feed, state.records, plan, fabric, position, self._callback)
            except LearningError as error:
                newest = None if self._folder is None else checkpoint.newest(self._folder.checkpoints)
                kept = "" if newest is None else f"; the last good checkpoint is {str(newest)!r}"
                raise LearningError(f"{error}{kept}") from error
        with self._callback.stop_request.at_once(_STOPPED):
            if state.following_phase is None and self._settings.may_train_later:
                self._callback.save(state.position)
            state.heads = None  # its sums are as large as the ledger
            state.learner.finish_average()
            if state.best.weights:
                state.method.load_state_dict(state.best.weights, strict=False)
                state.best = BestWeights()
                self._chosen_accuracy = self._callback.test()

    def _begin_pseudo_labels(
        self, is_label_issue: npt.NDArray[np.bool_], probs: npt.NDArray[np.floating[Any]] | None
    ) -> None:
        """Begin a phase with pseudo-labels, made from `probs` or what the phase before predicted."""
        settings, source, state = self._settings.pseudo_labels, self._settings.source, self._state
        if settings is None:
            raise RuntimeError("a phase with pseudo-labels needs their settings")
        mean = state.records.ledger.mean_probs() if probs is None else probs.astype(np.float32)
        labels = source.labels
        if source.decided is not None:
            decided = np.flatnonzero(source.decided >= 0)
            mean[decided] = np.eye(mean.shape[1], dtype=mean.dtype)[source.decided[decided]]
            labels = np.where(source.decided >= 0, source.decided, labels)
        mean[list(state.unreadable)] = np.nan
        targets = pseudo_labels.targets(
            labels,
            is_label_issue,
            mean,
            mode=settings.mode,
            step=state.phase.number,
            soft=settings.soft,
            by_class=settings.by_class,
        )
        classifier = state.pseudo_method(targets)
        if settings.warm and state.phase.number == 0:
            classifier.model.load_state_dict(state.method.classifier.state_dict())
        state.install(classifier)

    def trained(self) -> TrainedRun:
        """Return what is left of a run that is trained."""
        state, lines = self._state, self._log.lines
        accuracy = {} if self._setup.feeds.test is None else accuracies(lines, state.phases, self._chosen_accuracy)
        model = self._setup.trained_model(state.method.classifier)
        return TrainedRun(state.epochs, state.seconds(), len(state.unreadable), accuracy, lines, model)
