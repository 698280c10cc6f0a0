"""What a run folder tells, and what is said of one that does not."""

from __future__ import annotations

import json

import pytest

from jnpl.internal.errors import InputError
from jnpl.outputs.report import page
from jnpl.run_folder import RunFolder


def test_only_findings_must_be_there(make_run):
    run = RunFolder(make_run())
    assert (run.read_log(), run.thumbnails(), run.neighbours()) == ([], {}, None)
    assert run.run_facts.results is None
    assert run.data_facts.unreadable is None  # not looked for


def test_everything_is_read(make_run):
    data = {
        "kind": "vector",
        "command": ["jnpl", "find"],
        "choices": ["a"],
        "unreadable": [{"id": 3, "reason": "empty"}],
        "duplicates": [
            {"ids": [1, 2], "labels": ["a", "b"]},
            {"ids": [3, 4], "labels": ["a", "a"]},
            {"ids": [5, 6], "labels": ["a", "a"], "count": 900, "conflicting": True},
        ],
        "tiny_classes": [{"class": "a", "count": 2}],
        "columns": {"names": ["x"], "rows": {"7": [0.5]}},
        "later": 1,
    }
    run = {"status": "finished", "seed": 0, "results": {"noise_rate": 0.1, "notes": ["so"], "epochs": 3}}
    folder = RunFolder(make_run(data=data, run=run, lines=[{"epoch": 0, "loss": 1.0}], pictures=True))
    facts = folder.data_facts
    assert facts.columns.rows == {7: [0.5]}
    assert [group.differ for group in facts.duplicates] == [True, False, True]
    assert [group.size for group in facts.duplicates] == [2, 2, 900]
    assert (facts.tiny_classes[0].name, facts.unreadable[0].id) == ("a", 3)
    assert folder.run_facts.results.noise_rate == 0.1
    assert folder.read_log() == [{"epoch": 0, "loss": 1.0}]
    assert folder.thumbnails()


def test_a_torn_log_is_read_up_to_the_tear(make_run):
    folder = make_run()
    (folder / "metrics.jsonl").write_bytes(b'{"epoch": 0}\n{"epoch": 1}\n{"epo')
    assert RunFolder(folder).read_log() == [{"epoch": 0}, {"epoch": 1}]
    (folder / "metrics.jsonl").write_bytes(b'{"epoch": 0}\n[1]\n\xff\xfe')
    assert RunFolder(folder).read_log() == [{"epoch": 0}]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{", r"run\.json' cannot be read"),
        ("run.json", "[]", r"run\.json' cannot be used: the whole"),
        ("run.json", '{"results": {"notes": "one"}}', r"cannot be used: results\.notes: "),
        ("data.json", '{"columns": {"names": ["a"], "rows": {"x": []}}}', r"data\.json' cannot be used: columns\.rows"),
        ("data.json", '{"duplicates": [{"ids": [1]}]}', r"duplicates\.0\.labels: Field required"),
        ("data.json", "[" * 100_000, r"data\.json' cannot be read"),
        ("data.json", b"\xff\xff", r"data\.json' cannot be read"),
        ("findings.json", "{}", "holds no findings that can be read"),
    ],
)
def test_a_broken_file_is_named(make_run, file, content, message):
    folder = make_run()
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        page.render(RunFolder(folder))


def test_no_run_at_all(tmp_path):
    with pytest.raises(InputError, match=r"nowhere' is no folder; name a run folder"):
        page.render(RunFolder(tmp_path / "nowhere"))
    (tmp_path / "run.json").write_text(json.dumps({"status": "running"}))
    with pytest.raises(InputError, match=r"holds no findings: .*repeat its command if it was stopped"):
        page.render(RunFolder(tmp_path))
