"""What a run notes after every epoch of its training, kept beside the checkpoints so that a kill loses nothing."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json

if TYPE_CHECKING:
    from jnpl.training.epoch_view import EpochView

_KEPT = 3  # epochs whose notes are kept: a kill may leave them one before the two checkpoints there are


class Seconds(NamedTuple):
    """Wall-clock time and CPU time of this process: on a busy machine they differ."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        """Both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def plus(self, other: Seconds) -> Seconds:
        """The sum (`+` would join two tuples)."""
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)


class Stopwatch:
    """Measures the time since it was made, less what is left out."""

    def __init__(self) -> None:
        self._start = Seconds.now()

    def go_on_from(self, before: Seconds) -> None:
        """Continue from a time that was read before the process was killed."""
        self._start = Seconds.now() - before

    def read(self) -> Seconds:
        """Time so far."""
        return Seconds.now() - self._start

    def leave_out(self, time_spent: Seconds) -> None:
        """Subtract this time."""
        self._start = self._start.plus(time_spent)


class Figures(Protocol):
    """The figures that an observer collects: `RankingFigures` or `ConfidenceFigures`."""

    def note(self, view: EpochView, observer: Observer, began: Seconds) -> None:
        """Add those of an epoch that has just ended; the observer began its work at `began`."""

    def state(self) -> dict[str, Any]:
        """All that was noted so far, as JSON."""

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""


class Observer:
    """Called at the end of each epoch of a run; the time that it takes itself is not counted.

    It saves its notes to the folder `notes`, and only then a checkpoint: whatever epoch a killed run resumes at, there
    are notes of it. With `pause` it saves only after as many seconds; the run must then save no checkpoint of its own.
    """

    def __init__(self, figures: Figures, notes: Path, pause: float = 0.0) -> None:
        self.figures, self.notes, self.pause = figures, notes, pause
        self._saved_at = time.monotonic()
        self.watch = Stopwatch()
        self.epochs = 0  # of the run that are done
        self.filtered = False  # all epochs before pseudo-labels are done

    def __call__(self, view: EpochView) -> None:
        """Note an epoch, and save."""
        began = Seconds.now()
        self.epochs = view.epoch + 1
        before_pseudo_labels = sum(phase.plan.epochs for phase in view.phases if not phase.pseudo)
        self.filtered = self.epochs >= before_pseudo_labels
        self.figures.note(view, self, began)
        is_last = self.epochs == sum(phase.plan.epochs for phase in view.phases)
        if is_last or time.monotonic() - self._saved_at >= self.pause:
            self.save(self.watch.read() - (Seconds.now() - began))
            view.save()
            self._saved_at = time.monotonic()
        self.watch.leave_out(Seconds.now() - began)

    def save(self, seconds: Seconds | None = None) -> None:
        """Save the notes after this epoch, and the time so far."""
        facts = {"epochs": self.epochs, "filtered": self.filtered, "seconds": seconds or self.watch.read()}
        make_folder(self.notes)
        write_text(self.notes / f"{self.epochs:06d}.json", json.dumps({**facts, **self.figures.state()}))
        for old in sorted(self.notes.glob("[0-9]*.json"))[:-_KEPT]:
            old.unlink(missing_ok=True)

    def resume(self, epochs: int | None) -> bool:
        """Load what was noted after so many epochs (None: the last there are); False if there are no such notes."""
        files = sorted(self.notes.glob("[0-9]*.json")) if epochs is None else [self.notes / f"{epochs:06d}.json"]
        try:
            facts = read_json(files[-1])
        except (OSError, ValueError, IndexError):
            return False
        self.epochs, self.filtered = facts["epochs"], facts["filtered"]
        self.figures.load(facts)
        self.watch.go_on_from(Seconds(*facts["seconds"]))
        return True
