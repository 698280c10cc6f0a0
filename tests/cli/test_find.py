"""`jnpl find`, `recipes` and `datasets`: one JSON object on stdout, one line for a mistake, exit code 2."""

import json
import shutil
from contextlib import closing
from dataclasses import FrozenInstanceError, fields
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.helpers.checked import frame

from jnpl import noise
from jnpl.cli import find as command
from jnpl.internal.errors import InputError
from jnpl.judging import Findings
from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.run_source import RunDataOptions, open_run_data
from jnpl.pipeline import CheckpointInterval
from jnpl.recipes.load import load_recipe, parse_changes, recipe_names
from jnpl.run_folder import RunFolder

FAST = ("--set", "train.epochs=1", "--accelerator", "cpu", "--threads", "1", "--workers", "0")
PINNED = {
    "run",
    "samples",
    "classes",
    "issues",
    "noise_rate",
    "epochs",
    "seconds",
    "confused",
    "suspects",
}


@pytest.fixture
def toy(tmp_path):
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    x = (random.normal(size=(60, 5)) + labels[:, None]).astype(np.float32)
    given = noise.symmetric(labels, 0.2, 3, seed=0)
    np.savez(tmp_path / "toy.npz", x=x, y=given, y_true=labels, x_test=x[:9], y_test=labels[:9])
    return tmp_path / "toy.npz"


def test_json_is_one_object_and_all_else_goes_to_stderr(run, toy):
    code, out, err = run("find", toy, "-o", "run", *FAST, "--json")
    assert code == 0, err
    assert out.count("\n") == 1
    result = json.loads(out)
    assert list(result)[:7] == ["run", "samples", "classes", "issues", "noise_rate", "epochs", "seconds"]
    known = {"ap", "ap_clean", "relabel_accuracy", "test_accuracy", "best_test_accuracy"}
    assert set(result) == PINNED | known | {"notes", "judged_by"}
    assert result["notes"][-1] == result["judged_by"]
    assert result["judged_by"].startswith("judged by ")
    assert (result["run"], result["samples"], result["classes"], result["epochs"]) == ("run", 60, 3, 1)
    assert "epoch 1/1" in err
    table = Findings.load("run")
    assert len(result["suspects"]) == min(20, result["issues"]) > 0
    assert [row["id"] for row in result["suspects"]] == table.worst(len(result["suspects"]))["id"].tolist()
    moved = sum(pair["count"] for pair in result["confused"])
    assert 0 < moved <= (table.is_label_issue & (table.suggested_labels != table.given_labels)).sum()
    code, again, err = run("find", toy, "-o", "run", *FAST, "--json")
    assert (code, json.loads(again)) == (0, result)
    assert "nothing to do" in err


def test_find_and_train_have_the_same_options(run):
    """`FindOptions` declares them, and the help of both commands shows them."""
    assert list(signature(command.find).parameters) == [field.name for field in fields(command.FindOptions)]
    assert signature(command.find) == signature(command.train)
    helps = [run(name, "--help")[1] for name in ("find", "train")]
    assert [text[text.index("Arguments:") :] for text in helps] == [helps[0][helps[0].index("Arguments:") :]] * 2
    assert "--checkpoint-every" in helps[0]
    assert "pseudo-" in helps[1]  # each has its own description
    with pytest.raises(FrozenInstanceError):
        command.FindOptions(data="digits", out=Path("run")).seed = 1


def test_all_options_of_data_are_options_of_the_command():
    """`RunDataOptions` is made from the parameters by name."""
    parameters = {field.name for field in fields(command.FindOptions)}
    stored = set(RunDataOptions(data="x").to_json())
    # What Python and `jnpl check` alone can say, and what the recipe does.
    assert stored - parameters == {"encoding", "config", "val_size", "one_class"}
    given = command.FindOptions(data="x", out=Path("run"), feature_column=["a"], data_root=Path("d"), size=9, seed=3)
    options = RunDataOptions.from_json(vars(given))
    assert (options.size, options.seed) == (9, 3)
    assert options.opening.changed() == {"root": Path("d"), "feature_columns": ["a"], "seed": 3}


def photos(root, each):
    """Cats and dogs, one of them broken."""
    for label in ("cat", "dog"):
        (root / label).mkdir(parents=True)
        for number in range(each):
            Image.fromarray(np.full((20, 30, 3), 40 * number, np.uint8)).save(root / label / f"{number}.png")
    (root / "cat" / "1.png").write_bytes(b"GIF89a")


def test_a_folder_that_cannot_be_used_is_refused_before_embedding(run, refused, toy, tmp_path, monkeypatch):
    assert run("find", toy, "-o", "run", *FAST)[0] == 0
    photos(tmp_path / "data", 3)
    monkeypatch.setattr("jnpl.pipeline.embed_data", lambda *_, **__: pytest.fail("embedded"))
    assert "'run' holds a run with the data 'toy', not 'data'; name another folder" in refused(
        "find", "data", "-o", "run"
    )
    (tmp_path / "file").write_text("x")
    assert "cannot make the folder 'file/run'" in refused("find", "data", "-o", "file/run")
    assert not (tmp_path / "data" / "run").exists()


def test_what_became_of_the_columns_is_told_and_kept(run, tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=120), "town": ["Ulm", "Bonn", "Rome"] * 40, "label": [0, 1] * 60})
    frame.assign(customer_id=random.integers(1000, 9999, 120)).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = run("find", "a.csv", "-o", "run", *FAST)
    assert code == 0, err
    became = ["numbers as they are: x", "categories as 0 and 1: town (3)", "left out because they only number or name"]
    for line in became:
        assert f"jnpl: 'a.csv': {line}" in err
    choices = json.loads((tmp_path / "run" / "data.json").read_text("utf-8"))["choices"]
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    for line in became:
        assert any(choice.startswith(f"columns: {line}") for choice in choices)
        assert line in page


def test_an_image_folder_with_a_broken_file(run, refused, tmp_path):
    photos(tmp_path / "data", 3)
    code, out, err = run("find", "data", "-o", "run", *FAST, "--json")
    assert code == 0, err
    assert set(json.loads(out)) - {"noise_interval"} == PINNED | {"unreadable"}
    assert "left out: cat/1.png" in err
    saved = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert saved["recipe"]["data"]["size"] == 16  # of 20 x 30 pixels
    told = refused("find", "data", "-o", "strict", *FAST, "--strict", "--size", "16")
    assert "sample cat/1.png cannot be read" in told


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("5", CheckpointInterval(epochs=5, seconds=None)),
        ("10m", CheckpointInterval(seconds=600.0)),
        ("30s", CheckpointInterval(seconds=30.0)),
        (" 1m ", CheckpointInterval(seconds=60.0)),
    ],
)
def test_how_often(text, every):
    assert command._checkpoint_interval(text) == every


def test_recipes(run, refused):
    code, out, err = run("recipes")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == recipe_names()
    code, out, err = run("recipes", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {name: load_recipe(name).model_dump(mode="json") for name in recipe_names()}
    code, out, _ = run("recipes", "paper-cifar100", "--json")
    assert list(json.loads(out)) == ["paper-cifar100"]
    assert "no recipe 'paper'; there are " in refused("recipes", "paper")


@pytest.mark.parametrize("name", recipe_names())
def test_every_shown_setting_can_be_set(run, name):
    """What `jnpl recipes NAME` prints, given back with --set, is the recipe."""
    code, out, _ = run("recipes", name)
    assert code == 0
    shown = [line.strip() for line in out.splitlines()[1:]]
    assert f"train.momentum = {load_recipe(name).train.momentum}" in shown
    changes = [line.replace(" = ", "=", 1).replace("=null", "=none") for line in shown]
    assert load_recipe(name, parse_changes(changes)) == load_recipe(name)


def test_datasets(run):
    code, out, err = run("datasets", "--json")
    assert (code, err) == (0, "")
    entries = json.loads(out)
    assert [entry["name"] for entry in entries] == [
        "digits",
        "cifar10",
        "cifar100",
        "cifar10n",
        "cifar100n",
        "clothing1m",
    ]
    assert all(entry["licence"] and entry["origin"] for entry in entries)
    code, out, err = run("datasets")
    assert (code, err, len(out.splitlines())) == (0, "", len(entries))


def test_held_out_data_and_test_data(run, refused, toy, tmp_path):
    """True labels never reach training; what is kept aside is named."""
    random = np.random.default_rng(1)
    frame = pd.DataFrame({"a": random.normal(size=40), "b": random.normal(size=40), "label": ["x", "y"] * 20})
    frame.to_csv("all.csv", index=False)
    frame[:10].to_csv("some.csv", index=False)
    code, out, err = run(
        "find", "all.csv", "-o", "one", *FAST, "--holdout", "0.2", "--no-report", "--json", "--top", "3"
    )
    assert code == 0, err
    told = json.loads(out)
    assert (told["samples"], len(told["suspects"]) <= 3, "test_accuracy" in told) == (32, True, True)
    facts = json.loads((tmp_path / "one" / "data.json").read_text("utf-8"))
    aside = {row["id"] for row in facts["held_out"]}
    assert len(aside) == 8
    assert not aside & set(Findings.load("one").ids.tolist())
    assert all(row["label"] == frame["label"][row["id"]] for row in facts["held_out"])
    assert not (tmp_path / "one" / "report.html").exists()
    code, out, err = run("find", "all.csv", "-o", "two", *FAST, "--feature-column", "a", "--test", "some.csv", "--json")
    assert code == 0, err
    assert "test_accuracy" in json.loads(out)
    assert "has samples of shape (5,), but all of (2,)" in refused("find", "all.csv", "-o", "3", *FAST, "--test", toy)


def test_held_out_images_are_embedded_with_the_others(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for at in range(12):
        path = tmp_path / "data" / ("cat", "dog")[at % 2] / f"{at}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(path)
    code, _, err = run("embed", "data", "--workers", "0")
    assert code == 0, err
    code, out, err = run("find", "data", "-o", "run", *FAST, "--holdout", "0.5", "--no-report", "--json")
    assert code == 0, err
    assert "data: embeddings are cached, nothing to compute" in err
    told = json.loads(out)
    assert (told["samples"], "test_accuracy" in told) == (6, True)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_refused_command_leaves_a_run_as_it_was(run, refused, tmp_path):
    photos(tmp_path / "data", 4)
    code, _, err = run("find", "data", "-o", "run", *FAST)
    assert code == 0, err
    before = (tmp_path / "run" / "run.json").read_bytes()
    assert "1.png" in refused_last(run("train", "data", "-o", "run", *FAST, "--strict"))
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    held = RunFolder(tmp_path / "run")
    with held.lock():
        assert "another run is using" in refused_last(run("train", "data", "-o", "run", *FAST))
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    code, _, err = run("train", "data", "-o", "run", *FAST)
    assert code == 0, err


def refused_last(told):
    """The last line of a command that was refused, after what it said of its choices."""
    code, out, err = told
    assert (code, out) == (2, "")
    return err.splitlines()[-1]


def test_a_run_is_extended_by_new_data(run, checked_run, tmp_path):
    """Both are trained on, the options of the run are kept, and so are the decisions of its review."""
    before = tmp_path / "before"
    shutil.copytree(checked_run, before)
    findings = RunFolder(before).findings
    wrong, other = findings.worst_positions(2).tolist()
    label = int(findings.suggested_labels[wrong])
    with closing(open_store(RunFolder(before))) as store:
        store.decide([NewDecision(wrong, "relabel", label), NewDecision(other, "drop")], reviewer="r", tab="t")
    frame(50, 0.0, 5).drop(columns="true").replace("cow", "dog").to_csv(tmp_path / "new.csv", index=False)
    quick = ("--set", "train.epochs=2", "--set", "verdict.trees=false")
    for base, out, samples in ((before, "after", 649), (tmp_path / "after", "again", 699)):
        code, answer, _ = run("find", "--extend", base, tmp_path / "new.csv", "-o", tmp_path / out, "--json", *quick)
        assert (code, json.loads(answer)["samples"], json.loads(answer)["classes"]) == (0, samples, 4)
        folder = RunFolder(tmp_path / out)
        assert [(at.id, at.label) for at in folder.data_facts.decided] == [(wrong, findings.names[label])]
        assert folder.data_facts.dropped == (other,)
        assert len(open_run_data(folder.data_facts.options)) == samples  # as the review opens them
    assert run("check", tmp_path / "again", tmp_path / "new.csv")[0] == 0


def test_code_of_a_run_is_named_again_to_extend_it(run, checked_run, tmp_path):
    shutil.copytree(checked_run, tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "data.json").read_text())
    facts["options"]["embed"] = "os:system"
    (tmp_path / "run" / "data.json").write_text(json.dumps(facts))
    code, _, err = run("find", "--extend", tmp_path / "run", checked_run.parent / "old.csv", "-o", tmp_path / "out")
    assert (code, "was embedded by code, 'os:system': give --embed again" in err) == (2, True)
    options = RunDataOptions(data=str(checked_run.parent / "old.csv"), extend=tmp_path / "run")
    with pytest.raises(InputError, match="give --embed again"):
        options.open(0)
