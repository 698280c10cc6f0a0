"""Whose folder it is: strangers are refused and told what differs, what a kill left is swept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from jnpl.internal.errors import InputError
from jnpl.run_folder import RunFolder

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
    ("known", "samples", "told"),
    [
        ({"seed": 0, "data": "other"}, 9, "with the data 'toy', not 'other'; name another folder, or repeat"),
        ({"seed": 1, "data": "toy"}, 9, "with seed = 0, not 1"),
        ({"seed": 0, "data": "toy"}, 8, "with other data: 9 samples of 2 classes, not 8 of 2"),
    ],
)
def test_other_data_are_refused_before_they_are_embedded(folder, known, samples, told):
    folder.write(IDENTITY, "finished", {"samples": 9, "classes": 2})
    folder.check_data({"seed": 0, "data": "toy"}, 9, 2)
    with pytest.raises(InputError, match=told):
        folder.check_data(known, samples, 2)


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
    with pytest.raises(InputError, match="no second part"):  # nothing to go on from
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


def test_a_run_inside_a_folder_of_images_is_refused(tmp_path, monkeypatch):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos")
    for out, data in (("run", "."), ("cat/run", "."), (str(tmp_path / "photos" / "run"), "../photos")):
        with pytest.raises(InputError, match="lies inside the data folder"):
            RunFolder(Path(out)).check_outside(data)
    RunFolder(Path("../run")).check_outside(".")
    RunFolder(Path(".runs/1")).check_outside(".")  # hidden folders are no classes
    RunFolder(Path("cat/run")).check_outside("digits")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
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
