"""A folder of images by corrected class, no two names alike, and nothing of the user's is touched."""

import hashlib
import json
import os

import pytest
from tests.helpers.marks import posix
from tests.helpers.runs import findings

from jnpl.internal.errors import InputError
from jnpl.outputs import image_folder
from jnpl.outputs.corrections import correct
from jnpl.outputs.image_folder import copy_image_folder, data_root, image_place
from jnpl.run_folder import RunFolder

PATHS = ["cat/1.png", "cat/2.png", "cat/deep/3.png", "dog/1.png", "dog/2.png", "eel/3.png"]
# Samples 1 and 2 become a dog and an eel: their names are taken there.
TREE = ["cat/1.png", "dog/1.png", "dog/2-2.png", "dog/2.png", "eel/3-2.png", "eel/3.png"]


@pytest.fixture
def root(tmp_path):
    for path in PATHS:
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).write_text(f"content of {path}")
    return tmp_path / "data"


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def state(folder):
    return {
        path.relative_to(folder).as_posix(): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("how", ["copy", pytest.param("link", marks=posix), pytest.param("hard", marks=posix)])
def test_by_corrected_class(root, tmp_path, how):
    before = state(root)
    assert copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "clean", how) == []
    assert files(tmp_path / "clean") == TREE
    assert (tmp_path / "clean" / "dog" / "1.png").read_text() == "content of dog/1.png"
    assert (tmp_path / "clean" / "dog" / "2-2.png").read_text() == "content of cat/2.png"
    assert (tmp_path / "clean" / "eel" / "3-2.png").read_text() == "content of cat/deep/3.png"
    assert state(root) == before
    assert sorted(each.name for each in (tmp_path / "clean").iterdir()) == ["cat", "dog", "eel"]
    assert (tmp_path / "clean" / "eel" / "3.png").is_symlink() == (how == "link")
    same = (tmp_path / "clean" / "eel" / "3.png").stat().st_ino == (root / "eel" / "3.png").stat().st_ino
    assert same == (how != "copy")


@posix
def test_links_lead_there_from_anywhere(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy_image_folder(correct(findings(paths=PATHS)), root.relative_to(tmp_path), tmp_path / "clean", "link")
    monkeypatch.chdir(root)
    assert (tmp_path / "clean" / "cat" / "1.png").read_text() == "content of cat/1.png"


def test_an_empty_folder_is_filled_and_parents_are_made(root, tmp_path):
    (tmp_path / "empty").mkdir()
    copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "empty", "copy")
    copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "new" / "deep", "copy")
    assert files(tmp_path / "empty") == files(tmp_path / "new" / "deep") == TREE


def test_names_differ_even_where_case_does_not_count(root, tmp_path):
    names = ["cat/A.png", "cat/a.PNG", "cat/a-2.png", "x/a.png", "y/e\u0301.png", "y/\u00e9.png"]
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(name)
    same = findings(paths=names, class_names=["x", "y", "z"])
    corrected = correct(same, decisions=dict.fromkeys(names, "x"))
    copy_image_folder(corrected, root, tmp_path / "clean", "copy")
    found = files(tmp_path / "clean")
    assert len(found) == len({name.casefold() for name in found}) == 6
    assert {(tmp_path / "clean" / each).read_text() for each in found} == set(names)
    copy_image_folder(corrected, root, tmp_path / "again", "copy")
    assert state(tmp_path / "clean").keys() == state(tmp_path / "again").keys()


def test_missing_files_are_told(root, tmp_path):
    (root / "cat" / "1.png").unlink()
    (root / "dog" / "1.png").unlink()
    (root / "dog" / "1.png").mkdir()
    failed = copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "clean", "copy")
    assert failed == [("cat/1.png", "no such file"), ("dog/1.png", "not a file")]
    assert len(files(tmp_path / "clean")) == 4


def test_refusals_leave_everything_as_it_was(root, tmp_path):
    corrected = correct(findings(paths=PATHS))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    before = state(tmp_path)
    for target, message in (
        (tmp_path / "full", "is not empty .it holds 'mine.txt'.; name a new or an empty folder"),
        (tmp_path / "full" / "mine.txt", "is a file; name a new or an empty folder"),
        (root, "lies inside the data folder"),
        (root / "clean", "lies inside the data folder"),
        (root / "cat" / ".." / "clean", "lies inside the data folder"),
    ):
        with pytest.raises(InputError, match=message):
            copy_image_folder(corrected, root, target, "copy")
    with pytest.raises(InputError, match=r"none of the 6 images is in .*; name the data folder with --root"):
        copy_image_folder(corrected, tmp_path / "full", tmp_path / "clean", "copy")
    with pytest.raises(InputError, match="the data of this run are rows, not image files"):
        copy_image_folder(correct(findings()), root, tmp_path / "clean", "copy")
    assert state(tmp_path) == before
    assert not (tmp_path / "clean").exists()


@posix
def test_a_link_into_the_data_folder_is_seen_through(root, tmp_path):
    (tmp_path / "door").symlink_to(root)
    with pytest.raises(InputError, match="lies inside the data folder"):
        copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "door" / "clean", "copy")


@pytest.mark.parametrize("name", ["a/b", "..", "", ".hidden", "a\\b", "nul\0"])
def test_classes_that_are_no_folder_names(root, tmp_path, name):
    corrected = correct(findings(paths=PATHS, class_names=[name, "dog", "eel"]))
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        copy_image_folder(corrected, root, tmp_path / "clean", "copy")
    assert not (tmp_path / "clean").exists()


def test_a_full_disk_leaves_nothing(root, tmp_path, monkeypatch):
    real, calls = image_folder.shutil.copy2, []

    def copy(source, place):
        calls.append(place)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return real(source, place)

    monkeypatch.setattr(image_folder.shutil, "copy2", copy)
    with pytest.raises(InputError, match=r"cannot copy .* No space left on device"):
        copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "clean", "copy")
    assert not (tmp_path / "clean").exists()


def test_hard_links_across_file_systems(root, tmp_path, monkeypatch):
    def link(source, place):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(InputError, match=r"cannot link '.*hard links stay within a file system: take --copy"):
        copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "clean", "hard")


def test_where_the_images_lie(root, tmp_path):
    with pytest.raises(InputError, match="does not say where its images lie; name the data folder with --root"):
        data_root(RunFolder(tmp_path))
    (tmp_path / "data.json").write_text(json.dumps({"root": str(root)}))
    assert data_root(RunFolder(tmp_path)) == root
    assert data_root(RunFolder(tmp_path), tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"the images' folder .*gone' is not there; name it with --root"):
        data_root(RunFolder(tmp_path), tmp_path / "gone")
    for text, message in (
        ('{"root": null}', "does not say where"),
        ("[]", "must be an object"),
        ("{", "cannot be read"),
    ):
        (tmp_path / "data.json").write_text(text)
        with pytest.raises(InputError, match=message):
            data_root(RunFolder(tmp_path))


@posix
def test_a_copy_that_was_killed_can_be_repeated(root, tmp_path):
    left = tmp_path / ".clean.4194305.tmp"  # larger than any process number
    (left / "cat").mkdir(parents=True)
    (left / "cat" / "1.png").symlink_to(root / "cat" / "1.png")
    before = state(root)
    assert copy_image_folder(correct(findings(paths=PATHS)), root, tmp_path / "clean", "copy") == []
    assert files(tmp_path / "clean") == TREE
    assert sorted(each.name for each in tmp_path.iterdir()) == ["clean", "data"]
    assert state(root) == before


@posix
def test_names_that_are_not_unicode_reach_the_tree(root, tmp_path):
    (root / "cat" / "1.png").rename(root / "cat" / os.fsdecode(b"\xff.png"))
    paths = [r"cat/\udcff.png", *PATHS[1:]]
    assert copy_image_folder(correct(findings(paths=paths)), root, tmp_path / "clean", "copy") == []
    assert (tmp_path / "clean" / "cat" / os.fsdecode(b"\xff.png")).read_text() == "content of cat/1.png"


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "cat/../../secret.png"])
def test_nothing_outside_the_folder_of_the_images_is_copied(root, tmp_path, path):
    (tmp_path / "secret.png").write_text("secret")
    with pytest.raises(InputError, match="lies outside the images' folder"):
        copy_image_folder(correct(findings(paths=[path, *PATHS[1:]])), root, tmp_path / "clean", "copy")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "secret.png"]
    assert image_place(root, str(root / "cat" / "1.png")) == root / "cat" / "1.png"  # below it, from "/"
    assert image_place(root, "cat/../dog/1.png") == root / "dog" / "1.png"
