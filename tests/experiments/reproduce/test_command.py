"""`jnpl reproduce` before anything is trained: what it asks of GPUs, and of what lies in its folder."""

from __future__ import annotations

import pytest
import torch
from tests.helpers.command import jnpl

from jnpl.experiments.engines import LocalEngine
from jnpl.experiments.reproduce.paper import SETTINGS


@pytest.fixture
def trained(monkeypatch):
    """Cells that would be trained, and where; nothing is, and no data are asked for."""
    seen = []

    def run_cells(cells, *_args, engine, **_options):
        seen.append(([cell.name.rpartition("-")[0] for cell in cells], engine))
        return {}

    monkeypatch.setattr("jnpl.experiments.grid.run_cells", run_cells)
    monkeypatch.setattr("jnpl.experiments.cell_data.load", lambda cell, root: None)
    return seen


@pytest.fixture
def ray(monkeypatch):
    """An engine that stands for Ray's, which need not be there."""
    engine = LocalEngine()
    monkeypatch.setattr("jnpl.experiments.engines.make_engine", lambda name, address, gpus: engine)
    return engine


def reproduce(capsys, tmp_path, *args):
    out = ("-o", str(tmp_path / "out"), "--data-root", str(tmp_path))
    return jnpl(capsys, "reproduce", *args, *out)


@pytest.mark.parametrize("gpus", [[], ["--gpus", "0"]])
def test_on_ray_a_gpu_of_this_machine_does_not_count(capsys, tmp_path, monkeypatch, trained, ray, gpus):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper", "--engine", "ray", *gpus)
    assert (code, out, trained) == (2, "", [])
    assert "2 runs of full length, about 18 GPU-hours" in err
    assert "on Ray a run gets a GPU by --gpus 1" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("args", [["--engine", "ray", "--gpus", "1"], ["--yes"]])
def test_who_has_gpus_elsewhere_or_insists_is_not_asked_for_one_here(capsys, tmp_path, monkeypatch, trained, ray, args):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: pytest.fail("the GPU of this machine does not matter"))
    code, _, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper", *args)
    assert (code, err) == (0, "")
    assert trained == [(["nlnl-filter-cifar10-symm60-1", "jnpl-filter-cifar10-symm60-1"], ray)]


def test_a_gpu_of_this_machine_is_enough_for_its_own_processes(capsys, tmp_path, monkeypatch, trained):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code, _, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper")
    assert (code, err) == (0, "")
    assert [len(names) for names, _ in trained] == [2]


@pytest.mark.parametrize("classify", [False, True])
def test_runs_that_are_done_are_not_refused_nor_counted(capsys, tmp_path, monkeypatch, trained, made, classify):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.cell("nlnl", scale="paper", classify=classify)
    code, _, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper")
    assert (code, trained) == (2, [])
    # JNPL's 1,000 epochs of 45,000 images, 3 x 2.3 GFLOP each, at 15 TFLOP/s: 5.8 hours.
    assert "scale paper trains 1 run of full length, about 6 GPU-hours" in err
    made.cell("jnpl", scale="paper", classify=classify)
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper")
    assert (code, err) == (0, "")
    assert out.startswith("agrees: JNPL separates right from wrong labels")
    # A run that went on to a classifier stands in for its filter.
    filters = ["nlnl-filter-cifar10-symm60-1", "jnpl-filter-cifar10-symm60-1"]
    assert [names for names, _ in trained] == [[] if classify else filters]


@pytest.mark.parametrize("item", ["fig1", "figures"])
def test_weights_are_for_table_2(capsys, tmp_path, trained, item):
    (tmp_path / "r50.safetensors").write_bytes(b"")
    code, out, err = reproduce(capsys, tmp_path, item, "--weights", str(tmp_path / "r50.safetensors"))
    assert (code, out, trained) == (2, "", [])
    assert "--weights are for table2 (Clothing1M)" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("item", ["table2", "all"])
def test_weights_that_are_not_there_are_named(capsys, tmp_path, trained, item):
    args = (item, "--scale", "paper", "--weights", "nowhere.safetensors", "--yes")
    code, out, err = reproduce(capsys, tmp_path, *args)
    assert (code, out, trained) == (2, "", [])
    assert "there is no file 'nowhere.safetensors'" in err
    assert err.count("\n") == 1


def test_another_scale_does_not_draw_over_what_is_there(capsys, tmp_path, trained, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.cell("nlnl")
    assert reproduce(capsys, tmp_path, "fig1", "--only-draw")[0] == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "tiny")
    assert (code, out, trained) == (2, "", [])
    assert "holds what was made at scale small: give another folder by --out for tiny" in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == before
    (tmp_path / "out/reproduce.json").write_text("[]")
    code, _, err = reproduce(capsys, tmp_path, "fig1")
    assert (code, err.count("\n")) == (2, 1)
    assert "reproduce.json' is not of jnpl reproduce" in err


@pytest.mark.parametrize("name", ["index.html", "fig1.png", "table2.md"])
def test_files_of_others_are_not_overwritten(capsys, tmp_path, trained, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("my thesis")
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "tiny")
    assert (code, out, err.count("\n"), trained) == (2, "", 1, [])
    assert f"{name}' is not of jnpl reproduce: give another folder by --out" in err
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["my thesis"]


def test_a_file_is_no_folder(capsys, tmp_path, trained):
    (tmp_path / "out").write_text("my thesis")
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "tiny")
    assert (code, out, err.count("\n"), trained) == (2, "", 1, [])
    assert "is a file: --out is the folder for all that is made" in err


def test_what_is_not_there_is_told_before_and_after(capsys, tmp_path, trained, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.cell("nlnl")
    code, out, err = reproduce(capsys, tmp_path, "fig5")
    assert (code, len(trained)) == (0, 1)
    assert err.startswith("jnpl: not run: The images of CIFAR-100 are not there: get the binary version")
    assert out.splitlines()[-2].startswith("not run: The images of CIFAR-100 are not there")


def test_gpu_hours_say_what_is_left_out(capsys, tmp_path, monkeypatch, trained):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = reproduce(capsys, tmp_path, "all", "--scale", "paper")
    assert (code, err.count("\n")) == (2, 1)
    assert "of full length, without CIFAR-100 and Clothing1M, which are not there, about" in err


def test_broken_images_of_cifar_100_are_not_taken_for_missing_ones(capsys, tmp_path, monkeypatch, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    for noise, rate in SETTINGS:  # so that CIFAR-10 has nothing left to do
        for variant in ("nlnl", "jnpl"):
            made.cell(variant, noise, rate)
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary/train.bin").write_bytes(b"short")
    code, out, err = reproduce(capsys, tmp_path, "fig5")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cifar-100-binary" in err


STRANGE = '{"name": "a", "cell": {}, "results": {}, "stages": []}'


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON", '{"format": "coco"}', STRANGE])
def test_a_file_of_others_is_told_before_anything_is_trained(capsys, tmp_path, trained, text):
    (file := tmp_path / "out/results.jsonl").parent.mkdir()
    file.write_text(text + "\n")
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "tiny")
    assert (code, out, trained) == (2, "", [])
    assert "results.jsonl' is not the result of a" in err
    assert err.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.jsonl"]
    assert file.read_text() == text + "\n"
