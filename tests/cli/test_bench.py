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
