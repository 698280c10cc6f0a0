"""A signal is a wish; a second one is an order; afterwards everything is as it was."""

import os
import signal
import threading

import pytest
from tests.helpers.marks import posix

from jnpl.internal.errors import Interrupted
from jnpl.training.interrupt import watch

BOTH = (signal.SIGINT, signal.SIGTERM)


@posix
@pytest.mark.parametrize("number", BOTH)
def test_a_signal_is_noted_and_handlers_come_back(number):
    before = [signal.getsignal(each) for each in BOTH]
    with watch() as wish:
        assert wish.signal == 0
        os.kill(os.getpid(), number)
        assert wish.signal == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert [signal.getsignal(each) for each in BOTH] == before


def test_handlers_come_back_after_an_error():
    before = [signal.getsignal(each) for each in BOTH]
    with pytest.raises(ZeroDivisionError), watch():
        _ = 1 / 0
    assert [signal.getsignal(each) for each in BOTH] == before


def test_in_a_thread_nobody_listens():
    before, seen = [signal.getsignal(each) for each in BOTH], []

    def work():
        with watch() as wish:
            seen.append((wish.signal, [signal.getsignal(each) for each in BOTH] == before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, True)]


def test_exit_codes_are_those_of_a_shell():
    assert Interrupted("stopped", signal.SIGINT).code == 130
    assert Interrupted("stopped", signal.SIGTERM).code == 143


@posix
@pytest.mark.parametrize("number", BOTH)
def test_where_there_is_nothing_to_save_a_signal_stops_at_once(number):
    with watch() as wish, pytest.raises(Interrupted, match="stopped here") as stop, wish.at_once("stopped here"):
        os.kill(os.getpid(), number)
    assert stop.value.code == 128 + number
    with watch() as wish:
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted, match="stopped here"), wish.at_once("stopped here"):
            pytest.fail("a signal before it stops it too")
