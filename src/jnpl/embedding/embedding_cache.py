"""Embeddings on disk: rows written block by block, with a hash per finished block.

A cache is a folder named by its key, with `values.f16` (N, V, F), `blocks` (the SHA-256 of each block with the reasons
of its unreadable samples; zeros: not finished), `part-B` (the first samples of block B, while it is at work),
`unreadable.jsonl` (position and reason, or null once it could be read), `cache.json`, and `lock`. A block is on disk
before its hash, so that a killed process loses at most what it computed since it last wrote a part. What another
process has written is compared with its hash once, and computed again if it differs. Several processes may write to
the same cache: a block has the same bytes whoever computes it. Rows are written with ordinary writes, not through a
memory map: a full disk is then an error that can be reported, and what is finished stays.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Array
from jnpl.internal import locks
from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import make_folder, replacing, write_text
from jnpl.internal.json_files import parse_json, read_json

BLOCK = 512  # samples
_FORMAT = 2
_DIGEST = 32  # bytes
_VALUES, _BLOCKS, _UNREADABLE, _DESCRIPTION = "values.f16", "blocks", "unreadable.jsonl", "cache.json"
_SAMPLES = "samples"  # what each sample is recognised by, for other sets that have it too
_LOCK = "lock"


class EmbeddedBlock(NamedTuple):
    """Float16 embeddings (B, V, F) of consecutive samples, and the reasons of those that cannot be read."""

    values: npt.NDArray[np.float16]
    unreadable: dict[int, str]


class EmbeddingCache:
    """Float16 embeddings (N, V, F) while they are computed, in a folder or, without one, in memory.

    Args:
        folder: where caches are kept; this one has a sub-folder of its own.
        key: the same for the same embeddings (`jnpl.embedding.compute.cache_key`).
        shape: (N, V, F).
    """

    def __init__(self, folder: Path | None, key: str, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._folder = None if folder is None else Path(folder) / key[:32]
        self._array = np.zeros(shape, np.float16) if self._folder is None else None
        self._done = np.zeros((-(-shape[0] // BLOCK), _DIGEST), np.uint8)  # hashes of the blocks that are intact
        self._damaged = np.zeros(len(self._done), bool)
        self._unreadable: dict[int, str] = {}
        if self._folder is not None:
            self._open(self._folder, key)

    def _open(self, folder: Path, key: str) -> None:
        described = {"format": _FORMAT, "shape": list(self.shape), "key": key}
        sizes = {_VALUES: 2 * math.prod(self.shape), _BLOCKS: self._done.size}
        if _is_intact(folder, described, sizes) and not self.missing():  # nothing to write: it may be read-only
            self._unreadable = self.unreadable()
            return
        make_folder(folder)
        # One process at a time: another one that starts now must not remove files that this one has begun to fill.
        with _writing(folder), locks.alone(folder / _LOCK):
            if not _is_intact(folder, described, sizes):
                for name in (_DESCRIPTION, _BLOCKS, _UNREADABLE, _VALUES):
                    (folder / name).unlink(missing_ok=True)
                for part in folder.glob("part-*"):
                    part.unlink(missing_ok=True)
                for name, size in sizes.items():
                    with (folder / name).open("wb") as file:
                        file.truncate(size)
                write_text(folder / _DESCRIPTION, json.dumps(described) + "\n")
            self.missing()
            self._unreadable = self.unreadable()

    def name_samples(self, family: str, names: npt.NDArray[np.uint64]) -> None:
        """Store what samples (N,) are recognised by, among embeddings of one family: the same backbone and views."""
        if self._folder is not None and not (self._folder / _SAMPLES).is_file():
            with _writing(self._folder), replacing(self._folder / _SAMPLES) as draft:
                draft.write_bytes(bytes.fromhex(family) + names.astype("<u8").tobytes())

    def earlier(self, family: str, names: npt.NDArray[np.uint64]) -> EarlierRows:
        """Return which of these samples (N,) other caches in the same folder have finished, in this family."""
        caches: list[Array] = []
        cache_of, row_of = np.full(len(names), -1), np.zeros(len(names), np.int64)
        folders = [] if self._folder is None else sorted(self._folder.parent.glob(f"*/{_SAMPLES}"))
        for file in folders:
            stored = file.read_bytes() if file.parent != self._folder and file.is_file() else b""
            if stored[:_DIGEST] != bytes.fromhex(family) or (other := _opened(file.parent)) is None:
                continue
            stored_names = np.frombuffer(stored[_DIGEST:], "<u8")
            if other.shape != (len(stored_names), *self.shape[1:]):
                continue
            finished = np.repeat(other._done.any(1), BLOCK)[: len(stored_names)]
            finished[list(other.unreadable())] = False
            rows = np.flatnonzero(finished)
            order = rows[np.argsort(stored_names[rows], kind="stable")]
            place = np.minimum(np.searchsorted(stored_names[order], names), max(len(order) - 1, 0))
            if not len(order):
                continue
            is_new = (cache_of < 0) & (stored_names[order][place] == names)
            cache_of[is_new], row_of[is_new] = len(caches), order[place[is_new]]
            caches.append(other.values())
        return EarlierRows(caches, cache_of, row_of)

    @property
    def has_names(self) -> bool:
        """Whether it is stored what the samples are recognised by."""
        return self._folder is not None and (self._folder / _SAMPLES).is_file()

    @property
    def is_shared(self) -> bool:
        """Whether other processes see the blocks that this one writes."""
        return self._folder is not None

    def block_of(self, position: int) -> int:
        """Return the block of a sample."""
        return position // BLOCK

    def rows(self, block: int) -> range:
        """Return the positions of a block."""
        return range(block * BLOCK, min((block + 1) * BLOCK, self.shape[0]))

    def missing(self) -> list[int]:
        """Return the blocks that no process has finished, or that are not those that a process has finished."""
        if self._folder is not None:
            stored = np.fromfile(self._folder / _BLOCKS, np.uint8)[: self._done.size].reshape(-1, _DIGEST)
            unchecked = np.flatnonzero(stored.any(1) & (stored != self._done).any(1))
            self._done[~stored.any(1)] = 0
            reasons = self.unreadable() if len(unchecked) else {}
            with (self._folder / _VALUES).open("rb") as file:
                for block in unchecked.tolist():
                    file.seek(self.rows(block).start * self._row_bytes)
                    content = file.read(len(self.rows(block)) * self._row_bytes)
                    digest = np.frombuffer(self._digest(block, content, reasons), np.uint8)
                    self._damaged[block] = (digest != stored[block]).any()
                    self._done[block] = 0 if self._damaged[block] else digest
        return [int(block) for block in np.flatnonzero(~self._done.any(1))]

    @property
    def _row_bytes(self) -> int:
        return 2 * self.shape[1] * self.shape[2]

    def _digest(self, block: int, content: bytes, reasons: dict[int, str]) -> bytes:
        """Return the SHA-256 of the number and the bytes of a block, and of the reasons of its unreadable samples."""
        digest = hashlib.sha256(content)
        digest.update(json.dumps([block, [[at, reasons[at]] for at in self.rows(block) if at in reasons]]).encode())
        return digest.digest()

    def rows_damaged(self) -> int:
        """Return the number of samples in blocks that were not those that a process has finished."""
        return sum(len(self.rows(int(block))) for block in np.flatnonzero(self._damaged))

    def rows_done(self) -> int:
        """Return the number of samples in finished blocks, as far as this process knows."""
        return sum(len(self.rows(int(block))) for block in np.flatnonzero(self._done.any(1)))

    def write(self, block: int, values: Array, unreadable: dict[int, str]) -> None:
        """Store float16 (B, V, F), a whole block, and the reasons of its unreadable samples, whose rows are zeros."""
        rows = self.rows(block)
        if self._folder is None or self._array is not None:
            self._array[rows.start : rows.stop] = values  # type: ignore[index]
            self._done[block] = 1
        else:
            with _writing(self._folder):
                changed: dict[int, str | None] = {at: None for at in rows if at in self._unreadable}
                changed |= unreadable
                if changed:
                    # The line before may be torn by a kill: none of these continues it.
                    lines = "".join("\n" + json.dumps([at, reason]) for at, reason in changed.items())
                    _write(self._folder / _UNREADABLE, (lines + "\n").encode())
                content = np.ascontiguousarray(values).tobytes()
                digest = self._digest(block, content, unreadable)
                _write(self._folder / _VALUES, content, rows.start * self._row_bytes)
                _write(self._folder / _BLOCKS, digest, block * _DIGEST)
                self._done[block] = np.frombuffer(digest, np.uint8)
                self._part_file(block).unlink(missing_ok=True)
        self._unreadable |= unreadable

    def _part_file(self, block: int) -> Path:
        return (self._folder or Path()) / f"part-{block}"

    def write_part(self, block: int, part: EmbeddedBlock) -> None:
        """Store the first samples of a block that is at work, in place of those stored before; in memory: nothing."""
        if self._folder is None:
            return
        content = np.ascontiguousarray(part.values).tobytes()
        head = {"rows": len(part.values), "unreadable": list(part.unreadable.items())}
        body = json.dumps(head).encode() + b"\n" + content
        with _writing(self._folder), replacing(self._part_file(block)) as draft:
            draft.write_bytes(hashlib.sha256(body).digest() + body)

    def part(self, block: int) -> EmbeddedBlock | None:
        """Return the first samples of a block that is not finished; None if there are none, or damaged ones."""
        if self._folder is None or not (file := self._part_file(block)).is_file():
            return None
        content = file.read_bytes()
        digest, body = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            return None
        first, values = body.split(b"\n", 1)
        head = parse_json(first.decode())
        shape = (head["rows"], *self.shape[1:])
        reasons = {int(at): str(reason) for at, reason in head["unreadable"]}
        return EmbeddedBlock(np.frombuffer(values, np.float16).reshape(shape), reasons)

    def unreadable(self) -> dict[int, str]:
        """Return position -> reason."""
        reasons: dict[int, str | None] = dict(self._unreadable)
        if self._folder is not None and (file := self._folder / _UNREADABLE).is_file():
            for line in file.read_text("utf-8", "replace").splitlines():
                try:
                    position, reason = parse_json(line)
                    if type(position) is int and 0 <= position < self.shape[0]:
                        reasons[position] = reason
                except (ValueError, TypeError):
                    continue
        return {at: str(reason) for at, reason in sorted(reasons.items()) if reason is not None}

    def forget(self, position: int) -> None:
        """Mark the block of a sample as not finished."""
        block = self.block_of(position)
        self._done[block] = 0
        if self._folder is not None:
            with _writing(self._folder):
                _write(self._folder / _BLOCKS, bytes(_DIGEST), block * _DIGEST)

    def values(self) -> Array:
        """Return float16 (N, V, F); a memory map if the cache is a folder."""
        if self._folder is None or self._array is not None:
            return self._array  # type: ignore[return-value]
        try:
            # Copy-on-write: torch needs writable memory, and other readers do not see changes.
            return np.memmap(self._folder / _VALUES, np.float16, mode="c", shape=self.shape)
        except (OSError, ValueError) as error:
            raise InputError(f"the cached embeddings in {str(self._folder)!r} cannot be read: {error}") from error


@dataclass(frozen=True, eq=False)
class EarlierRows:
    """Rows of other caches: for each of N samples the number of the cache, -1 for none, and the row in it."""

    caches: list[Array]
    cache_of: npt.NDArray[np.int64]
    row_of: npt.NDArray[np.int64]

    def fill(self, rows: range, values: Array) -> None:
        """Write what is there of some samples into their embeddings (B, V, F)."""
        for number, cache in enumerate(self.caches):
            at = np.flatnonzero(self.cache_of[rows.start : rows.stop] == number)
            values[at] = cache[self.row_of[at + rows.start]]


def _opened(folder: Path) -> EmbeddingCache | None:
    """Return the cache in a folder; None if it cannot be read."""
    try:
        stored = read_json(folder / _DESCRIPTION)
        shape, key = tuple(stored["shape"]), str(stored["key"])
        blocks = -(-shape[0] // BLOCK)
        sizes = {_VALUES: 2 * math.prod(shape), _BLOCKS: blocks * _DIGEST}
        if folder.name != key[:32] or not _is_intact(folder, stored, sizes) or stored["format"] != _FORMAT:
            return None
        return EmbeddingCache(folder.parent, key, shape)
    except (OSError, ValueError, LookupError, TypeError, InputError):
        return None


def _is_intact(folder: Path, described: dict[str, Any], sizes: dict[str, int]) -> bool:
    """Return whether a folder is a cache of this description, with files of these sizes in bytes."""
    try:
        stored = read_json(folder / _DESCRIPTION)
        return stored == described and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise UnwritableError(f"cannot write embeddings to {str(folder)!r} (--cache): {reason}") from error


def _write(path: Path, content: bytes, start: int | None = None) -> None:
    """Write at the end of a file, or over what is there from `start` on."""
    with path.open("ab" if start is None else "rb+") as file:
        if start is not None:
            file.seek(start)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
