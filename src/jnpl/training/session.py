"""A run while it trains: phase after phase, with its log and its checkpoints."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl.data.loading.batches import generator_for
from jnpl.internal.allocator import keep_freed_memory
from jnpl.internal.errors import InputError, LearningError, one_line
from jnpl.internal.json_files import check_facts
from jnpl.internal.settings import flat_settings
from jnpl.judging.ledger import Ledger
from jnpl.judging.margins import margins_of
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.methods.pseudo_label import PseudoLabel, Targets
from jnpl.models.build import build
from jnpl.training import checkpoint, pseudo_labels
from jnpl.training.checkpoint import CheckpointFacts
from jnpl.training.epoch_log import EpochLog
from jnpl.training.epoch_view import EpochView
from jnpl.training.evaluation import TrainingSet, accuracy, headline
from jnpl.training.feeds import make_feeds
from jnpl.training.interrupt import Interrupted, StopRequest
from jnpl.training.learner import BestWeights, Learner
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.phases import Phase, make_phases
from jnpl.training.processes import gather_objects, share
from jnpl.training.records import SampleRecords
from jnpl.training.run_results import TrainedModel, accuracies
from jnpl.training.run_settings import check_settings
from jnpl.training.training_state import TrainingState, saved_position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.data.loading.feed import Feed
    from jnpl.methods.base import Method
    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter
    from jnpl.training.run_settings import RunSettings

_STOPPED = "stopped at the end of a phase; run the same command again to resume"


class Session(LoopCallback):
    """A run while it trains: first the method, then, if its settings say so, a classifier on pseudo-labels.

    It knows nothing of judging labels: `jnpl.pipeline` does that between the two, by `method`, `training_set` and
    `records`. With `folder` None the run is in memory: it writes no file and saves no checkpoint.
    """

    def __init__(self, settings: RunSettings, folder: RunFolder | None, fabric: Fabric, report: Reporter) -> None:
        source, recipe = settings.source, settings.recipe
        self._settings, self._folder, self._fabric, self._report = settings, folder, fabric, report
        check_settings(settings)
        self._feeds = make_feeds(source, recipe, fabric, settings.seed, report.note, strict=settings.strict)
        rate, matrix = source.realised_noise()
        self._task = Task(
            self._network,
            torch.from_numpy(source.labels),
            len(source.class_names),
            rate,
            None if matrix is None else torch.from_numpy(matrix),
            None if source.weights is None else torch.from_numpy(source.weights / source.weights.mean()),
            None if source.decided is None else torch.from_numpy(source.decided),
        )
        method = registry.make(self._task, recipe.method)
        self._phases = make_phases(recipe, method, settings.pseudo_labels)
        selects = any(phase.select for phase in self._phases)
        self._validation: Feed | None = None
        if selects and source.validation is not None:
            self._validation = self._feeds.make(source.validation)
        learner = Learner(method, self._phases[0].plan, fabric)
        self._state = TrainingState(learner, self._empty_records(), fabric, self._feeds.train.prepared.unreadable)
        self._set_phase()
        self._chosen_accuracy: dict[str, float] = {}  # test accuracy of the best weights of the phase before
        self._log = EpochLog(folder if fabric.is_global_zero else None, report)
        self._stop_request = StopRequest()
        self._saved_at = time.monotonic()
        size = sum(weight.numel() for weight in method.model.parameters())
        data = f"{source.name}: {len(source):,} samples, {self._task.num_classes} classes"
        report.note(f"{data}; {settings.model_name}, {size:,} weights, on {fabric.device}")
        if selects and self._validation is None:
            report.note(
                f"{recipe.method.name} has no validation data to choose the best epoch: it keeps the last weights"
            )

    # What the pipeline reads

    @property
    def method(self) -> Method:
        """The method being trained, or the classifier on pseudo-labels."""
        return self._state.learner.method

    @property
    def records(self) -> SampleRecords:
        """The predictions of every sample so far."""
        return self._state.records

    @property
    def unreadable(self) -> dict[int, str]:
        """Position -> reason, of the samples known to be unreadable."""
        return self._state.unreadable

    @property
    def trains_on_pseudo_labels(self) -> bool:
        """Whether the method has ended and the present phase trains on pseudo-labels."""
        return self._phase.pseudo

    @property
    def notes(self) -> list[str]:
        """Lines for the user about the judged labels; a run that resumes within its pseudo-labels has them."""
        return self._state.notes

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was logged, a line an epoch."""
        return self._log.lines

    @property
    def epochs(self) -> int:
        """Number of epochs of all phases."""
        return sum(phase.plan.epochs for phase in self._phases)

    def seconds(self) -> float:
        """Return the seconds of the run so far, those before a resume included."""
        return self._state.seconds()

    def training_set(self) -> TrainingSet:
        """Return the training set, whose samples can be predicted."""
        return TrainingSet(self._feed, self.records.ledger, self._fabric, self._settings.source.decided)

    def accuracies(self) -> dict[str, float]:
        """Return the test accuracies of the run; {} without test data."""
        if self._feeds.test is None:
            return {}
        return accuracies(self.lines, self._phases, self._chosen_accuracy)

    def trained_model(self) -> TrainedModel:
        """Return the classifier of a run that is trained."""
        source = self._settings.source
        description = {
            "model": self._settings.model_name,
            "input_shape": list(self._feeds.shape),
            "sample_shape": list(self._feeds.train.prepared.shape),
            "transform": self._feeds.describe_transform(),
            "encoding": source.encoding,
            "classes": list(source.class_names),
        }
        if source.backbone is not None:
            description["backbone"] = source.backbone.facts
        state = None if source.backbone is None else source.backbone.state
        return TrainedModel(self.method.classifier, self._feeds.transform, description, state)

    # Training

    @contextmanager
    def running(self, stop_request: StopRequest, trackers: Sequence[str] = ()) -> Iterator[None]:
        """Prepare the process for training while the block runs: signals, experiment trackers, threads, memory."""
        self._stop_request = stop_request
        keep_freed_memory()
        facts = flat_settings(self._settings.recipe.model_dump(mode="json")) | {"seed": self._settings.seed}
        with self._log.tracked(trackers, facts, self._state.position.total), self._threads():
            yield

    def train_method(self) -> None:
        """Train the stages of the method, from the present position."""
        while True:
            self._train_phase()
            following = self._following_phase()
            if following is None or following.pseudo:
                return
            self._next_phase()
            self._set_phase()
            self.method.begin_stage(self.training_set())
            if self._phase.fresh:
                self.method.reset_networks(self._network)
                self._state.records = self._empty_records()
            self._state.learner.replan(self._phase.plan, fresh=self._phase.fresh)

    def train_classifier(
        self,
        is_label_issue: npt.NDArray[np.bool_],
        probs: npt.NDArray[np.floating[Any]] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Train a classifier on pseudo-labels, from the present position, if the settings have such phases.

        Args:
            is_label_issue: (N,) whether a given label is probably wrong.
            probs: (N, C) by which the labels were judged; None: what was recorded in training.
            notes: lines for the user, which the checkpoints keep.
        """
        self._state.notes = list(notes)
        if self._phase.pseudo:
            self._train_phase()
        while self._following_phase() is not None:
            self._next_phase()
            self._begin_pseudo_labels(is_label_issue, probs if self._phase.number == 0 else None)
            self._train_phase()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Train a linear head with one thread: more would wait for each other longer than they compute."""
        before = torch.get_num_threads()
        if self._settings.model_name == "linear" and self._fabric.device.type == "cpu":
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _train_phase(self) -> None:
        """Run the loop to the end of the phase, and take the weights that it ends with."""
        state, device, plan = self._state, self._fabric.device, self._phase.plan
        # The loop seeds the global generators for dropout: others find them as they were.
        gpus = [device] if device.type == "cuda" else []
        with self._report.training(self.epochs, self._feed.steps(), state.position), torch.random.fork_rng(gpus):
            wrapped = (state.learner.wrapped, state.learner.wrapped_optimizer)
            try:
                train(*wrapped, self._feed, state.records, plan, self._fabric, state.position, self)
            except LearningError as error:
                raise LearningError(f"{error}{self._last_checkpoint()}") from error
        with self._stop_request.at_once(_STOPPED):
            if self._following_phase() is None and self._may_train_later():
                self._save(state.position)
            state.learner.finish_average()
            if state.best.weights:
                self.method.load_state_dict(state.best.weights, strict=False)
                state.best = BestWeights()
                self._chosen_accuracy = self._test()

    def _last_checkpoint(self) -> str:
        """Return the end of a message that says what is kept of a run that failed."""
        newest = None if self._folder is None else checkpoint.newest(self._folder.checkpoints)
        return "" if newest is None else f"; the last good checkpoint is {str(newest)!r}"

    def _may_train_later(self) -> bool:
        """Return whether `jnpl train` may continue in the folder of this `jnpl find`."""
        recipe, every = self._settings.recipe, self._settings.every
        saves = every.epochs is not None or every.seconds is not None
        method = registry.METHODS[recipe.method.name]
        has_pseudo_labels = pseudo_labels.pseudo_label_settings(recipe, method) is not None
        return saves and has_pseudo_labels and self._settings.pseudo_labels is None and recipe.verdict.keep == "full"

    # Networks and phases

    def _network(self, number: int) -> nn.Module:
        """Return network `number` of this run, with first weights of its own."""
        recipe, seed, shape = self._settings.recipe, self._settings.seed, self._feeds.shape
        model = build(
            self._settings.model_name if self._settings.network is None else self._settings.network,
            num_classes=len(self._settings.source.class_names),
            input_shape=shape,
            seed=seed if number == 0 else generator_for(seed, "network", number).initial_seed(),
            weights=recipe.weights,
        )
        if recipe.engine.channels_last and len(shape) == 3:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if recipe.engine.compile:
            model.compile()
        return model

    @property
    def _phase(self) -> Phase:
        return self._phases[self._state.position.phase]

    def _following_phase(self) -> Phase | None:
        at = self._state.position.phase + 1
        return self._phases[at] if at < len(self._phases) else None

    def _next_phase(self) -> None:
        self._state.position = Position(self._state.position.phase + 1, self._state.position.total)

    def _set_phase(self) -> None:
        """Set method and feed to the present phase."""
        plan, method = self._phase.plan, self.method
        method.stage, method.epoch, method.epochs = self._phase.number, 0, plan.epochs
        self._feed = replace(
            self._feeds.train, batch_size=plan.batch_size, group_size=method.group_size, views=method.views
        )

    def _install(self, method: Method) -> None:
        """Train this method from now on, with a new optimiser and empty records."""
        self._state.learner = Learner(method, self._phase.plan, self._fabric)
        self._set_phase()
        self._state.records = self._empty_records()

    def _empty_records(self) -> SampleRecords:
        source, kept = self._settings.source, self._settings.recipe.verdict
        labels = source.labels if kept.keep == "compact" else None
        ledger = Ledger(len(source), self._task.num_classes, kept.history, kept.keep, labels)
        return SampleRecords(ledger, margins_of(kept.score, source.labels, self._task.num_classes))

    def _begin_pseudo_labels(
        self, is_label_issue: npt.NDArray[np.bool_], probs: npt.NDArray[np.floating[Any]] | None
    ) -> None:
        """Begin a phase with pseudo-labels, made from `probs` or what the phase before predicted."""
        settings, source = self._settings.pseudo_labels, self._settings.source
        if settings is None:
            raise RuntimeError("a phase with pseudo-labels needs their settings")
        mean = self.records.ledger.mean_probs() if probs is None else probs.astype(np.float32)
        if source.decided is not None:
            decided = np.flatnonzero(source.decided >= 0)
            mean[decided] = np.eye(mean.shape[1], dtype=mean.dtype)[source.decided[decided]]
        mean[list(self.unreadable)] = np.nan
        targets = pseudo_labels.targets(
            source.labels,
            is_label_issue,
            mean,
            mode=settings.mode,
            step=self._phase.number,
            soft=settings.soft,
            by_class=settings.by_class,
        )
        classifier = self._pseudo_method(targets)
        if settings.warm and self._phase.number == 0:
            classifier.model.load_state_dict(self.method.classifier.state_dict())
        self._install(classifier)

    def _pseudo_method(self, targets: Targets) -> Method:
        number = len(self._phases) + self._phase.number  # no stage of the method has begun with this network
        return PseudoLabel(self._task, targets, number)

    # Steps and epochs: called by the loop

    def before_epoch(self) -> None:
        """Let the method prepare for the epoch."""
        self.method.epoch = self._state.position.epoch
        self.method.begin_epoch(self.training_set())

    def after_step(self) -> None:
        """Average the weights, show progress, save if it is time, stop if that is requested."""
        learner, position = self._state.learner, self._state.position
        if learner.average is not None:
            learner.average.update()
        self._report.step(position, learner.optimizer.param_groups[0]["lr"])
        signal, seconds = self._stop_request.signal, self._settings.every.seconds
        due = seconds is not None and time.monotonic() - self._saved_at >= seconds
        if self._fabric.world_size > 1:  # all processes save and stop together, or they wait for each other for ever
            requests = torch.tensor([float(signal), float(due)], device=self._fabric.device)
            largest = torch.as_tensor(self._fabric.all_reduce(requests, reduce_op="max")).tolist()
            signal, due = int(largest[0]), bool(largest[1])
        if signal or due:
            self._save(position)
            self._saved_at = time.monotonic()
        if signal:
            raise Interrupted(f"stopped at {self._where()}, all saved; run the same command again to resume", signal)

    def after_epoch(self) -> None:
        """Test, log, save, and call the observer."""
        position, phase, average = self._state.position, self._phase, self._state.learner.average
        self._share_unreadable()
        line: dict[str, Any] = {"epoch": position.total, "lr": phase.plan.lr_at(position.epoch), **self._state.means()}
        if len(self._phases) > 1:
            line = {"epoch": position.total, "stage": phase.name, **line}
        named = self.method.named_buffers()
        share((buffer for name, buffer in named if name not in self.method.per_process_buffers), self._fabric)
        if average is not None:
            share(average.values.values(), self._fabric)
        line |= self._test()
        if phase.select and self._validation is not None:
            line["validation_accuracy"] = self._validate(self._validation)
        self._log.add(line)
        interval = self._settings.every.epochs
        if interval is not None and (position.total + 1) % interval == 0:
            self._save(position.next_epoch())
        if self._settings.observe is not None and self._fabric.is_global_zero:
            self._settings.observe(self._view())

    def _view(self) -> EpochView:
        position = self._state.position
        return EpochView(
            phase=self._phase,
            phases=tuple(self._phases),
            epoch=position.total,
            phase_epoch=position.epoch,
            line=self.lines[-1],
            test=self._feeds.test,
            seconds=self.seconds(),
            verdict=self._settings.recipe.verdict,
            learner=self._state.learner,
            records=self.records,
            training_set=self.training_set(),
            feed=self._feeds.make,
            save=lambda: self._save(position.next_epoch()),
        )

    def _test(self) -> dict[str, float]:
        """Return the test accuracy: of the network, or of several (`headline`) and of each of them."""
        if self._feeds.test is None:
            return {}
        with self._state.learner.evaluated():
            by_network = accuracy(self.method, self._feeds.test, self._fabric)
        several = {f"test_accuracy_{name}": value for name, value in by_network.items()} if len(by_network) > 1 else {}
        return {"test_accuracy": headline(by_network), **several}

    def _validate(self, validation: Feed) -> float:
        """Return the validation accuracy, and keep the weights if it is the best of this phase."""
        with self._state.learner.evaluated():
            result = headline(accuracy(self.method, validation, self._fabric))
            self._state.best.offer(self.method, result)
        return result

    def _share_unreadable(self) -> None:
        """Exchange the unreadable samples: processes that stream a set find them one by one."""
        if self._fabric.world_size > 1 and self._feeds.train.prepared.values is None:
            for reasons in gather_objects(self.unreadable, self._fabric):
                self.unreadable.update(reasons)

    def _where(self) -> str:
        stage = f" ({self._phase.name})" if len(self._phases) > 1 else ""
        return f"epoch {self._state.position.total}, step {self._state.position.step}{stage}"

    # Checkpoints

    def resume(self) -> None:
        """Continue from the newest whole checkpoint in the folder, if there is one."""
        if self._folder is None:
            return
        saved, torn = checkpoint.load(self._folder.checkpoints)
        for line in torn:
            self._report.note(line)
        if saved is not None:
            check_facts(saved.facts, CheckpointFacts, f"the checkpoint in {str(self._folder.checkpoints)!r}")
            try:
                self._go_to(saved_position(saved.facts, self._fabric.world_size))
                self._state.unpack(saved)
            except InputError:
                raise
            except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
                where = str(self._folder.checkpoints)
                raise InputError(
                    f"the checkpoint in {where!r} does not fit this run ({one_line(error)}); remove it to begin anew"
                ) from error
            self._report.note(f"resuming at {self._where()}")
        self._fabric.barrier()
        names = [phase.name for phase in self._phases for _ in range(phase.plan.epochs)]
        self._log.resume(self._state.position.total, names if len(self._phases) > 1 else None)

    def _save(self, position: Position) -> None:
        """Write a checkpoint that stands at `position`: all processes take part, the first one writes."""
        if self._folder is None:
            return
        state = self._state.pack(position)
        if self._fabric.is_global_zero:
            checkpoint.save(self._folder.checkpoints, state)

    def _go_to(self, position: Position) -> None:
        """Set up the phase of a checkpoint, with networks whose weights are loaded afterwards."""
        self._state.position = position
        pseudo = self._settings.pseudo_labels
        if self._phase.pseudo:
            blank = np.zeros((len(self._settings.source), self._task.num_classes), np.float32)
            first_of_two = pseudo is not None and pseudo.mode == "nlnl" and self._phase.number == 0
            self._install(self._pseudo_method(Targets(blank, blank[:, 0], first_of_two)))
        else:
            self._set_phase()
            self._state.learner.replan(self._phase.plan, fresh=True)
        self.method.epoch = position.epoch
