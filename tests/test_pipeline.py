"""One run, inside this process: what it writes, what it refuses, where it saves itself."""

import json
import shutil
import signal
import sys
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from jnpl import Findings, noise, pipeline
from jnpl.data.loading.augment import CropFlip, Standardize
from jnpl.data.opening import open_source
from jnpl.data.options import OpenOptions
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError, Interrupted
from jnpl.internal.tables import load_parquet
from jnpl.models.build import build
from jnpl.pipeline import CheckpointInterval
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.recipes.schema import Engine
from jnpl.run_folder import RunFolder
from jnpl.training import checkpoint, run_callback, session
from jnpl.training.processes import make_fabric
from jnpl.training.reporting import Reporter
from jnpl.training.run_setup import RunSettings

PINNED = {"run", "samples", "classes", "issues", "noise_rate", "epochs", "seconds"}
TRUTH = {"ap", "ap_clean", "relabel_accuracy"}
TEST = {"test_accuracy", "best_test_accuracy"}
FAST = ("train.epochs=2", "train.batch_size=64", "train.lr=0.01", "engine.accelerator=cpu", "engine.workers=0")


def go(source, out, *changes, seed=0, every=None, strict=False, recipe="small", **kw):
    settings = load_recipe(recipe, parse_changes([*FAST, *changes]))
    every = every or CheckpointInterval(epochs=1, seconds=None)
    return pipeline.run_recipe(
        source, settings, out, seed=seed, every=every, strict=strict, report=Reporter(), **kw
    ).results


def images(samples=40, side=8, *, noisy=True, test=True):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, samples)
    pixels = np.clip(random.normal(90, 35, (samples, side, side, 3)) + 40 * labels[:, None, None, None], 0, 255)
    pixels, given = pixels.astype(np.uint8), noise.symmetric(labels, 0.3, 3, seed=0) if noisy else labels
    held_out = {"x_test": pixels[:20], "y_test": labels[:20]} if test else {}
    return from_arrays(pixels, given, y_true=labels, **held_out)


@pytest.fixture(scope="module")
def digits():
    source = open_source("digits")
    return replace(source, labels=noise.symmetric(source.labels, 0.3, 10, seed=0))


def log_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]


def test_vectors_from_data_to_folder(digits, tmp_path):
    out = tmp_path / "run"
    result = go(digits, out, "train.epochs=3", "train.lr=0.1", "method.pl_weight=0.01")
    assert set(result) == PINNED | TRUTH | TEST
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert (result["run"], result["samples"], result["classes"], result["epochs"]) == (str(out), 1400, 10, 3)
    assert result["ap"] > 0.6  # chance is 0.3
    assert sorted(path.name for path in out.iterdir()) == [
        ".lock",
        "checkpoint",
        "findings.csv",
        "findings.json",
        "findings.parquet",
        "metrics.jsonl",
        "model.json",
        "model.safetensors",
        "run.json",
    ]
    assert len({path.stat().st_mode for path in out.iterdir() if path.is_file()}) == 1  # readable by the same people
    findings = Findings.load(out)
    assert findings.is_label_issue.sum() == result["issues"]
    assert findings.noise_rate == result["noise_rate"]
    assert (findings.given_labels == digits.labels).all()
    lines = log_of(out)
    assert [set(line) for line in lines] == [
        {"epoch", "lr", "loss", "nl_plus", "pl_plus", "selected", "test_accuracy"}
    ] * 3
    assert [line["epoch"] for line in lines] == [0, 1, 2]
    assert [line["lr"] for line in lines] == pytest.approx([0.1, 0.075, 0.025])
    assert result["test_accuracy"] == lines[-1]["test_accuracy"]
    assert result["best_test_accuracy"] == max(line["test_accuracy"] for line in lines)
    saved = json.loads((out / "run.json").read_text("utf-8"))
    assert (saved["status"], saved["results"], saved["seed"]) == ("finished", result, 0)
    assert "engine" not in saved["recipe"]


def test_a_finished_run_is_not_trained_again(digits, tmp_path, monkeypatch, capsys):
    result = go(digits, tmp_path / "run")
    monkeypatch.setattr(session, "train", None)
    again = go(digits, tmp_path / "run", "engine.workers=1", "engine.channels_last=false")  # other engine: same run
    assert again == result
    assert "is finished; nothing to do" in capsys.readouterr().err


def test_a_mistake_does_not_lock_the_folder(tmp_path):
    source = images()
    for wrong in ("model=resnet99", "method.name=jnlp", "data.crop=9"):
        with pytest.raises(InputError, match=r"resnet99|jnlp|data.crop: 9 pixels"):
            go(source, tmp_path / "run", wrong)
    assert go(source, tmp_path / "run")["epochs"] == 2


def test_truth_is_told_only_where_it_is_known_and_differs(tmp_path):
    assert set(go(images(test=False), tmp_path / "a", "train.epochs=1")) == PINNED | TRUTH
    assert set(go(images(noisy=False), tmp_path / "b", "train.epochs=1")) == PINNED | TEST
    wrong = images(test=False)
    wrong = replace(wrong, labels=(wrong.true_labels + 1) % 3)  # nothing to rank: AP would be nan, which is no JSON
    assert set(go(wrong, tmp_path / "d", "train.epochs=1")) == PINNED | {"relabel_accuracy"}
    unknown = replace(images(test=False), true_labels=None)
    assert set(go(unknown, tmp_path / "c", "train.epochs=1")) == PINNED


def test_last_and_best_test_accuracy(tmp_path, monkeypatch):
    told = iter([0.25, 0.75, 0.5])
    monkeypatch.setattr(run_callback, "accuracy", lambda *_: {"model": next(told)})
    result = go(images(), tmp_path / "run", "train.epochs=3")
    assert (result["test_accuracy"], result["best_test_accuracy"]) == (0.5, 0.75)


def reloaded(out):
    """What model.json and model.safetensors say, and nothing else."""
    facts = json.loads((out / "model.json").read_text("utf-8"))
    net = build(facts["model"], num_classes=len(facts["classes"]), input_shape=tuple(facts["input_shape"]), seed=99)
    net.load_state_dict(load_file(out / "model.safetensors"))
    kind = {"CropFlip": CropFlip, "Standardize": Standardize}[facts["transform"].pop("kind")]
    fixed = {key: tuple(value) if isinstance(value, list) else value for key, value in facts["transform"].items()}
    return net.eval(), kind(**fixed)


@pytest.mark.parametrize("change", ["model=auto", "data.crop=6", "data.std=data", "engine.channels_last=false"])
def test_the_model_comes_back_for_images(tmp_path, change):
    source = images()
    result = go(source, tmp_path / "run", change)
    net, transform = reloaded(tmp_path / "run")
    with torch.no_grad():
        logits = net(transform.evaluate(torch.from_numpy(source.test.inputs.values)))
    assert (logits.argmax(1).numpy() == source.test.labels).mean() == result["test_accuracy"]


@pytest.fixture
def folder(tmp_path):
    """An image folder of 2 x 6 files of several sizes; one is no image."""
    random = np.random.default_rng(0)
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(100 * label, 100 * label + 100, (20 + number, 24, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{number}.png")
    (tmp_path / "data" / "dog" / "3.png").write_bytes(b"not a picture")
    return tmp_path / "data"


@pytest.mark.parametrize("limit", [4 << 30, 0], ids=["in memory", "streamed"])
def test_a_broken_file_is_kept_as_unreadable(folder, tmp_path, capsys, limit):
    source = open_source(folder)
    batches = ("data.size=16", f"engine.memory_limit={limit}", "train.batch_size=4")
    result = go(source, tmp_path / "run", *batches)
    assert (result["samples"], result["unreadable"]) == (12, 1)
    table = load_parquet(tmp_path / "run" / "findings.parquet").to_pandas()
    assert table["id"].tolist() == [f"{name}/{number}.png" for name in ("cat", "dog") for number in range(6)]
    assert (table["path"] == table["id"]).all()
    assert table["unreadable"].tolist() == [name == "dog/3.png" for name in table["id"]]
    assert table["label_quality"].isna().tolist() == table["unreadable"].tolist()
    assert not table["is_label_issue"][table["unreadable"]].any()
    if limit:
        assert "left out: dog/3.png" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"sample dog/3.png cannot be read"):
        go(source, tmp_path / "strict", *batches, strict=True)


class Peephole(Reporter):
    """Does something after the step of that number."""

    def __init__(self, at, do):
        super().__init__()
        self.left, self.do = at, do

    def step(self, progress, lr):
        self.left -= 1
        if self.left == 0:
            self.do()


def interrupted(source, out, at, *changes, every=None, number=signal.SIGTERM):
    report = Peephole(at, lambda: signal.raise_signal(number))
    with pytest.raises(Interrupted) as stop:
        pipeline.run_recipe(
            source,
            load_recipe("small", parse_changes([*FAST, *changes])),
            out,
            seed=0,
            strict=False,
            report=report,
            every=every or CheckpointInterval(epochs=100, seconds=None),
        )
    return stop.value


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_signal_saves_after_a_whole_step_and_the_run_goes_on_exactly(tmp_path, at):
    """40 samples in batches of 8, two together: steps after 2, 4 and 5 batches; `at` 3 ends an epoch."""
    source = images()
    changes = ("train.batch_size=8", "train.accumulate=2", "method.complements=sampled", "train.optimizer=adam")
    whole = go(source, tmp_path / "peace", *changes)
    stop = interrupted(source, tmp_path / "run", at, *changes)
    assert stop.code == 143
    state, _ = checkpoint.load(tmp_path / "run" / "checkpoint")
    batches = [2, 4, 5][(at - 1) % 3]
    assert (state.facts["epoch"], state.facts["step"], state.facts["samples"]) == ((at - 1) // 3, batches, 8 * batches)
    assert "all saved" in str(stop)
    again = go(source, tmp_path / "run", *changes, "engine.workers=1")  # the engine may change
    assert {**again, "run": 0, "seconds": 0} == {**whole, "run": 0, "seconds": 0}
    for name in ("model.safetensors", "findings.parquet", "findings.csv", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "peace" / name).read_bytes(), name


def test_dropout_goes_on_exactly_too(tmp_path):
    """cnn9 drops at random; neither the global generator's state nor a resume may show."""
    source = images(24, side=28, test=False)
    changes = ("model=cnn9", "train.batch_size=8", "train.epochs=1", "data.flip=false")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    go(source, tmp_path / "peace", *changes)
    assert torch.equal(torch.get_rng_state(), before)
    interrupted(source, tmp_path / "run", 2, *changes)
    torch.manual_seed(2)
    go(source, tmp_path / "run", *changes)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("peace", "run"))
    assert one == two


def test_saves_by_the_clock_and_by_epochs(tmp_path, monkeypatch):
    source, saved = images(), []
    original = checkpoint.save

    def save(folder, state):
        saved.append((state.facts["epoch"], state.facts["step"], set(checkpoint.part("sums", state.tensors))))
        return original(folder, state)

    monkeypatch.setattr(checkpoint, "save", save)
    sums = {"loss", "nl_plus", "pl_plus", "selected"}
    changes = ("train.batch_size=8", "train.accumulate=2", "train.epochs=2")
    go(source, tmp_path / "clock", *changes, every=CheckpointInterval(seconds=0.0))
    end = [(2, 0, set())]  # for `jnpl train`, which may come later
    assert saved == [(epoch, step, sums) for epoch in range(2) for step in (2, 4, 5)] + end
    saved.clear()
    go(source, tmp_path / "end", *changes, every=CheckpointInterval(seconds=1e9))
    assert saved == end
    saved.clear()
    go(source, tmp_path / "never", *changes, every=CheckpointInterval(seconds=None))
    assert saved == []
    go(source, tmp_path / "epochs", *changes, "train.epochs=5", every=CheckpointInterval(epochs=2, seconds=None))
    assert saved == [(2, 0, set()), (4, 0, set()), (5, 0, set())]


def test_torn_checkpoints_only(tmp_path, capsys):
    """With nothing whole left, the run starts again and ends the same."""
    source = images()
    go(source, tmp_path / "peace")
    interrupted(source, tmp_path / "run", 2, every=CheckpointInterval(seconds=0.0))
    for file in (tmp_path / "run" / "checkpoint").rglob("state.json"):
        file.write_text("{")
    go(source, tmp_path / "run")
    assert capsys.readouterr().err.count("is torn or not ours") == 2
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "peace" / name).read_bytes()


def test_seconds_add_up_over_resumes(tmp_path):
    interrupted(images(), tmp_path / "run", 1)
    file = next((tmp_path / "run" / "checkpoint").glob("*"))
    state, _ = checkpoint.load(file.parent)
    shutil.rmtree(file)
    checkpoint.save(file.parent, checkpoint.State(state.tensors, {**state.facts, "seconds": 1000.0}))
    assert 1000 < go(images(), tmp_path / "run")["seconds"] < 1100


class Tied(nn.Module):
    """A network of the user's: two names for one weight, and batch norm over vectors."""

    def __init__(self, num_classes, input_shape):
        super().__init__()
        width = input_shape[0]
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, num_classes)

    def forward(self, inputs):
        return self.head(self.norm(self.second(self.first(inputs).relu())))


def test_a_network_of_ones_own_with_tied_weights(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "own_nets", sys.modules[__name__])
    result = go(digits, tmp_path / "run", "model=own_nets:Tied", "train.batch_size=100")
    assert result["epochs"] == 2
    net, transform = reloaded(tmp_path / "run")
    assert isinstance(net, Tied)
    with torch.no_grad():
        right = net(transform.evaluate(torch.from_numpy(digits.test.inputs.values))).argmax(1).numpy()
    assert (right == digits.test.labels).mean() == result["test_accuracy"]
    with pytest.raises(InputError, match="cannot import 'no_such_module'"):
        go(digits, tmp_path / "other", "model=no_such_module:Net")


def test_a_loss_that_is_not_finite_stops_the_run(digits, tmp_path):
    with pytest.raises(InputError, match=r"the loss is (nan|inf) in epoch \d, step \d+: try a smaller train.lr"):
        go(digits, tmp_path / "run", "train.lr=1e30", "method.name=ce")
    assert not (tmp_path / "run" / "findings.csv").exists()


@pytest.mark.parametrize(
    ("engine_settings", "told"),
    [
        ({"accelerator": "cpu", "precision": "16-mixed"}, "precision='16-mixed': 16-mixed needs a GPU"),
        ({"accelerator": "cpu", "devices": 10**6}, r"devices=1000000, precision='32': there are \d+ cores"),
        ({"accelerator": "cpu", "devices": 0}, "devices=0"),
        ({"accelerator": "cpu", "devices": -2}, "devices=-2"),
        ({"accelerator": "abacus"}, "accelerator='abacus'"),
    ],
)
def test_an_engine_that_is_not_there(engine_settings, told):
    with pytest.raises(InputError, match=f"cannot train with accelerator=.*{told}"):
        make_fabric(Engine(**engine_settings))


def test_precision_and_layout(tmp_path):
    source = images(test=False)
    for name, change in (
        ("base", "engine.precision=32"),
        ("layout", "engine.channels_last=false"),
        ("bf16", "engine.precision=bf16-mixed"),
    ):
        go(source, tmp_path / name, change)
    quality = {name: Findings.load(tmp_path / name).label_quality for name in ("base", "layout", "bf16")}
    np.testing.assert_allclose(quality["layout"], quality["base"], atol=2e-3)
    np.testing.assert_allclose(quality["bf16"], quality["base"], atol=0.1)
    assert all(np.isfinite(line["loss"]) for line in log_of(tmp_path / "bf16"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None or " " in sys.prefix, reason="needs g++ and a path without spaces")
@pytest.mark.filterwarnings("default")  # of the compiler, not ours
def test_compiled(tmp_path):
    source = images()
    plain, compiled = (go(source, tmp_path / name, "model=mlp", f"engine.compile={name}") for name in ("false", "true"))
    assert plain["samples"] == compiled["samples"]
    quality = [Findings.load(tmp_path / name).label_quality for name in ("false", "true")]
    np.testing.assert_allclose(*quality, atol=5e-3)
    reloaded(tmp_path / "true")  # the names of the weights are those of the plain network


def test_tensorboard_that_is_not_installed(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(InputError, match=r'tensorboard, which is not installed: pip install "jnpl\[tensorboard\]"'):
        go(digits, tmp_path / "run", track=["tensorboard"])
    assert not (tmp_path / "run").exists()


def test_a_run_in_memory_is_the_run_of_a_folder(tmp_path, monkeypatch):
    """The same findings, log, weights and results, and no file."""
    source, recipe = images(), load_recipe("small", parse_changes(FAST))
    there = pipeline.run_recipe(source, recipe, tmp_path / "run", report=Reporter(), classify=True)
    monkeypatch.chdir(tmp_path / "run")
    before = sorted(tmp_path.rglob("*"))
    here = pipeline.run_recipe(source, recipe, report=Reporter(), classify=True)
    assert sorted(tmp_path.rglob("*")) == before
    assert here.findings.table.equals(there.findings.table)
    assert here.history == there.history == log_of(tmp_path / "run")
    assert here.results["run"] is None
    ignored = {"run": 0, "seconds": 0}
    assert {**here.results, **ignored} == {**there.results, **ignored}
    saved = load_file(tmp_path / "run" / "model.safetensors")
    assert all(saved[name].equal(value) for name, value in here.model.network.state_dict().items())
    finished = pipeline.run_recipe(source, recipe, tmp_path / "run", report=Reporter(), classify=True)
    assert finished.model is None
    assert (finished.results, finished.history) == (there.results, there.history)
    assert finished.findings.table.equals(there.findings.table)


def test_what_an_observer_sees(tmp_path):
    """Numbers of epochs, the log line, the ledger, accuracies as the run has them; nothing can be set."""
    source, seen = images(), []

    def observe(view):
        with pytest.raises(FrozenInstanceError):
            view.epoch = 9
        tested = view.evaluate(view.feed(source.test))["model"]
        predicted = view.probabilities(source.test).argmax(1)
        seen.append((view.phase.name, view.epoch, view.phase_epoch, view.line["test_accuracy"], view.seconds > 0))
        assert tested == view.line["test_accuracy"] == (predicted == source.test.labels).mean()
        assert view.ledger.seen.max() == view.phase_epoch + 1
        if not view.phase.pseudo:
            assert view.label_quality().shape == (len(source),)

    result = pipeline.run_recipe(
        source, load_recipe("small", parse_changes(FAST)), report=Reporter(), classify=True, observe=observe
    )
    names = [("train", 0, 0), ("train", 1, 1), ("pseudo", 2, 0), ("pseudo", 3, 1)]
    assert seen == [(*name, line["test_accuracy"], True) for name, line in zip(names, result.history, strict=True)]


def test_a_run_in_memory_has_no_place_for_tensorboard(monkeypatch):
    monkeypatch.setattr("jnpl.training.epoch_log.require", lambda *_: None)
    with pytest.raises(InputError, match="tensorboard needs a run folder"):
        pipeline.run_recipe(images(), load_recipe("small", parse_changes(FAST)), track=["tensorboard"])


def test_a_fine_tuning_resumes_when_its_cache_has_moved():
    found = [
        pipeline._identity(RunSettings(images(), load_recipe("finetune", {"weights": f"/{place}/start-{start}"})))
        for place, start in (("old", 1), ("new", 1), ("new", 2))
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("rank", "quiet"), [("0", False), ("1", True)])
def test_of_several_processes_one_tells_of_the_embedding(tmp_path, monkeypatch, rank, quiet):
    """`--devices 2` starts the second process with LOCAL_RANK=1, and no RANK."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("LOCAL_RANK", rank)
    opened, report = pipeline.OpenedData(from_arrays(["a red car", "a blue sea"] * 3, [0, 1] * 3)), Reporter()
    data = pipeline.embed_data(opened, pipeline.RunOptions(cache=tmp_path), report)
    assert (data.embedded.kind, len(data.choices), report.console.quiet) == ("vector", 1, quiet)


def test_test_samples_that_are_training_samples_are_told(tmp_path):
    random = np.random.default_rng(0)
    true = random.integers(0, 2, 120)
    x = (random.normal(size=(120, 130)) + 2 * true[:, None]).astype(np.float32)
    test = (np.concatenate([x[100:], x[:3] + np.float32(0.01)]), np.append(true[100:], true[:3]))
    opened = pipeline.open_data((x[:100], true[:100]), OpenOptions(), test=test)
    folder = RunFolder(tmp_path / "run")
    pipeline.run(opened, pipeline.RunOptions(changes={"train.epochs": 2}), folder)
    assert any("3 of the 23 test samples are training samples, or nearly" in line for line in folder.data_facts.choices)
