"""`jnpl reproduce`: a figure end to end at scale tiny, and one line for what cannot be."""

import json

import pytest
import torch
from tests.helpers.command import jnpl
from tests.helpers.stored_runs import made

from jnpl.experiments.execute import RunEngine
from jnpl.experiments.paper import SETTINGS

__all__ = ["made"]


def test_a_figure_end_to_end_and_not_twice(capsys, tmp_path):
    out = tmp_path / "out"
    args = ("reproduce", "fig1", "--scale", "tiny", "-o", str(out))
    code, told, err = jnpl(capsys, *args)
    assert code == 0
    assert err.count(": done in ") == 2
    assert told.startswith("scale tiny only tests the program: these results say nothing about the paper\n")
    assert told.splitlines()[-1] == f"report: {out / 'index.html'}"
    assert len((out / "results.jsonl").read_text("utf-8").splitlines()) == 2
    for name in ("fig1.png", "fig1.svg", "index.html", "reproduce.json"):
        assert (out / name).stat().st_size > 1000
    code, told, err = jnpl(capsys, *args, "--json")
    told = json.loads(told)
    assert (code, told["failed"], [each["item"] for each in told["verdicts"]]) == (0, {}, ["fig1"])
    assert told["verdicts"][0]["status"] in ("agrees", "disagrees")
    assert str(out / "fig1.svg") in told["files"]
    assert err.strip() == "jnpl: 2 runs, 2 done before"
    # Another item from the same JSON, without training: its panels say that they were not run.
    code, told, err = jnpl(capsys, "reproduce", "fig5", "--scale", "tiny", "-o", str(out), "--only-draw")
    assert (code, err) == (0, "")
    assert "not run: CIFAR-100 is not part of scale tiny" in told
    assert (out / "fig5.png").is_file()
    page = (out / "index.html").read_text("utf-8")
    assert [f'<section id="{item}"' in page for item in ("fig1", "fig5", "fig6")] == [True, True, False]


def test_the_papers_scale_is_refused_politely_without_a_gpu(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = jnpl(
        capsys, "reproduce", "fig1", "--scale", "paper", "-o", str(tmp_path / "out"), "--data-root", str(tmp_path)
    )
    assert code == 2
    assert "2 runs of full length" in err
    # NLNL's 2,160 epochs and JNPL's 1,000 of 45,000 images, 3 x 2.3 GFLOP each, at 15 TFLOP/s: 18.3 hours.
    assert "about 18 GPU-hours" in err
    assert "--yes" in err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def trained(monkeypatch):
    """Runs that would be trained, and where; nothing is, and no data are asked for."""
    seen = []

    def run_all(specs, *_args, engine, **_options):
        seen.append(([spec.name.rpartition("-")[0] for spec in specs], engine))
        return {}

    monkeypatch.setattr("jnpl.experiments.execute.run_all", run_all)
    monkeypatch.setattr("jnpl.experiments.run_data.load", lambda spec, root: None)
    return seen


@pytest.fixture
def ray(monkeypatch):
    """An engine that stands for Ray's, which need not be there."""
    engine = RunEngine()
    monkeypatch.setattr("jnpl.experiments.execute.RunEngine", lambda name, address, gpus: engine)
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


@pytest.mark.parametrize("classify", [False, True])
def test_runs_that_are_done_are_not_refused_nor_counted(capsys, tmp_path, monkeypatch, trained, made, classify):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.run("nlnl", scale="paper", classify=classify)
    code, _, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper")
    assert (code, trained) == (2, [])
    # JNPL's 1,000 epochs of 45,000 images, 3 x 2.3 GFLOP each, at 15 TFLOP/s: 5.8 hours.
    assert "scale paper trains 1 run of full length, about 6 GPU-hours" in err
    made.run("jnpl", scale="paper", classify=classify)
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "paper")
    assert (code, err) == (0, "")
    assert out.startswith("agrees: JNPL separates right from wrong labels")
    # A run that went on to a classifier stands in for its filter.
    filters = ["nlnl-filter-cifar10-symm60-1", "jnpl-filter-cifar10-symm60-1"]
    assert [names for names, _ in trained] == [[] if classify else filters]


def test_another_scale_does_not_draw_over_what_is_there(capsys, tmp_path, trained, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.run("nlnl")
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


def test_what_is_not_there_is_listed_before_and_after(capsys, tmp_path, trained, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    made.run("nlnl")
    code, out, err = reproduce(capsys, tmp_path, "fig5")
    assert (code, len(trained)) == (0, 1)
    assert err.startswith("jnpl: not run: The images of CIFAR-100 are not there: get the binary version")
    assert out.splitlines()[-2].startswith("not run: The images of CIFAR-100 are not there")


def test_broken_images_of_cifar_100_are_not_taken_for_missing_ones(capsys, tmp_path, monkeypatch, made):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.jsonl").symlink_to(made.file)
    for noise, rate in SETTINGS:  # so that CIFAR-10 has nothing left to do
        for variant in ("nlnl", "jnpl"):
            made.run(variant, noise, rate)
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary/train.bin").write_bytes(b"short")
    code, out, err = reproduce(capsys, tmp_path, "fig5")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cifar-100-binary" in err


STRANGE = '{"name": "a", "cell": {}, "results": {}, "stages": []}'


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON", '{"format": "coco"}', STRANGE])
def test_a_file_of_others_is_refused_before_anything_is_trained(capsys, tmp_path, trained, text):
    (file := tmp_path / "out/results.jsonl").parent.mkdir()
    file.write_text(text + "\n")
    code, out, err = reproduce(capsys, tmp_path, "fig1", "--scale", "tiny")
    assert (code, out, trained) == (2, "", [])
    assert "results.jsonl' is not the result of a" in err
    assert err.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.jsonl"]
    assert file.read_text() == text + "\n"
