"""The decisions of a review: review.sqlite in the run folder.

A decision is a row that is never changed. It belongs to a batch, which is what a reviewer decided with one key or
click, and names the decision that it replaced, so that a batch can be undone. The table `current` has the decision that
counts for each sample. A batch is written in one transaction, which is on disk before `decide` returns.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file
from jnpl.internal.json_files import parse_json
from jnpl.internal.terminal import visible
from jnpl.judging.findings import Findings
from jnpl.judging.tag_sets import TagSetFindings

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder

Action: TypeAlias = Literal["keep", "relabel", "drop", "unsure"]
ACTIONS: tuple[str, ...] = get_args(Action)
_BUSY = 10_000  # milliseconds to wait for another process that writes

# Where samples have several tags, `label` is the number of a set of them in `tag_sets`, a JSON list of tag numbers.
# Tables are not STRICT, which SQLite knows since 3.37 only: Python on RHEL 9 and Debian 11 has 3.34.
_VERSION = 4
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE reviewers (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    reviewer INTEGER NOT NULL REFERENCES reviewers,
    tab TEXT NOT NULL,
    made_at TEXT NOT NULL,
    undone_at TEXT
);
CREATE INDEX batches_of_a_tab ON batches (tab, number);
CREATE TABLE decisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    batch INTEGER NOT NULL REFERENCES batches,
    position INTEGER NOT NULL,
    action TEXT NOT NULL CHECK (action IN ('keep', 'relabel', 'drop', 'unsure')),
    label INTEGER,
    quality REAL,
    is_suspect INTEGER NOT NULL,
    previous INTEGER REFERENCES decisions,
    CHECK ((action = 'relabel') = (label IS NOT NULL))
);
CREATE INDEX decisions_of_a_batch ON decisions (batch);
CREATE TABLE current (
    position INTEGER PRIMARY KEY,
    decision INTEGER NOT NULL UNIQUE REFERENCES decisions
);
CREATE TABLE rounds (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    made_at TEXT NOT NULL,
    decisions INTEGER NOT NULL,
    seconds REAL NOT NULL,
    arrays BLOB NOT NULL
);
CREATE TABLE tag_sets (number INTEGER PRIMARY KEY, tags TEXT NOT NULL UNIQUE);
"""

_ALL = (
    "SELECT d.number, d.position, d.action, d.label, r.name, b.made_at FROM current c"
    " JOIN decisions d ON d.number = c.decision JOIN batches b ON b.number = d.batch"
    " JOIN reviewers r ON r.number = b.reviewer ORDER BY c.position"
)
_SOME = _ALL.replace(" ORDER BY", " WHERE c.position IN (SELECT value FROM json_each(?)) ORDER BY")


# What the values of a row must be: SQLite stores any value in any column.
_MOMENT = "typeof({0}) = 'text' AND length({0}) BETWEEN 19 AND 40 AND julianday({0}) IS NOT NULL"
_WHOLE = "typeof({0}) = 'integer' AND {0} BETWEEN 0 AND {1}"
_LABEL, _SET = _WHOLE.format("label", ":classes - 1"), "label IN (SELECT number FROM tag_sets)"
_VALID = {
    "reviewers": "typeof(name) = 'text' AND length(name) BETWEEN 1 AND 80",
    "batches": f"typeof(tab) = 'text' AND {_MOMENT.format('made_at')} AND"
    f" (undone_at IS NULL OR {_MOMENT.format('undone_at')})",
    "decisions": f"{_WHOLE.format('position', ':samples - 1')} AND"
    f" (label IS NULL OR {_LABEL}) AND"
    " (quality IS NULL OR (typeof(quality) IN ('real', 'integer') AND quality BETWEEN 0 AND 1)) AND"
    f" {_WHOLE.format('is_suspect', '1')} AND action IN ('keep', 'relabel', 'drop', 'unsure') AND"
    " (action = 'relabel') = (label IS NOT NULL)",
    "current": "position = (SELECT d.position FROM decisions d WHERE d.number = decision)",
    "rounds": f"{_MOMENT.format('made_at')} AND {_WHOLE.format('decisions', ':samples')} AND"
    " typeof(seconds) = 'real' AND seconds >= 0 AND typeof(arrays) = 'blob'",
}


class NewDecision(NamedTuple):
    """What a reviewer decided about a sample.

    `seen` is the number of the decision that the reviewer saw there, 0 for none. `quality` and `is_suspect` are those
    of the given label at that moment.
    """

    position: int
    action: Action
    label: int | None = None
    seen: int = 0
    quality: float | None = None
    is_suspect: bool = True


class Decision(NamedTuple):
    """A stored decision."""

    number: int
    position: int
    action: str
    label: int | None
    reviewer: str
    made_at: str


@dataclass(frozen=True, eq=False)
class CurrentDecisions:
    """The decision that counts for each of M decided samples, in the order in which they were made.

    `actions` are indices into `ACTIONS`, `labels` class numbers (-1 but for "relabel"), `qualities` label qualities at
    the time of the decision (nan if unknown).
    """

    positions: npt.NDArray[np.int64]
    actions: npt.NDArray[np.int8]
    labels: npt.NDArray[np.int64]
    qualities: npt.NDArray[np.float64]
    suspects: npt.NDArray[np.bool_]


class ConflictError(Exception):
    """Samples were decided by someone else since the reviewer saw them; nothing was written."""

    def __init__(self, decisions: list[Decision], positions: list[int]) -> None:
        super().__init__(f"{len(positions)} samples were decided meanwhile")
        self.decisions, self.positions = decisions, positions


class DecisionStore:
    """The open review.sqlite of a run. Its methods may be called from any thread.

    Args:
        path: the file; made if it is not there.
        findings: of the run: a file about other ids, classes or given labels is an InputError, as is a damaged one.
    """

    def __init__(self, path: Path, findings: Findings) -> None:
        self.path = require_file(path)
        self._lock = threading.RLock()
        self._sets = findings.sets if isinstance(findings, TagSetFindings) else None
        self._label_of: dict[int, int] = {}  # number of a stored set -> its number in `_sets`
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY / 1000, check_same_thread=False, isolation_level=None
            )
            try:
                version = self._check(findings)  # before anything is written
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")  # on disk when a transaction ends
                self._connection.execute("PRAGMA foreign_keys = ON")
                if version == 0:
                    self._make(findings.fingerprint)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise InputError(f"{str(path)!r} cannot be used for the decisions of a review: {error}") from error

    def _check(self, findings: Findings) -> int:
        """Return the version of the file, 0 for a new one; refuse one that is damaged, or not of this run."""
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise InputError(f"{str(self.path)!r} was written by another version of jnpl; move it away to start anew")
        if version == 0:
            if self._connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
                raise InputError(f"{str(self.path)!r} is a database of another program; move it away to start anew")
            return 0
        if _schema(self._connection) != _expected_schema():  # a trigger or a view would run what it likes
            reason = "it has other tables, or triggers or views, than jnpl review makes"
            raise InputError(f"{str(self.path)!r} cannot be used: {reason}; move it away to start anew")
        if (problem := self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise InputError(f"{str(self.path)!r} is damaged: {visible(str(problem))}; restore it, or move it away")
        stored = self._connection.execute("SELECT value FROM facts WHERE name = 'fingerprint'").fetchone()
        if stored is not None and stored[0] != findings.fingerprint:
            reason = "its decisions are about other samples, classes or given labels than those of this run"
            raise InputError(f"{str(self.path)!r} does not fit the findings: {reason}; move it away to start anew")
        self._check_rows(findings)
        return int(version)

    def _check_rows(self, findings: Findings) -> None:
        """Raise an InputError if a row holds values that no decision on these samples has."""
        limits = {"samples": len(findings.ids), "classes": findings.num_classes}
        for table, of_labels in _VALID.items():
            condition = of_labels if self._sets is None else of_labels.replace(_LABEL, _SET)
            query = f"SELECT * FROM {table} WHERE NOT ({condition}) OR ({condition}) IS NULL LIMIT 1"  # noqa: S608 - ours
            if (row := self._connection.execute(query, limits).fetchone()) is not None:
                shown = visible(str(row)[:80])
                raise InputError(f"{str(self.path)!r} cannot be used: its table {table} holds {shown}; restore it")
        for number, tags in self._connection.execute("SELECT * FROM tag_sets"):
            try:
                self._add_set(number, tags)
            except ValueError as error:
                shown = visible(str((number, tags))[:80])
                reason = f"its table tag_sets holds {shown}; restore it"
                raise InputError(f"{str(self.path)!r} cannot be used: {reason}") from error
        if (row := self._connection.execute("PRAGMA foreign_key_check").fetchone()) is not None:
            raise InputError(f"{str(self.path)!r} cannot be used: a row of {row[0]} names one that is not there")

    def _add_set(self, number: int, tags: str) -> int:
        """Return the label that a stored set has in this process; what no set can be is a ValueError."""
        values = parse_json(tags) if isinstance(tags, str) else None
        are_numbers = isinstance(values, list) and all(type(value) is int for value in values)
        if self._sets is None or not are_numbers or json.dumps(sorted(set(values))) != tags:
            raise ValueError("no set of tags of this run")
        self._label_of[number] = self._sets.number(values)
        return self._label_of[number]

    def _label(self, stored: int | None) -> int | None:
        """Return the label of a stored decision."""
        if stored is None or self._sets is None or stored in self._label_of:
            return stored if stored is None else self._label_of.get(stored, stored)
        with self._lock:
            row = self._connection.execute("SELECT * FROM tag_sets WHERE number = ?", (stored,)).fetchone()
        return self._add_set(*row)

    def _stored(self, connection: sqlite3.Connection, label: int | None) -> int | None:
        """Return what is stored of a label: of a set of tags, its number in `tag_sets`."""
        if label is None or self._sets is None:
            return label
        tags = (json.dumps(list(self._sets.sets[label])),)
        connection.execute("INSERT OR IGNORE INTO tag_sets (tags) VALUES (?)", tags)
        return int(connection.execute("SELECT number FROM tag_sets WHERE tags = ?", tags).fetchone()[0])

    def _decision(self, row: tuple[Any, ...]) -> Decision:
        number, position, action, label, reviewer, made_at = row
        return Decision(number, position, action, self._label(label), reviewer, made_at)

    def _make(self, data_fingerprint: str) -> None:
        with self._transaction() as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:  # else another process made it meanwhile
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("INSERT OR IGNORE INTO facts VALUES ('fingerprint', ?)", (data_fingerprint,))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the only right to write while the block runs; what it wrote is on disk at the end, or undone."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def decide(self, decisions: Sequence[NewDecision], *, reviewer: str, tab: str) -> dict[int, int]:
        """Write decisions about different samples as one batch, all or none, on disk at the end; return their numbers
        by position. `tab` is that of the browser, whose last batch `undo` takes back.

        A ConflictError, and nothing is written, if a sample has another decision than the reviewer saw.
        """
        now = _now()
        with self._transaction() as connection:
            self._refuse_changed({new.position: new.seen for new in decisions})
            connection.execute("INSERT OR IGNORE INTO reviewers (name) VALUES (?)", (reviewer,))
            (person,) = connection.execute("SELECT number FROM reviewers WHERE name = ?", (reviewer,)).fetchone()
            batch = connection.execute(
                "INSERT INTO batches (reviewer, tab, made_at) VALUES (?, ?, ?)", (person, tab, now)
            ).lastrowid
            numbers: dict[int, int] = {}
            for new in decisions:
                label = self._stored(connection, new.label)
                row = (batch, new.position, new.action, label, new.quality, new.is_suspect, new.seen or None)
                number = connection.execute(
                    "INSERT INTO decisions (batch, position, action, label, quality, is_suspect, previous)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    row,
                ).lastrowid
                connection.execute("INSERT OR REPLACE INTO current VALUES (?, ?)", (new.position, number))
                numbers[new.position] = int(number or 0)
        return numbers

    def undo(self, tab: str) -> list[int]:
        """Take back the last batch of a tab that is not undone; return the positions whose decision changed.

        A ConflictError if one of them was decided again since, elsewhere.
        """
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT number FROM batches WHERE tab = ? AND undone_at IS NULL ORDER BY number DESC LIMIT 1", (tab,)
            ).fetchone()
            if row is None:
                return []
            made = connection.execute(
                "SELECT number, position, previous FROM decisions WHERE batch = ? ORDER BY number", row
            ).fetchall()
            self._refuse_changed({position: number for number, position, _ in made})
            for _, position, previous in made:
                if previous is None:
                    connection.execute("DELETE FROM current WHERE position = ?", (position,))
                else:
                    connection.execute("INSERT OR REPLACE INTO current VALUES (?, ?)", (position, previous))
            connection.execute("UPDATE batches SET undone_at = ? WHERE number = ?", (_now(), row[0]))
        return [position for _, position, _ in made]

    def _refuse_changed(self, seen: dict[int, int]) -> None:
        """Raise a ConflictError unless the samples have the decisions of these numbers, by position; 0 for none."""
        there = {decision.position: decision for decision in self.read([*seen])}
        numbers = {position: decision.number for position, decision in there.items()}
        if changed := [position for position, number in seen.items() if numbers.get(position, 0) != number]:
            raise ConflictError([there[position] for position in changed if position in there], changed)

    def read(self, positions: Sequence[int]) -> list[Decision]:
        """Return the current decisions of those samples that have one."""
        with self._lock:
            rows = self._connection.execute(_SOME, (json.dumps(list(map(int, positions))),)).fetchall()
        return [self._decision(row) for row in rows]

    def current(self) -> CurrentDecisions:
        """Return the current decisions of all samples."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT d.position, action, label, quality, is_suspect FROM current c"
                " JOIN decisions d ON d.number = c.decision ORDER BY number"
            ).fetchall()
        positions, actions, labels, qualities, suspects = zip(*rows, strict=True) if rows else [()] * 5
        return CurrentDecisions(
            positions=np.array(positions, np.int64),
            actions=np.array([ACTIONS.index(action) for action in actions], np.int8),
            labels=np.array([-1 if label is None else label for label in map(self._label, labels)], np.int64),
            qualities=np.array([np.nan if quality is None else quality for quality in qualities], np.float64),
            suspects=np.array(suspects, bool),
        )

    def all_current(self) -> list[Decision]:
        """Return the current decisions of all samples, in the order of the data."""
        with self._lock:
            return [self._decision(row) for row in self._connection.execute(_ALL).fetchall()]

    def version(self) -> tuple[int, int, int]:
        """Return numbers that change with every decision, undo and round, in this or another process."""
        with self._lock:
            row = self._connection.execute(
                "SELECT (SELECT coalesce(max(number), 0) FROM batches),"
                " (SELECT count(*) FROM batches WHERE undone_at IS NOT NULL),"
                " (SELECT coalesce(max(number), 0) FROM rounds)"
            ).fetchone()
        return int(row[0]), int(row[1]), int(row[2])

    def add_round(self, decisions: int, seconds: float, arrays: bytes) -> int:
        """Store a ranking that was learnt from this many decisions; older ones go. Returns its number."""
        with self._transaction() as connection:
            number = connection.execute(
                "INSERT INTO rounds (made_at, decisions, seconds, arrays) VALUES (?, ?, ?, ?)",
                (_now(), decisions, seconds, arrays),
            ).lastrowid
            connection.execute("DELETE FROM rounds WHERE number < ?", (number,))
        return int(number or 0)

    def last_round(self) -> tuple[int, int, bytes] | None:
        """Return the last ranking that was learnt: its number, that of its decisions, and the arrays of a
        `jnpl.outputs.review.ranking.Ranking` as .npz."""
        with self._lock:
            row: tuple[int, int, bytes] | None = self._connection.execute(
                "SELECT number, decisions, arrays FROM rounds ORDER BY number DESC LIMIT 1"
            ).fetchone()
        return row


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Return what the tables, indices, triggers and views of a database are made by."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'")
    return {(kind, name, table, " ".join((sql or "").split())) for kind, name, table, sql in rows}


def _expected_schema() -> set[tuple[str, ...]]:
    """Return the schema that jnpl review makes."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(_TABLES)
        return _schema(connection)


def open_store(run: RunFolder) -> DecisionStore:
    """Open the decisions of a run; the file is made if there is none."""
    return DecisionStore(run.decisions, run.sample_findings)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def as_rows(store: DecisionStore, findings: Findings) -> list[dict[str, Any]]:
    """Return the current decisions as rows: id, given_label, action, label, reviewer, decided_at."""
    names, rows = findings.names, []
    for decision in store.all_current():
        given = names[int(findings.given_labels[decision.position])]
        changed = None if decision.label is None else names[decision.label]
        rows.append(
            {
                "id": findings.ids[decision.position],
                "given_label": given,
                "action": decision.action,
                "label": given if decision.action == "keep" else changed,
                "reviewer": decision.reviewer,
                "decided_at": decision.made_at,
            }
        )
    return rows
