"""The lines of a run, one an epoch: kept, written to metrics.jsonl, printed, and sent to TensorBoard."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jnpl.training.reporting import Reporter
    from jnpl.training.run_folder import RunFolder


class EpochLog:
    """All lines so far. `folder` is None in all processes but the first, and for a run in memory."""

    def __init__(self, folder: RunFolder | None, report: Reporter) -> None:
        self.lines: list[dict[str, Any]] = []
        self._folder, self._report, self._board = folder, report, None

    def resume(self, epochs: int, stages: list[str] | None) -> None:
        """Read the lines of the first `epochs` epochs and drop those after them (see `RunFolder.cut_log`)."""
        if self._folder is not None:
            self.lines = self._folder.cut_log(epochs, stages)

    def add(self, line: dict[str, Any]) -> None:
        """Add the line of an epoch."""
        self.lines.append(line)
        if self._folder is not None:
            self._folder.log(line)
        if self._board is not None:
            for name, value in line.items():
                if not isinstance(value, str):
                    self._board.add_scalar(name, value, line["epoch"])
        self._report.epoch(line)

    @contextmanager
    def tensorboard(self, wanted: bool, epoch: int) -> Iterator[None]:
        """Write to TensorBoard while the block runs, if wanted; what was logged from `epoch` on is dropped."""
        if not wanted or self._folder is None:
            yield
            return
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)

        with SummaryWriter(str(self._folder.path / "tensorboard"), purge_step=epoch) as self._board:
            yield
        self._board = None
