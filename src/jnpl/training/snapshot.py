"""A session as a checkpoint, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from jnpl.internal.errors import InputError
from jnpl.training import checkpoint
from jnpl.training.loop import Progress

if TYPE_CHECKING:
    from jnpl.training.session import Session


def save(session: Session, progress: Progress) -> None:
    """Write a checkpoint that stands at `progress`: all processes take part, the first one writes."""
    sums, samples = summed(session, progress)
    counts = {name: session.method.sum_over_processes(value) for name, value in _counts(session).items()}
    if not session.fabric.is_global_zero:
        return
    optimizer, average = checkpoint.pack_optimizer(session.learner.optimizer), session.learner.average
    books = {name: book.state_dict() for name, book in vars(session.books).items() if book.seen.any()}
    tensors = {
        **checkpoint.prefixed("method", {**session.method.state_dict(), **counts}),
        **checkpoint.prefixed("optimizer", optimizer.tensors),
        **checkpoint.prefixed("sums", sums),
        **checkpoint.prefixed("kept", session.kept),
        **checkpoint.prefixed("average", average.values if average else {}),
    }
    for name, book in books.items():
        tensors |= checkpoint.prefixed(name, book.pop("arrays"))
    facts = {
        "phase": progress.phase,
        "before": progress.before,
        "epoch": progress.epoch,
        "step": progress.step,
        "samples": samples,
        "processes": session.fabric.world_size,
        "optimizer": optimizer.facts,
        "books": books,
        "kept_accuracy": session.kept_accuracy,
        "averaged": average.steps if average else 0,
        "notes": session.notes,
        "unreadable": {str(at): why for at, why in session.prepared.unreadable.items()},
        "precision": session.fabric.strategy.precision.state_dict(),  # the gradient scaler of 16-mixed
        "seconds": session.elapsed(),
    }
    checkpoint.save(session.folder.checkpoints, checkpoint.State(tensors, facts))


def load(session: Session) -> bool:
    """Bring a session to where its newest whole checkpoint stands; False if there is none."""
    state, torn = checkpoint.load(session.folder.checkpoints)
    for line in torn:
        session.report.note(line)
    if state is None:
        return False
    facts = state.facts
    _same_shares(facts, session.fabric.world_size)
    session.go_to(Progress(facts["phase"], facts["before"], facts["epoch"], facts["step"]))
    session.method.load_state_dict(checkpoint.part("method", state.tensors))
    saved = checkpoint.State(checkpoint.part("optimizer", state.tensors), facts["optimizer"])
    checkpoint.unpack_optimizer(session.learner.optimizer, saved)
    for name, book in facts["books"].items():
        arrays = checkpoint.part(name, state.tensors)
        getattr(session.books, name).load_state_dict({**book, "arrays": arrays})
    if session.fabric.is_global_zero:  # they were added up over all processes
        session.progress.sums = checkpoint.part("sums", state.tensors)
        session.progress.samples = facts["samples"]
    else:
        for name in session.method.per_process_buffers:
            session.method.get_buffer(name).zero_()
    if session.learner.average is not None:
        session.learner.average.load(checkpoint.part("average", state.tensors), facts["averaged"])
    session.kept, session.kept_accuracy = checkpoint.part("kept", state.tensors), facts["kept_accuracy"]
    session.prepared.unreadable.update({int(at): why for at, why in facts["unreadable"].items()})
    if facts["precision"]:
        session.fabric.strategy.precision.load_state_dict(facts["precision"])
    session.seconds, session.notes = facts["seconds"], facts["notes"]
    return True


def _counts(session: Session) -> dict[str, torch.Tensor]:
    """What each process counts of its own part of an epoch."""
    return {name: session.method.get_buffer(name).clone() for name in session.method.per_process_buffers}


def summed(session: Session, progress: Progress) -> tuple[dict[str, torch.Tensor], int]:
    """What the method reported this epoch, and of how many samples, over all processes."""
    if session.fabric.world_size == 1:
        return progress.sums, progress.samples
    told: list[Any] = [None] * session.fabric.world_size
    own = {name: value.item() for name, value in progress.sums.items()}
    torch.distributed.all_gather_object(told, (own, progress.samples))
    names = sorted({name for sums, _ in told for name in sums})
    total = {name: torch.tensor(sum(sums.get(name, 0.0) for sums, _ in told)) for name in names}
    return total, sum(samples for _, samples in told)


def _same_shares(facts: dict[str, Any], processes: int) -> None:
    """In the middle of an epoch the last batch must not change: its size may hang on the number of processes."""
    if facts["step"] and facts["processes"] != processes:
        saved = f"{facts['processes']} process{'' if facts['processes'] == 1 else 'es'}"
        raise InputError(f"the run was saved in the middle of an epoch by {saved}; go on with as many (--devices)")
