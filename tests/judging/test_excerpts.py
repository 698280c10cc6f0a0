"""What a person reads of a sample in a list."""

from dataclasses import replace

import numpy as np
import pandas as pd

from jnpl import Findings
from jnpl.data.opening import open_source
from jnpl.judging.excerpts import UsualCells, excerpts


def test_the_cells_that_decide(tmp_path):
    """Row 40 is labelled small, but its size and colour are those of large ones; its weight is that of anything."""
    random, large = np.random.default_rng(0), np.arange(80) >= 40
    table = pd.DataFrame(
        {
            "weight": random.normal(size=80).round(2),
            "size": (np.where(large, 9.0, 1.0) + random.normal(size=80) / 10).round(2),
            "colour": np.where(large, "red", "blue"),
            "height": random.normal(size=80).round(2),
            "label": np.where(large, "large", "small"),
        }
    )
    table.loc[40, "label"] = "small"
    table.to_csv(tmp_path / "rows.csv", index=False)
    source = open_source(tmp_path / "rows.csv")
    probs = np.where(large, 0.9, 0.1)[:, None] * [1, -1] + [0, 1]
    found = Findings.from_probs(probs, source.labels, class_names=source.class_names)
    short = excerpts(source, found)
    assert np.flatnonzero(found.is_label_issue).tolist() == [40]
    assert [each is None for each in short].count(False) == 1
    assert {part.split("=")[0] for part in short[40].split(", ")[:2]} == {"size", "colour"}
    assert "colour=red" in short[40]


def test_texts_are_shortened():
    digits = open_source("digits")
    texts = np.array(["a  b\nc", "long " * 100] * (len(digits) // 2), object)
    source = replace(digits, texts=texts)  # as the embedding of texts leaves them
    found = Findings.from_probs(np.eye(10)[source.labels], source.labels)
    short = excerpts(source, found)
    assert short[0] == "a b c"
    assert (len(short[1]), short[1][-1]) == (100, "…")


def test_pixels_and_embeddings_have_none():
    digits = open_source("digits")
    assert excerpts(digits, Findings.from_probs(np.eye(10)[digits.labels], digits.labels)) is None


def test_what_is_usual_in_a_class():
    given = np.repeat([0, 2], 10)
    table = pd.DataFrame(
        {
            "size": np.where(given == 0, 1.5, 9.0),
            "colour": np.where(given == 0, "blue", "red"),
            "name": [f"row {number}" for number in range(20)],
            "gap": np.nan,
        }
    )
    table = pd.concat([table] * 4, ignore_index=True).assign(name=[f"row {number}" for number in range(80)])
    usual = UsualCells(table, np.tile(given, 4))
    assert usual.usual(0) == ["1.5", "blue", "", ""]
    assert usual.usual(2) == ["9", "red", "", ""]
    assert usual.usual(1) == [""] * 4  # a class without rows
    scores = usual.unusual(table.iloc[[0, 15]], np.array([2, 2]), np.array([0, 0]))
    assert (scores[0, :2] > 0).all()  # blue and small, beside a label of large red ones
    assert (scores[1, :2] < 0).all()
    assert (scores[:, 2:] == 0).all()
