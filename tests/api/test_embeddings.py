"""`jnpl.embed` and `Embeddings`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jnpl.api.embeddings import Embeddings, embed
from jnpl.api.label_issues import make_source
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.internal.errors import InputError

NAMES = ("ant", "bee", "cow")


def embedded(labels, **more):
    values = np.arange(1, 1 + 8 * len(labels), dtype=np.float16).reshape(len(labels), 2, 4)
    labels = np.array(labels, np.int64)
    return Source("toy", EmbeddedInputs(values, "key"), labels, NAMES, np.arange(len(labels)), **more)


def test_unreadable_samples_are_not_saved(tmp_path):
    test = embedded([2, 0, 1], unreadable={1: "broken"})
    Embeddings(embedded([0, 1, 2, 0], unreadable={0: "broken"}, test=test)).save(tmp_path / "e.npz")
    with np.load(tmp_path / "e.npz") as arrays:
        assert arrays["y"].tolist() == [1, 2, 0]
        assert arrays["y_test"].tolist() == [2, 1]
        assert arrays["x_test"].shape == (2, 4)
        assert (arrays["x_test"] > 0).all()


@pytest.mark.parametrize(("labels", "stays"), [(["cow", "bee", "ant", "bee"], True), (["cow", "bee"] * 2, False)])
def test_test_data_of_other_classes_are_left_out(labels, stays):
    made = make_source(Embeddings(embedded([0, 1, 2, 1], test=embedded([1, 2]))), labels, None, {})
    assert (made.test is not None, made.class_names[made.labels[0]]) == (stays, "cow")


def test_a_data_frame_may_have_a_column_called_source():
    frame = pd.DataFrame({"source": [1.0, 2.0], "label": ["ant", "bee"]})
    assert len(make_source(frame, None, None, {})) == 2


def test_vectors_are_not_embedded():
    with pytest.raises(InputError, match=r"nothing to embed: .* holds vectors already$"):
        embed(np.eye(4), [0, 1, 0, 1])
