"""Hugging Face data sets; without the network."""

import io
import pickle
import sys

import numpy as np
import pytest
from PIL import Image

from jnpl.data.new_data import open_new
from jnpl.data.opening import open_source
from jnpl.data.source import UnreadableError
from jnpl.data.sources import huggingface as hf
from jnpl.internal.errors import InputError, MissingExtraError


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason='needs the extra: pip install "jnpl[hf]"')


def stored(value, size=(6, 4)):
    file = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def pictures(datasets, count=4, **more):
    columns = {
        "img": [stored(10 * number) for number in range(count)],
        "label": [number % 2 for number in range(count)],
        **more,
    }
    kinds = {"img": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])}
    kinds |= {name: datasets.Value("string") for name in more}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r'needs datasets, .* pip install "jnpl\[hf\]"'):
        hf.load("anything")


def test_images_with_named_classes(datasets):
    source = hf.load(pictures(datasets))
    assert (source.kind, source.class_names) == ("image", ("dog", "cat"))
    assert source.labels.tolist() == [0, 1, 0, 1]
    assert source.inputs.read(3).tolist() == np.full((4, 6, 3), 30).tolist()
    assert source.inputs.read(1, 5).shape == (5, 5, 3)
    assert source.ids.tolist() == [0, 1, 2, 3]
    assert pickle.loads(pickle.dumps(source.inputs)).read(2)[0, 0, 0] == 20


def test_sizes_follow_the_rows(datasets):
    dataset = pictures(datasets)
    lengths = [len(stored(10 * number)["bytes"]) for number in range(4)]
    assert hf.load(dataset).inputs.sizes().tolist() == lengths
    chosen = hf.load(dataset.select([3, 0, 2]))
    assert chosen.inputs.sizes().tolist() == [lengths[3], lengths[0], lengths[2]]
    assert chosen.inputs.read(0)[0, 0, 0] == 30


def test_splits_and_true_labels(datasets):
    both = datasets.DatasetDict(
        train=pictures(datasets, 4, truth=["dog", "dog", "cat", "cat"]), test=pictures(datasets, 2)
    )
    source = hf.load(both, true_label_column="truth")
    assert source.true_labels.tolist() == [0, 0, 1, 1]
    numbers = both["train"].remove_columns("truth").add_column("truth", [1, 0, 1, 0])
    assert hf.load(numbers, true_label_column="truth").true_labels.tolist() == [1, 0, 1, 0]
    assert source.test.labels.tolist() == [0, 1]
    assert source.test.inputs.read(1).shape == (4, 6, 3)
    assert hf.load(datasets.DatasetDict(all=pictures(datasets))).test is None
    with pytest.raises(InputError, match="has the splits a, b and none of them is train"):
        hf.load(datasets.DatasetDict(a=pictures(datasets), b=pictures(datasets)))


def test_hidden_test_labels_are_no_test_data(datasets):
    hidden = pictures(datasets, 2).map(lambda row: {"label": -1})
    assert hf.load(datasets.DatasetDict(train=pictures(datasets), test=hidden)).test is None
    with pytest.raises(InputError, match=r"no label in column 'label' of row 0"):
        hf.load(hidden)


def test_a_format_set_by_the_user_does_no_harm(datasets):
    dataset = pictures(datasets).with_format("numpy")
    assert hf.load(dataset).inputs.read(0).shape == (4, 6, 3)


def test_paths_and_broken_images(datasets, tmp_path):
    Image.new("L", (3, 3)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    names = [str(tmp_path / name) for name in ("a.png", "b.png", "gone.png")]
    dataset = datasets.Dataset.from_dict({"file": [*names, None], "label": ["x", "y", "x", "y"]})
    source = hf.load(dataset, image_column="file")
    assert source.inputs.read(0).shape == (3, 3, 3)
    for position, reason in ((1, "not an image"), (2, "no such file"), (3, "no image")):
        with pytest.raises(UnreadableError, match=reason):
            source.inputs.read(position)


def test_features_and_embeddings(datasets):
    columns = {"a": [1.0, 2.0], "b": [3, 4], "e": [[1.0, 2.0], [3.0, 4.0]], "target": ["x", "y"]}
    dataset = datasets.Dataset.from_dict(columns)
    source = hf.load(datasets.DatasetDict(train=dataset, validation=dataset), feature_columns=["a", "b"])
    assert source.inputs.values.tolist() == [[1, 3], [2, 4]]
    assert source.test.inputs.values.shape == (2, 2)
    assert hf.load(dataset.remove_columns("e")).inputs.values.shape == (2, 2)
    assert hf.load(dataset, embedding_column="e").inputs.values.tolist() == [[1, 2], [3, 4]]


def test_the_test_split_is_encoded_as_the_training_split_was(datasets):
    train = datasets.Dataset.from_dict({"town": ["x", "y", "x", "y"], "n": [1, None, 3, 5], "label": [0, 1, 0, 1]})
    test = datasets.Dataset.from_dict({"town": ["y", "z"], "n": [None, 4], "label": [1, 0]})
    source = hf.load(datasets.DatasetDict(train=train, test=test))
    assert source.encoding["names"] == ["town=x", "town=y", "n", "n missing"]
    assert source.test.inputs.values.tolist() == [[0, 1, 3, 1], [0, 0, 4, 0]]


def test_columns_that_are_refused(datasets):
    with pytest.raises(InputError, match="has no column 'no'; its columns are img, label"):
        hf.load(pictures(datasets), label_column="no")
    with pytest.raises(InputError, match="column 'label' of dataset must hold images"):
        hf.load(pictures(datasets), image_column="label")
    two = pictures(datasets).add_column("other", [1, 2, 3, 4]).rename_column("label", "kind")
    assert hf.load(two).class_names == ("dog", "cat")
    with pytest.raises(InputError, match="name the label column of dataset with label_column: other"):
        hf.load(two.select_columns(["other"]))
    with pytest.raises(InputError, match="not IterableDataset"):
        hf.load(pictures(datasets).to_iterable_dataset())
    with pytest.raises(InputError, match="dataset is streamed; load it whole"):
        hf.load({"train": pictures(datasets).to_iterable_dataset()})


def test_a_data_set_that_cannot_be_loaded(datasets, tmp_path, monkeypatch):
    def absent(name, config):
        raise FileNotFoundError(f"Dataset {name!r} doesn't exist\non the hub")

    monkeypatch.setattr(datasets, "load_dataset", absent)
    with pytest.raises(InputError, match=r"cannot load 'no/such' from the Hugging Face hub: Dataset 'no/such' does"):
        hf.load("no/such")


def test_loading_by_name(datasets, monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda name, config: {"train": pictures(datasets)})
    assert hf.load("some/name").name == "some/name"


def test_a_saved_data_set(datasets, tmp_path):
    pictures(datasets).save_to_disk(tmp_path / "one")
    source = open_source(tmp_path / "one")
    assert (source.name, source.kind, source.class_names) == ("one", "image", ("dog", "cat"))
    assert source.inputs.read(3)[0, 0, 0] == 30
    both = datasets.DatasetDict({"train": pictures(datasets), "test": pictures(datasets, 2)})
    both.save_to_disk(tmp_path / "two")
    source = open_source(str(tmp_path / "two"), label_column="label")
    assert (len(source), len(source.test), source.test.class_names) == (4, 2, ("dog", "cat"))
    with pytest.raises(InputError, match=r"image_root has no meaning for the data set '.*two'"):
        open_source(tmp_path / "two", image_root=tmp_path)
    new = open_new(tmp_path / "two", ("cat", "dog"), kind="image", part="test")
    assert (len(new.source), new.labels.tolist()) == (2, [1, 0])


def test_a_saved_data_set_that_is_damaged(datasets, tmp_path):
    pictures(datasets).save_to_disk(tmp_path / "one")
    (tmp_path / "one" / "state.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot load the data set '.*one': ") as caught:
        open_source(tmp_path / "one")
    assert "\n" not in str(caught.value)


def test_texts(datasets):
    columns = {"words": ["one", None, "three"], "label": ["a", "b", "a"]}
    data = datasets.Dataset.from_dict(columns)
    source = hf.load(datasets.DatasetDict({"train": data, "test": data}), text_column="words")
    assert (source.kind, source.texts.tolist()) == ("text", ["one", "", "three"])
    assert source.unreadable == {1: "the table has no text"}
    assert source.test.labels.tolist() == [0, 1, 0]
    embedded = open_source(data, text_column="words", embed=lambda texts: [[len(text)] for text in texts])
    assert embedded.inputs.values.tolist() == [[3], [0], [5]]
    with pytest.raises(InputError, match="but image_column and text_column are given"):
        hf.load(data, text_column="words", image_column="label")


def test_columns_of_classes_are_categories(datasets):
    kinds = {"town": datasets.ClassLabel(names=["x", "y"]), "label": datasets.ClassLabel(names=["b", "a"])}
    data = datasets.Dataset.from_dict({"town": [0, 1] * 10, "label": [0, 1] * 10}, datasets.Features(kinds))
    assert hf.load(data).encoding["names"] == ["town=x", "town=y"]


@pytest.mark.parametrize("of_classes", [True, False], ids=["numbers of classes", "names"])
def test_lists_of_classes_are_tags(datasets, of_classes, tmp_path):
    inner = datasets.ClassLabel(names=["eel", "cat", "never"]) if of_classes else datasets.Value("string")
    rows = [[0], [0, 1], [], [1]] * 6 if of_classes else [["eel"], ["eel", "cat"], [], ["cat"]] * 6
    columns = {"img": [stored(at) for at in range(24)], "kinds": rows, "words": [f"sample {at}" for at in range(24)]}
    kinds = {"img": datasets.Image(), "kinds": datasets.Sequence(inner), "words": datasets.Value("string")}
    dataset = datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))
    named = {} if of_classes else {"label_column": "kinds"}
    dataset.save_to_disk(tmp_path / "saved")
    for data in (dataset, tmp_path / "saved"):
        source = open_source(data, **named)
        assert (source.class_names, source.kind, len(source)) == (("cat", "eel"), "image", 24)
        assert source.tags[:4].tolist() == [[False, True], [True, True], [False, False], [True, False]]
    texts = open_source(dataset, multi_label=True, label_column="kinds", text_column="words")
    assert (texts.kind, texts.tags.tolist()) == ("text", source.tags.tolist())
    numbers = dataset.add_column("x", np.sin(np.arange(24))).remove_columns(["img", "words"])
    assert open_source(numbers, label_column="kinds").inputs.array().shape == (24, 1)
