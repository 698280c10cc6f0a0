"""`jnpl reproduce`: a figure end to end at scale tiny, and one line for what cannot be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from tests.helpers.command import jnpl


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
    assert err.strip() == "jnpl: 2 cells, 2 done before"
    # Another item from the same JSON, without training: its panels say that they were not run.
    code, told, err = jnpl(capsys, "reproduce", "fig5", "--scale", "tiny", "-o", str(out), "--only-draw")
    assert (code, err) == (0, "")
    assert "not run: CIFAR-100 is not part of scale tiny" in told
    assert (out / "fig5.png").is_file()
    page = (out / "index.html").read_text("utf-8")
    assert [f'<section id="{item}"' in page for item in ("fig1", "fig5", "fig6")] == [True, True, False]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            ["fig7"],
            "there is no item 'fig7'; there are fig1, fig2, fig3, fig4, fig5, fig6, table1, table2, human, heads",
        ),
        (
            ["fig1", "--scale", "huge"],
            "there is no scale 'huge'; there are paper, features, features-full, small",
        ),
        (["fig1", "--scale", "tiny", "--only-draw"], "there is no result of scale tiny in"),
        (["fig1", "--engine", "cloud"], "cloud"),
        (["fig1", "--seeds", "0"], "--seeds"),
        (["table2", "--scale", "tiny"], "table2 cannot be made at scale tiny: Clothing1M is not part of scale tiny"),
        (["fig1", "--data-root", "nowhere"], "there is no 'nowhere': --data-root is the folder of the data sets"),
        ([], "Missing argument"),
    ],
)
def test_wrong_input_is_one_line(capsys, tmp_path, args, told):
    root = () if "--data-root" in args else ("--data-root", str(tmp_path))
    code, out, err = jnpl(capsys, "reproduce", *args, "-o", str(tmp_path / "out"), *root)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


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


def test_help_is_quick_and_names_the_options(capsys):
    code, out, _ = jnpl(capsys, "reproduce", "--help")
    assert code == 0
    for option in (
        "--scale",
        "--out",
        "--data-root",
        "--jobs",
        "--seeds",
        "--only-draw",
        "--yes",
        "--json",
        "--engine",
    ):
        assert option in out
    probe = "import sys, jnpl.cli.reproduce; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
