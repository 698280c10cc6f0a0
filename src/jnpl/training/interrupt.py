"""SIGINT and SIGTERM as a wish to stop at the next step, with everything saved."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """The run was asked to stop and has saved itself; `code` is the exit code the shell expects (128 + signal)."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.code = 128 + number


class Wish:
    """Whether somebody asked to stop, and how."""

    def __init__(self) -> None:
        self.signal = 0

    def note(self, number: int, _frame: Any) -> None:
        """Remember the signal; a second one is not waited for."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def watch() -> Iterator[Wish]:
    """Listen while the block runs; outside the main thread, where nobody may listen, do nothing."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish.note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
