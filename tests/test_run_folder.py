"""Whose folder it is, and what is in it: strangers are refused, files are read once, damage is named."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jnpl import Findings
from jnpl.data.source import UnreadableError
from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.run_folder import LabelledSample, RunFolder
from tests.helpers.marks import posix
from tests.helpers.runs import findings

IDENTITY = {
    "seed": 0,
    "data": "toy",
    "fingerprint": "ab",
    "recipe": {"model": "mlp", "train": {"lr": 0.1, "epochs": 3}},
}


@pytest.fixture
def folder(tmp_path):
    """A run with a checkpoint: something to lose."""
    folder = RunFolder(tmp_path / "deep" / "run")
    assert folder.open(IDENTITY) is None
    folder.begin(IDENTITY)
    (folder.checkpoints / "00000000").mkdir(parents=True)
    return folder


def test_a_new_run_an_old_one_and_a_finished_one(folder):
    assert folder.open(IDENTITY) is None
    saved = json.loads((folder.path / "run.json").read_text("utf-8"))
    assert saved["status"] == "running"
    assert saved["results"] is None
    assert {key: saved[key] for key in IDENTITY} == IDENTITY
    assert set(saved["versions"]) == {"jnpl", "torch", "python"}
    folder.write(IDENTITY, "finished", {"issues": 3})
    assert folder.open(IDENTITY) == {"issues": 3}
    with pytest.raises(InputError, match="seed = 0, not 1"):
        folder.open({**IDENTITY, "seed": 1})


def test_an_empty_folder_will_do(tmp_path):
    assert RunFolder(tmp_path).open(IDENTITY) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "holds a run with seed = 0, not 1; name another folder"),
        ({"data": "other"}, "holds a run with the data 'toy', not 'other'"),
        ({"fingerprint": "cd"}, "holds a run with other data"),
        ({"recipe": {"model": "mlp", "train": {"lr": 0.1, "epochs": 4}}}, "recipe.train.epochs = 3, not 4"),
        ({"recipe": {"model": None, "train": {"lr": 0.1, "epochs": 3}}}, 'recipe.model = "mlp", not null'),
        ({"recipe": {**IDENTITY["recipe"], "pseudo": {"soft": True}}}, r"recipe.pseudo = null, not {\"soft\": true}"),
    ],
)
def test_another_run_is_refused(folder, change, told):
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(InputError, match=told) as error:
        folder.open({**IDENTITY, **change})
    assert str(folder.path) in str(error.value)
    assert (folder.path / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("recorded", "samples", "told"),
    [
        ({"seed": 0, "data": "other"}, 9, "with the data 'toy', not 'other'; name another folder, or repeat"),
        ({"seed": 1, "data": "toy"}, 9, "with seed = 0, not 1"),
        ({"seed": 0, "data": "toy"}, 8, "with other data: 9 samples of 2 classes, not 8 of 2"),
    ],
)
def test_other_data_are_refused_before_they_are_embedded(folder, recorded, samples, told):
    folder.write(IDENTITY, "finished", {"samples": 9, "classes": 2})
    folder.check_data({"seed": 0, "data": "toy"}, 9, 2)
    with pytest.raises(InputError, match=told):
        folder.check_data(recorded, samples, 2)


@pytest.mark.parametrize(("results", "told"), [([1], "results: it must be an object"), ({"issues": 3}, "other data")])
def test_results_of_another_form_are_refused(folder, results, told):
    folder.write(IDENTITY, "finished", results)
    with pytest.raises(InputError, match=told):
        folder.check_data({"seed": 0, "data": "toy"}, 9, 2)


def test_data_are_not_refused_where_nothing_would_be_lost(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.check_data({"seed": 0, "data": "other"}, 9, 2)
    folder.open(IDENTITY)
    folder.begin(IDENTITY)
    folder.check_data({"seed": 1, "data": "other"}, 9, 2)


def test_a_place_that_cannot_be_written_is_refused_and_nothing_is_left(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "deep" / "run")
    folder.check_writable()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot make the folder"):
        RunFolder(tmp_path / "file" / "run").check_writable()

    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("jnpl.run_folder.create_new", refuse)
    with pytest.raises(InputError, match=r"cannot write to the folder '.*run': Permission denied"):
        folder.check_writable()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_run_that_never_reached_a_checkpoint_makes_room(tmp_path):
    """A typing error in a setting must not lock the folder for the command without it."""
    folder = RunFolder(tmp_path / "run")
    folder.open(IDENTITY)
    folder.begin(IDENTITY)
    folder.log({"epoch": 0})
    assert folder.open({**IDENTITY, "seed": 1}) is None
    assert json.loads((folder.path / "run.json").read_text("utf-8"))["seed"] == 0  # to ask changes nothing


def test_a_finished_filter_makes_room_for_its_second_part_alone(tmp_path):
    folder, both = RunFolder(tmp_path / "run"), {**IDENTITY, "second": {"mode": "paper"}}
    folder.open({**IDENTITY, "second": None})
    folder.write({**IDENTITY, "second": None}, "finished", {"issues": 3})
    with pytest.raises(InputError, match="no pseudo-labels"):  # nothing to go on from
        folder.open(both)
    (folder.checkpoints / "00000000").mkdir(parents=True)
    assert folder.open(both) is None
    with pytest.raises(InputError, match="seed = 0, not 1"):
        folder.open({**both, "seed": 1})
    assert folder.open({**IDENTITY, "second": None}) == {"issues": 3}


def test_strangers(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file; name a folder"):
        RunFolder(tmp_path / "file").open(IDENTITY)
    with pytest.raises(InputError, match="cannot make the folder"):
        RunFolder(tmp_path / "file" / "run").open(IDENTITY)
    with pytest.raises(InputError, match="holds something else than a run; name an empty or a new folder"):
        RunFolder(tmp_path).open(IDENTITY)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("text", ["[]", "3", "{}", '{"format": "jnpl run 9"}', '{"format": 1'])
def test_a_run_json_of_others(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=r"something else than a run|cannot be read"):
        RunFolder(tmp_path).open(IDENTITY)
    assert (tmp_path / "run.json").read_text() == text


def test_a_kill_before_the_first_run_json_was_whole(tmp_path):
    (tmp_path / ".run.json.123.tmp").write_text('{"for')
    assert RunFolder(tmp_path).open(IDENTITY) is None
    with RunFolder(tmp_path).lock():
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock"]


def test_drafts_that_kills_left_are_swept_and_nothing_else(folder):
    for name in (".metrics.jsonl.7.tmp", ".model.safetensors.8.tmp", ".findings.csv.9.tmp", ".mine.tmp", "notes.tmp"):
        (folder.path / name).write_text("x")
    with folder.lock():
        left = sorted(path.name for path in folder.path.iterdir())
    assert left == [".lock", ".mine.tmp", "checkpoint", "notes.tmp", "run.json"]


def test_the_log_is_cut_where_a_run_goes_on(folder):
    assert folder.cut_log(0) == []
    lines = [{"epoch": epoch, "loss": epoch / 3} for epoch in range(5)]
    for line in lines:
        folder.log(line)
    log = folder.path / "metrics.jsonl"
    assert [json.loads(text) for text in log.read_text("utf-8").splitlines()] == lines
    with log.open("a", encoding="utf-8") as file:
        file.write('{"epoch": 5, "lo')
    assert folder.cut_log(9) == lines
    assert [json.loads(text) for text in log.read_text("utf-8").splitlines()] == lines
    assert folder.cut_log(2) == lines[:2]
    assert folder.cut_log(2) == lines[:2]
    assert log.read_text("utf-8").count("\n") == 2


def test_two_runs_do_not_share_a_folder(folder):
    with folder.lock(), pytest.raises(InputError, match="another run is using"), RunFolder(folder.path).lock():
        pass
    with RunFolder(folder.path).lock():
        assert folder.open(IDENTITY) is None


def test_a_refusal_names_the_command_that_would_do(folder):
    folder.write({**IDENTITY, "second": None}, "finished", {"issues": 3})
    command = ["jnpl", "find", "my photos", "-o", "run", "--holdout", "0.1"]
    (folder.path / "data.json").write_text(json.dumps({"command": command}))
    told = "go on from it: jnpl train 'my photos' -o run --holdout 0.1"
    with pytest.raises(InputError, match=f"other data; name another folder, or {told}"):
        folder.open({**IDENTITY, "fingerprint": "cd", "second": {"mode": "paper"}})
    with pytest.raises(InputError, match=r"or repeat its command: jnpl find 'my photos' -o run --holdout 0.1"):
        folder.open({**IDENTITY, "fingerprint": "cd", "second": None})
    for facts, how in (({"command": []}, "repeat the call it was made with"), ({}, "repeat the command it was made")):
        (folder.path / "data.json").write_text(json.dumps(facts))
        with pytest.raises(InputError, match=how):
            RunFolder(folder.path).open({**IDENTITY, "fingerprint": "cd", "second": None})


def test_a_run_inside_a_folder_of_images_is_refused(tmp_path, monkeypatch):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos")
    for out, data in (("run", "."), ("cat/run", "."), (str(tmp_path / "photos" / "run"), "../photos")):
        with pytest.raises(InputError, match="lies inside the data folder"):
            RunFolder(Path(out)).check_outside(data)
    RunFolder(Path("../run")).check_outside(".")
    RunFolder(Path(".runs/1")).check_outside(".")  # hidden folders are no classes
    RunFolder(Path("cat/run")).check_outside("digits")


@posix
@pytest.mark.parametrize("name", [".lock", "run.json", "metrics.jsonl"])
def test_pipes_do_not_hang(folder, name):
    (folder.path / name).unlink(missing_ok=True)
    os.mkfifo(folder.path / name)

    def use():
        with folder.lock():
            folder.open(IDENTITY)
            folder.log({"epoch": 0})

    with pytest.raises(InputError, match=r"is a pipe|something else than a run"):
        use()


def save(folder, **files):
    """Findings of six samples, beside files with these contents: text, bytes, or an object as JSON."""
    findings().save(folder)
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return RunFolder(folder)


def test_only_findings_must_be_there(tmp_path):
    run = save(tmp_path)
    assert run.findings == findings()
    assert (run.read_log(), run.thumbnails(), run.neighbours()) == ([], {}, None)
    assert run.run_facts.results is None
    assert run.data_facts.unreadable is None  # not looked for
    assert run.require_data_facts().held_out == ()


def test_everything_is_read(tmp_path):
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
        "held_out": [{"id": 4, "label": "dog"}],
        "columns": {"names": ["x"], "rows": {"7": [0.5]}},
        "later": 1,
    }
    results = {"noise_rate": 0.1, "notes": ["so"], "epochs": 3}
    run = save(tmp_path, data_json=data, run_json={"status": "finished", "seed": 0, "results": results})
    facts = run.data_facts
    assert facts.columns.rows == {7: [0.5]}
    assert [group.differ for group in facts.duplicates] == [True, False, True]
    assert [group.size for group in facts.duplicates] == [2, 2, 900]
    assert (facts.tiny_classes[0].name, facts.unreadable[0].id) == ("a", 3)
    assert run.require_data_facts().held_out == (LabelledSample(id=4, label="dog"),)
    assert run.run_facts.results.noise_rate == 0.1


def test_findings_and_facts_are_read_once_and_renewed_when_they_are_written(tmp_path, monkeypatch):
    run, loads = save(tmp_path, run_json={"status": "running"}), []
    real = Findings.load
    monkeypatch.setattr(Findings, "load", lambda folder: loads.append(folder) or real(folder))
    assert run.findings is run.findings
    run.save_findings(run.findings.with_threshold(0.2))
    assert run.findings.is_label_issue.sum() == 1
    assert loads == [tmp_path]
    assert RunFolder(tmp_path).findings == run.findings
    assert run.run_facts.status == "running"
    run.write(IDENTITY, "finished", {"issues": 3})
    assert run.run_facts.status == "finished"
    (tmp_path / "run.json").write_text('{"status": "odd"}')  # by another process
    assert run.run_facts.status == "finished"
    with run.lock():
        assert run.run_facts.status == "odd"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("run.json", "{", r"run\.json' cannot be read"),
        ("run.json", "[]", r"run\.json' cannot be used: the whole"),
        ("run.json", '{"results": {"notes": "one"}}', r"cannot be used: results\.notes: "),
        ("run.json", '{"seed": "x"}', r"run\.json' cannot be used: seed: "),
        ("data.json", '{"columns": {"names": ["a"], "rows": {"x": []}}}', r"data\.json' cannot be used: columns\.rows"),
        ("data.json", '{"duplicates": [{"ids": [1]}]}', r"duplicates\.0\.labels: Field required"),
        ("data.json", "", r"data\.json' cannot be read"),
        ("data.json", '{"held_out": [{"id": 3, "la', r"data\.json' cannot be read"),
        ("data.json", "[" * 100_000, r"data\.json' cannot be read: it is nested too deeply"),
        ("data.json", b"\xff\xff", r"data\.json' cannot be read"),
        ("data.json", "[]", r"data\.json' cannot be used: the whole: it must be an object"),
        ("data.json", '{"held_out": 3}', r"data\.json' cannot be used: held_out"),
        ("data.json", '{"held_out": [9]}', r"data\.json' cannot be used: held_out\.0: it must be an object"),
        ("data.json", '{"held_out": [{"id": 9}]}', r"data\.json' cannot be used: held_out\.0\.label"),
        ("data.json", '{"held_out": [{"id": [3], "label": "cat"}]}', r"data\.json' cannot be used: held_out\.0\.id"),
        ("data.json", '{"root": 3}', r"data\.json' cannot be used: root"),
        ("findings.json", "{}", "holds no findings that can be read"),
        ("thumbnails.parquet", "no table", r"thumbnails\.parquet' holds no pictures that can be read"),
        ("neighbours.parquet", "no table", r"neighbours\.parquet' cannot be read"),
    ],
)
def test_a_broken_file_is_named(tmp_path, file, content, message):
    run = save(tmp_path, **{"run_json": "{}", file.replace(".", "_"): content})
    read = {
        "run.json": lambda: run.run_facts,
        "data.json": run.require_data_facts,
        "findings.json": lambda: run.findings,
        "thumbnails.parquet": run.thumbnails,
        "neighbours.parquet": run.neighbours,
    }
    with pytest.raises(InputError, match=message):
        read[file]()


def test_samples_are_not_lost_silently_if_a_run_does_not_say_which_were_held_out(tmp_path):
    run = save(tmp_path, run_json="{}")
    with pytest.raises(InputError, match=r"is not complete: it has no data\.json.*repeat the command"):
        run.require_data_facts()
    assert run.data_facts.held_out == ()


def test_a_torn_log_is_read_up_to_the_tear(tmp_path):
    for torn in (b'{"epoch": 1}\n{"epo', b"[1]\n\xff\xfe"):
        (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 0}\n' + torn)
        assert RunFolder(tmp_path).read_log() == [{"epoch": 0}, {"epoch": 1}][: 1 + torn.startswith(b"{")]


def test_another_threshold_changes_findings_and_counts(tmp_path):
    results = {"issues": 3, "noise_rate": 0.5, "relabel_accuracy": 0.9, "seconds": None}
    run = save(tmp_path, run_json={"format": "jnpl run 1", "later": 1, "results": results})
    assert run.change_threshold("budget=1") == 1
    assert run.findings.is_label_issue.tolist() == [False, True, False, False, False, False]
    stored = json.loads((tmp_path / "run.json").read_text("utf-8"))
    rate = pytest.approx(1 / 6)
    assert stored == {"format": "jnpl run 1", "later": 1, "results": {"issues": 1, "noise_rate": rate, "seconds": None}}
    assert run.change_threshold("0.35") == 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no findings"):
        RunFolder(tmp_path / "empty").change_threshold("0.5")
    assert list((tmp_path / "empty").iterdir()) == []


def test_thumbnails_come_back_in_their_order_without_those_that_cannot_be_read(tmp_path):
    def read(position):
        if position in (5, 6):
            raise UnreadableError("empty file") if position == 5 else FileNotFoundError("gone")
        return np.full((10, 10, 1), position, np.uint8)

    run = RunFolder(tmp_path)
    assert run.write_thumbnails(np.array([9, 5, 2, 6, 7]), read) == 3
    thumbnails = run.thumbnails()
    assert list(thumbnails) == [9, 2, 7]
    assert [np.asarray(Image.open(io.BytesIO(content)))[0, 0] for content in thumbnails.values()] == [9, 2, 7]
    table = load_parquet(tmp_path / "thumbnails.parquet")
    assert (table.schema.field("position").type, table.schema.field("image").type) == (pa.int64(), pa.binary())
    pq.write_table(pa.table({"position": [1]}), tmp_path / "thumbnails.parquet")
    with pytest.raises(InputError, match="image"):
        run.thumbnails()


def test_thumbnails_are_limited_and_no_more_are_read(tmp_path):
    asked = []

    def read(position):
        asked.append(position)
        return np.zeros((2, 2, 1), np.uint8)

    assert RunFolder(tmp_path).write_thumbnails(range(2000), read) == 1500 == len(asked)


def test_a_mistake_of_the_caller_leaves_no_thumbnails(tmp_path):
    with pytest.raises(InputError, match="a picture must be uint8"):
        RunFolder(tmp_path).write_thumbnails([0], lambda _: np.zeros((4, 4)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ['{"epoch": "x"}', '{"epoch": 1.5}', '{"epoch": 1, "test_accuracy": "good"}', "{}"])
def test_lines_that_no_run_logs_end_the_log(tmp_path, line):
    folder = RunFolder(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 0, "loss": 1.0}\n' + line + '\n{"epoch": 2}\n')
    assert folder.read_log() == folder.cut_log(9) == [{"epoch": 0, "loss": 1.0}]
