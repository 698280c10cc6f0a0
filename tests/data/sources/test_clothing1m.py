import time

import numpy as np
import pytest
from PIL import Image

from jnpl.data.source import UnreadableError
from jnpl.data.sources import clothing1m
from jnpl.internal.errors import InputError

NOISY = {f"images/{i % 3}/{i:02d}/{i}000000001,{i}2345.jpg": i % 14 if i < 28 else 4 for i in range(35)}
CLEAN = {f"images/9/{i:02d}/{i}7,8.jpg": (5 * i) % 14 for i in range(30)}
LISTS = {
    "noisy_train": list(NOISY)[::-1],
    "clean_train": list(CLEAN)[:14],
    "clean_val": list(CLEAN)[14:20],
    "clean_test": list(CLEAN)[20:],
}


@pytest.fixture
def root(tmp_path):
    """Clothing1M in the layout of its release; image number i of a label file has the grey value i."""
    for split, keys in LISTS.items():
        (tmp_path / f"{split}_key_list.txt").write_text("\n".join(keys) + "\n")
    for name, labels in (("noisy", NOISY), ("clean", CLEAN)):
        (tmp_path / f"{name}_label_kv.txt").write_text("".join(f"{key} {label}\n" for key, label in labels.items()))
        for number, key in enumerate(labels):
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20, 30), 3 * (number,)).save(tmp_path / key)
    return tmp_path


def test_shop_labels_are_given_and_clean_images_test(root):
    source = clothing1m.load(root)
    assert source.ids.tolist() == LISTS["noisy_train"]
    assert source.labels.tolist() == [NOISY[key] for key in LISTS["noisy_train"]]
    assert source.true_labels is None
    assert len(source.class_names) == 14
    assert source.class_names[0] == "T-shirt"
    assert source.class_names[13] == "Underwear"
    assert source.inputs.read(0).shape == (30, 20, 3)
    assert source.inputs.read(2, 16).shape == (16, 16, 3)
    assert int(source.inputs.read(2)[0, 0, 0]) == 32  # the list is in reverse: 34, 33, 32
    assert (
        source.test.labels.tolist() == source.test.true_labels.tolist() == [CLEAN[key] for key in LISTS["clean_test"]]
    )
    assert int(source.test.inputs.read(0)[0, 0, 0]) == 20
    assert source.test.test is None
    assert source.inputs.sizes().min() > 0


@pytest.mark.parametrize("split", ["clean_train", "clean_val", "clean_test"])
def test_checked_splits_have_true_labels(root, split):
    source = clothing1m.load(root, split=split)
    assert source.ids.tolist() == LISTS[split]
    assert source.labels.tolist() == source.true_labels.tolist() == [CLEAN[key] for key in LISTS[split]]
    assert (source.test is None) == (split == "clean_test")


def test_a_checked_split_needs_no_noisy_files(root):
    (root / "noisy_label_kv.txt").unlink()
    (root / "noisy_train_key_list.txt").unlink()
    assert len(clothing1m.load(root, split="clean_train")) == 14


def test_balanced_takes_as_many_of_each(root):
    source = clothing1m.load(root, balanced=True)
    assert np.bincount(source.labels).tolist() == 14 * [2]
    assert source.labels.tolist() == [NOISY[key] for key in source.ids]
    positions = [LISTS["noisy_train"].index(key) for key in source.ids]
    assert positions == sorted(set(positions))
    assert int(source.inputs.read(0)[0, 0, 0]) == list(NOISY).index(source.ids[0])
    assert clothing1m.load(root, balanced=True).ids.tolist() == source.ids.tolist()
    others = [clothing1m.load(root, balanced=True, seed=seed).ids.tolist() for seed in range(1, 6)]
    assert any(other != source.ids.tolist() for other in others)
    assert np.bincount(clothing1m.load(root, balanced=True, per_class=1).labels).tolist() == 14 * [1]
    assert len(source.test) == 10


@pytest.mark.parametrize("per_class", [0, -1, 3])
def test_what_cannot_be_balanced_is_told(root, per_class):
    with pytest.raises(InputError, match=f"cannot take {per_class} samples of each class: class 0 has 2 samples"):
        clothing1m.load(root, balanced=True, per_class=per_class)


def test_a_missing_or_broken_image_is_found_when_it_is_read(root):
    (root / LISTS["noisy_train"][3]).unlink()
    (root / LISTS["noisy_train"][4]).write_bytes(b"no jpeg")
    source = clothing1m.load(root)
    for position in (3, 4):
        with pytest.raises(UnreadableError):
            source.inputs.read(position)
    assert source.inputs.read(5).shape == (30, 20, 3)


@pytest.mark.parametrize(
    "path",
    [
        "../outside.jpg",
        "images/../../outside.jpg",
        "/etc/passwd",
        "images/..",
        "C:/outside.jpg",
        "images\\..\\..\\outside.jpg",
        "images/a\0b.jpg",
    ],
)
def test_paths_that_lead_out_are_refused(root, path):
    with (root / "noisy_train_key_list.txt").open("a", newline="") as file:
        file.write(path + "\n")
    with (root / "noisy_label_kv.txt").open("a", newline="") as file:
        file.write(path + " 1\n")
    with pytest.raises(InputError, match=r"noisy_train_key_list\.txt' has the path .* may lead out of"):
        clothing1m.load(root)


def test_unusual_lines_are_understood(root):
    extra = {"images/a..b.jpg": 3, "images/with a space.jpg": 13}
    lines = [f"{key} {label}" for key, label in (NOISY | extra).items()]
    (root / "noisy_label_kv.txt").write_bytes(("\ufeff" + "\r\n".join([*lines, "", lines[0], ""])).encode())
    (root / "noisy_train_key_list.txt").write_bytes("\r\n".join([*NOISY, *extra, "", ""]).encode())
    source = clothing1m.load(root)
    assert source.labels.tolist() == list((NOISY | extra).values())
    assert source.ids.tolist() == [*NOISY, *extra]


@pytest.mark.parametrize("line", ["images/x.jpg", "images/x.jpg 14", "images/x.jpg -1", "images/x.jpg cat", " 3", "3"])
def test_a_line_that_is_wrong_is_named(root, line):
    with (root / "clean_label_kv.txt").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match=r"line 31 of .*clean_label_kv\.txt' must be a path, a space and a label"):
        clothing1m.load(root)


def test_two_labels_for_one_path_are_refused(root):
    key, label = next(iter(NOISY.items()))
    with (root / "noisy_label_kv.txt").open("a") as file:
        file.write(f"{key} {label + 1}\n")
    with pytest.raises(InputError, match=r"line 36 of .*noisy_label_kv\.txt' gives a second label to 'images/0/00"):
        clothing1m.load(root)


def test_a_path_without_a_label_is_named(root):
    with (root / "clean_test_key_list.txt").open("a") as file:
        file.write("images/unknown.jpg\n")
    with pytest.raises(InputError, match=r"clean_label_kv\.txt' has no label for 'images/unknown\.jpg' of clean_test"):
        clothing1m.load(root)


def test_missing_and_wrong_files_are_named(root):
    (root / "clean_test_key_list.txt").write_bytes(b"images/\xff.jpg\n")
    with pytest.raises(InputError, match=r"clean_test_key_list\.txt' is not a text file in UTF-8: byte 7"):
        clothing1m.load(root)
    (root / "clean_test_key_list.txt").unlink()
    with pytest.raises(InputError, match=r"cannot read .*clean_test_key_list\.txt': No such file"):
        clothing1m.load(root)
    (root / "clean_test_key_list.txt").write_text("")
    with pytest.raises(InputError, match="clothing1m clean_test holds no samples"):
        clothing1m.load(root)


def test_choices_are_checked(root):
    with pytest.raises(InputError, match=r"has the splits noisy_train, .*, not 'train'"):
        clothing1m.load(root, split="train")
    with pytest.raises(InputError, match="per_class=3 says how to balance; it needs balanced=True"):
        clothing1m.load(root, per_class=3)


def test_many_lines_are_read_fast(root):
    keys = [f"images/{i % 10}/{i % 97}/{3_000_000_000 + i},{500_000_000 + i}.jpg" for i in range(200_000)]
    (root / "noisy_train_key_list.txt").write_text("\n".join(keys))
    (root / "noisy_label_kv.txt").write_text("".join(f"{key} {i % 14}\n" for i, key in enumerate(keys)))
    start = time.process_time()
    source = clothing1m.load(root)
    assert time.process_time() - start < 4  # 0.4 where nothing else runs
    assert np.array_equal(source.labels, np.arange(200_000) % 14)
