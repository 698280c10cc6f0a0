"""Locks on files: they end with their process, and others can see them."""

import os

import pytest

from jnpl.internal import locks
from jnpl.internal.files import abandoned_drafts

posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks on Windows")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@posix
def test_a_lock_is_seen_and_ends_with_its_holder(tmp_path):
    path = tmp_path / "lock"
    assert not locks.is_held(path)
    with locks.take(path):
        assert locks.is_held(path)
        assert locks.take(path) is None
    assert not locks.is_held(path)
    one, first = locks.join(path)
    other, second = locks.join(path)
    assert (first, second) == (True, False)
    one.close()
    assert locks.is_held(path, together=True)
    other.close()
    assert not locks.is_held(path, together=True)


@posix
def test_a_file_system_without_locks_refuses_nothing(tmp_path, monkeypatch):
    def unable(*_args):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(locks.fcntl, "flock", unable)
    locks.take(tmp_path / "lock").close()
    locks.join(tmp_path / "lock")[0].close()
    assert not locks.is_held(tmp_path / "lock")


@posix
def test_drafts_of_processes_that_are_gone_are_removed(tmp_path):
    target = tmp_path / "cache.npy"
    for name in (".cache.npy.4194305.tmp", f".cache.npy.{os.getppid()}.tmp", ".cache.npy.x.tmp", ".other.4194305.tmp"):
        (tmp_path / name).write_text("left")
    assert abandoned_drafts(target) == [tmp_path / ".cache.npy.4194305.tmp"]
    with locks.alone(tmp_path / ".cache.npy.4194305.tmp"):  # of a process in another container, say
        locks.remove_abandoned_drafts(target)
        assert len(names(tmp_path)) == 4
    locks.remove_abandoned_drafts(target)
    assert names(tmp_path) == sorted([f".cache.npy.{os.getppid()}.tmp", ".cache.npy.x.tmp", ".other.4194305.tmp"])
