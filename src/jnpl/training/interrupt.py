"""SIGINT and SIGTERM as a request to stop after the next step, with everything saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jnpl.internal.errors import Interrupted


class StopRequest:
    """The signal that asks the run to stop; 0 while there is none."""

    def __init__(self) -> None:
        self.signal = 0
        self._message: str | None = None  # of a stop at once

    def note(self, number: int, _frame: Any) -> None:
        """Remember the signal; a second one stops at once."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        if self._message is not None:
            raise Interrupted(self._message, number)

    @contextmanager
    def at_once(self, message: str) -> Iterator[None]:
        """Stop with `message` as soon as a signal arrives while the block runs, which has nothing to save."""
        if self.signal:
            raise Interrupted(message, self.signal)
        self._message = message
        try:
            yield
        finally:
            self._message = None


@contextmanager
def watch() -> Iterator[StopRequest]:
    """Handle both signals while the block runs; outside the main thread, where Python forbids it, do nothing."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
