"""Folders of class folders, tidy and not."""

import os
import random
import sys

import pytest
from PIL import Image

from jnpl.data.sources import folder
from jnpl.internal.errors import InputError


def touch(root, *names):
    order = list(names)
    random.Random(len(order)).shuffle(order)  # what the system lists first must not matter
    for name in order:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (2, 2)).save(path, "PNG")


def test_classes_are_sub_folders_and_ids_are_paths(tmp_path):
    touch(tmp_path, "dog/2.png", "dog/10.PNG", "cat/deep/er/a.JPG", "cat/b.jpeg", "Zebra/x.webp")
    source = folder.load(tmp_path)
    assert source.class_names == ("Zebra", "cat", "dog")
    assert source.ids.tolist() == ["Zebra/x.webp", "cat/b.jpeg", "cat/deep/er/a.JPG", "dog/10.PNG", "dog/2.png"]
    assert source.labels.tolist() == [0, 1, 1, 2, 2]
    assert source.name == tmp_path.name
    assert source.kind == "image"
    assert (source.true_labels, source.test) == (None, None)
    assert all(source.inputs.read(position, 4).shape == (4, 4, 3) for position in range(5))


def test_the_same_every_time(tmp_path):
    touch(tmp_path, *(f"{label}/{number}.png" for label in "abc" for number in range(12)))
    first, second = folder.load(tmp_path), folder.load(str(tmp_path))
    assert first.ids.tolist() == second.ids.tolist()
    before = first.fingerprint()
    assert before == second.fingerprint()
    (tmp_path / "a" / "3.png").write_bytes(b"changed")
    assert before != folder.load(tmp_path).fingerprint()


def test_what_is_no_image_is_passed_over(tmp_path):
    touch(tmp_path, "a/1.png", "b/1.png", ".hidden/1.png", "a/.2.png", "a/.cache/3.png", "__MACOSX/a/1.png")
    for name in ("a/Thumbs.db", "b/notes.txt", "b/no_ending", "readme.md", "b/report.pdf"):
        (tmp_path / name).write_bytes(b"x")
    assert folder.load(tmp_path).ids.tolist() == ["a/1.png", "b/1.png"]


def test_unicode_names(tmp_path):
    touch(tmp_path, "猫/写真 1.png", "größe/é.png")
    source = folder.load(tmp_path)
    assert source.class_names == ("größe", "猫")
    assert source.inputs.read(1).shape == (2, 2, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps names that are not Unicode")
def test_names_that_are_not_unicode_can_be_printed_and_read(tmp_path):
    touch(tmp_path, "a/1.png", "b/1.png")
    (tmp_path / "b" / "1.png").rename(tmp_path / "b" / os.fsdecode(b"caf\xe9.png"))
    source = folder.load(tmp_path)
    assert source.ids.tolist() == ["a/1.png", "b/caf\\udce9.png"]
    assert source.inputs.read(1).shape == (2, 2, 3)


def test_images_without_a_class(tmp_path):
    touch(tmp_path, "stray.png", "cat/1.png", "dog/1.png")
    with pytest.raises(InputError, match=r"outside any class, such as 'stray.png'; one sub-folder per class"):
        folder.load(tmp_path)


def test_empty_class_missing_folder_and_one_class(tmp_path):
    with pytest.raises(InputError, match="holds no folders; one sub-folder"):
        folder.load(tmp_path)
    touch(tmp_path, "cat/1.png")
    assert folder.load(tmp_path).class_names == ("cat",)
    (tmp_path / "dog").mkdir()
    with pytest.raises(InputError, match=r"class folder '.*dog' holds no images"):
        folder.load(tmp_path)
    touch(tmp_path, "eel/1.png")
    assert folder.load(tmp_path).class_names == ("cat", "eel")  # and a note says so
    with pytest.raises(InputError, match=r"no such folder: '.*none'"):
        folder.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"1.png' is not a folder"):
        folder.load(tmp_path / "cat" / "1.png")


def link(target, at):
    try:
        at.symlink_to(target, target_is_directory=True)
    except OSError:
        pytest.skip("links are not allowed here")


def test_links_are_followed_and_loops_end(tmp_path):
    touch(tmp_path / "data", "cat/1.png", "dog/1.png")
    touch(tmp_path / "elsewhere", "more/2.png")
    data = tmp_path / "data"
    link(data / "cat", data / "cat" / "self")
    link(data, data / "cat" / "up")
    link(data / "dog" / "loop", data / "dog" / "loop")
    link(tmp_path / "elsewhere", data / "dog" / "linked")
    link(tmp_path / "elsewhere" / "more", tmp_path / "elsewhere" / "more" / "again")
    assert folder.load(data).ids.tolist() == ["cat/1.png", "dog/1.png", "dog/linked/more/2.png"]


def test_a_link_to_nowhere_counts_and_cannot_be_read(tmp_path):
    from jnpl.data.source import UnreadableError

    touch(tmp_path, "cat/1.png", "dog/1.png")
    link(tmp_path / "gone.png", tmp_path / "dog" / "2.png")
    source = folder.load(tmp_path)
    assert len(source) == 3
    with pytest.raises(UnreadableError, match="no such file"):
        source.inputs.read(2)


@pytest.mark.parametrize("held_out", ["test", "val", "Validation"])
def test_train_and_test_folders(tmp_path, held_out):
    touch(tmp_path, "train/cat/1.png", "train/cat/2.png", "train/dog/1.png", f"{held_out}/dog/9.png")
    source = folder.load(tmp_path)
    assert source.class_names == source.test.class_names == ("cat", "dog")
    assert source.ids.tolist() == ["train/cat/1.png", "train/cat/2.png", "train/dog/1.png"]
    assert source.test.ids.tolist() == [f"{held_out}/dog/9.png"]
    assert source.test.labels.tolist() == [1]
    assert source.test.inputs.read(0).shape == (2, 2, 3)


def test_more_splits_are_for_validation_or_left_out_aloud(tmp_path, caplog):
    touch(tmp_path, *(f"{split}/{label}/1.png" for split in ("train", "val", "test") for label in "ab"))
    source = folder.load(tmp_path)
    assert source.test.ids.tolist() == ["test/a/1.png", "test/b/1.png"]
    assert source.validation.ids.tolist() == ["val/a/1.png", "val/b/1.png"]
    assert caplog.text == ""
    touch(tmp_path, *(f"validation/{label}/1.png" for label in "ab"))
    assert folder.load(tmp_path).validation.ids.tolist() == ["val/a/1.png", "val/b/1.png"]
    assert "test and val are the test and validation data, and validation is left out" in caplog.text


def test_splits_that_disagree(tmp_path):
    touch(tmp_path, "train/cat/1.png", "train/dog/1.png", "test/cow/1.png")
    with pytest.raises(InputError, match="has the class 'cow', which is not among cat, dog"):
        folder.load(tmp_path)
    touch(tmp_path, "train/loose.png")
    with pytest.raises(InputError, match=r"outside any class, such as 'loose.png'"):
        folder.load(tmp_path)


def test_train_may_be_a_class_beside_others(tmp_path):
    touch(tmp_path, "train/1.png", "test/1.png", "tram/1.png")
    assert folder.load(tmp_path).class_names == ("test", "train", "tram")


def test_a_folder_that_may_not_be_read(tmp_path, monkeypatch):
    touch(tmp_path, "cat/1.png", "dog/1.png")
    original = os.scandir

    def scandir(path):
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return original(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=r"cannot read the folder '.*dog': Permission denied"):
        folder.load(tmp_path)


def test_a_folder_above_the_right_one_is_hinted_at(tmp_path):
    touch(tmp_path, "photos/cat/1.png", "photos/dog/2.png")
    with pytest.raises(InputError, match=r"one class, 'photos', which holds the folders cat, dog: .* name '.*photos'$"):
        folder.load(tmp_path)
