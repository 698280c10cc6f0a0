import hashlib
import tarfile

import numpy as np
import pytest
from tests.helpers.paths import SHARED_DATA

from jnpl.data.sources import cifar
from jnpl.internal.errors import InputError

SHARED = SHARED_DATA
REAL = SHARED / "cifar-10-batches-bin"
real = pytest.mark.skipif(not (REAL / "test_batch.bin").is_file(), reason=f"CIFAR-10 is not at {REAL}")
TRAIN10 = [f"data_batch_{batch}.bin" for batch in range(1, 6)]


def records(heads, seed):
    """Bytes of a file with label bytes (N, L), and its images (N, 32, 32, 3)."""
    heads = np.asarray(heads, np.uint8)
    planes = np.random.default_rng(seed).integers(0, 256, (len(heads), 3, 32, 32), dtype=np.uint8)
    raw = b"".join(head.tobytes() + image.tobytes() for head, image in zip(heads, planes, strict=True))
    return raw, np.stack([np.stack([image[c] for c in range(3)], axis=2) for image in planes])


@pytest.fixture
def ten(tmp_path):
    """A root with CIFAR-10 of five times four images and two to test, and its images and labels."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    labels = np.arange(20) % 10
    images = []
    for batch, name in enumerate(TRAIN10):
        raw, pixels = records(labels[4 * batch : 4 * batch + 4, None], batch)
        (folder / name).write_bytes(raw)
        images.append(pixels)
    (folder / "test_batch.bin").write_bytes(records([[7], [0]], 9)[0])
    return tmp_path, np.concatenate(images), labels


@pytest.fixture
def hundred(tmp_path):
    """A root with CIFAR-100 of three images and two to test, and its images."""
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    raw, images = records([[19, 99], [4, 0], [1, 1]], 0)
    (folder / "train.bin").write_bytes(raw)
    (folder / "test.bin").write_bytes(records([[4, 0], [8, 3]], 1)[0])
    return tmp_path, images


def packed(root, folder, archive, order=None):
    """Replace a folder in `root` by its archive."""
    files = order or sorted(file.name for file in (root / folder).iterdir())
    with tarfile.open(root / archive, "w:gz") as tar:
        for name in files:
            tar.add(root / folder / name, f"{folder}/{name}")
    (root / folder).rename(root / "away")
    return root / archive


@real
def test_the_real_thing():
    digest = hashlib.sha1((REAL / "data_batch_1.bin").read_bytes()).hexdigest()
    assert digest == "aadd24acce27caa71bf4b10992e9e7b2d74c2540"
    source = cifar.load("cifar10", SHARED, download=False)
    assert source.inputs.values.shape == (50_000, 32, 32, 3)
    assert source.inputs.values.flags.c_contiguous
    assert source.kind == "image"
    assert source.class_names == cifar.CIFAR10_NAMES
    assert source.labels[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]
    assert np.bincount(source.labels).tolist() == 10 * [5_000]
    assert np.bincount(source.test.labels).tolist() == 10 * [1_000]
    assert len(source.test) == 10_000
    means = source.inputs.values[:, ::4, ::4].mean((0, 1, 2)) / 255  # the well-known 0.491, 0.482, 0.447
    assert np.allclose(means, [0.491, 0.482, 0.447], atol=0.005)
    raw = np.fromfile(REAL / "data_batch_3.bin", np.uint8, 3073, offset=17 * 3073)
    assert source.labels[20_017] == raw[0]
    assert np.array_equal(source.inputs.read(20_017)[5, 6], raw[1 + 5 * 32 + 6 :: 1024])


@real
def test_the_real_thing_without_its_validation_part():
    train = cifar.load("cifar10", REAL, val_size=5_000)
    assert np.bincount(train.labels).tolist() == 10 * [4_500]
    position = 44_444
    file, record = divmod(int(train.ids[position]), 10_000)
    raw = np.fromfile(REAL / TRAIN10[file], np.uint8, 3073, offset=record * 3073)
    assert train.labels[position] == raw[0]
    assert np.array_equal(train.inputs.read(position), raw[1:].reshape(3, 32, 32).transpose(1, 2, 0))


def test_images_and_labels_come_in_the_order_of_the_files(ten):
    root, images, labels = ten
    source = cifar.load("cifar10", root, download=False)
    assert np.array_equal(source.inputs.values, images)
    assert source.labels.tolist() == source.true_labels.tolist() == labels.tolist()
    assert not np.shares_memory(source.labels, source.true_labels)
    assert source.ids.tolist() == list(range(20))
    assert source.class_names == cifar.CIFAR10_NAMES
    assert source.test.labels.tolist() == [7, 0]
    assert source.test.test is None


@pytest.mark.parametrize("where", ["root", "folder", "archive", "archive itself"])
def test_folder_and_archive_are_the_same(ten, where):
    root, images, labels = ten
    (root / "cifar-10-batches-bin" / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n\n")
    place = root / "cifar-10-batches-bin" if where == "folder" else root
    if "archive" in where:
        order = ["data_batch_4.bin", "test_batch.bin", "batches.meta.txt", *TRAIN10[:3], "data_batch_5.bin"]
        archive = packed(root, "cifar-10-batches-bin", "cifar-10-binary.tar.gz", order)
        place = archive if where == "archive itself" else root
    source = cifar.load("cifar10", place, download=False)
    assert np.array_equal(source.inputs.values, images)
    assert source.labels.tolist() == labels.tolist()
    assert source.class_names == tuple("abcdefghij")


def test_cifar100_has_fine_and_coarse_labels(hundred):
    root, images = hundred
    fine = cifar.load("cifar100", root, download=False)
    coarse = cifar.load("cifar100", root, download=False, labels="coarse")
    assert np.array_equal(fine.inputs.values, images)
    assert fine.labels.tolist() == [99, 0, 1]
    assert fine.test.labels.tolist() == [0, 3]
    assert coarse.labels.tolist() == coarse.true_labels.tolist() == [19, 4, 1]
    assert coarse.test.labels.tolist() == [4, 8]
    assert [fine.class_names[label] for label in fine.labels] == ["worm", "apple", "aquarium_fish"]
    assert coarse.class_names[4] == "fruit_and_vegetables"
    packed(root, "cifar-100-binary", "cifar-100-binary.tar.gz")
    assert cifar.load("cifar100", root, download=False, labels="coarse").fingerprint() == coarse.fingerprint()


def test_names_that_are_built_in_are_those_of_the_superclasses():
    from jnpl.noise.kinds import CIFAR100_SUPERCLASS

    def members(coarse):
        number = cifar.CIFAR100_COARSE_NAMES.index(coarse)
        return [name for name, group in zip(cifar.CIFAR100_NAMES, CIFAR100_SUPERCLASS, strict=True) if group == number]

    assert members("fish") == ["aquarium_fish", "flatfish", "ray", "shark", "trout"]
    assert members("trees") == ["maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"]
    assert members("vehicles_2") == ["lawn_mower", "rocket", "streetcar", "tank", "tractor"]


def test_the_last_of_each_class_validate(ten):
    root, images, labels = ten
    train = cifar.load("cifar10", root, val_size=10)
    val = cifar.load("cifar10", root, val_size=10, part="val")
    assert (train.validation.inputs.values == val.inputs.values).all()
    assert (train.validation.labels == val.labels).all()
    assert (val.validation, cifar.load("cifar10", root).validation) == (None, None)
    assert train.ids.tolist() == list(range(10))
    assert val.ids.tolist() == list(range(10, 20))
    assert np.array_equal(val.inputs.values, images[10:])
    assert np.array_equal(train.inputs.values, images[:10])
    assert val.labels.tolist() == labels[10:].tolist()
    assert len(train.test) == len(val.test) == 2


def test_images_move_up_without_a_second_copy(monkeypatch):
    monkeypatch.setattr(cifar, "CHUNK", 3)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (50, 2, 2, 3), dtype=np.uint8)
    kept = np.flatnonzero(generator.random(50) < 0.8)
    expected = images[kept]
    moved = cifar._moved_up(images, kept)
    assert np.array_equal(moved, expected)
    assert np.shares_memory(moved, images)


@pytest.mark.parametrize("val_size", [-10, 7, 20, 30])
def test_a_split_that_cannot_be_is_told(ten, val_size):
    with pytest.raises(InputError, match=f"multiple of 10 below 20, since .* got {val_size}"):
        cifar.load("cifar10", ten[0], val_size=val_size)


@pytest.mark.parametrize("size", [0, 1, 3072, 3074])
def test_a_file_of_the_wrong_size_is_named(ten, size):
    (ten[0] / "cifar-10-batches-bin" / "data_batch_2.bin").write_bytes(bytes(size))
    with pytest.raises(InputError, match=rf"data_batch_2\.bin' has {size} bytes.* multiple of 3073"):
        cifar.load("cifar10", ten[0])


def test_a_label_out_of_range_is_named(ten, hundred):
    root = ten[0]
    (root / "cifar-10-batches-bin" / "data_batch_5.bin").write_bytes(records([[9], [10]], 0)[0])
    with pytest.raises(
        InputError, match=r"data_batch_5\.bin' has label 10 in record 1; labels of CIFAR-10 lie in 0\.\.9"
    ):
        cifar.load("cifar10", root)
    (root / "cifar-100-binary" / "test.bin").write_bytes(records([[20, 99]], 0)[0])
    with pytest.raises(InputError, match=r"test\.bin' has label 20 in record 0; .* lie in 0\.\.19"):
        cifar.load("cifar100", root)


@pytest.mark.parametrize("name", ["data_batch_1.bin", "test_batch.bin"])
def test_a_missing_file_is_named(ten, name):
    (ten[0] / "cifar-10-batches-bin" / name).unlink()
    with pytest.raises(InputError, match=f"incomplete: there is no {name} in .*cifar-10-batches-bin"):
        cifar.load("cifar10", ten[0])
    packed(ten[0], "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
    with pytest.raises(InputError, match=f"incomplete: there is no {name} in .*tar.gz"):
        cifar.load("cifar10", ten[0])


def test_class_names_must_be_as_many_as_the_classes(ten):
    (ten[0] / "cifar-10-batches-bin" / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(InputError, match=r"batches\.meta\.txt' must name 10 classes, one per line; it has 2"):
        cifar.load("cifar10", ten[0])


def test_a_damaged_archive_is_named(ten):
    archive = packed(ten[0], "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cifar-10-binary\.tar\.gz': damaged or cut short"):
        cifar.load("cifar10", ten[0])
    archive.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError, match=r"cifar-10-binary\.tar\.gz': damaged or cut short"):
        cifar.load("cifar10", ten[0])


def test_a_hostile_archive_is_refused(ten):
    root = ten[0]
    with tarfile.open(root / "evil.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(InputError, match="link or a device"):
        cifar.load("cifar10", root / "evil.tar.gz")


def test_what_is_missing_is_downloaded_where_it_is_missing(ten, tmp_path, monkeypatch):
    archive = packed(ten[0], "cifar-10-batches-bin", "cifar-10-binary.tar.gz")
    asked = []

    def fetch(url, target, *, digest):
        asked.append((url, digest))
        target.parent.mkdir(parents=True)
        return archive.rename(target)

    monkeypatch.setattr(cifar, "fetch", fetch)
    root = tmp_path / "elsewhere"
    with pytest.raises(InputError, match=r"no CIFAR-10 in .*elsewhere.*: put cifar-10-batches-bin/ or cifar-10-binary"):
        cifar.load("cifar10", root, download=False)
    monkeypatch.setenv("JNPL_DATA", str(root))
    assert len(cifar.load("cifar10")) == len(cifar.load("cifar10")) == 20
    assert asked == [
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530")
    ]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cifar11", {}, "no CIFAR data set 'cifar11'; use cifar10 or cifar100"),
        ("cifar10", {"labels": "coarse"}, "CIFAR-10 has fine labels, not 'coarse'"),
        ("cifar100", {"labels": "both"}, "CIFAR-100 has coarse and fine labels, not 'both'"),
        ("cifar10", {"part": "test"}, "part must be 'train' or 'val', not 'test'"),
    ],
)
def test_choices_are_checked(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        cifar.load(name, tmp_path, download=False, **options)
