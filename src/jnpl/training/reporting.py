"""What a run prints: a progress bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.training.loop import Position

_WIDE = 120  # columns
_LINE_EVERY = 10.0  # seconds between lines about embedding and judging, where there is no progress bar


class Reporter:
    """Prints how far a run is; of several processes only the first prints.

    With `verbose`, also the automatic choices, and everything that is logged of an epoch.
    """

    def __init__(self, *, verbose: bool = True) -> None:
        self.verbose = verbose
        self._printed = 0.0  # when the last line of an epoch was
        self.console = Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._epochs = self._steps = 0
        self._since, self._seen = time.monotonic(), 0
        self._refresh = 0.0
        self.first: list[str] = []  # printed before the first note: an error before that stays alone
        self.choices: list[str] = []  # printed after `first`, if verbose

    def quiet(self, wanted: bool) -> None:
        """Print nothing from now on, or print again."""
        self.console.quiet = wanted

    def note(self, text: str) -> None:
        """Print a line."""
        lines = [*self.first, *(self.choices if self.verbose else ()), text]
        self.first, self.choices = [], []
        for line in lines:
            self.console.print(f"jnpl: {visible(line)}", soft_wrap=True, markup=False)

    @contextmanager
    def embedding(self) -> Iterator[Callable[[int, int], None]]:
        """Show the progress of embedding while the block runs; it calls what is yielded with samples done and total."""
        started, last = time.monotonic(), 0.0
        first: int | None = None

        def rate(done: int) -> float:
            return (done - (first or 0)) / max(time.monotonic() - started, 1e-9)

        title = TextColumn("embedding  {task.fields[speed]}")
        columns = (title, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task("", total=None, speed="")

            def show(done: int, total: int) -> None:
                nonlocal first, last
                first = done if first is None else first
                bar.update(task, completed=done, total=total, speed=f"{rate(done):,.0f}/s")
                now = time.monotonic()
                if not self.console.is_terminal and first < done < total and now - max(last, started) >= _LINE_EVERY:
                    last, left = now, (total - done) / max(rate(done), 1e-9)
                    self.note(f"embedded {done:,} of {total:,}, {rate(done):,.0f}/s, {in_words(left)} left")

            yield show

    def judging(self) -> AbstractContextManager[Callable[[float], None]]:
        """Show the progress of judging the labels while the block runs; it calls what is yielded with the share."""
        return self._share_of("judging the labels")

    def searching(self) -> AbstractContextManager[Callable[[float], None]]:
        """Show the progress of the search for duplicates and outliers; see `judging`."""
        return self._share_of("looking for duplicates and outliers")

    @contextmanager
    def _share_of(self, work: str) -> Iterator[Callable[[float], None]]:
        columns = (TextColumn(work), BarColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task, last, lines = bar.add_task("", total=1.0), time.monotonic(), 0

            def show(share: float) -> None:
                nonlocal last, lines
                bar.update(task, completed=share)
                if not self.console.is_terminal and share < 1 and time.monotonic() - last >= _LINE_EVERY:
                    last, lines = time.monotonic(), lines + 1
                    self.note(f"{work}, {math.floor(100 * share)}% done")

            yield show
            if lines:
                self.note(f"{work}, 100% done")

    @contextmanager
    def training(self, epochs: int, steps: int, position: Position) -> Iterator[None]:
        """Show progress while the block runs the loop."""
        self._epochs, self._steps = epochs, steps
        self._since, self._seen = time.monotonic(), position.samples  # before a resume: not this process's speed
        if not self.console.is_terminal:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Bar(*columns, console=self.console, transient=True) as bar:
            done = position.total * steps + position.step
            self._task = bar.add_task("training", total=epochs * steps, completed=done)
            self._bar = bar
            try:
                yield
            finally:
                self._bar = None

    def step(self, position: Position, lr: float) -> None:
        """Update the bar after a step."""
        if self._bar is None or self._task is None or time.monotonic() - self._refresh < 0.2:
            return
        self._refresh = time.monotonic()
        means = position.means()
        if self.console.width < _WIDE or not self.verbose:  # the bar and the time left matter more than the terms
            means = {"loss": means["loss"]}
        terms = "  ".join(f"{name} {value:.3g}" for name, value in means.items())
        speed = (position.samples - self._seen) / max(time.monotonic() - self._since, 1e-9)
        rate = f"  lr {lr:.2g}" if self.verbose else ""
        text = f"epoch {position.total + 1}/{self._epochs}  {terms}{rate}  {speed:,.0f}/s"
        self._bar.update(self._task, completed=position.total * self._steps + position.step, description=text)

    def epoch(self, line: dict[str, Any]) -> None:
        """Print the line of an epoch, unless a bar is shown; if not verbose, a short one now and then."""
        self._since, self._seen = time.monotonic(), 0
        if not self.verbose:
            if line["epoch"] + 1 < self._epochs and self._since - self._printed < _LINE_EVERY:
                return
            line = {name: value for name, value in line.items() if name in ("epoch", "loss", "test_accuracy")}
        self._printed = self._since
        if self._bar is None:
            values = {
                name: f" {value:.4g}" if isinstance(value, float) else f" {value}" for name, value in line.items()
            }
            shown = "  ".join(f"{name}{value}" for name, value in values.items() if name != "epoch")
            self.console.print(f"epoch {line['epoch'] + 1}/{self._epochs}  {shown}", soft_wrap=True, markup=False)


def in_words(seconds: float) -> str:
    """Return a time in words.

    >>> in_words(40), in_words(720), in_words(12_600)
    ('40 s', '12 min', '3.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
