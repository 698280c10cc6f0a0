"""Everything that changes while a run trains, and how it is put into a checkpoint and taken out again."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from jnpl.internal.errors import InputError, one_line
from jnpl.internal.json_files import check_facts
from jnpl.judging.out_of_fold import FOLDS
from jnpl.methods.base import Method
from jnpl.methods.pseudo_label import PseudoLabel, Targets
from jnpl.models.head_matrix import HeadMatrix
from jnpl.training import checkpoint
from jnpl.training.checkpoint import CheckpointFacts, State
from jnpl.training.evaluation import TrainingSet
from jnpl.training.heads import trains_heads
from jnpl.training.learner import BestWeights, Learner
from jnpl.training.loop import Position
from jnpl.training.phases import Phase
from jnpl.training.processes import gather_objects
from jnpl.training.records import SampleRecords
from jnpl.training.run_results import RunNotes
from jnpl.training.run_setup import RunSetup


@dataclass
class TrainingState:
    """What a resume needs, beside settings and data."""

    setup: RunSetup  # settings, processes and batches
    phases: list[Phase]  # all phases of the run
    learner: Learner  # the method with its optimiser and averaged weights
    records: SampleRecords  # the predictions of every sample so far
    position: Position = field(default_factory=Position)  # how far the run is
    best: BestWeights = field(default_factory=BestWeights)  # weights of this phase with the highest validation accuracy
    notes: RunNotes = field(default_factory=RunNotes)  # lines for the user about the judged labels
    seconds_before: float = 0.0  # time of the run before a resume
    heads: HeadMatrix | None = None  # the head of this phase with its siblings, if `training.heads` trains it
    _started: float = field(default_factory=time.monotonic)

    @property
    def method(self) -> Method:
        """The method being trained, or the classifier on pseudo-labels."""
        return self.learner.method

    @property
    def unreadable(self) -> dict[int, str]:
        """Position -> reason, of the samples known to be unreadable."""
        return self.setup.feeds.train.prepared.unreadable

    @property
    def epochs(self) -> int:
        """Number of epochs of all phases."""
        return sum(phase.plan.epochs for phase in self.phases)

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return self.phases[self.position.phase]

    @property
    def following_phase(self) -> Phase | None:
        """The phase after the present one; None in the last."""
        return next(iter(self.phases[self.position.phase + 1 :]), None)

    def next_phase(self) -> None:
        """Move to the start of the following phase."""
        self.position = Position(self.position.phase + 1, self.position.total)

    def set_phase(self) -> None:
        """Set method and batches to the present phase."""
        plan, method = self.phase.plan, self.method
        method.stage, method.epoch, method.epochs = self.phase.number, 0, plan.epochs
        self.feed = replace(
            self.setup.feeds.train, batch_size=plan.batch_size, group_size=method.group_size, views=method.views
        )

    @cached_property
    def trains_heads(self) -> bool:
        """Whether `training.heads` trains all phases of this run."""
        return trains_heads(self.setup.settings.recipe, self.method, self.phases, self.setup.fabric)

    def begin_heads(self) -> None:
        """Make the matrix of this phase's heads, if there is one; only the first phase has siblings."""
        if self.trains_heads:
            siblings = self.position.phase == 0 and len(self.setup.task.labels) >= FOLDS
            self.heads = self.setup.head_matrix(cast("nn.Linear", self.method.model), siblings=siblings)
        else:
            _ = self.learner.optimizer  # refuses settings that do not go together, before a run folder is begun

    def empty_records(self) -> SampleRecords:
        """Return records for a phase; what siblings have predicted is kept."""
        records = self.setup.empty_records(of_heads=self.trains_heads)
        return replace(records, unseen=self.records.unseen) if self.trains_heads else records

    def install(self, method: Method) -> None:
        """Train this method from now on, with a new optimiser and empty records."""
        self.learner = Learner(method, self.phase.plan, self.setup.fabric)
        self.set_phase()
        self.records = self.empty_records()

    def pseudo_method(self, targets: Targets) -> Method:
        """Return a classifier on pseudo-labels, with first weights of its own, for the present phase."""
        number = len(self.phases) + self.phase.number  # no stage of the method has begun with this network
        return PseudoLabel(self.setup.task, targets, number)

    def training_set(self) -> TrainingSet:
        """Return the training set, whose samples can be predicted."""
        return TrainingSet(self.feed, self.records.ledger, self.setup.fabric, self.setup.settings.source.decided)

    def where(self) -> str:
        """Return how far the run is, in words."""
        stage = f" ({self.phase.name})" if len(self.phases) > 1 else ""
        return f"epoch {self.position.total}, step {self.position.step}{stage}"

    def seconds(self) -> float:
        """Return the seconds of the run so far, those before a resume included."""
        return self.seconds_before + time.monotonic() - self._started

    def means(self) -> dict[str, float]:
        """Return the mean over samples and processes of each number that the method reported this epoch."""
        sums, samples = self._sums(self.position)
        return {name: value.item() / max(samples, 1) for name, value in sums.items()}

    def _sums(self, position: Position) -> tuple[dict[str, torch.Tensor], int]:
        """Return what the method reported this epoch, and of how many samples, over all processes."""
        if self.setup.fabric.world_size == 1:
            return position.sums, position.samples
        local = {name: value.item() for name, value in position.sums.items()}
        gathered = gather_objects((local, position.samples), self.setup.fabric)
        names = sorted({name for sums, _ in gathered for name in sums})
        total = {name: torch.tensor(sum(sums.get(name, 0.0) for sums, _ in gathered)) for name in names}
        return total, sum(samples for _, samples in gathered)

    def pack(self, position: Position) -> State:
        """Return the state at `position` as a checkpoint holds it; all processes must call this.

        Findings are not part of it: once made, they are in the run folder.
        """
        sums, samples = self._sums(position)
        method, average = self.learner.method, self.learner.average
        counts = {
            name: method.sum_over_processes(method.get_buffer(name).clone()) for name in method.per_process_buffers
        }
        optimizer = State({}, {}) if self.heads else checkpoint.pack_optimizer(self.learner.optimizer)
        records = self.records.state_dict()
        tensors = {
            **checkpoint.prefixed("method", {**method.state_dict(), **counts}),
            **checkpoint.prefixed("optimizer", optimizer.tensors),
            **checkpoint.prefixed("sums", sums),
            **checkpoint.prefixed("kept", self.best.weights),
            **checkpoint.prefixed("average", average.values if average else {}),
            **checkpoint.prefixed("heads", self.heads.state_dict() if self.heads else {}),
        }
        for name, record in records.items():
            tensors |= checkpoint.prefixed(name, record.pop("arrays"))
        facts = {
            "phase": position.phase,
            "before": position.before,
            "epoch": position.epoch,
            "step": position.step,
            "samples": samples,
            "processes": self.setup.fabric.world_size,
            "optimizer": optimizer.facts,
            "records": records,
            "kept_accuracy": self.best.accuracy,
            "averaged": average.steps if average else 0,
            "notes": list(self.notes.method),
            "judged_by": self.notes.judged_by,
            "unreadable": {str(at): reason for at, reason in self.unreadable.items()},
            "precision": self.setup.fabric.strategy.precision.state_dict(),  # the gradient scaler of 16-mixed
            "seconds": self.seconds(),
        }
        return State(tensors, facts)

    def resume(self, folder: Path, note: Callable[[str], None]) -> None:
        """Continue from the newest whole checkpoint in the folder, if there is one; `note` gets lines for the user."""
        saved, torn = checkpoint.load(folder)
        for line in torn:
            note(line)
        if saved is None:
            return
        check_facts(saved.facts, CheckpointFacts, f"the checkpoint in {str(folder)!r}")
        try:
            self._go_to(saved_position(saved.facts, self.setup.fabric.world_size))
            self._unpack(saved)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise InputError(
                f"the checkpoint in {str(folder)!r} does not fit this run ({one_line(error)}); remove it to begin anew"
            ) from error
        note(f"resuming at {self.where()}")

    def _go_to(self, position: Position) -> None:
        """Set up the phase of a checkpoint, with networks whose weights are loaded afterwards."""
        self.position = position
        if self.phase.pseudo:
            task, pseudo = self.setup.task, self.setup.settings.pseudo_labels
            blank = np.zeros((len(task.labels), task.num_classes), np.float32)
            first_of_two = pseudo is not None and pseudo.mode == "nlnl" and self.phase.number == 0
            self.install(self.pseudo_method(Targets(blank, blank[:, 0], first_of_two)))
        else:
            self.set_phase()
            self.learner.replan(self.phase.plan, fresh=True)
            self.begin_heads()
        self.method.epoch = position.epoch

    def _unpack(self, state: State) -> None:
        """Continue from what `pack` returned, with the same method and plan."""
        tensors, facts = state
        method, learner = self.learner.method, self.learner
        method.load_state_dict(checkpoint.part("method", tensors))
        if self.heads is not None:
            self.heads.load_state_dict(checkpoint.part("heads", tensors))
        else:
            saved = State(checkpoint.part("optimizer", tensors), facts["optimizer"])
            checkpoint.unpack_optimizer(learner.optimizer, saved)
        self.records.load_state_dict(
            {name: {**record, "arrays": checkpoint.part(name, tensors)} for name, record in facts["records"].items()}
        )
        if self.setup.fabric.is_global_zero:  # they were added up over all processes
            self.position.sums, self.position.samples = checkpoint.part("sums", tensors), facts["samples"]
        else:
            for name in method.per_process_buffers:
                method.get_buffer(name).zero_()
        if learner.average is not None:
            learner.average.load(checkpoint.part("average", tensors), facts["averaged"])
        self.best = BestWeights(checkpoint.part("kept", tensors), facts["kept_accuracy"])
        self.unreadable.update({int(at): reason for at, reason in facts["unreadable"].items()})
        if facts["precision"]:
            self.setup.fabric.strategy.precision.load_state_dict(facts["precision"])
        self.seconds_before = facts["seconds"]
        self.notes = RunNotes(tuple(facts["notes"]), facts.get("judged_by"))


def saved_position(facts: dict[str, Any], processes: int) -> Position:
    """Return where a checkpoint stands.

    In the middle of an epoch the last batch must not change, whose size may depend on the number of processes.
    """
    if facts["step"] and facts["processes"] != processes:
        saved = f"{facts['processes']} process{'' if facts['processes'] == 1 else 'es'}"
        raise InputError(f"the run was saved in the middle of an epoch by {saved}; go on with as many (--devices)")
    return Position(facts["phase"], facts["before"], facts["epoch"], facts["step"])
