"""Everything that changes while a run trains, and how it is put into a checkpoint and taken out again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from jnpl.internal.errors import InputError
from jnpl.training import checkpoint
from jnpl.training.checkpoint import State
from jnpl.training.learner import BestWeights, Learner
from jnpl.training.loop import Position
from jnpl.training.processes import gather_objects

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.training.records import SampleRecords


@dataclass
class TrainingState:
    """What a resume needs, beside settings and data.

    Attributes:
        learner: the method with its optimiser and averaged weights.
        records: the predictions of every sample so far.
        fabric: device and processes.
        unreadable: position -> reason, of the samples that cannot be read.
        position: how far the run is.
        best: weights of this phase with the highest validation accuracy.
        notes: lines for the user about the judged labels.
        seconds_before: time of the run before a resume.
    """

    learner: Learner
    records: SampleRecords
    fabric: Fabric
    unreadable: dict[int, str]
    position: Position = field(default_factory=Position)
    best: BestWeights = field(default_factory=BestWeights)
    notes: list[str] = field(default_factory=list)
    seconds_before: float = 0.0
    _started: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Return the seconds of the run so far, those before a resume included."""
        return self.seconds_before + time.monotonic() - self._started

    def means(self) -> dict[str, float]:
        """Return the mean over samples and processes of each number that the method reported this epoch."""
        sums, samples = self._sums(self.position)
        return {name: value.item() / max(samples, 1) for name, value in sums.items()}

    def _sums(self, position: Position) -> tuple[dict[str, torch.Tensor], int]:
        """Return what the method reported this epoch, and of how many samples, over all processes."""
        if self.fabric.world_size == 1:
            return position.sums, position.samples
        local = {name: value.item() for name, value in position.sums.items()}
        gathered = gather_objects((local, position.samples), self.fabric)
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
        optimizer = checkpoint.pack_optimizer(self.learner.optimizer)
        records = self.records.state_dict()
        tensors = {
            **checkpoint.prefixed("method", {**method.state_dict(), **counts}),
            **checkpoint.prefixed("optimizer", optimizer.tensors),
            **checkpoint.prefixed("sums", sums),
            **checkpoint.prefixed("kept", self.best.weights),
            **checkpoint.prefixed("average", average.values if average else {}),
        }
        for name, record in records.items():
            tensors |= checkpoint.prefixed(name, record.pop("arrays"))
        facts = {
            "phase": position.phase,
            "before": position.before,
            "epoch": position.epoch,
            "step": position.step,
            "samples": samples,
            "processes": self.fabric.world_size,
            "optimizer": optimizer.facts,
            "records": records,
            "kept_accuracy": self.best.accuracy,
            "averaged": average.steps if average else 0,
            "notes": self.notes,
            "unreadable": {str(at): reason for at, reason in self.unreadable.items()},
            "precision": self.fabric.strategy.precision.state_dict(),  # the gradient scaler of 16-mixed
            "seconds": self.seconds(),
        }
        return State(tensors, facts)

    def unpack(self, state: State) -> None:
        """Continue from what `pack` returned, with the same method and plan."""
        tensors, facts = state
        method, learner = self.learner.method, self.learner
        method.load_state_dict(checkpoint.part("method", tensors))
        saved = State(checkpoint.part("optimizer", tensors), facts["optimizer"])
        checkpoint.unpack_optimizer(learner.optimizer, saved)
        self.records.load_state_dict(
            {name: {**record, "arrays": checkpoint.part(name, tensors)} for name, record in facts["records"].items()}
        )
        if self.fabric.is_global_zero:  # they were added up over all processes
            self.position.sums, self.position.samples = checkpoint.part("sums", tensors), facts["samples"]
        else:
            for name in method.per_process_buffers:
                method.get_buffer(name).zero_()
        if learner.average is not None:
            learner.average.load(checkpoint.part("average", tensors), facts["averaged"])
        self.best = BestWeights(checkpoint.part("kept", tensors), facts["kept_accuracy"])
        self.unreadable.update({int(at): reason for at, reason in facts["unreadable"].items()})
        if facts["precision"]:
            self.fabric.strategy.precision.load_state_dict(facts["precision"])
        self.seconds_before, self.notes = facts["seconds"], facts["notes"]


def saved_position(facts: dict[str, Any], processes: int) -> Position:
    """Return where a checkpoint stands.

    In the middle of an epoch the last batch must not change, whose size may depend on the number of processes.
    """
    if facts["step"] and facts["processes"] != processes:
        saved = f"{facts['processes']} process{'' if facts['processes'] == 1 else 'es'}"
        raise InputError(f"the run was saved in the middle of an epoch by {saved}; go on with as many (--devices)")
    return Position(facts["phase"], facts["before"], facts["epoch"], facts["step"])
