"""What a run does between steps and epochs: test, log, save, show progress, stop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from jnpl.data.loading.feed import Feed
from jnpl.internal.errors import Interrupted
from jnpl.training import checkpoint
from jnpl.training.epoch_log import EpochLog
from jnpl.training.epoch_view import EpochView
from jnpl.training.evaluation import accuracy, headline
from jnpl.training.interrupt import StopRequest
from jnpl.training.loop import LoopCallback, Position
from jnpl.training.processes import gather_objects, share
from jnpl.training.training_state import TrainingState

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter


class RunCallback(LoopCallback):
    """Called by the loop; `validation` are the data by which phases choose their best weights.

    `stop_request` has the signal that asks the run to stop.
    """

    def __init__(
        self, state: TrainingState, folder: RunFolder | None, log: EpochLog, report: Reporter, validation: Feed | None
    ) -> None:
        self._state, self._folder, self._log, self._report = state, folder, log, report
        self._setup, self._validation = state.setup, validation
        self.stop_request = StopRequest()
        self._saved_at = time.monotonic()

    def before_epoch(self) -> None:
        """Let the method prepare for the epoch."""
        self._state.method.epoch = self._state.position.epoch
        self._state.method.begin_epoch(self._state.training_set())

    def after_step(self) -> None:
        """Average the weights, show progress, save if it is time, stop if that is requested."""
        learner, position, fabric = self._state.learner, self._state.position, self._setup.fabric
        if learner.average is not None:
            learner.average.update()
        self._report.step(position, self._state.phase.plan.lr_at(position.epoch))
        signal, seconds = self.stop_request.signal, self._setup.settings.every.seconds
        due = seconds is not None and time.monotonic() - self._saved_at >= seconds
        if fabric.world_size > 1:  # all processes save and stop together, or they wait for each other for ever
            requests = torch.tensor([float(signal), float(due)], device=fabric.device)
            largest = torch.as_tensor(fabric.all_reduce(requests, reduce_op="max")).tolist()
            signal, due = int(largest[0]), bool(largest[1])
        if signal or due:
            self.save(position)
            self._saved_at = time.monotonic()
        if signal:
            where = self._state.where()
            raise Interrupted(f"stopped at {where}, all saved; run the same command again to resume", signal)

    def after_epoch(self) -> None:
        """Test, log, save, and call the observer."""
        state, setup, method = self._state, self._setup, self._state.method
        position, phase, average = state.position, state.phase, state.learner.average
        self._share_unreadable()
        line: dict[str, Any] = {"epoch": position.total, "lr": phase.plan.lr_at(position.epoch), **state.means()}
        if len(state.phases) > 1:
            line = {"epoch": position.total, "stage": phase.name, **line}
        shared = (buffer for name, buffer in method.named_buffers() if name not in method.per_process_buffers)
        share(shared, setup.fabric)
        if average is not None:
            share(average.values.values(), setup.fabric)
        line |= self.test()
        if phase.select and self._validation is not None:
            with state.learner.evaluated():
                line["validation_accuracy"] = headline(accuracy(method, self._validation, setup.fabric))
                state.best.offer(method, line["validation_accuracy"])
        self._log.add(line)
        interval = setup.settings.every.epochs
        if interval is not None and (position.total + 1) % interval == 0:
            self.save(position.next_epoch())
        if setup.settings.observe is not None and setup.fabric.is_global_zero:
            setup.settings.observe(self._view())

    def save(self, position: Position) -> None:
        """Write a checkpoint that stands at `position`: all processes take part, the first one writes."""
        if self._folder is None:
            return
        packed = self._state.pack(position)
        if self._setup.fabric.is_global_zero:
            checkpoint.save(self._folder.checkpoints, packed)

    def test(self) -> dict[str, float]:
        """Return the test accuracy: of the network, or of several (`headline`) and of each of them."""
        if self._setup.feeds.test is None:
            return {}
        with self._state.learner.evaluated():
            by_network = accuracy(self._state.method, self._setup.feeds.test, self._setup.fabric)
        several = {f"test_accuracy_{name}": value for name, value in by_network.items()} if len(by_network) > 1 else {}
        return {"test_accuracy": headline(by_network), **several}

    def _view(self) -> EpochView:
        position = self._state.position
        return EpochView(
            phase=self._state.phase,
            phases=tuple(self._state.phases),
            epoch=position.total,
            phase_epoch=position.epoch,
            line=self._log.lines[-1],
            test=self._setup.feeds.test,
            seconds=self._state.seconds(),
            verdict=self._setup.settings.recipe.verdict,
            learner=self._state.learner,
            records=self._state.records,
            training_set=self._state.training_set(),
            feed=self._setup.feeds.make,
            save=lambda: self.save(position.next_epoch()),
        )

    def _share_unreadable(self) -> None:
        """Exchange the unreadable samples: processes that stream a set find them one by one."""
        if self._setup.fabric.world_size > 1 and self._setup.feeds.train.prepared.values is None:
            for reasons in gather_objects(self._state.unreadable, self._setup.fabric):
                self._state.unreadable.update(reasons)
