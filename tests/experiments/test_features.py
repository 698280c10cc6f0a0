"""Features in place of images: reduced by plain arithmetic, computed once, with human labels where asked for."""

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jnpl import noise
from jnpl.data.source import EmbeddedInputs
from jnpl.experiments import features, run_data
from jnpl.experiments.features import Features, principal_axes
from jnpl.experiments.scales import SCALES, missing
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

FEW = Features(components=3)


def embedded(source, calls):
    """Stands in for a backbone: six numbers per image and view, from its pixels."""
    calls.append(source.name)

    def vectors(part):
        rows = part.inputs.values.reshape(len(part), -1)[:, :12].astype(np.float32) + 1
        return replace(part, inputs=EmbeddedInputs(rows.reshape(len(part), 2, 6).astype(np.float16), part.name))

    return replace(vectors(source), test=vectors(source.test))


@pytest.fixture
def calls(tmp_path, monkeypatch):
    made = []
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(features, "embed_for_training", lambda source, *_, **__: (embedded(source, made), []))
    return made


@pytest.fixture
def root(tmp_path):
    """CIFAR-10 of 60 images and 20 for tests."""
    generator = np.random.default_rng(0)
    (folder := tmp_path / "data/cifar-10-batches-bin").mkdir(parents=True)
    for name in (*(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test_batch.bin"):
        records = generator.integers(256, size=(20 if name.startswith("test") else 12, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(len(records)) % 10
        (folder / name).write_bytes(records.tobytes())
    return folder.parent


def test_principal_axes_are_those_of_the_singular_values():
    values = np.random.default_rng(1).normal(size=(50, 5)).astype(np.float32) * [5, 1, 3, 0.1, 2] + 7
    mean, axes = principal_axes(values.astype(np.float32), 2)
    _, sizes, rows = np.linalg.svd(values - values.mean(0), full_matrices=False)
    scale = np.sqrt((sizes[:2] ** 2 / len(values)).mean())
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-5)
    np.testing.assert_allclose(np.abs(axes.T), np.abs(rows[:2]) / scale, rtol=1e-3, atol=1e-5)
    assert ((values - mean) @ axes).var(axis=0).mean() == pytest.approx(1, rel=1e-3)
    with pytest.raises(InputError, match="6 principal components of 5 features"):
        principal_axes(values.astype(np.float32), 6)


def test_images_are_read_once(root, calls):
    source = features.load("cifar10", root, 40, FEW)
    assert source.inputs.values.shape == (40, 2, 3)
    assert source.test.inputs.values.shape == (20, 2, 3)
    assert source.labels.tolist() == [*range(10), 0, 1] * 3 + [0, 1, 2, 3]
    again = features.load("cifar10", root, 40, FEW)
    assert calls == ["cifar10"]
    assert again.fingerprint() == source.fingerprint()
    assert features.load("cifar10", root, None, FEW).inputs.values.shape == (60, 2, 3)
    assert len(calls) == 2
    batch = root / "cifar-10-batches-bin/data_batch_1.bin"
    batch.write_bytes(batch.read_bytes()[::-1][: 12 * 3073].replace(b"\xff", b"\x01"))
    with pytest.raises(InputError, match="labels of CIFAR-10"):
        features.load("cifar10", root, 40, FEW)


def test_a_broken_cache_is_named(root, calls, tmp_path):
    features.load("cifar10", root, 40, FEW)
    (file,) = (tmp_path / "cache/features").glob("*.npz")
    file.write_bytes(b"PK")
    with pytest.raises(InputError, match="is broken, delete it"):
        features.load("cifar10", root, 40, FEW)


def test_human_labels_stand_beside_the_true_ones(root, calls):
    clean = features.load("cifar10", root, None, FEW).labels
    human = (clean + 1) % 10
    np.savez(root / "cifar-10n.npz", clean_label=clean, worse_label=human)
    source = features.load("cifar10n", root, None, FEW)
    assert source.labels.tolist() == human.tolist()
    assert source.true_labels.tolist() == clean.tolist()
    np.savez(root / "cifar-10n.npz", clean_label=clean[::-1], worse_label=human)
    with pytest.raises(InputError, match="not in the order of the 60 images"):
        features.load("cifar10n", root, None, FEW)


def test_a_run_has_the_noise_of_its_seed(root, calls, monkeypatch):
    monkeypatch.setitem(SCALES, "features", replace(SCALES["features"], features=FEW, images=50))
    spec = RunSpec(variant="ce", data="cifar10", noise="symm", rate=0.4, seed=1, scale="features")
    source = run_data.load(spec, root)
    assert spec.content()["data"]["features"] == {"backbone": "efficientnet-lite0", "views": 2, "components": 3}
    assert source.labels.tolist() == noise.symmetric(source.true_labels, 0.4, 10, 1).tolist()


def test_a_part_of_cifar100_will_do(tmp_path, calls):
    rows = []
    for number in range(30):
        picture = Image.fromarray(np.full((32, 32, 3), 3 * number, np.uint8) + np.arange(3, dtype=np.uint8))
        picture.save(stored := io.BytesIO(), "png")
        split = "train" if number < 20 else "test"
        rows.append({"image": {"bytes": stored.getvalue(), "path": None}, "fine_label": number, "split": split})
    root = tmp_path / "data"
    root.mkdir()
    assert "cifar100" in missing(SCALES["features"], root)
    pq.write_table(pa.Table.from_pylist(rows), root / features.PART)
    told = missing(SCALES["features"], root)
    assert set(told) == {"clothing1m", "cifar10n", "cifar100n"}
    assert "put the images and the human labels" in told["cifar100n"]
    source = features.load("cifar100", root, None, FEW)
    assert (len(source), len(source.test), len(source.class_names)) == (20, 10, 100)
    assert source.test.labels.tolist() == list(range(20, 30))
