"""Torch-style data sets."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset, TensorDataset

from jnpl.data.source import UnreadableError
from jnpl.data.sources.torch_dataset import from_dataset
from jnpl.internal.errors import InputError


class Pictures:
    """As torchvision's: targets and classes beside the items."""

    def __init__(self, make, **more):
        self.make, self.targets, self.read = make, [0, 1, 1, 0], []
        self.__dict__.update(more)

    def __len__(self):
        return 4

    def __getitem__(self, position):
        self.read.append(position)
        return self.make(position), self.targets[position]


def picture(position):
    return Image.new("L", (5, 4), position * 10)


def test_pictures_are_rgb_and_read_when_asked_for():
    dataset = Pictures(picture, classes=["cat", "dog"])
    source = from_dataset(dataset, name="pets")
    assert dataset.read == [0]  # to see what there is
    assert (source.name, source.kind, source.class_names) == ("pets", "image", ("cat", "dog"))
    assert source.labels.tolist() == [0, 1, 1, 0]
    assert source.inputs.read(2).tolist() == np.full((4, 5, 3), 20).tolist()
    assert source.inputs.read(3, 7).shape == (7, 7, 3)
    assert source.inputs.sizes().tolist() == [0, 0, 0, 0]


def test_float_tensors_become_bytes():
    images = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), np.uint8)
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    source = from_dataset(TensorDataset(tensors, torch.tensor([3, 5, 3, 5])))
    assert source.class_names == (3, 5)
    for position in range(4):
        np.testing.assert_array_equal(source.inputs.read(position), images[position])
    assert source.inputs.read(0, 3).shape == (3, 3, 3)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda n: np.zeros((4, 5, 3), np.uint8), (4, 5, 3)),
        (lambda n: np.zeros((4, 5), np.uint8), (4, 5, 1)),
        (lambda n: torch.zeros(1, 4, 5), (4, 5, 1)),
        (lambda n: torch.zeros(7, dtype=torch.float64), (7,)),
        (lambda n: [1, 2, 3], (3,)),
    ],
)
def test_arrays_tensors_and_lists(make, shape):
    source = from_dataset(Pictures(make))
    assert source.inputs.read(1).shape == shape
    assert source.kind == ("vector" if len(shape) == 1 else "image")
    if source.kind == "image":
        assert source.inputs.read(1, 9).shape == (9, 9, shape[2])


def test_labels_are_given_kept_or_read():
    vectors = Pictures(lambda n: [float(n)])
    assert from_dataset(vectors, labels=["b", "a", "a", "b"]).class_names == ("a", "b")
    assert from_dataset(vectors, class_names=["no", "yes"]).class_names == ("no", "yes")
    assert from_dataset(Pictures(lambda n: [float(n)], classes=["one"])).class_names == (0, 1)  # too few to be true
    changed = Pictures(lambda n: [float(n)], target_transform=lambda label: label)
    from_dataset(changed)
    assert changed.read == [0, 1, 2, 3, 0]
    with pytest.raises(InputError, match="holds 4 samples, but there are 2 labels"):
        from_dataset(vectors, labels=[0, 1])


def test_a_subset_has_the_labels_and_classes_of_its_parent():
    dataset = Pictures(picture, classes=["cat", "dog"])
    source = from_dataset(Subset(Subset(dataset, [3, 2, 1]), [1, 0]))
    assert source.labels.tolist() == [1, 0]
    assert source.class_names == ("cat", "dog")
    assert dataset.read == [2]
    assert source.inputs.read(1)[0, 0, 0] == 30


def test_one_bad_item_costs_one_sample():
    def make(position):
        if position == 0:
            raise OSError("bad\nfile")
        return [1.0, np.nan] if position == 2 else np.zeros((2, 2), np.uint8) if position == 3 else [1.0, 2.0]

    source = from_dataset(Pictures(make))
    assert source.kind == "vector"
    for position, reason in ((0, "OSError: bad file"), (2, "not finite"), (3, "where the others are vectors")):
        with pytest.raises(UnreadableError, match=reason):
            source.inputs.read(position)


def test_data_sets_that_are_refused():
    with pytest.raises(InputError, match="needs a length and items by position, which generator has not"):
        from_dataset(item for item in [])
    with pytest.raises(InputError, match="holds no samples"):
        from_dataset([])
    with pytest.raises(InputError, match=r"must be \(input, label\) pairs, but item 0 is dict"):
        from_dataset([{"image": 1}, {"image": 2}])
    with pytest.raises(InputError, match="none of the first 4 items can be read: item 0 holds str"):
        from_dataset(Pictures(lambda n: "text"))
    with pytest.raises(InputError, match="none of the first 4 items can be read: images in item 0 are float32"):
        from_dataset(Pictures(lambda n: torch.full((3, 2, 2), 2.0)))

    class Broken(Pictures):
        targets = None

        def __getitem__(self, position):
            raise RuntimeError

    broken = Broken(None)
    broken.targets = None
    with pytest.raises(InputError, match=r"item 0 cannot be read for its label \(RuntimeError\)"):
        from_dataset(broken)


def test_survives_pickling():
    source = from_dataset([(np.zeros(2, np.float32), 0), (np.ones(2, np.float32), 1)])
    assert pickle.loads(pickle.dumps(source.inputs)).read(1).tolist() == [1, 1]
