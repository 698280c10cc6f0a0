"""Boxes of COCO and YOLO as crops, and as tags of images."""

import copy
import logging
import os
import pickle

import numpy as np
import pytest
from PIL import Image
from tests.helpers.boxes import COLOURS, coco, coco_content, yolo

from jnpl.data.opening import open_source
from jnpl.data.source import UnreadableError
from jnpl.data.sources import boxes
from jnpl.data.split import part
from jnpl.internal.errors import InputError


def changed(entry, row, /, **values):
    """Return a COCO content with other entries in one row of a list."""
    content = copy.deepcopy(coco_content())
    content[entry][row].update(values)
    return {entry: content[entry]}


def test_crops_of_coco(tmp_path):
    source = open_source(coco(tmp_path), crops=True)
    assert (source.name, source.class_names, len(source)) == ("instances", ("red", "green", "blue"), 12)
    assert source.ids[:4].tolist() == ["0.png#100", "0.png#104", "0.png#108", "1.png#101"]  # by image
    assert source.labels.tolist() == [0, 1, 2] * 3 + [1, 2, 2]
    assert (source.paths, source.root) == (None, None)
    crop = source.inputs.read(1)
    margin = 2  # a tenth of 12, rounded outwards
    assert crop.shape == (12 + 2 * margin, 12 + 2 * margin, 3)
    assert (crop[margin:-margin, margin:-margin] == COLOURS[3]).all()
    assert (crop[0] == 255).all()
    assert source.inputs.read(0)[margin, margin].tolist() == [250, 0, 0]
    assert source.inputs.read(0).shape == (16, 16, 3)
    assert source.inputs.read(2, 8).shape == (8, 8, 3)
    some = pickle.loads(pickle.dumps(part(source, np.array([11, 4]))))
    assert some.inputs.read(1).tolist() == source.inputs.read(4).tolist()
    assert some.fingerprint() != part(source, np.array([11, 7])).fingerprint()
    assert source.inputs.sizes()[0] == (tmp_path / "images" / "0.png").stat().st_size
    assert source.inputs.modified_times().all()


def test_an_image_is_decoded_once(tmp_path, monkeypatch):
    source, read = open_source(coco(tmp_path), crops=True), []
    real = boxes.ImageFiles.read
    monkeypatch.setattr(boxes.ImageFiles, "read", lambda files, at, *more: read.append(at) or real(files, at, *more))
    for position in range(len(source)):
        source.inputs.read(position, 8)
    assert read == [0, 1, 2, 3]


def test_crops_of_yolo(tmp_path):
    source = open_source(yolo(tmp_path), crops=True)
    assert source.ids.tolist() == [f"images/{page}.png#{line}" for page in (0, 1) for line in (1, 2, 3)] + [
        "images/3.png#2",
        "images/3.png#3",
    ]
    assert source.labels.tolist() == [0, 1, 2, 0, 1, 2, 1, 2]
    assert (source.inputs.read(1)[2:-2, 2:-2] == COLOURS[3]).all()
    assert source.inputs.read(6).shape == (12 + 2 * 2, 6 + 2 * 2, 3)  # the box around the polygon
    assert open_source(tmp_path, crops=True).ids.tolist() == source.ids.tolist()


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("train: ../train/images\nval: ../valid/images\nnames: {0: red, 1: green, 2: blue}", "train/images/0.png"),
        ("train: all.txt\nnames:\n  - red\n  - green\n  - blue\n", "images/0.png"),
        ("path: /nowhere/at/all\ntrain: images\nnames: [red, green, blue]", "images/0.png"),
    ],
    ids=["Roboflow", "list of paths", "moved"],
)
def test_places_of_yolo_images(tmp_path, text, there):
    path = yolo(tmp_path / "data")
    path.write_text(text)
    if there.startswith("train"):
        for split in ("train", "valid"):
            (path.parent / split).mkdir()
        (path.parent / "valid" / "images").mkdir()
        for name in ("images", "labels"):
            (path.parent / name).rename(path.parent / "train" / name)
    (path.parent / "all.txt").write_text("./images/0.png\nimages/1.png\n\n")
    found = boxes.read_boxes(path)
    assert os.path.normpath(found.images[0]) == there
    assert found.numbers.tolist()[:3] == [0, 1, 2]


@pytest.mark.parametrize("place", ["annotations", "images", "", "labels/coco"])
def test_places_of_coco_images(tmp_path, place):
    path = coco(tmp_path)
    (tmp_path / place).mkdir(exist_ok=True, parents=True)
    moved = path.rename(tmp_path / place / path.name)
    if place == "labels/coco":
        with pytest.raises(InputError, match=r"names images that are not in .*first '0.png'; image_root"):
            open_source(moved, crops=True)
    source = open_source(moved, crops=True, image_root=tmp_path / "images" if place == "labels/coco" else None)
    assert source.inputs.read(0).shape == (16, 16, 3)


@pytest.mark.parametrize("form", [coco, yolo])
def test_tags_of_whole_images(tmp_path, form):
    source = boxes.load(form(tmp_path))
    assert source.class_names == ("red", "green", "blue")
    assert source.tags.tolist()[:2] == [[True] * 3] * 2
    assert source.tags.tolist()[3] == [False, True, True]
    assert source.tags.tolist()[2] == [form is coco] * 3  # no label file: nothing in it
    assert source.ids[3].endswith("3.png")
    assert source.inputs.read(0).shape == (24, 60, 3)


def test_crowds_are_tags_but_no_crops(tmp_path, caplog):
    path = coco(tmp_path, **changed("annotations", 0, iscrowd=1, category_id=9))
    with caplog.at_level(logging.WARNING, "jnpl"):
        assert len(open_source(path, crops=True)) == 11
    assert "1 box of crowds (iscrowd) is left out" in caplog.text
    assert boxes.load(path).tags.tolist()[0] == [False, True, True, True]


@pytest.mark.parametrize("box", [[2, 2, 0, 5], [2, 2, 5, -1], [60, 2, 5, 5], [-9, 2, 9, 5], [2, 24, 1, 1]], ids=str)
def test_boxes_without_an_area_inside_are_left_out(tmp_path, box, caplog):
    with caplog.at_level(logging.WARNING, "jnpl"):
        assert len(open_source(coco(tmp_path, **changed("annotations", 5, bbox=box)), crops=True)) == 11
    assert "1 box without an area inside the image is left out, first annotation 105" in caplog.text


def test_unreadable_crops(tmp_path):
    content = changed("images", 1, width=61)
    del content["images"][2]["width"]
    content |= changed("annotations", 2, bbox=[70, 0, 5, 5])
    source = open_source(coco(tmp_path, **content), crops=True)
    (tmp_path / "images" / "0.png").unlink()
    for position, reason in ((0, "no such file"), (3, "60 x 24 pixels, its annotations say 61 x 24"), (6, "outside")):
        with pytest.raises(UnreadableError, match=reason):
            source.inputs.read(position)
    assert source.inputs.sizes()[:4].tolist() == [0, 0, 0, source.inputs.sizes()[3]]


def test_a_picture_that_is_turned(tmp_path):
    """Boxes are those of the picture as people see it."""
    source = open_source(coco(tmp_path), crops=True)
    picture = Image.open(tmp_path / "images" / "0.png").convert("RGB")
    before, exif = source.inputs.read(0), Image.Exif()
    exif[0x0112] = 6
    picture.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "images" / "0.png", exif=exif)
    assert open_source(tmp_path / "instances.json", crops=True).inputs.read(0).tolist() == before.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"images": None}, "no COCO file: it has no list 'images' of objects"),
        ({"annotations": []}, "holds no boxes"),
        (changed("annotations", 0, category_id=4), r"annotation 100 of .* has the category 4; there are 7 red, 3 gre"),
        (changed("annotations", 0, category_id="7"), "an id and a whole number as category_id, but number 0"),
        (changed("annotations", 1, id=100), "two entries have the id 100: each annotation of"),
        (changed("annotations", 0, image_id=[4]), r"annotation 100 of .* is of image \[4\], which is not among"),
        (changed("annotations", 0, bbox=[0, 0, 1e99, 1]), r"has no box: bbox is \[x, y, width, height\] in pixels"),
        (changed("annotations", 0, bbox="all"), "has no box"),
        (changed("images", 1, id=10), "two entries have the id 10: each image of"),
        (changed("images", 1, file_name="0.png"), "two images of .* have the file name '0.png'"),
        (changed("images", 1, file_name=""), "a text as file_name, but number 1"),
        (changed("categories", 1, name="red"), "two categories of .* have the name 'red'"),
    ],
)
def test_bad_coco_files(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        open_source(coco(tmp_path, **content), crops=True)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("data.yaml", "train: images", "no data.yaml of YOLO: it has no entry names"),
        ("data.yaml", "names: [a", "is not valid YAML"),
        ("data.yaml", "names: {a: b}\ntrain: images", "names in .* must be a list of class names"),
        ("data.yaml", "names: [a, a]\ntrain: images", "two classes in .* have the name 'a'"),
        ("data.yaml", "names: [a]\ntrain: pictures", "train in .* is 'pictures', and there is no"),
        ("data.yaml", "names: [a]\npath: elsewhere\ntrain: images\n", "line 2 of .*0.txt' has the class 1; .* has 0 a"),
        ("data.yaml", "names: [a]", "names no images"),
        ("labels/1.txt", "0 0.5 0.5 0.1\n", "line 1 of .*1.txt' must be: class x y width height, or .* not '0 0.5 0"),
        ("labels/1.txt", "red 0.5 0.5 0.1 0.1\n", "must be: class x y width height"),
        ("labels/1.txt", "0 0.5 nan 0.1 0.1\n", "must be: class x y width height"),
        ("labels/1.txt", "3 0.5 0.5 0.1 0.1\n", "line 1 of .* has the class 3; .* has 0 red, 1 green, 2 blue"),
    ],
)
def test_bad_yolo_files(tmp_path, file, text, message):
    path = yolo(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=message):
        open_source(path, crops=True)


def test_yolo_without_labels_or_root(tmp_path):
    path = yolo(tmp_path)
    for file in (tmp_path / "labels").iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"has images without label files, such as .*labels/0.txt' for 'images/0.png'"):
        open_source(path, crops=True)
    path.write_text("path: nowhere\nnames: [a]\ntrain: pictures")
    (tmp_path / "images").rename(tmp_path / "pictures")
    with pytest.raises(InputError, match=r"path in .* is 'nowhere', and there is no folder"):
        open_source(path, crops=True)
    with pytest.raises(InputError, match=r"image_root .--image-root. has no meaning for"):
        open_source(path, crops=True, image_root=tmp_path)
