import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.helpers.paths import SHARED_DATA

from jnpl.data.sources import cifarn
from jnpl.internal.errors import InputError

SHARED = SHARED_DATA
here = (SHARED / "cifar-10-batches-bin" / "test_batch.bin").is_file() and (SHARED / "cifar-10n.npz").is_file()
real = pytest.mark.skipif(not here, reason=f"CIFAR-10 and cifar-10n.npz are not in {SHARED}")

CLEAN = np.arange(20) % 10
ARRAYS = {"clean_label": CLEAN, "aggre_label": CLEAN.copy()} | {
    key: (CLEAN + shift * (np.arange(20) < 8)) % 10
    for shift, key in enumerate(["worse_label", "random_label1", "random_label2", "random_label3"], 1)
}


@pytest.fixture
def root(tmp_path):
    """A root with CIFAR-10 of twenty images, the labels CLEAN."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for batch in range(5):
        rows = np.zeros((4, 3073), np.uint8)
        rows[:, 0] = CLEAN[4 * batch : 4 * batch + 4]
        (folder / f"data_batch_{batch + 1}.bin").write_bytes(rows.tobytes())
    (folder / "test_batch.bin").write_bytes(bytes(3073))
    return tmp_path


@pytest.fixture
def root100(tmp_path):
    """A root with CIFAR-100 of three images and its human labels as the authors store them: arrays, and lists."""
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    rows = np.zeros((3, 3074), np.uint8)
    rows[:, :2] = [[11, 19], [15, 29], [4, 0]]
    (folder / "train.bin").write_bytes(rows.tobytes())
    (folder / "test.bin").write_bytes(bytes(3074))
    saved = {
        "clean_label": np.array([19, 29, 0]),
        "noisy_label": np.array([19, 63, 10]),
        "clean_coarse_label": [11, 15, 4],
        "noisy_coarse_label": [11, 12, 3],
    }
    torch.save(saved, tmp_path / "CIFAR-100_human.pt")
    return tmp_path


def saved_raw(path, pickled):
    """A file as torch.save would write it, around any pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3\n")


@real
def test_the_real_thing():
    source = cifarn.load("cifar10n", SHARED, download=False)
    assert source.name == "cifar10n worse"
    assert source.labels[:8].tolist() == [4, 9, 0, 5, 1, 9, 2, 4]
    assert source.true_labels[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]
    assert (source.labels != source.true_labels).mean() == pytest.approx(0.4021, abs=5e-5)  # their Table 1
    assert len(source.test) == 10_000


@pytest.mark.parametrize("form", ["CIFAR-10_human.pt", "CIFAR-10_human.npz", "cifar-10n.npz"])
def test_human_labels_are_given_and_clean_ones_are_true(root, form):
    torch.save(ARRAYS, root / form) if form.endswith(".pt") else np.savez(root / form, **ARRAYS)
    source = cifarn.load("cifar10n", root, download=False)
    assert source.labels.tolist() == ARRAYS["worse_label"].tolist()
    assert source.true_labels.tolist() == CLEAN.tolist()
    assert source.labels.dtype == source.true_labels.dtype == np.int64
    for noise, key in {"aggre": "aggre_label", "random1": "random_label1", "random3": "random_label3"}.items():
        assert cifarn.load("cifar10n", root, noise=noise).labels.tolist() == ARRAYS[key].tolist()
    train = cifarn.load("cifar10n", root, val_size=10)
    val = cifarn.load("cifar10n", root, val_size=10, part="val")
    assert np.concatenate([train.labels, val.labels]).tolist() == ARRAYS["worse_label"].tolist()


def test_a_labels_file_may_lie_elsewhere(root, tmp_path_factory):
    path = tmp_path_factory.mktemp("labels") / "mine.pt"
    torch.save(ARRAYS, path)
    assert len(cifarn.load("cifar10n", root, labels_file=path)) == 20


def test_cifar100n_has_fine_and_coarse_noise(root100):
    fine = cifarn.load("cifar100n", root100)
    assert fine.labels.tolist() == [19, 63, 10]
    assert fine.true_labels.tolist() == [19, 29, 0]
    assert len(fine.class_names) == 100
    coarse = cifarn.load("cifar100n", root100, noise="noisy_coarse")
    assert coarse.labels.tolist() == [11, 12, 3]
    assert coarse.true_labels.tolist() == [11, 15, 4]
    assert len(coarse.class_names) == 20


@pytest.mark.parametrize("dtype", ["<i8", ">i8", "<i4", "u1", "<i2"])
def test_arrays_of_whole_numbers_are_read_as_torch_wrote_them(tmp_path, dtype):
    path = tmp_path / "labels.pt"
    expected = np.array([0, 3, 200 if dtype == "u1" else 99], dtype)
    torch.save({"clean_label": expected}, path)
    assert cifarn.read_human(path, "clean_label").tolist() == expected.tolist()


def test_names_of_numpy_1_are_known(tmp_path):
    pickled = pickle.dumps({"clean_label": np.arange(3)}, protocol=2)
    old, new = b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n"
    for names in (old, new):
        saved_raw(tmp_path / "labels.pt", pickled.replace(new, old).replace(old, names))
        assert cifarn.read_human(tmp_path / "labels.pt", "clean_label").tolist() == [0, 1, 2]


class Harm:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("form", ["torch", "bare"])
def test_a_hostile_file_is_refused_and_not_run(root, form):
    proof = root / "proof"
    path = root / "CIFAR-10_human.pt"
    harm = ARRAYS | {"worse_label": Harm(os.system, f"touch {proof}")}
    torch.save(harm, path) if form == "torch" else path.write_bytes(pickle.dumps(harm))
    with pytest.raises(InputError, match=r"CIFAR-10_human\.pt") as caught:
        cifarn.load("cifar10n", root)
    assert not proof.exists()
    if form == "torch":
        assert "was not run: it holds a call of posix.system" in str(caught.value).replace("nt.system", "posix.system")


@pytest.mark.parametrize(
    "harm",
    [
        Harm(eval, "open('proof', 'w')"),
        Harm(exec, "open('proof', 'w')"),
        Harm(getattr, "text", "upper"),
        Harm(np.fromfile, "/etc/passwd"),
        Harm(open, "proof", "w"),
        np.array([print], object),
        np.arange(3.0),
        np.array(["a"]),
        torch.zeros(3),
        {"a": [1]},
        "text",
        [1.5],
        [True],
        [-1],
        [2**80],
    ],
)
def test_anything_but_whole_numbers_is_refused(tmp_path, monkeypatch, harm):
    monkeypatch.chdir(tmp_path)
    torch.save({"clean_label": harm}, "labels.pt")
    with pytest.raises(InputError, match=r"labels\.pt"):
        cifarn.read_human(Path("labels.pt"), "clean_label")
    assert [file.name for file in Path().iterdir()] == ["labels.pt"]


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b"garbage",
        pickle.dumps([1]),
        pickle.dumps({"clean_label": np.arange(3)}, 2)[:-40],
        b"cnumpy\ndtype\n}b.",  # state for a class
        b"c_codecs\nencode\n}b.",
        b"c_codecs\nencode\n(Vabc\nVzlib\ntR.",  # another codec
        b"cnumpy\nndarray\n)\x81(I1\n(I99\ntcnumpy\ndtype\n(Vi8\ntRI00\nVshort\ntb.",  # shape beyond the bytes
        b"cnumpy\ndtype\n(VO\ntR.",
        b"Ppersistent\n.",
        b"\x80\x02K\x01r" + (40_000_000).to_bytes(4, "little") + b".",  # LONG_BINPUT: a memo of hundreds of megabytes
    ],
)
def test_a_broken_pickle_is_refused(tmp_path, pickled):
    saved_raw(tmp_path / "labels.pt", pickled)
    with pytest.raises(InputError, match=r"labels\.pt"):
        cifarn.read_human(tmp_path / "labels.pt", "clean_label")


def test_a_file_that_is_far_too_large_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(cifarn, "LARGEST", 10_000)
    with zipfile.ZipFile(tmp_path / "labels.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_001))
    with pytest.raises(InputError, match=r"10,001 bytes in 'archive/data\.pkl'"):
        cifarn.read_human(tmp_path / "labels.pt", "clean_label")
    (tmp_path / "labels.pt").write_bytes(bytes(10_001))
    with pytest.raises(InputError, match="has 10,001 bytes"):
        cifarn.read_human(tmp_path / "labels.pt", "clean_label")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clean_label": CLEAN[::-1]}, r"clean_label in .* not in the order of the images: at 0 there is 9, .* say 0"),
        ({"clean_label": CLEAN[:5]}, "clean_label in .* has 5 labels for 20 images"),
        ({"worse_label": np.arange(21) % 10}, "worse_label in .* has 21 labels for 20 images"),
        ({"worse_label": CLEAN + 1}, r"worse_label in .* must lie in 0\.\.9, not 1\.\.10"),
        ({"worse_label": CLEAN - 1}, r"worse_label in .* must lie in 0\.\.9, not -1\.\.8"),
        ({"worse_label": CLEAN + 0.5}, "worse_label in .* must be whole numbers"),
        ({"worse_label": CLEAN[:, None]}, "worse_label in .* must be whole numbers of shape"),
    ],
)
def test_labels_must_fit_the_images(root, change, message):
    np.savez(root / "cifar-10n.npz", **(ARRAYS | change))
    with pytest.raises(InputError, match=message):
        cifarn.load("cifar10n", root)


@pytest.mark.parametrize("form", ["labels.pt", "labels.npz"])
def test_a_missing_array_is_named(tmp_path, form):
    arrays = {"clean_label": CLEAN}
    torch.save(arrays, tmp_path / form) if form.endswith(".pt") else np.savez(tmp_path / form, **arrays)
    with pytest.raises(InputError, match="has no array worse_label; its arrays are clean_label"):
        cifarn.read_human(tmp_path / form, "worse_label")


def test_an_npz_with_a_pickle_is_refused(tmp_path):
    np.savez(tmp_path / "labels.npz", clean_label=np.array([Harm(os.system, "touch proof")], object))
    with pytest.raises(InputError, match="cannot read"):
        cifarn.read_human(tmp_path / "labels.npz", "clean_label")


def test_choices_and_places_are_told(root):
    with pytest.raises(InputError, match="no data set 'cifar10' of human labels; use cifar10n or cifar100n"):
        cifarn.load("cifar10", root)
    with pytest.raises(InputError, match=r"noise of cifar10n is one of worse, aggre, .*, not 'noisy'"):
        cifarn.load("cifar10n", root, noise="noisy")
    with pytest.raises(InputError, match=r"no human labels in .*: put CIFAR-10_human\.pt or .*github"):
        cifarn.load("cifar10n", root)
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.pt': No such file"):
        cifarn.load("cifar10n", root, labels_file=root / "nowhere.pt")
