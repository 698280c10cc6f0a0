"""`jnpl.embed` and `Embeddings`."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jnpl.api.embeddings import Embeddings, embed
from jnpl.api.label_issues import make_source
from jnpl.data.opening import open_source
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.internal.errors import InputError
from jnpl.recipes.automatic import is_embedded

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


def test_an_npz_keeps_ids_and_validation_data_and_is_read_as_embeddings(tmp_path):
    ids = np.array(["a/0.png", "a/1.png", "b/2.png", "b/3.png"], object)
    source = replace(embedded([0, 1, 2, 0], unreadable={1: "broken"}, validation=embedded([1, 2])), ids=ids)
    Embeddings(source).save(tmp_path / "e.npz")
    read = open_source(tmp_path / "e.npz")
    assert read.ids.tolist() == ["a/0.png", "b/2.png", "b/3.png"]
    assert read.validation is not None
    assert read.validation.labels.tolist() == [1, 2]
    assert is_embedded(read)  # though they are only four numbers wide
    np.savez(tmp_path / "plain.npz", x=read.inputs.values, y=read.labels)
    assert not is_embedded(open_source(tmp_path / "plain.npz"))


@pytest.mark.parametrize("ids", [["a", "a", "b"], [0.5, 1, 2], ["a", "b"]])
def test_wrong_ids_in_an_npz_are_one_line(tmp_path, ids):
    np.savez(tmp_path / "e.npz", x=np.zeros((3, 2), np.float32), y=np.arange(3), ids=np.array(ids))
    with pytest.raises(InputError, match=r"e\.npz': ids must "):
        open_source(tmp_path / "e.npz")


def test_a_column_of_short_embeddings_is_read_as_embeddings(tmp_path):
    frame = pd.DataFrame({"embedding": [[0.0, 1.0], [1.0, 0.0]], "label": ["ant", "bee"]})
    frame.to_parquet(tmp_path / "e.parquet")
    assert is_embedded(open_source(tmp_path / "e.parquet"))
