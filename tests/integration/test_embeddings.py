"""Images and texts from data to classifier: embedded by a backbone, judged by a head, predicted, exported, tuned."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tests.helpers.command import jnpl as command

import jnpl
from jnpl import noise
from jnpl.cli.app import main
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.internal.errors import InputError
from jnpl.methods.refined_nl import RefinedNL
from jnpl.outputs.export import onnx
from jnpl.outputs.export.targets import ExportRequest
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter

CLASSES = ("blue", "green", "red")


def embeddings(classes, counts, rate, *, width=32, apart=2.5, seed=0, test=20):
    """Return a source of clustered embeddings of two views, `rate` of the labels wrong, with clean test data."""
    random = np.random.default_rng(seed)
    centres = random.normal(0, 1, (classes, width))
    centres *= apart / np.linalg.norm(centres, axis=1, keepdims=True)

    def draw(labels):
        base = centres[labels] + random.normal(0, 0.45, (len(labels), width))
        views = np.stack([base, base + random.normal(0, 0.05, base.shape)], axis=1)
        return EmbeddedInputs((views + 3).astype(np.float16), f"{seed}")

    true = np.repeat(np.arange(classes), counts)
    given = noise.symmetric(true, rate, classes, seed=seed) if rate else true.copy()
    tested = np.repeat(np.arange(classes), test)
    held = Source("test", draw(tested), tested, tuple(range(classes)), np.arange(len(tested)))
    return Source("toy", draw(true), given, tuple(range(classes)), np.arange(len(true)), true, held)


def judged(source, **changes):
    report = Reporter()
    report.quiet(True)
    return run_recipe(source, adapt_recipe(source, None, None, changes).recipe, seed=0, report=report, classify=True)


@pytest.mark.parametrize(
    ("classes", "counts", "rate", "least_ap", "least_accuracy"),
    [
        (2, 200, 0.2, 0.95, 0.97),
        (2, 200, 0.4, 0.9, 0.95),
        (10, 100, 0.8, 0.95, 0.9),
        (100, 20, 0.4, 0.9, 0.85),
        (3, [500, 500, 10], 0.0, None, 0.8),  # 1:50; a lost class would leave 0.67
        (5, [250, 250, 250, 250, 5], 0.2, 0.9, 0.75),
        (4, 150, 0.0, None, 0.97),
        (3, [200, 200, 3], 0.0, None, 0.65),  # the class of three may be lost, the others not
    ],
)
def test_no_collapse(classes, counts, rate, least_ap, least_accuracy):
    source = embeddings(classes, counts, rate)
    result = judged(source)
    if least_ap is None:  # no wrong label: few are flagged
        assert result.findings.is_label_issue.mean() <= 0.02
    else:
        assert result.results["ap"] >= least_ap
    assert result.results["test_accuracy"] >= least_accuracy


def test_the_second_stage_learns_from_the_first():
    source = embeddings(10, 60, 0.4, apart=1.6)
    both, one = judged(source), judged(source, **{"method.refine": False})
    assert {line["stage"] for line in both.history} == {"train", "refine"}
    assert "stage" not in one.history[0]
    assert both.results["ap"] > one.results["ap"] - 0.01
    assert len(both.history) == 30


def test_a_run_killed_in_the_second_stage_resumes_exactly(tmp_path, monkeypatch):
    source = embeddings(4, 60, 0.3)
    recipe = adapt_recipe(source, None, None, {"train.epochs": 3, "stages.refine.epochs": 2}).recipe
    report = Reporter()
    report.quiet(True)
    gradient, calls = RefinedNL.logit_gradient, []

    def dies(method, *given):
        calls.extend([given] * method.stage)
        if len(calls) == 4:  # the second batch of the second epoch
            raise KeyboardInterrupt
        return gradient(method, *given)

    monkeypatch.setattr(RefinedNL, "logit_gradient", dies)
    every = CheckpointInterval(seconds=0)
    with pytest.raises(KeyboardInterrupt):
        run_recipe(source, recipe, tmp_path / "run", every=every, report=report)
    monkeypatch.setattr(RefinedNL, "logit_gradient", gradient)
    resumed = run_recipe(source, recipe, tmp_path / "run", every=every, report=report)
    whole = run_recipe(source, recipe, report=report)
    np.testing.assert_array_equal(resumed.findings.label_quality, whole.findings.label_quality)
    assert torch.equal(resumed.model.network.weight, whole.model.network.weight)


def test_wide_vectors_are_embeddings_and_columns_are_not():
    wide = embeddings(3, 30, 0.0, width=130)
    values = np.asarray(wide.inputs.values[:, 0], np.float32)
    labels = wide.labels.tolist()
    findings = jnpl.find_label_issues(values, labels)
    assert findings.is_label_issue.sum() <= 2
    from jnpl.api.label_issues import make_source

    assert adapt_recipe(make_source(values, labels, None, {}), None, None, {}).recipe.model == "linear"
    frame = pd.DataFrame(values, columns=[f"c{at}" for at in range(130)])
    assert adapt_recipe(make_source(frame, labels, None, {}), None, None, {}).recipe.model == "mlp"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of 3 x 12 coloured pictures of 40 pixels, two of them in the wrong folder, one broken."""
    root = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for name in CLASSES:
        (root / name).mkdir()
    for label, name in enumerate(CLASSES):
        for number in range(12):
            pixels = random.integers(0, 60, (40, 44, 3))
            pixels[..., 2 - label] += 150
            folder = CLASSES[(label + 1) % 3] if number == 5 and label < 2 else name
            Image.fromarray(pixels.astype(np.uint8)).save(root / folder / f"{name}{number}.png")
    (root / "red" / "broken.png").write_bytes(b"not an image")
    return root


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    """The run folder of `jnpl find` on the photos."""
    out = tmp_path_factory.mktemp("runs") / "run"
    with pytest.raises(SystemExit) as stop:
        main(["find", str(photos), "-o", str(out), "--workers", "0", "--json"])
    assert stop.value.code == 0
    return out


def test_a_folder_of_photos(run, photos):
    findings = jnpl.Findings.load(run)
    worst = findings.worst(2)["id"].tolist()
    assert sorted(worst) == ["green/blue5.png", "red/green5.png"]
    assert dict(zip(findings.ids, findings.suggested_labels, strict=True))["green/blue5.png"] == 0
    facts = json.loads((run / "data.json").read_text("utf-8"))
    assert facts["kind"] == "image"
    assert facts["choices"][0].startswith("backbone: efficientnet-lite0 at 160 pixels")
    assert (facts["options"]["backbone"], facts["options"]["size"]) == ("efficientnet-lite0", 160)
    assert [each["id"] for each in facts["unreadable"]] == ["red/broken.png"]
    assert (run / "thumbnails.parquet").is_file()
    assert "data:image/" in (run / "report.html").read_text("utf-8")
    model = json.loads((run / "model.json").read_text("utf-8"))
    assert model["backbone"] | {"digest": ""} == {
        "name": "efficientnet-lite0",
        "takes": "image",
        "digest": "",
        "size": 160,
        "views": 2,
    }


def test_a_second_run_computes_no_embedding(run, photos, tmp_path, capsys):
    code, _, err = command(capsys, "find", str(photos), "-o", str(tmp_path / "again"), "--threshold", "0.4")
    assert code == 0
    assert "embeddings are cached, nothing to compute" in err
    one, two = (jnpl.Findings.load(each).label_quality for each in (run, tmp_path / "again"))
    np.testing.assert_array_equal(one, two)


def test_new_photos_are_embedded_as_in_training(run, photos):
    model = jnpl.load(run)
    assert model.kind == "image"
    probs = model.predict_proba(photos / "blue")
    assert (probs.argmax(1) == 0).mean() > 0.8
    # The head on the cached embeddings, by hand.
    cached = jnpl.embed(photos, workers=0)
    position = cached.ids.tolist().index("blue/blue0.png")
    views = torch.from_numpy(np.asarray(cached.views[position], np.float32))
    unit = torch.nn.functional.normalize(views, dim=1).mean(0)
    network = model.network
    wanted = network.head((unit - network.mean) / network.std).softmax(0)
    np.testing.assert_allclose(model.predict_proba(photos / "blue" / "blue0.png")[0], wanted.detach(), atol=2e-3)


def test_a_backbone_with_other_weights_is_refused(run, tmp_path):
    for file in ("model.json", "model.safetensors", "run.json"):
        (tmp_path / file).write_bytes((run / file).read_bytes())
    facts = json.loads((tmp_path / "model.json").read_text("utf-8"))
    facts["backbone"]["digest"], facts["sha256"] = "0" * 64, None
    (tmp_path / "model.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match="efficientnet-lite0 has other weights"):
        jnpl.load(tmp_path)


def test_the_exported_model_has_the_backbone_inside(run, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    told = onnx.export(ExportRequest(RunFolder(run), "onnx", tmp_path / "model.onnx"))
    assert told["input"] == "uint8 (batch, 160, 160, 3)"
    assert told["largest_difference"] < 1e-4


def test_a_model_of_wide_vectors_is_exported(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    values = np.random.default_rng(0).normal(1, 1, (40, 130)).astype(np.float32)
    jnpl.find_label_issues(values, [0, 1] * 20, out=tmp_path / "run", settings=["train.epochs=1"])
    told = onnx.export(ExportRequest(RunFolder(tmp_path / "run"), "onnx", tmp_path / "model.onnx"))
    assert told["input"] == "float32 (batch, 130)"
    assert told["largest_difference"] < 1e-4


def test_finetuning_starts_from_the_head(photos, tmp_path, capsys):
    options = ("--size", "48", "--workers", "0", "--set", "train.epochs=1", "--set", "train.lr=1e-9", "--json")
    code, out, err = command(capsys, "find", str(photos), "-o", str(tmp_path / "tuned"), "--finetune", *options)
    assert code == 0, err
    assert json.loads(out)["epochs"] == 1
    code, _, err = command(capsys, "find", str(photos), "-o", str(tmp_path / "head"), *options[:4])
    assert code == 0, err
    tuned, head = (jnpl.load(tmp_path / name) for name in ("tuned", "head"))
    assert type(tuned.network).__name__ == "EmbeddingClassifier"
    np.testing.assert_allclose(tuned.network.head.weight.detach(), head.network.head.weight.detach(), atol=1e-6)
    assert tuned.predict(photos / "red" / "red1.png").tolist() == ["red"]


TEXTS = [
    f"{word} {place} {number}"
    for number in range(10)
    for place in ("today", "in the evening", "at home")
    for word in ("the match ended with a late goal", "shares fell after the bank raised its rate")
]
TOPICS = ["sport" if "goal" in text else "money" for text in TEXTS]


def test_texts_without_any_option(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("jnpl.embedding.minilm.is_installed", lambda: False)
    labels = list(TOPICS)
    labels[7] = "sport" if labels[7] == "money" else "money"
    pd.DataFrame({"review": TEXTS, "label": labels}).to_csv(tmp_path / "reviews.csv", index=False)
    data, out = str(tmp_path / "reviews.csv"), str(tmp_path / "run")
    code, _, err = command(capsys, "find", data, "-o", out)
    assert code == 0, err
    assert "backbone: tfidf" in err
    assert 'a sentence encoder finds more: pip install "jnpl[text]"' in err
    findings = jnpl.Findings.load(out)
    assert findings.worst(1)["id"].tolist() == [7]
    assert TEXTS[7] in (tmp_path / "run" / "report.html").read_text("utf-8")
    code, told, err = command(capsys, "predict", out, data, "--text-column", "review", "--json")
    assert code == 0, err
    assert json.loads(told)["accuracy"] > 0.95
    model = jnpl.load(out)
    assert model.kind == "text"
    assert model.predict(["a goal in the last minute", "the bank and its shares"]).tolist() == ["sport", "money"]
    for option in ((), ("--data", data)):
        code, _, err = command(capsys, "export", out, "--to", "onnx", "-o", str(tmp_path / "model.onnx"), *option)
        assert (code, "a model of texts cannot be exported: tfidf is no torch module" in err) == (2, True)
    code, _, err = command(
        capsys, "find", data, "-o", str(tmp_path / "no"), "--text-column", "review", "--backbone", "none"
    )
    assert code == 2
    assert "texts need a backbone" in err
    fitted = tmp_path / "run" / "backbone.safetensors"
    fitted.write_bytes(fitted.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match=r"model\.json and its weights do not have the hash"):
        jnpl.load(out)


def test_the_estimator_on_texts_and_images():
    labels = np.array(TOPICS, object)
    labels[[3, 8]] = labels[[8, 3]] if labels[3] != labels[8] else ["money", "sport"]
    classifier = jnpl.JNPLClassifier(random_state=0).fit(TEXTS, labels)
    assert classifier.predict(["a goal", "shares of the bank"]).tolist() == ["sport", "money"]
    assert set(np.argsort(classifier.label_quality_)[:2].tolist()) <= set(np.flatnonzero(labels != TOPICS).tolist())
    random = np.random.default_rng(0)
    colours = np.arange(30) % 3
    images = random.integers(0, 60, (30, 32, 32, 3)).astype(np.uint8)
    images[np.arange(30), :, :, colours] += 150
    classifier = jnpl.JNPLClassifier(random_state=0).fit(images, colours)
    assert (classifier.predict(images) == colours).mean() > 0.9
    with pytest.raises(InputError, match="fitted with"):
        classifier.predict(images[:, :, :16])


def test_embeddings_are_saved_and_read_again(photos, tmp_path):
    embeddings = jnpl.embed(photos, workers=0)
    assert (len(embeddings), embeddings.views.shape[1:], embeddings.backbone) == (37, (2, 1280), "efficientnet-lite0")
    embeddings.save(tmp_path / "e.npz")
    with np.load(tmp_path / "e.npz") as arrays:
        assert arrays["x"].shape == (36, 1280)  # without the broken one
    first, second = (jnpl.find_label_issues(each) for each in (embeddings, tmp_path / "e.npz"))
    assert set(first.worst(2)["given_label"]) == set(second.worst(2)["given_label"]) == {"green", "red"}
    with pytest.raises(InputError, match=r"written as \.npz or \.parquet"):
        embeddings.save(tmp_path / "e.csv")


def test_small_images_and_named_networks_are_trained_from_scratch(tmp_path, capsys):
    images = np.random.default_rng(0).integers(0, 255, (40, 12, 12, 3)).astype(np.uint8)
    np.savez(tmp_path / "small.npz", x=images, y=[0, 1] * 20)
    base = ["find", str(tmp_path / "small.npz"), "--set", "train.epochs=1", "--verbose"]
    code, _, err = command(capsys, *base, "-o", str(tmp_path / "a"))
    assert code == 0, err
    assert "backbone: none, images of 12 pixels are too small" in err
    for number, option in enumerate((("--recipe", "small"), ("--set", "model=resnet8"), ("--backbone", "none"))):
        code, _, err = command(capsys, *base, "-o", str(tmp_path / str(number)), *option)
        assert code == 0, err
        assert "efficientnet" not in err


def test_an_unknown_user_backbone_is_one_line(photos, tmp_path, capsys):
    for name in ("efficientnet", "hf:no/such-model"):
        code, _, err = command(capsys, "find", str(photos), "-o", str(tmp_path / "run"), "--backbone", name)
        assert (code, err.count("\n")) == (2, 1), err


def test_a_backbone_of_ones_own_is_imported_from_the_working_directory(photos, tmp_path, capsys, monkeypatch):
    net = "from torch import nn\ndef make():\n    return nn.Sequential(nn.AvgPool2d(8), nn.Flatten())\n"
    (tmp_path / "own_photo_net.py").write_text(net)
    monkeypatch.chdir(tmp_path)
    quick = ("--size", "16", "--backbone", "own_photo_net:make", "--workers", "0")
    for words in (
        ("embed", str(photos), "-o", "e.npz", *quick),
        ("find", str(photos), "-o", "run", *quick),
        ("predict", "run", str(photos), "--workers", "0", "--trust-code"),
    ):
        monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(tmp_path)])
        sys.modules.pop("own_photo_net", None)
        code, _, err = command(capsys, *words)
        assert code == 0, err
