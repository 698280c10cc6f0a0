"""The lines of a run, one an epoch: kept, written to metrics.jsonl, printed, and sent to experiment trackers."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jnpl.training.tracking import tracking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter


class EpochLog:
    """All lines so far. `folder` is None in all processes but the first, and for a run in memory."""

    def __init__(self, folder: RunFolder | None, report: Reporter) -> None:
        self.lines: list[dict[str, Any]] = []
        self._folder, self._report = folder, report
        self._send: Callable[[Mapping[str, Any]], None] | None = None

    def resume(self, epochs: int, stages: list[str] | None) -> None:
        """Read the lines of the first `epochs` epochs and drop those after them (see `RunFolder.cut_log`)."""
        if self._folder is not None:
            self.lines = self._folder.cut_log(epochs, stages)

    def add(self, line: dict[str, Any]) -> None:
        """Add the line of an epoch."""
        self.lines.append(line)
        if self._folder is not None:
            self._folder.log(line)
        if self._send is not None:
            self._send(line)
        self._report.epoch(line)

    @contextmanager
    def tracked(self, names: Sequence[str], settings: Mapping[str, Any], epoch: int) -> Iterator[None]:
        """Send the lines to experiment trackers, too, while the block runs; `epoch` is the first one."""
        if not names or self._folder is None:
            yield
            return
        with tracking(names, self._folder, settings, epoch) as self._send:
            yield
        self._send = None
