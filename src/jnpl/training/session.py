"""A run while it trains: phase after phase, with its records, its log and its checkpoints."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl.data.loading.batches import generator_for
from jnpl.internal.allocator import keep_freed_memory
from jnpl.internal.errors import InputError, LearningError, one_line
from jnpl.internal.json_files import check_facts
from jnpl.internal.progress import part_of
from jnpl.internal.settings import flat_settings
from jnpl.judging.findings import Findings
from jnpl.judging.ledger import Ledger
from jnpl.judging.margins import margins_of
from jnpl.judging.out_of_fold import FOLDS, deal_folds
from jnpl.judging.trees import tree_predictions
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.methods.pseudo_label import PseudoLabel, Targets
from jnpl.models.build import build
from jnpl.training import checkpoint, pseudo_labels, scoring
from jnpl.training.checkpoint import CheckpointFacts, State
from jnpl.training.epoch_log import EpochLog
from jnpl.training.epoch_view import EpochView
from jnpl.training.evaluation import TrainingSet, accuracy, headline, source_probabilities
from jnpl.training.feeds import make_feeds
from jnpl.training.interrupt import Interrupted, StopRequest
from jnpl.training.learner import BestWeights, Learner
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.phases import Phase, make_phases
from jnpl.training.processes import gather_objects, share
from jnpl.training.pseudo_labels import PseudoLabelSettings, pseudo_label_settings
from jnpl.training.records import SampleRecords
from jnpl.training.run_results import RunResult, TrainedModel, accuracies, summarise
from jnpl.training.run_settings import check_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.data.loading.feed import Feed
    from jnpl.data.source import Source
    from jnpl.judging.trees import TreePredictions
    from jnpl.methods.base import Method
    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter
    from jnpl.training.run_settings import RunSettings


@dataclass
class _FilterOutcome:
    """What the method's own phases, before any pseudo-labels, found."""

    findings: Findings | None = None
    final_probs: npt.NDArray[np.floating[Any]] | None = (
        None  # (N, C) of the trained network, if labels are judged by them
    )
    unseen_probs: scoring.UnseenProbs | None = None  # by which the findings are calibrated
    notes: list[str] = field(default_factory=list)  # of the method, for the user


class Session(LoopCallback):
    """A run while it trains. It owns its state: others use `state_dict`, observers an `EpochView`, callers `result`.

    With `folder` None the run is in memory: it writes no file and saves no checkpoint.
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
        self._position = Position()
        self._install(method)
        self._best = BestWeights()  # of this phase
        self._chosen_accuracy: dict[str, float] = {}  # test accuracy of the best weights of the phase before
        self._outcome = _FilterOutcome()
        self._log = EpochLog(folder if fabric.is_global_zero else None, report)
        self._stop_request = StopRequest()
        self._seconds_before = 0.0  # of the run, before a resume
        self._started = self._saved_at = time.monotonic()
        size = sum(weight.numel() for weight in method.model.parameters())
        data = f"{source.name}: {len(source):,} samples, {self._task.num_classes} classes"
        report.note(f"{data}; {self._model_name}, {size:,} weights, on {fabric.device}")
        if selects and self._validation is None:
            report.note(
                f"{recipe.method.name} has no validation data to choose the best epoch: it keeps the last weights"
            )

    # Networks and phases

    @property
    def _model_name(self) -> str:
        settings = self._settings
        if settings.network is not None:
            return str(getattr(settings.network, "__name__", type(settings.network).__name__))
        if settings.recipe.model != "auto":
            return settings.recipe.model
        return "resnet8" if settings.source.kind == "image" else "mlp"

    def _network(self, number: int) -> nn.Module:
        """Return network `number` of this run, with first weights of its own."""
        recipe, seed, shape = self._settings.recipe, self._settings.seed, self._feeds.shape
        model = build(
            self._model_name if self._settings.network is None else self._settings.network,
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
        return self._phases[self._position.phase]

    @property
    def _method(self) -> Method:
        return self._learner.method

    def _install(self, method: Method) -> None:
        """Train this method from now on, with a new optimiser and empty records."""
        self._learner = Learner(method, self._phase.plan, self._fabric)
        self._set_phase()
        self._clear_records()

    def _clear_records(self) -> None:
        source, kept = self._settings.source, self._settings.recipe.verdict
        labels = source.labels if kept.keep == "compact" else None
        ledger = Ledger(len(source), self._task.num_classes, kept.history, kept.keep, labels)
        self._records = SampleRecords(ledger, margins_of(kept.score, source.labels, self._task.num_classes))

    def _set_phase(self) -> None:
        """Set method and feed to the present phase."""
        plan, method = self._phase.plan, self._method
        method.stage, method.epoch, method.epochs = self._phase.number, 0, plan.epochs
        self._feed = replace(
            self._feeds.train, batch_size=plan.batch_size, group_size=method.group_size, views=method.views
        )

    def _start_phase(self) -> None:
        """Begin a phase that is not the first."""
        pseudo = self._settings.pseudo_labels
        if pseudo is not None and self._phase.pseudo:
            classifier = self._pseudo_method(self._targets(pseudo))
            if pseudo.warm and self._phase.number == 0:
                classifier.model.load_state_dict(self._method.classifier.state_dict())
            self._install(classifier)
            return
        self._set_phase()
        self._method.begin_stage(self._training_set())
        if self._phase.fresh:
            self._method.reset_networks(self._network)
            self._clear_records()
        self._learner.replan(self._phase.plan, fresh=self._phase.fresh)

    def _targets(self, pseudo: PseudoLabelSettings) -> Targets:
        """Return the targets of this phase, from what the phase before predicted."""
        issues = self._judge().is_label_issue
        final = self._outcome.final_probs if self._phase.number == 0 else None
        mean = self._records.ledger.mean_probs() if final is None else final.astype(np.float32)
        if (decided := self._settings.source.decided) is not None:
            known = np.flatnonzero(decided >= 0)
            mean[known] = np.eye(mean.shape[1], dtype=mean.dtype)[decided[known]]
        mean[list(self._unreadable)] = np.nan
        return pseudo_labels.targets(
            self._settings.source.labels,
            issues,
            mean,
            mode=pseudo.mode,
            step=self._phase.number,
            soft=pseudo.soft,
            by_class=pseudo.by_class,
        )

    def _pseudo_method(self, targets: Targets) -> Method:
        number = len(self._phases) + self._phase.number  # no stage of the method has begun with this network
        return PseudoLabel(self._task, targets, number)

    def train(self, stop_request: StopRequest | None = None, *, track: Sequence[str] = ()) -> None:
        """Run the loop from the present position, phase after phase, until the end or a request to stop."""
        self._stop_request = stop_request or self._stop_request
        keep_freed_memory()
        facts = flat_settings(self._settings.recipe.model_dump(mode="json")) | {"seed": self._settings.seed}
        with self._log.tracked(track, facts, self._position.total), self._threads():
            while True:
                self._train_phase()
                last = self._position.phase + 1 == len(self._phases)
                with self._stop_request.at_once(
                    "stopped while labels were judged; run the same command again to resume"
                ):
                    self._end_phase(last)
                if last:
                    return
                self._position = Position(self._position.phase + 1, self._position.total)
                self._start_phase()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Train a linear head with one thread: more would wait for each other longer than they compute."""
        before = torch.get_num_threads()
        if self._model_name == "linear" and self._fabric.device.type == "cpu":
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _train_phase(self) -> None:
        learner, device, total = self._learner, self._fabric.device, sum(phase.plan.epochs for phase in self._phases)
        # The loop seeds the global generators for dropout: others find them as they were.
        gpus = [device] if device.type == "cuda" else []
        with self._report.training(total, self._feed.steps(), self._position), torch.random.fork_rng(gpus):
            plan, records = self._phase.plan, self._records
            wrapped = (learner.wrapped, learner.wrapped_optimizer)
            try:
                train(*wrapped, self._feed, records, plan, self._fabric, self._position, self)
            except LearningError as error:
                raise LearningError(f"{error}{self._last_checkpoint()}") from error

    def _last_checkpoint(self) -> str:
        """Return the end of a message that says what is kept of a run that failed."""
        newest = None if self._folder is None else checkpoint.newest(self._folder.checkpoints)
        return "" if newest is None else f"; the last good checkpoint is {str(newest)!r}"

    def _end_phase(self, last: bool) -> None:
        """Save, take the weights that the phase ends with, and predict the training set after the method's own."""
        if last and self._may_train_later():
            self._save(self._position)
        self._learner.finish_average()
        if self._best.weights:
            self._method.load_state_dict(self._best.weights, strict=False)
            self._best = BestWeights()
            self._chosen_accuracy = self._test()
        if not self._phase.pseudo and (last or self._phases[self._position.phase + 1].pseudo):
            # All processes take part; later the first one judges alone.
            verdict, training_set = self._settings.recipe.verdict, self._training_set()
            with self._report.judging() as show:
                trees = self._tree_predictions(part_of(show, 0.0, 0.6))
                begun = 0.0 if trees is None else 0.6
                found = scoring.final_probs(
                    verdict, self._method, training_set, trees, part_of(show, begun, begun + 0.1)
                )
                self._outcome.final_probs = found.probs
                self._outcome.notes = [*self._method.notes(), *found.notes]
                self._outcome.unseen_probs = scoring.unseen_probs(
                    verdict,
                    self._method,
                    training_set,
                    trees,
                    linear=self._model_name == "linear",
                    weight_decay=self._settings.recipe.train.weight_decay,
                    seed=self._settings.seed,
                    progress=part_of(show, begun + 0.1, 0.8),
                )
                if self._fabric.is_global_zero or not last:
                    self._judge(part_of(show, 0.8, 1.0))

    def _tree_predictions(self, progress: Callable[[float], None]) -> TreePredictions | None:
        """Return what decision trees predict for the rows of a table, if the recipe asks for them."""
        source, seed = self._settings.source, self._settings.seed
        if not self._settings.recipe.verdict.trees:
            return None
        values = np.stack([source.inputs.read(at) for at in range(len(source))])
        labels = scoring.trusted_labels(source.labels, source.decided)
        classes, fold = self._task.num_classes, deal_folds(labels, min(FOLDS, len(source)), seed)
        return tree_predictions(values, labels, fold, classes, weights=source.weights, seed=seed, progress=progress)

    def _may_train_later(self) -> bool:
        """Return whether `jnpl train` may continue in the folder of this `jnpl find`."""
        recipe, every = self._settings.recipe, self._settings.every
        saves = every.epochs is not None or every.seconds is not None
        has_pseudo_labels = pseudo_label_settings(recipe, registry.METHODS[recipe.method.name]) is not None
        return saves and has_pseudo_labels and self._settings.pseudo_labels is None and recipe.verdict.keep == "full"

    # Steps and epochs: called by the loop

    def before_epoch(self) -> None:
        """Let the method prepare for the epoch."""
        self._method.epoch = self._position.epoch
        self._method.begin_epoch(self._training_set())

    def after_step(self) -> None:
        """Average the weights, show progress, save if it is time, stop if that is requested."""
        if self._learner.average is not None:
            self._learner.average.update()
        self._report.step(self._position, self._learner.optimizer.param_groups[0]["lr"])
        signal, seconds = self._stop_request.signal, self._settings.every.seconds
        due = seconds is not None and time.monotonic() - self._saved_at >= seconds
        if self._fabric.world_size > 1:  # all processes save and stop together, or they wait for each other for ever
            requests = torch.tensor([float(signal), float(due)], device=self._fabric.device)
            largest = torch.as_tensor(self._fabric.all_reduce(requests, reduce_op="max")).tolist()
            signal, due = int(largest[0]), bool(largest[1])
        if signal or due:
            self._save(self._position)
            self._saved_at = time.monotonic()
        if signal:
            raise Interrupted(f"stopped at {self._where()}, all saved; run the same command again to resume", signal)

    def after_epoch(self) -> None:
        """Test, log, save, and call the observer."""
        epoch, phase, total = self._position.epoch, self._phase, self._position.total
        self._share_unreadable()
        line: dict[str, Any] = {"epoch": total, "lr": phase.plan.lr_at(epoch), **self._means()}
        if len(self._phases) > 1:
            line = {"epoch": total, "stage": phase.name, **line}
        named = self._method.named_buffers()
        share((buffer for name, buffer in named if name not in self._method.per_process_buffers), self._fabric)
        if self._learner.average is not None:
            share(self._learner.average.values.values(), self._fabric)
        line |= self._test()
        if phase.select and self._validation is not None:
            line["validation_accuracy"] = self._validate(self._validation)
        self._log.add(line)
        interval = self._settings.every.epochs
        if interval is not None and (total + 1) % interval == 0:
            self._save(self._position.next_epoch())
        if self._settings.observe is not None and self._fabric.is_global_zero:
            self._settings.observe(self._view())

    def _view(self) -> EpochView:
        return EpochView(
            phase=self._phase,
            phases=tuple(self._phases),
            epoch=self._position.total,
            phase_epoch=self._position.epoch,
            line=self._log.lines[-1],
            ledger=self._records.ledger,
            test=self._feeds.test,
            seconds=self._seconds(),
            label_quality=self._label_quality,
            probabilities=self._probabilities,
            feed=self._feeds.make,
            evaluate=self._evaluate,
            save=lambda: self._save(self._position.next_epoch()),
        )

    def _training_set(self) -> TrainingSet:
        return TrainingSet(self._feed, self._records.ledger, self._fabric, self._settings.source.decided)

    def _evaluate(self, feed: Feed) -> dict[str, float]:
        with self._learner.evaluated():
            return accuracy(self._method, feed, self._fabric)

    def _test(self) -> dict[str, float]:
        """Return the test accuracy: of the network, or of several (`headline`) and of each of them."""
        if self._feeds.test is None:
            return {}
        each = self._evaluate(self._feeds.test)
        several = {f"test_accuracy_{name}": value for name, value in each.items()} if len(each) > 1 else {}
        return {"test_accuracy": headline(each), **several}

    def _validate(self, validation: Feed) -> float:
        """Return the validation accuracy, and keep the weights if it is the best of this phase."""
        with self._learner.evaluated():
            each = accuracy(self._method, validation, self._fabric)
            result = headline(each)
            self._best.offer(self._method, result)
        return result

    def _label_quality(self) -> npt.NDArray[np.floating[Any]]:
        labels = self._settings.source.labels
        with self._learner.evaluated():
            probs = scoring.final_probs(self._settings.recipe.verdict, self._method, self._training_set()).probs
        if probs is not None:
            return probs[np.arange(len(labels)), labels]
        own = self._records.quality()
        return self._records.ledger.quality(labels) if own is None else own

    def _probabilities(self, source: Source) -> npt.NDArray[np.float32]:
        with self._learner.evaluated():
            return source_probabilities(self._method.classifier, self._feeds.transform, source)

    @property
    def _unreadable(self) -> dict[int, str]:
        """Position -> reason, of the samples known to be unreadable."""
        return self._feeds.train.prepared.unreadable

    def _share_unreadable(self) -> None:
        """Exchange the unreadable samples: processes that stream a set find them one by one."""
        if self._fabric.world_size > 1 and self._feeds.train.prepared.values is None:
            for found in gather_objects(self._unreadable, self._fabric):
                self._unreadable.update(found)

    def _means(self) -> dict[str, float]:
        sums, samples = self._sums(self._position)
        return {name: value.item() / max(samples, 1) for name, value in sums.items()}

    def _sums(self, position: Position) -> tuple[dict[str, torch.Tensor], int]:
        """Return what the method reported this epoch, and of how many samples, over all processes."""
        if self._fabric.world_size == 1:
            return position.sums, position.samples
        own = {name: value.item() for name, value in position.sums.items()}
        every = gather_objects((own, position.samples), self._fabric)
        names = sorted({name for sums, _ in every for name in sums})
        total = {name: torch.tensor(sum(sums.get(name, 0.0) for sums, _ in every)) for name in names}
        return total, sum(samples for _, samples in every)

    def _seconds(self) -> float:
        """Return the seconds of the run so far, those before a resume included."""
        return self._seconds_before + time.monotonic() - self._started

    def _where(self) -> str:
        stage = f" ({self._phase.name})" if len(self._phases) > 1 else ""
        return f"epoch {self._position.total}, step {self._position.step}{stage}"

    # Checkpoints

    def resume(self) -> None:
        """Continue from the newest whole checkpoint in the folder, if there is one."""
        if self._folder is None:
            return
        state, torn = checkpoint.load(self._folder.checkpoints)
        for line in torn:
            self._report.note(line)
        if state is not None:
            check_facts(state.facts, CheckpointFacts, f"the checkpoint in {str(self._folder.checkpoints)!r}")
            try:
                self.load_state_dict(state)
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
        self._log.resume(self._position.total, names if len(self._phases) > 1 else None)

    def _save(self, position: Position) -> None:
        """Write a checkpoint that stands at `position`: all processes take part, the first one writes."""
        if self._folder is None:
            return
        state = self.state_dict(position)
        if self._fabric.is_global_zero:
            checkpoint.save(self._folder.checkpoints, state)

    def state_dict(self, position: Position | None = None) -> State:
        """Return all that a resume needs, at `position` (by default the present one); all processes must call it.

        Findings are not part of it: once made, they are in the run folder.
        """
        position = self._position if position is None else position
        sums, samples = self._sums(position)
        method, average = self._method, self._learner.average
        counts = {
            name: method.sum_over_processes(method.get_buffer(name).clone()) for name in method.per_process_buffers
        }
        optimizer = checkpoint.pack_optimizer(self._learner.optimizer)
        records = self._records.state_dict()
        tensors = {
            **checkpoint.prefixed("method", {**method.state_dict(), **counts}),
            **checkpoint.prefixed("optimizer", optimizer.tensors),
            **checkpoint.prefixed("sums", sums),
            **checkpoint.prefixed("kept", self._best.weights),
            **checkpoint.prefixed("average", average.values if average else {}),
        }
        for name, ledger in records.items():
            tensors |= checkpoint.prefixed(name, ledger.pop("arrays"))
        facts = {
            "phase": position.phase,
            "before": position.before,
            "epoch": position.epoch,
            "step": position.step,
            "samples": samples,
            "processes": self._fabric.world_size,
            "optimizer": optimizer.facts,
            "records": records,
            "kept_accuracy": self._best.accuracy,
            "averaged": average.steps if average else 0,
            "notes": self._outcome.notes,
            "unreadable": {str(at): why for at, why in self._unreadable.items()},
            "precision": self._fabric.strategy.precision.state_dict(),  # the gradient scaler of 16-mixed
            "seconds": self._seconds(),
        }
        return State(tensors, facts)

    def load_state_dict(self, state: State) -> None:
        """Continue from `state_dict()` of a run with the same settings."""
        tensors, facts = state
        _check_processes(facts, self._fabric.world_size)
        self._go_to(Position(facts["phase"], facts["before"], facts["epoch"], facts["step"]))
        method, learner = self._method, self._learner
        method.load_state_dict(checkpoint.part("method", tensors))
        saved = State(checkpoint.part("optimizer", tensors), facts["optimizer"])
        checkpoint.unpack_optimizer(learner.optimizer, saved)
        ledgers = facts["records"].items()
        self._records.load_state_dict(
            {name: {**own, "arrays": checkpoint.part(name, tensors)} for name, own in ledgers}
        )
        if self._fabric.is_global_zero:  # they were added up over all processes
            self._position.sums, self._position.samples = checkpoint.part("sums", tensors), facts["samples"]
        else:
            for name in method.per_process_buffers:
                method.get_buffer(name).zero_()
        if learner.average is not None:
            learner.average.load(checkpoint.part("average", tensors), facts["averaged"])
        self._best = BestWeights(checkpoint.part("kept", tensors), facts["kept_accuracy"])
        self._unreadable.update({int(at): why for at, why in facts["unreadable"].items()})
        if facts["precision"]:
            self._fabric.strategy.precision.load_state_dict(facts["precision"])
        self._seconds_before, self._outcome.notes = facts["seconds"], facts["notes"]

    def _go_to(self, position: Position) -> None:
        """Set up the phase of a checkpoint, with networks whose weights are loaded afterwards."""
        self._position = position
        pseudo = self._settings.pseudo_labels
        if self._phase.pseudo and self._folder is not None:
            self._outcome.findings = Findings.load(self._folder.path)
            blank = np.zeros((len(self._settings.source), self._task.num_classes), np.float32)
            first_of_two = pseudo is not None and pseudo.mode == "nlnl" and self._phase.number == 0
            self._install(self._pseudo_method(Targets(blank, blank[:, 0], first_of_two)))
        else:
            self._set_phase()
            self._learner.replan(self._phase.plan, fresh=True)
        self._method.epoch = position.epoch

    # The end

    def _judge(self, progress: Callable[[float], None] | None = None) -> Findings:
        """Return the findings of the method; the first call makes them and writes them to the folder."""
        if self._outcome.findings is None:
            source, verdict = self._settings.judged or self._settings.source, self._settings.recipe.verdict
            probs, unseen = self._outcome.final_probs, self._outcome.unseen_probs
            self._outcome.findings = scoring.judge(
                source, self._records, verdict, self._unreadable, probs, unseen, progress
            )
            self._outcome.unseen_probs = None
            if self._folder is not None and self._fabric.is_global_zero:
                self._outcome.findings.save(self._folder.path)
        return self._outcome.findings

    def result(self) -> RunResult:
        """Return findings, history, classifier and results of a run that is trained."""
        source, findings, lines = self._settings.judged or self._settings.source, self._judge(), self._log.lines
        results = summarise(
            source,
            findings,
            run=None if self._folder is None else self._folder.path,
            epochs=sum(phase.plan.epochs for phase in self._phases),
            seconds=self._seconds(),
            notes=self._outcome.notes,
            unreadable=len(self._unreadable),
        )
        if self._feeds.test is not None:
            results |= accuracies(lines, self._phases, self._chosen_accuracy)
        description = {
            "model": self._model_name,
            "input_shape": list(self._feeds.shape),
            "sample_shape": list(self._feeds.train.prepared.shape),
            "transform": self._feeds.describe_transform(),
            "encoding": source.encoding,
            "classes": list(source.class_names),
        }
        if source.backbone is not None:
            description["backbone"] = source.backbone.facts
        state = None if source.backbone is None else source.backbone.state
        model = TrainedModel(self._method.classifier, self._feeds.transform, description, state)
        return RunResult(results, findings, lines, model)


def _check_processes(facts: dict[str, Any], processes: int) -> None:
    """In the middle of an epoch the last batch must not change: its size may depend on the number of processes."""
    if facts["step"] and facts["processes"] != processes:
        saved = f"{facts['processes']} process{'' if facts['processes'] == 1 else 'es'}"
        raise InputError(f"the run was saved in the middle of an epoch by {saved}; go on with as many (--devices)")
