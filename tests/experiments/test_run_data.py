"""The data of a run: splits, noise that is what it says, no test image where settings are chosen."""

import numpy as np
import pytest

from jnpl.data.opening import open_source
from jnpl.data.sources.cifar import PIXELS
from jnpl.experiments import run_data as data
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "seed": 1}
CIFAR = {**IRIS, "data": "cifar10", "pixels": 16, "images": 40, "test_images": 20, "net": "resnet8"}


@pytest.fixture
def cifar(tmp_path):
    """A made-up CIFAR-10 of 5 x 30 and 30 images, with people's labels."""
    rng, folder = np.random.default_rng(0), tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    parts = [rng.integers(0, 256, (30, 1 + PIXELS), np.uint8) for _ in range(6)]
    for number, part in enumerate(parts):
        part[:, 0] = np.arange(30) % 10
        (folder / ("test_batch.bin" if number == 5 else f"data_batch_{number + 1}.bin")).write_bytes(part.tobytes())
    clean = np.concatenate([part[:, 0] for part in parts[:5]]).astype(np.int64)
    human = np.where(np.arange(150) % 3 == 0, (clean + 4) % 10, clean)
    kinds = ("worse_label", "aggre_label", "random_label1", "random_label2", "random_label3")
    np.savez(tmp_path / "cifar-10n.npz", clean_label=clean, **dict.fromkeys(kinds, human))
    return tmp_path, np.concatenate(parts[:5])[:, 1:].reshape(150, 3, 32, 32).transpose(0, 2, 3, 1), human


TINY = {"data": "digits", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "tiny"}


@pytest.mark.parametrize(
    ("name", "samples", "classes"), [("wine", 178, 3), ("breast-cancer", 569, 2), ("iris", 150, 3)]
)
def test_sets_of_scikit_learn_are_split_by_class_and_seed(name, samples, classes):
    source = data.load(RunSpec(**{**IRIS, "data": name}), None)
    assert len(source) + len(source.test) == samples
    assert len(source.test) == -(-samples // 4)
    shares = [np.bincount(labels, minlength=classes) for labels in (source.true_labels, source.test.labels)]
    assert abs(shares[0] / len(source) - shares[1] / len(source.test)).max() < 0.03
    again, other = (data.load(RunSpec(**{**IRIS, "data": name, "seed": seed}), None) for seed in (1, 2))
    assert again.fingerprint() == source.fingerprint() != other.fingerprint()


def test_kinds_of_noise():
    found = {}
    for noise in ("symm", "asymm", "instance", "none"):
        spec = RunSpec(**{**IRIS, "data": "digits", "noise": noise, "rate": 0.4 * (noise != "none")})
        source = data.load(spec, None)
        found[noise] = source.labels, source.true_labels
    wrong = {noise: given != true for noise, (given, true) in found.items()}
    assert wrong["none"].sum() == 0
    assert abs(wrong["symm"].mean() - 0.4) < 0.005
    assert abs(wrong["instance"].mean() - 0.4) < 0.05
    given, true = found["asymm"]
    assert ((given == true) | (given == (true + 1) % 10)).all()  # a ring
    assert abs(wrong["asymm"].mean() - 0.4) < 0.005


def test_fewer_samples_are_the_first_ones():
    few, all_ = (data.load(RunSpec(**{**IRIS, "images": images}), None) for images in (20, None))
    assert (len(few), len(all_)) == (20, 112)
    assert (few.true_labels == all_.true_labels[:20]).all()
    with pytest.raises(InputError, match="a run needs 113 samples of iris, there are 112"):
        data.load(RunSpec(**{**IRIS, "images": 113}), None)


def test_cifar_at_half_the_size(cifar):
    root, images, _ = cifar
    source = data.load(RunSpec(**{**CIFAR, "noise": "asymm"}), root)
    assert (len(source), len(source.test)) == (40, 20)
    assert source.inputs.values.shape == (40, 16, 16, 3)
    block = images[0, 4:6, 6:8].astype(float).mean((0, 1))
    assert abs(source.inputs.values[0, 2, 3] - block).max() <= 0.5
    moved = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    wrong = source.labels != source.true_labels
    assert wrong.any()
    assert all(
        moved[true] == given for true, given in zip(source.true_labels[wrong], source.labels[wrong], strict=True)
    )
    whole = data.load(RunSpec(**{**CIFAR, "pixels": 32}), root)
    assert (whole.inputs.values == images[:40]).all()


def test_people_s_labels_are_given(cifar):
    root, _, human = cifar
    source = data.load(RunSpec(**{**CIFAR, "data": "cifar10n", "noise": "human", "rate": 0}), root)
    assert (source.labels == human[:40]).all()
    assert (source.labels != source.true_labels).mean() == pytest.approx(1 / 3, abs=0.02)


def test_the_noise_is_the_papers():
    whole = open_source("digits")
    symm = data.load(RunSpec(variant="ce", **TINY), None)
    assert (symm.true_labels == whole.labels[:600]).all()
    asymm = data.load(RunSpec(variant="ce", **{**TINY, "noise": "asymm", "rate": 0.4}), None)
    moved = asymm.labels != asymm.true_labels
    assert set(asymm.true_labels[moved]) == {9, 2, 4, 3, 5}
    assert set(zip(asymm.true_labels[moved], asymm.labels[moved], strict=True)) == {
        (9, 1),
        (2, 0),
        (4, 7),
        (3, 5),
        (5, 3),
    }
