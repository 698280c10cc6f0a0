"""A saved model: what it predicts is what its network says of samples treated as in training."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tests.helpers.runs import CLASSES, image_model, photos, vector_model

from jnpl.data.source import Inputs, Source, UnreadableError
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.sources.encoding import Encoding
from jnpl.data.sources.folder import load as load_folder
from jnpl.internal.errors import InputError
from jnpl.outputs.saved_model import SavedModel, load
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import parse_recipe
from jnpl.training.reporting import Reporter


def vectors(count=10, features=4):
    return np.random.default_rng(0).normal(2, 2, (count, features)).astype(np.float32)


def images(count=5, side=16, channels=3):
    return np.random.default_rng(0).integers(0, 256, (count, side, side, channels), np.uint8)


@dataclass(frozen=True)
class Counted(Inputs):
    """Images of one colour each, that remember who was read; some cannot be."""

    count: int
    read_so_far: list
    broken: frozenset = frozenset()
    kind = "image"

    def __len__(self):
        return self.count

    def read(self, position, size=None):
        self.read_so_far.append(position)
        if position in self.broken:
            raise UnreadableError("torn")
        return np.full((size, size, 3), position % 256, np.uint8)

    def sizes(self):
        return np.zeros(self.count, np.int64)


def source_of(inputs):
    return Source("made", inputs, np.zeros(len(inputs), np.int64), CLASSES, np.arange(len(inputs)))


def test_vectors_are_standardised_then_seen_by_the_network(tmp_path):
    model, x = load(vector_model(tmp_path)), vectors()
    mean = torch.tensor([1.0, 2.0, 3.0, 4.0])
    with torch.no_grad():
        wanted = torch.softmax(model.network((torch.from_numpy(x) - mean) / 2), 1).numpy()
    assert model.predict_proba(x) == pytest.approx(wanted, abs=1e-6)
    assert model.predict(x).tolist() == [CLASSES[at] for at in wanted.argmax(1)]
    assert (model.kind, model.classes, model.sample_shape) == ("vector", CLASSES, (4,))


def test_images_are_cut_at_the_centre_and_scaled(tmp_path):
    model, x = load(image_model(tmp_path, 16, crop=12)), images()
    with torch.no_grad():
        seen = (torch.from_numpy(x[:, 2:14, 2:14]).permute(0, 3, 1, 2) / 255 - 0.4) / 0.2
        wanted = torch.softmax(model.network(seen), 1).numpy()
    assert model.predict_proba(x) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        torch.from_numpy,
        lambda x: x.transpose(0, 3, 1, 2),
        lambda x: (x / 255).astype(np.float32),
        lambda x: x.tolist(),
        lambda x: from_arrays(x, np.arange(len(x)) % 2),
    ],
    ids=["tensor", "channels first", "floats", "lists", "source"],
)
def test_forms_of_images(tmp_path, form):
    model, x = load(image_model(tmp_path)), images()
    assert model.predict_proba(form(x)) == pytest.approx(model.predict_proba(x), abs=1e-6)


def test_forms_of_vectors(tmp_path):
    model, x = load(vector_model(tmp_path)), vectors()
    wanted = model.predict_proba(x)
    for form in (torch.from_numpy(x), x.tolist(), pd.DataFrame(x), x.astype(np.float64)):
        assert model.predict_proba(form) == pytest.approx(wanted, abs=1e-6)


def test_whole_numbers_stay_numbers(tmp_path):
    model = load(vector_model(tmp_path, classes=[3, 5, 8]))
    found = model.predict(vectors())
    assert found.dtype == np.int64
    assert set(found.tolist()) <= {3, 5, 8}


def test_grey_and_colour_meet(tmp_path):
    grey, colour = load(image_model(tmp_path / "g", channels=1)), load(image_model(tmp_path / "c"))
    x = images(channels=1)
    both = np.repeat(x, 3, axis=3)
    assert colour.predict_proba(x) == pytest.approx(colour.predict_proba(both), abs=1e-6)
    assert grey.predict_proba(both) == pytest.approx(grey.predict_proba(x), abs=1e-6)
    red = np.zeros((1, 16, 16, 3), np.uint8)
    red[..., 0] = 200
    luma = np.full((1, 16, 16, 1), round(200 * 0.299), np.uint8)
    assert grey.predict_proba(red) == pytest.approx(grey.predict_proba(luma), abs=1e-6)


def test_other_sizes_are_resized_as_pillow_does(tmp_path):
    model, x = load(image_model(tmp_path)), images(side=40)
    small = np.stack([np.asarray(Image.fromarray(each).resize((16, 16), Image.Resampling.BILINEAR)) for each in x])
    assert model.predict_proba(x) == pytest.approx(model.predict_proba(small), abs=1e-6)


def test_images_that_are_not_square(tmp_path):
    model = load(image_model(tmp_path, crop=16, sample_shape=[16, 20, 3]))
    assert model.predict_proba(np.zeros((2, 16, 20, 3), np.uint8)).shape == (2, 3)
    with pytest.raises(InputError, match="takes images of 16 x 20 pixels"):
        model.predict_proba(images())


def test_a_table_is_encoded_as_in_training(tmp_path):
    table = pd.DataFrame({"size": [1.0, 2.0, None, 4.0], "town": ["Ulm", "Ulm", "Bonn", "Bonn"], "noted": [1, 2, 3, 4]})
    encoding = Encoding.fit(table, ["size", "town"], "the table")
    x = encoding.apply(table, "the table")
    model = load(vector_model(tmp_path, x.shape[1], encoding=encoding.to_dict()))
    wanted = model.predict_proba(x)
    assert model.predict_proba(table) == pytest.approx(wanted, abs=1e-6)
    # Other columns and another order change nothing; a gap is filled with the first table's median, not its own.
    assert model.predict_proba(table[["noted", "town", "size"]]) == pytest.approx(wanted, abs=1e-6)
    assert model.predict_proba(table.iloc[2:3]) == pytest.approx(wanted[2:3], abs=1e-6)
    with pytest.raises(InputError, match="has no column 'size'"):
        model.predict_proba(table[["town"]])


def test_parts_are_in_order_and_say_what_is_broken(tmp_path):
    model = load(image_model(tmp_path))
    parts = list(model.parts(source_of(Counted(300, [], frozenset({0, 130, 131})))))
    assert [(part.start, len(part.probs)) for part in parts] == [(0, 128), (128, 128), (256, 44)]
    assert [part.problems for part in parts] == [{0: "torn"}, {130: "torn", 131: "torn"}, {}]
    probs = np.concatenate([part.probs for part in parts])
    assert np.flatnonzero(np.isnan(probs).any(1)).tolist() == [0, 130, 131]
    alone = model.predict_proba(np.full((1, 16, 16, 3), 299 % 256, np.uint8))
    assert probs[299] == pytest.approx(alone[0], abs=1e-5)


def test_what_was_not_asked_for_is_not_read(tmp_path):
    """Memory is bounded: a part is returned before the next is read."""
    inputs = Counted(1000, [])
    next(load(image_model(tmp_path)).parts(source_of(inputs)))
    assert max(inputs.read_so_far) < 128


def test_broken_samples(tmp_path):
    model = load(image_model(tmp_path))
    some = source_of(Counted(3, [], frozenset({1})))
    assert np.isnan(model.predict_proba(some)).any(1).tolist() == [False, True, False]
    with pytest.raises(InputError, match="sample 1 cannot be read"):
        model.predict(some)
    with pytest.raises(InputError, match="none of the 2 samples can be read: torn"):
        model.predict_proba(source_of(Counted(2, [], frozenset({0, 1}))))


def test_first_samples_are_those_that_can_be_read(tmp_path):
    model = load(image_model(tmp_path))
    found = model.first(source_of(Counted(9, [], frozenset({0, 2}))), 3)
    assert found[:, 0, 0, 0].tolist() == [1, 3, 4]
    assert model.first(source_of(Counted(2, [])), 3).shape == (2, 16, 16, 3)


def test_a_folder_is_read_at_the_size_of_the_run(tmp_path):
    model = load(image_model(tmp_path / "run"))
    source = load_folder(photos(tmp_path / "photos"))
    x = np.stack([source.inputs.read(at, 16) for at in range(len(source))])
    wanted = model.predict_proba(x)
    assert model.predict_proba(source) == pytest.approx(wanted, abs=1e-6)
    assert model.predict_proba(tmp_path / "photos") == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("change", [{}, {"size": 12}, {"size": 12, "crop": 10}])
def test_after_a_real_run(tmp_path, change):
    """What the run tested after its last epoch is what its model predicts."""
    random, labels = np.random.default_rng(0), np.arange(60) % 3
    x = np.clip(random.normal(90, 20, (60, 8, 8, 3)) + 40 * labels[:, None, None, None], 0, 255).astype(np.uint8)
    source = from_arrays(x, labels, x_test=x[:30], y_test=labels[:30], class_names=CLASSES)
    recipe = parse_recipe(
        {
            "model": "resnet8",
            "data": change,
            "train": {"epochs": 2, "batch_size": 16, "lr": 0.05},
            "method": {"name": "ce"},
            "engine": {"accelerator": "cpu", "workers": 0},
        }
    )
    result = run_recipe(
        source, recipe, tmp_path, seed=0, every=CheckpointInterval(seconds=None), strict=True, report=Reporter()
    ).results
    found = load(tmp_path).predict(x[:30])
    assert (found == np.array(CLASSES)[labels[:30]]).mean() == pytest.approx(result["test_accuracy"])
    described, weights = (tmp_path / name for name in ("model.json", "model.safetensors"))
    for file, old, new in ((described, b'"mean": [\n   0', b'"mean": [\n   1'), (weights, b"", b"")):
        content = file.read_bytes()
        flipped = content.replace(old, new) if old else content[:-1] + bytes([content[-1] ^ 64])
        assert flipped != content
        file.write_bytes(flipped)
        with pytest.raises(InputError, match=r"model\.json and its weights do not have the hash"):
            load(tmp_path)
        file.write_bytes(content)
    assert (load(tmp_path).predict(x[:30]) == found).all()


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(InputError, match="holds no model that can be read"):
        load(tmp_path / "nothing")
    folder = vector_model(tmp_path / "run")
    facts = json.loads((folder / "model.json").read_text())
    for wrong in ({"model": "resnet99"}, {"classes": ["a"]}, {"transform": {"kind": "Magic"}}, {"input_shape": [5]}):
        (folder / "model.json").write_text(json.dumps({**facts, **wrong}))
        with pytest.raises(InputError, match="holds no model that can be read"):
            SavedModel.load(folder)
    (folder / "model.json").unlink()
    (folder / "run.json").write_text('{"status": "running"}')
    with pytest.raises(InputError, match="its run is not finished; repeat the command"):
        load(folder)


def test_devices(tmp_path):
    folder, x = vector_model(tmp_path), vectors()
    assert load(folder, "auto").predict_proba(x) == pytest.approx(load(folder).predict_proba(x), abs=1e-4)
    with pytest.raises(InputError, match=r"device must be auto, cpu, cuda.* got 'abacus'"):
        load(folder, "abacus")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device must be"):
            load(folder, "cuda")


def test_data_of_another_kind(tmp_path):
    model = load(vector_model(tmp_path / "v"))
    with pytest.raises(InputError, match="x has 3 features, but the model was trained on 4"):
        model.predict_proba(vectors(features=3))
    with pytest.raises(InputError, match="x holds images, but the model was trained on vectors"):
        model.predict_proba(images())
    with pytest.raises(InputError, match="x holds no samples"):
        model.predict_proba(np.zeros((0, 4), np.float32))
    with pytest.raises(InputError, match="not finite, first in sample 1"):
        model.predict_proba([[1, 2, 3, 4], [1, 2, 3, np.nan]])


def test_a_model_can_be_copied_and_left_in_training_mode(tmp_path):
    model, x = load(image_model(tmp_path)), images()
    wanted = model.predict_proba(x)
    model.network.train()
    assert replace(model, encoding=None).predict_proba(x) == pytest.approx(wanted)
