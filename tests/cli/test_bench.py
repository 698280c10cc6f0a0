"""`jnpl bench`: one line for wrong input, a table at the end, and nothing done twice."""

import json
import subprocess
import sys

import pytest
from tests.helpers.command import jnpl

TINY = ("--data", "iris", "--epochs", "2", "--seeds", "1", "--batch-size", "32", "--rows", "gce")


def test_an_experiment_ends_with_a_table_and_is_not_run_twice(capsys, tmp_path):
    code, out, err = jnpl(capsys, "bench", "-o", str(tmp_path / "b"), *TINY)
    assert code == 0
    assert "| gce | " in out
    assert err.count(": done in ") == 1
    assert (tmp_path / "b" / "table.md").read_text("utf-8").strip() == out.strip()
    code, out, err = jnpl(capsys, "bench", "-o", str(tmp_path / "b"), *TINY, "--json")
    told = json.loads(out)
    assert (code, told["cells"], told["failed"]) == (0, 1, {})
    assert [row["row"] for row in told["rows"]] == ["gce"]
    assert err.strip() == "jnpl: 1 runs, 1 done before"
    code, out, err = jnpl(capsys, "bench", "status", str(tmp_path / "b"))
    assert (code, out, err) == (0, "1 of 1 done, 0 running, 0 waiting, 0 failed\n", "")
    code, out, _ = jnpl(capsys, "bench", "status", str(tmp_path / "b"), "--json")
    told = json.loads(out)
    assert (code, told["cells"], len(told["done"]), told["seconds_left"]) == (0, 1, 1, 0.0)
    assert told["dir"] == str(tmp_path / "b")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["status", "nowhere"], "there is no experiment in 'nowhere' (no work/experiment.json)"),
        (
            ["--rows", "ce", "status", "nowhere"],
            "--rows before status is an option of jnpl bench, not of jnpl bench status",
        ),
        (["status"], "DIR"),
        (["--rows", "ce"], "Missing option '--out' / '-o'. (see jnpl bench --help)"),
        (["statis"], "No such command 'statis'"),
    ],
)
def test_a_wrong_command_is_one_line(capsys, monkeypatch, tmp_path, args, told):
    monkeypatch.chdir(tmp_path)
    code, out, err = jnpl(capsys, "bench", *args)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rows", "ce,cee"], "there is no variant 'cee'; there are ce, fast"),
        (["--data", "mnist"], "data: Input should be 'cifar10'"),
        (["--noise", "symm:much"], "--noise takes a kind and a rate, such as symm:0.4, got 'symm:much'"),
        (["--noise", "symm"], "a rate above 0 goes with symm"),
        (["--noise", "symm:1.5"], "rate: Input should be less than or equal to 1, got 1.5"),
        (["--noise", "gauss:0.1"], "noise: Input should be 'symm'"),
        (["--net", "resnet9"], "unknown network 'resnet9'"),
        (["--pixels", "16"], "pixels, start and padding are for cifar10"),
        (["--epochs", "0"], "--epochs"),
        (["--jobs", "0"], "--jobs"),
        (["--engine", "slurm"], "--engine must be local or ray, got 'slurm'"),
        (["--gpus", "0.5"], "--gpus goes with --engine ray"),
        (["--address", "here:6379"], "--address goes with --engine ray"),
        (["--images", "1000"], "a run needs samples 0 to 1,000, iris has 112"),
        (["--data", "cifar10", "--pixels", "20"], "pixels: Input should be 16 or 32, got 20"),
    ],
)
def test_wrong_input_is_one_line(capsys, tmp_path, options, told):
    code, out, err = jnpl(capsys, "bench", "-o", str(tmp_path / "b"), *TINY, *options)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("command", "named", "heavy"),
    [
        ("bench", "--rows --noise --pixels --net --seeds --jobs --data-root --json --engine --gpus status", "torch"),
        ("reproduce", "--scale --out --data-root --jobs --seeds --only-draw --yes --json --engine", "torch matplotlib"),
    ],
)
def test_help_is_quick_and_names_the_options(capsys, command, named, heavy):
    code, out, _ = jnpl(capsys, command, "--help")
    assert code == 0
    for option in named.split():
        assert option in out
    probe = f"import sys, jnpl.cli.{command}; sys.exit(any(name in sys.modules for name in {heavy.split()}))"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
