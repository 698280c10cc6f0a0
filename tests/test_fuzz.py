"""Thousands of damaged and forged files for the readers of foreign bytes; `benchmarks/fuzz.py` tries many more."""

import os
from contextlib import suppress
from random import Random

import pytest
import typer

from jnpl.cli.app import app
from jnpl.internal.errors import InputError
from jnpl.recipes.load import load_recipe, parse_changes
from tests.helpers import fuzzing
from tests.helpers.command import jnpl

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a time limit by signals of POSIX")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", fuzzing.READERS)
def test_whatever_is_in_a_file_is_read_or_refused(name, tmp_path):
    reader, random = fuzzing.READERS[name], Random(0)
    good = reader.good(tmp_path)
    assert reader.try_one(tmp_path, good) or name in fuzzing.REFUSED
    refused = 0
    for _ in range(80):
        content = fuzzing.variant(reader, good, random)
        try:
            refused += not reader.try_one(tmp_path, content)
        except Exception as error:  # noqa: BLE001 - what is looked for
            pytest.fail(f"{name}, {content[:200]!r}: {type(error).__name__}: {error}")
    assert refused or name in fuzzing.LENIENT


VALUES = (
    "",
    "x",
    "-1",
    "0",
    "7",
    "9" * 40,
    "1e308",
    "nan",
    "[1]",
    "[" * 2000,
    "a=b",
    "\x1b[2J",
    "\udcff",
    "../x",
    "none",
)
KEYS = ("train", "train.epochs", "train.lr", "train.milestones", "method", "method.name", "method.gamma", "data.size")
KEYS += ("verdict.threshold", "verdict.history", "engine.workers", "engine.precision", "pseudo", "stages", "model", "")


def test_whatever_is_set_is_a_recipe_or_refused():
    random = Random(0)
    for _ in range(600):
        texts = [f"{random.choice(KEYS)}={random.choice(VALUES)}" for _ in range(random.randint(1, 3))]
        with suppress(InputError):
            assert load_recipe("small", parse_changes(texts)).train.epochs >= 1


def test_whatever_the_arguments_are_the_exit_code_is_two(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    random, commands = Random(0), typer.main.get_command(app).commands
    for number in range(300):
        name = random.choice(["find", "train", "embed", "predict", "report", "apply", "export", "corrupt", "bench"])
        options = [each.opts[0] for each in commands[name].params if each.opts[0].startswith("-")]
        words = [word for _ in range(random.randint(0, 4)) for word in (random.choice(options), random.choice(VALUES))]
        ends = {"predict": ["no-run", "none.npz"], "bench": ["--rows", "none", "-o", "no"]}.get(name, ["none.npz"])
        code, out, err = jnpl(capsys, name, *ends, *[word for word in words if word != "--help"])
        assert (code, out, err.count("\n")) == (2, "", 1), (number, name, words, err)
    assert list(tmp_path.iterdir()) == []
