"""The store of decisions: batches, undo, conflicts, versions, and what follows for labels."""

import json
import sqlite3
import threading
from contextlib import closing

import pytest
from tests.helpers.tag_runs import tag_run

from jnpl import Findings
from jnpl.internal.errors import InputError
from jnpl.outputs.review import decisions
from jnpl.outputs.review.decisions import (
    ConflictError,
    DecisionStore,
    NewDecision,
    open_store,
)
from jnpl.run_folder import RunFolder


def decide(store, *made, reviewer="Ann", tab="one"):
    return store.decide([NewDecision(*each) for each in made], reviewer=reviewer, tab=tab)


def found(store):
    return [(each.position, each.action, each.label) for each in store.all_current()]


def test_a_decision_has_its_time_and_reviewer(store):
    numbers = decide(store, (5, "relabel", 2))
    (made,) = store.read([5, 6])
    assert made[:5] == (numbers[5], 5, "relabel", 2, "Ann")
    assert made.made_at.endswith("+00:00")


def test_undo_goes_back_batch_by_batch(store):
    first = decide(store, (1, "keep"), (2, "drop"))
    decide(store, (1, "relabel", 3, first[1]))
    assert found(store) == [(1, "relabel", 3), (2, "drop", None)]
    assert store.undo("one") == [1]
    assert found(store) == [(1, "keep", None), (2, "drop", None)]
    assert store.undo("one") == [1, 2]
    assert found(store) == []
    assert store.undo("one") == []


def test_undo_belongs_to_a_tab(store):
    decide(store, (1, "keep"), tab="one")
    decide(store, (2, "keep"), tab="two")
    assert store.undo("one") == [1]
    assert found(store) == [(2, "keep", None)]


def test_nobody_is_overwritten_silently(store):
    decide(store, (1, "keep"), reviewer="Ann", tab="one")
    with pytest.raises(ConflictError) as stopped:
        decide(store, (0, "drop"), (1, "drop"), reviewer="Bob", tab="two")
    assert stopped.value.positions == [1]
    assert [(each.reviewer, each.action) for each in stopped.value.decisions] == [("Ann", "keep")]
    assert found(store) == [(1, "keep", None)]  # nothing of the batch was written
    (theirs,) = stopped.value.decisions
    decide(store, (1, "drop", None, theirs.number), reviewer="Bob", tab="two")
    with pytest.raises(ConflictError):
        store.undo("one")  # Ann's decision does not count any more: her undo must not remove Bob's
    assert found(store) == [(1, "drop", None)]


def test_a_decision_that_was_undone_is_a_conflict_too(store):
    number = decide(store, (1, "keep"))[1]
    store.undo("one")
    with pytest.raises(ConflictError) as stopped:
        decide(store, (1, "drop", None, number), tab="two")
    assert (stopped.value.positions, stopped.value.decisions) == ([1], [])


def test_two_processes_see_each_other(make_run):
    run = make_run()
    one, two = open_store(RunFolder(run)), open_store(RunFolder(run))
    before = two.version()
    decide(one, (3, "unsure"))
    assert two.version() != before
    assert found(two) == [(3, "unsure", None)]
    one.close()
    two.close()


def test_many_threads_lose_nothing(store):
    def work(tab):
        for number in range(20):
            decide(store, (number * 6 + tab, "keep"), tab=str(tab))

    threads = [threading.Thread(target=work, args=(tab,)) for tab in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found(store)) == 120


def test_rules_of_the_file(store):
    for made in ((1, "relabel", None), (1, "keep", 2), (1, "guess", None)):
        with pytest.raises(sqlite3.IntegrityError):
            decide(store, made)
    assert found(store) == []
    connection = sqlite3.connect(store.path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert store._connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


@pytest.mark.parametrize("version", [1, 99])
def test_a_file_of_another_version_or_program_is_refused(make_run, version):
    run = make_run()
    open_store(RunFolder(run)).close()
    connection = sqlite3.connect(run / "review.sqlite")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    with pytest.raises(InputError, match="written by another version of jnpl; move it away to start anew"):
        open_store(RunFolder(run))
    (run / "review.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="cannot be used"):
        open_store(RunFolder(run))


FORGED = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON decisions BEGIN DELETE FROM current; END",
    "view": "CREATE VIEW v AS SELECT 1",
    "table": "CREATE TABLE more (x)",
    "view in place of a table": "ALTER TABLE facts RENAME TO f; CREATE VIEW facts AS SELECT * FROM f",
    "position": "UPDATE decisions SET position = 5.5",
    "position of another": "UPDATE decisions SET position = 6",
    "label": "UPDATE decisions SET label = 0.5",
    "class": "UPDATE decisions SET label = 99",
    "quality": "UPDATE decisions SET quality = 'good'",
    "quality above 1": "UPDATE decisions SET quality = 7",
    "suspect": "UPDATE decisions SET is_suspect = 'yes'",
    "batch": "UPDATE decisions SET batch = 9",
    "reviewer": "UPDATE reviewers SET name = x'00ff'",
    "long reviewer": "UPDATE reviewers SET name = printf('%.*c', 999, 'x')",
    "time": "UPDATE batches SET made_at = 'yesterday'",
    "undone": "UPDATE batches SET undone_at = 5",
    "round of a text": "INSERT INTO rounds VALUES (1, '2026-01-01T00:00:00+00:00', 1, 0.5, 'arrays')",
    "round of many": "INSERT INTO rounds VALUES (1, '2026-01-01T00:00:00+00:00', 1e9, 0.5, x'00')",
    "round of no time": "INSERT INTO rounds VALUES (1, 'then', 1, 0.5, x'00')",
}


@pytest.mark.parametrize("statement", FORGED.values(), ids=FORGED)
def test_a_forged_file_is_refused_before_anything_of_it_runs(make_run, statement):
    run = make_run()
    store = open_store(RunFolder(run))
    decide(store, (5, "relabel", 2))
    store.close()
    with closing(sqlite3.connect(run / "review.sqlite")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.executescript(statement)
        connection.commit()
    with pytest.raises(InputError, match="cannot be used") as caught:
        open_store(RunFolder(run))
    assert "\n" not in str(caught.value)


def test_the_file_needs_no_new_sqlite(store):
    written = store._connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall()
    assert len(written) >= 6
    assert not any("STRICT" in str(sql) for (sql,) in written)  # since 3.37; Python on RHEL 9 has 3.34


def test_a_file_that_is_refused_is_closed(make_run, monkeypatch):
    class Noted(sqlite3.Connection):
        def close(self):
            closed.append(True)
            super().close()

    closed, real = [], sqlite3.connect
    factory = {":memory:": sqlite3.Connection}  # where the expected schema is made
    monkeypatch.setattr(sqlite3, "connect", lambda at, **more: real(at, factory=factory.get(at, Noted), **more))
    run = make_run()
    store = open_store(RunFolder(run))
    assert not closed
    store.close()
    with pytest.raises(InputError, match="other samples"):
        DecisionStore(run / "review.sqlite", Findings.load(make_run("other", samples=121)))
    assert len(closed) == 2


def test_decisions_about_other_data_are_refused(make_run):
    run = make_run()
    open_store(RunFolder(run)).close()
    with pytest.raises(InputError, match="other samples, classes or given labels"):
        DecisionStore(run / "review.sqlite", Findings.load(make_run("other", samples=121)))


def test_only_the_last_round_is_kept(store):
    assert store.last_round() is None
    store.add_round(50, 1.0, b"first")
    number = store.add_round(100, 2.0, b"second")
    assert store.last_round() == (number, 100, b"second")
    assert store._connection.execute("SELECT count(*) FROM rounds").fetchone() == (1,)


def test_rows_for_a_table(make_run):
    run = make_run()
    findings = Findings.load(run)
    store = open_store(RunFolder(run))
    decide(store, (3, "relabel", 1), (0, "drop"))
    rows = decisions.as_rows(store, findings)
    store.close()
    assert [(row["id"], row["action"], row["label"]) for row in rows] == [(0, "drop", None), (3, "relabel", "dog")]
    json.dumps([row["reviewer"] for row in rows])


SET = "INSERT INTO tag_sets VALUES (7, '{}')"
FORGED_SETS = {
    "no JSON": [SET.format("0,1")],
    "no list": [SET.format("5")],
    "not sorted": [SET.format("[1, 0]")],
    "twice": [SET.format("[1, 1]")],
    "no tag of the run": [SET.format("[0, 3]")],
    "below 0": [SET.format("[-1]")],
    "no numbers": [SET.format('["cat"]')],
    "true": [SET.format("[true]")],
    "deep": ["INSERT INTO tag_sets VALUES (7, '" + "[" * 100_000 + "')"],
    "a label that is no set": ["UPDATE decisions SET label = 99"],
}


@pytest.mark.parametrize("statements", FORGED_SETS.values(), ids=FORGED_SETS)
def test_sets_of_tags_are_kept_by_their_tags(tmp_path, statements):
    run = tag_run(tmp_path / "run")
    with closing(open_store(RunFolder(run))) as store:
        sets = RunFolder(run).sample_findings.sets
        new = store._sets.number([0, 2])  # a set that no sample has
        assert new == len(sets.sets)
        store.decide([NewDecision(4, "relabel", new)], reviewer="Ann", tab="t")
        assert store.read([4])[0].label == new
    with closing(open_store(RunFolder(run))) as store:  # another process: other numbers
        number = store._sets.number([1, 2])
        again = store._sets.number([0, 2])
        assert number != again
        assert [decision.label for decision in store.all_current()] == [again]
        assert store.current().labels.tolist() == [again]
    with closing(sqlite3.connect(run / "review.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(InputError, match=r"review.sqlite' cannot be used: its table (tag_sets|decisions) holds"):
        open_store(RunFolder(run))


def test_a_run_with_one_label_has_no_sets(make_run):
    run = make_run()
    open_store(RunFolder(run)).close()
    with closing(sqlite3.connect(run / "review.sqlite")) as connection, connection:
        connection.execute(SET.format("[0]"))
    with pytest.raises(InputError, match="its table tag_sets holds"):
        open_store(RunFolder(run))
