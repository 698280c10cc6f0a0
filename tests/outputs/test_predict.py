"""Predictions as rows: every sample once, in order, with a reason for each that could not be read."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import CLASSES, image_model, photos, vector_model

from jnpl.data.new_data import NewData, open_new
from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.outputs.predict import predict
from jnpl.outputs.saved_model import load


@pytest.fixture
def vectors(tmp_path):
    """A model, 300 samples in more than one part, and their labels: 10 the model was not trained on, 20 missing."""
    model = load(vector_model(tmp_path / "run"))
    x = np.random.default_rng(0).normal(2, 3, (300, 4)).astype(np.float32)
    labels = np.arange(300) % 3
    labels[:10], labels[10:30] = -2, -1
    return model, NewData(open_new(x, model.classes, kind="vector").source, labels), model.predict_proba(x)


@pytest.fixture
def pictures(tmp_path):
    """A model, and a folder with a text and a torn picture in it."""
    folder = photos(tmp_path / "photos", each=3)
    (folder / "notes.txt").write_text("hello")
    torn = (folder / "dog" / "1.png").read_bytes()[:60]
    (folder / "dog" / "1.png").write_bytes(torn)
    model = load(image_model(tmp_path / "run"))
    return model, open_new(folder, model.classes, kind="image")


def test_a_row_per_sample(vectors, tmp_path):
    model, data, probs = vectors
    counts = predict(model, data, out=tmp_path / "out.csv")
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == ["id", "predicted_label", "confidence", "p_cat", "p_dog", "p_eel"]
    assert table["id"].tolist() == list(range(300))
    assert table[[f"p_{name}" for name in CLASSES]].to_numpy() == pytest.approx(probs, abs=1e-6)
    assert table["confidence"].to_numpy() == pytest.approx(probs.max(1), abs=1e-6)
    assert table["predicted_label"].tolist() == [CLASSES[at] for at in probs.argmax(1)]
    assert (counts["samples"], counts["predicted"], counts["unreadable"]) == (300, 300, 0)
    assert list(counts["predicted_labels"].values()) == np.bincount(probs.argmax(1), minlength=3).tolist()


def test_accuracy_is_that_of_labels_the_model_knows(vectors):
    model, data, probs = vectors
    counts = predict(model, data)
    right = sum(int(probs[at].argmax()) == at % 3 for at in range(30, 300))
    assert counts["accuracy"] == pytest.approx(right / 270)
    assert (counts["labelled"], counts["unknown_labels"]) == (270, 10)
    assert "accuracy" not in predict(model, NewData(data.source))
    assert "accuracy" not in predict(model, NewData(data.source, np.full(300, -2)))


def test_three_forms_say_the_same(vectors, tmp_path):
    model, data, probs = vectors
    for suffix in (".csv", ".parquet", ".json"):
        predict(model, data, out=tmp_path / f"out{suffix}")
    parquet, listed = (
        load_parquet(tmp_path / "out.parquet").to_pandas(),
        json.loads((tmp_path / "out.json").read_text("utf-8")),
    )
    assert parquet["p_dog"].to_numpy() == pytest.approx(probs[:, 1])
    assert parquet["predicted_label"].tolist() == [row["predicted_label"] for row in listed]
    assert [row["probabilities"]["dog"] for row in listed] == pytest.approx(probs[:, 1].tolist(), abs=1e-8)
    assert list(listed[0]) == ["id", "predicted_label", "confidence", "probabilities"]
    assert list(listed[0]["probabilities"]) == list(CLASSES)


def test_classes_that_are_numbers(tmp_path):
    model = load(vector_model(tmp_path / "run", classes=[0, 7, 9]))
    predict(model, open_new(np.ones((2, 4)), model.classes, kind="vector"), out=tmp_path / "out.parquet")
    table = load_parquet(tmp_path / "out.parquet").to_pandas()
    assert list(table.columns)[3:] == ["p_0", "p_7", "p_9"]
    assert set(table["predicted_label"].tolist()) <= {0, 7, 9}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_what_cannot_be_read_has_a_reason_and_no_prediction(pictures, tmp_path, suffix):
    model, data = pictures
    problems = []
    counts = predict(model, data, out=tmp_path / f"out{suffix}", problem=lambda *each: problems.append(each))
    assert [name for name, _ in problems] == ["dog/1.png", "notes.txt"]
    assert (counts["samples"], counts["predicted"], counts["unreadable"], counts["labelled"]) == (10, 8, 2, 8)
    reader = {".csv": pd.read_csv, ".parquet": lambda path: load_parquet(path).to_pandas(), ".json": pd.read_json}[
        suffix
    ]
    table = reader(tmp_path / f"out{suffix}").set_index("id")
    assert len(table) == 10
    broken = table.loc[["dog/1.png", "notes.txt"]]
    assert broken["predicted_label"].isna().all()
    assert broken["confidence"].isna().all()
    assert broken["problem"].tolist() == [reason for _, reason in problems]
    others = table.drop(index=["dog/1.png", "notes.txt"])
    assert others["problem"].isna().all()
    assert others["confidence"].between(1 / 3, 1).all()


def test_nothing_readable_leaves_no_file(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_text("no picture")
    model = load(image_model(tmp_path / "run"))
    with pytest.raises(InputError, match="none of the 1 samples can be read: not an image"):
        predict(model, open_new(tmp_path / "in", model.classes, kind="image"), out=tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_worker_processes_change_nothing(pictures):
    model, data = pictures
    rows = {0: [], 1: []}
    for workers, seen in rows.items():
        predict(model, data, workers=workers, show=lambda frame, seen=seen: seen.extend(frame["confidence"].tolist()))
    assert rows[1] == pytest.approx(rows[0], nan_ok=True)


def test_names_are_no_formulas(tmp_path):
    folder = photos(tmp_path / "photos", each=1)
    (folder / "cat" / "0.png").rename(folder / "=cmd.png")
    model = load(image_model(tmp_path / "run", classes=["-a", "dog", "eel"]))
    predict(model, open_new(folder, model.classes, kind="image"), out=tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert lines[0].startswith("id,predicted_label,confidence,p_-a,")
    assert lines[1].startswith("'=cmd.png,")
