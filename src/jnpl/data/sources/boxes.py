"""Boxes of objects in images, from a COCO .json or the data.yaml of YOLO: crops with one label, or images with tags."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Array, Inputs, Labels, Source, UnreadableError
from jnpl.data.sources.folder import walk
from jnpl.data.sources.images import ImageFiles, any_exists, extensions, file_samples
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.files import printable, reason_of, require_file
from jnpl.internal.json_files import read_json

MARGIN = 0.1  # around a box, as a share of its longer side
YAML = "data.yaml"
_SPLITS = ("train", "val", "valid", "test")
_CLASS = re.compile(rb"\s*(\d{1,9})(?:\.0*)?(?=\s)")  # the class number that a line of YOLO starts with
_LOG = logging.getLogger("jnpl")


@dataclass(frozen=True, eq=False)
class Boxes:
    """N boxes in M images, those of an image after each other."""

    name: str
    root: Path  # where the paths of the images start
    images: list[str]  # M paths
    stated: Labels  # (M, 2) width and height, 0 if unknown
    image_of: Labels  # (N,)
    corners: npt.NDArray[np.float64]  # (N, 4) left, top, right, bottom
    shares: bool  # whether corners are shares of width and height; else they are pixels
    numbers: Labels  # (N,) category ids, or class numbers of YOLO
    places: list[int]  # N annotation ids, or lines of the label file of the image, from 1
    names: dict[int, str]  # category id -> name

    @property
    def ids(self) -> list[str]:
        """Image and place of each box, such as "images/7.jpg#12"."""
        pairs = zip(self.image_of.tolist(), self.places, strict=True)
        return [printable(f"{self.images[image]}#{place}") for image, place in pairs]


class ImageCrops(Inputs):
    """N boxes cut out of image files with a small margin; `read` returns uint8 RGB (H, W, 3)."""

    def __init__(self, files: ImageFiles, boxes: Boxes) -> None:
        self._files, self._boxes = files, boxes
        self._last: tuple[int, Array] | None = None  # boxes of one image follow each other: it is decoded once

    kind = "image"

    def __len__(self) -> int:
        return len(self._boxes.image_of)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the crop at `position`: uint8 (H, W, 3), or (size, size, 3). Raises UnreadableError."""
        from PIL import Image  # noqa: PLC0415 - slow to load

        boxes, pixels = self._boxes, self._image(int(self._boxes.image_of[position]))
        height, width = pixels.shape[:2]
        corners = boxes.corners[position] * ((width, height, width, height) if boxes.shares else 1.0)
        margin = MARGIN * max(corners[2] - corners[0], corners[3] - corners[1])
        left, top = (max(math.floor(low - margin), 0) for low in corners[:2])
        right, bottom = min(math.ceil(corners[2] + margin), width), min(math.ceil(corners[3] + margin), height)
        if right <= left or bottom <= top:
            raise UnreadableError("the box lies outside the image")
        crop = pixels[top:bottom, left:right]
        if size is None:
            return crop.copy()
        resized = Image.fromarray(crop).resize((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
        return np.array(resized)

    def _image(self, number: int) -> Array:
        if self._last is None or self._last[0] != number:
            pixels = self._files.read(number)
            height, width = pixels.shape[:2]
            wide, high = self._boxes.stated[number].tolist()
            if wide and high and (wide, high) != (width, height):
                raise UnreadableError(f"the image has {width} x {height} pixels, its annotations say {wide} x {high}")
            self._last = (number, pixels)
        return self._last[1]

    def sizes(self) -> Labels:
        """Return the bytes of the file of each box (N,); 0 where it is missing."""
        return self._files.sizes()[self._boxes.image_of]

    def modified_times(self) -> Labels:
        """Return when the file of each box was last changed (N,), in nanoseconds; 0 where it is missing."""
        return self._files.modified_times()[self._boxes.image_of]

    def are_parts(self) -> bool:
        """Return True."""
        return True

    def digest(self) -> bytes:
        """Return the SHA-256 of all boxes."""
        return hashlib.sha256(b"boxes" + self._boxes.corners.astype("<f8").tobytes()).digest()

    def select(self, positions: Labels) -> ImageCrops:
        """Return the boxes at some positions (M,)."""
        boxes = self._boxes
        some = replace(boxes, image_of=boxes.image_of[positions], corners=boxes.corners[positions])
        return ImageCrops(self._files, some)


def load(
    path: str | Path,
    *,
    crops: bool = False,
    image_root: str | os.PathLike[str] | None = None,
    multi_label: bool = False,
) -> Source:
    """Open the boxes of a COCO .json, or of the data.yaml of YOLO (or its folder).

    Args:
        path: the .json with images, annotations and categories, or data.yaml.
        crops: each box is a sample with one label; an id is the path of an image, # and the id of the annotation or the
            line of the label file. Else each image is a sample, whose tags are the classes of its boxes.
        image_root: COCO: the folder that the names of images start from; by default that of the file, or `images`, or
            the name of the split, in or beside it.
        multi_label: must not be true together with `crops`, which have one label each.
    """
    if crops and multi_label:
        raise InputError("crops (--crops) have one label each: multi_label (--multi-label) is for whole images")
    boxes = read_boxes(path, image_root, crowds=not crops)
    present = set(boxes.numbers.tolist())
    order = [number for number in boxes.names if number in present]
    label_of = {number: label for label, number in enumerate(order)}
    labels = np.array([label_of[number] for number in boxes.numbers.tolist()], np.int64)
    names = tuple(boxes.names[number] for number in order)
    if not crops:
        samples = file_samples(boxes.images, boxes.root)
        tags = np.zeros((len(boxes.images), len(names)), bool)
        tags[boxes.image_of, labels] = True
        return Source(boxes.name, labels=np.zeros(len(tags), np.int64), class_names=names, tags=tags, **samples)
    files = ImageFiles(boxes.images, boxes.root)
    return Source(boxes.name, ImageCrops(files, boxes), labels, names, np.array(boxes.ids, object))


def read_boxes(path: str | Path, image_root: str | os.PathLike[str] | None = None, *, crowds: bool = False) -> Boxes:
    """Read a COCO .json, or the data.yaml of YOLO or its folder; `crowds` says whether boxes of crowds count."""
    place = Path(path)
    if place.suffix.lower() == ".json":
        return _read_coco(place, image_root, crowds=crowds)
    if image_root is not None:
        raise InputError(f"image_root (--image-root) has no meaning for {str(path)!r}, which says where its images are")
    return _read_yolo(place / YAML if place.is_dir() else place)


# COCO


def read_coco_file(path: Path) -> dict[str, Any]:
    """Return the content of a COCO .json, of which images, annotations and categories are lists of objects."""
    try:
        content = read_json(path)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not valid JSON: {one_line(error)}") from error
    for name in ("images", "annotations", "categories"):
        entries = content.get(name) if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"{str(path)!r} is no COCO file: it has no list {name!r} of objects")
    made: dict[str, Any] = content
    return made


def _read_coco(path: Path, image_root: str | os.PathLike[str] | None, *, crowds: bool) -> Boxes:
    where, content = repr(str(path)), read_coco_file(path)
    names = dict(_entries(content["categories"], "name", str, f"category of {where}"))
    images = dict(_entries(content["images"], "file_name", str, f"image of {where}"))
    _check_different(names.values(), f"categories of {where} have the name")
    _check_different(images.values(), f"images of {where} have the file name")
    row_of = {image: row for row, image in enumerate(images)}
    sides = [[image.get(side) for side in ("width", "height")] for image in content["images"]]
    stated = [[side if type(side) is int and 0 < side < 2**31 else 0 for side in row] for row in sides]
    kept, left_out, of_crowds = list[tuple[int, int, int, list[float]]](), list[str](), 0
    entries = _entries(content["annotations"], "category_id", int, f"annotation of {where}")
    for (place, category), annotation in zip(entries, content["annotations"], strict=True):
        if type(image := annotation.get("image_id")) is not int or image not in row_of:
            raise InputError(f"annotation {place} of {where} is of image {image!r}, which is not among its images")
        if category not in names:
            shown = ", ".join(f"{number} {name}" for number, name in list(names.items())[:20])
            raise InputError(f"annotation {place} of {where} has the category {category}; there are {shown}")
        box = _box(annotation.get("bbox"), f"annotation {place} of {where}")
        if annotation.get("iscrowd") == 1 and not crowds:
            of_crowds += 1
        elif _is_visible(box, stated[row_of[image]]):
            kept.append((row_of[image], place, category, box))
        else:
            left_out.append(f"annotation {place}")
    _note_left_out(path, of_crowds, "of crowds (iscrowd)")
    _note_left_out(path, len(left_out), "without an area inside the image", left_out)
    paths = list(images.values())
    return _made(path, _image_folder(path, image_root, paths), paths, stated, kept, names, shares=False)


def _entries(entries: list[dict[str, Any]], key: str, kind: type, what: str) -> Iterator[tuple[int, Any]]:
    """Yield id and the value at `key` of each entry; ids are whole numbers and different."""
    seen = set[int]()
    for row, entry in enumerate(entries):
        number, value = entry.get("id"), entry.get(key)
        if type(number) is not int or type(value) is not kind or value == "":
            must = "a text" if kind is str else "a whole number"
            raise InputError(f"each {what} has an id and {must} as {key}, but number {row} (counted from 0) has not")
        if number in seen:
            raise InputError(f"two entries have the id {number}: each {what} has one of its own")
        seen.add(number)
        yield number, value


def _check_different(names: Collection[str], what: str) -> None:
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"two {what} {twice[0]!r}")


def _box(values: Any, what: str) -> list[float]:
    """Return left, top, right, bottom of x, y, width, height."""
    fits = isinstance(values, list) and len(values) == 4 and all(type(value) in (int, float) for value in values)
    if not fits or not all(abs(value) < 1e9 for value in values):  # nan is not
        raise InputError(f"{what} has no box: bbox is [x, y, width, height] in pixels, not {str(values)[:60]}")
    left, top, width, height = map(float, values)
    return [left, top, left + width, top + height]


def _is_visible(corners: Sequence[float], size: Sequence[float] | Labels) -> bool:
    """Whether a box has an area inside an image (width, height), which is 0 if unknown."""
    left, top, right, bottom = corners
    wide, high = (float(side) or math.inf for side in size)
    return min(right, wide) - max(left, 0) > 0 and min(bottom, high) - max(top, 0) > 0


def _image_folder(path: Path, image_root: str | os.PathLike[str] | None, images: list[str]) -> Path:
    """Return the first folder in which one of the first images is."""
    if image_root is not None:
        folders = [Path(image_root)]
    else:
        split = path.stem.rpartition("_")[2]  # instances_train2017.json
        inside = [base / name for base in (path.parent, path.parent.parent) for name in ("", "images", split)]
        folders = [*inside, path.parent.parent / "images" / split]
    for folder in folders:
        if any_exists(images, folder):
            return folder
    first = f", first {images[0]!r}" if images else ""
    hint = "image_root (--image-root) says where their names start"
    raise InputError(f"{str(path)!r} names images that are not in {str(folders[0])!r}{first}; {hint}")


# YOLO


def _read_yolo(path: Path) -> Boxes:
    facts = _read_yaml(path)
    names = _class_names(facts.get("names"), path)
    root = _yolo_root(facts.get("path"), path)
    images = list(dict.fromkeys(_yolo_images(facts, root, path)))
    if not images:
        raise InputError(f"{str(path)!r} names no images: train, val or test is a folder of them, or a .txt of paths")
    kept, left_out, labelled = list[tuple[int, int, int, list[float]]](), list[str](), 0
    for row, image in enumerate(images):
        lines = read_label_lines(label_file(root, image))
        labelled += lines is not None
        for place, line in enumerate(lines or (), 1):
            if not line.strip():
                continue
            where = f"line {place} of {str(label_file(root, image))!r}"
            number, corners = _read_line(line, where)
            if number not in names:
                shown = ", ".join(f"{key} {name}" for key, name in list(names.items())[:20])
                raise InputError(f"{where} has the class {number}; {str(path)!r} has {shown}")
            if _is_visible(corners, (1, 1)):
                kept.append((row, place, number, corners))
            else:
                left_out.append(where)
    if not labelled:
        first = str(label_file(root, images[0]))
        raise InputError(f"{str(path)!r} has images without label files, such as {first!r} for {images[0]!r}")
    _note_left_out(path, len(left_out), "without an area inside the image", left_out)
    return _made(path, root, images, [[0, 0]] * len(images), kept, names, shares=True)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - for this format only

    try:
        facts = yaml.safe_load(require_file(path).read_bytes())
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {reason_of(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not valid YAML: {one_line(error)}") from error
    if not isinstance(facts, dict) or "names" not in facts:
        raise InputError(f"{str(path)!r} is no data.yaml of YOLO: it has no entry names")
    return facts


def _class_names(names: Any, path: Path) -> dict[int, str]:
    if isinstance(names, list):
        names = dict(enumerate(names))
    fits = isinstance(names, dict) and all(type(key) is int and key >= 0 for key in names)
    if not fits or not names or not all(isinstance(name, str | int | float) for name in names.values()):
        raise InputError(f"names in {str(path)!r} must be a list of class names, or class number: name")
    texts = {key: str(name) for key, name in names.items()}
    _check_different(texts.values(), f"classes in {str(path)!r} have the name")
    return texts


def _yolo_root(named: Any, path: Path) -> Path:
    if named in (None, ""):
        return path.parent
    root = path.parent / str(named)
    if not root.is_dir() and (path.parent / "images").is_dir():  # written for another place
        root = path.parent
    if not root.is_dir():
        raise InputError(f"path in {str(path)!r} is {str(named)!r}, and there is no folder {str(root)!r}")
    return root


def _yolo_images(facts: dict[str, Any], root: Path, path: Path) -> Iterator[str]:
    """Yield the paths of the images of all splits, relative to the root where they are inside it."""
    endings = extensions()
    for split in _SPLITS:
        named = facts.get(split) or []
        for entry in named if isinstance(named, list) else [named]:
            text = str(entry)
            places = [root / text, root / text.removeprefix("../")]  # Roboflow writes ../train/images
            place = next((place for place in places if place.exists()), None)
            if place is None:
                raise InputError(f"{split} in {str(path)!r} is {text!r}, and there is no {str(places[0])!r}")
            if place.is_dir():
                files = [f"{place}/{file.path}" for file in walk(place)]
                listed = sorted(name for name in files if PurePosixPath(name).suffix.lower() in endings)
            else:
                lines = require_file(place).read_text("utf-8", "replace").splitlines()
                listed = [str(root / line.strip()) for line in lines if line.strip()]
            yield from (_relative(name, root) for name in listed)


def _relative(name: str, root: Path) -> str:
    place = Path(name)
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else place.as_posix()


def label_file(root: Path, image: str) -> Path:
    """Return the label file of an image of YOLO: the last folder "images" becomes "labels", and the ending .txt."""
    place = (root / image).with_suffix(".txt")
    parts = list(place.parts)
    at = max((number for number, part in enumerate(parts[:-1]) if part == "images"), default=None)
    if at is not None:
        parts[at] = "labels"
    return Path(*parts)


def read_label_lines(path: Path) -> list[bytes] | None:
    """Return the lines of a label file with their ends; None if there is none: the image shows no object."""
    if not path.exists():
        return None
    try:
        return require_file(path).read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {reason_of(error)}") from error


def with_class(line: bytes, number: int) -> bytes:
    """Return a line of a label file with another class.

    >>> with_class(b"3 0.5 0.5 0.1 0.2\\r\\n", 11)
    b'11 0.5 0.5 0.1 0.2\\r\\n'
    """
    head = _CLASS.match(line)
    return line if head is None else line[: head.start(1)] + str(number).encode() + line[head.end() :]


def _read_line(line: bytes, where: str) -> tuple[int, list[float]]:
    """Return class and left, top, right, bottom of a line: class x y width height, or class and a polygon."""
    head = _CLASS.match(line)
    try:
        values = [float(text) for text in line.split()[1:]]
    except ValueError:
        values = []
    polygon = len(values) >= 6 and len(values) % 2 == 0
    if head is None or not (polygon or len(values) in (4, 5)) or not all(abs(value) < 1e6 for value in values):
        shown = line.decode("utf-8", "replace").strip()[:60]
        raise InputError(f"{where} must be: class x y width height, or class x1 y1 x2 y2 x3 y3 ..., not {shown!r}")
    if polygon:
        across, down = values[::2], values[1::2]
        return int(head[1]), [min(across), min(down), max(across), max(down)]
    x, y, width, height = values[:4]  # a fifth number is the confidence of a model
    return int(head[1]), [x - width / 2, y - height / 2, x + width / 2, y + height / 2]


def _made(
    path: Path,
    root: Path,
    images: list[str],
    stated: list[list[int]],
    kept: list[tuple[int, int, int, list[float]]],
    names: dict[int, str],
    *,
    shares: bool,
) -> Boxes:
    """Return boxes (image, place, category, corners), sorted by image."""
    if not kept:
        raise InputError(f"{str(path)!r} holds no boxes")
    kept.sort(key=lambda box: box[0])
    return Boxes(
        name=path.resolve().parent.name if path.name == YAML else path.stem,
        root=root,
        images=images,
        stated=np.array(stated, np.int64),
        image_of=np.array([box[0] for box in kept], np.int64),
        corners=np.array([box[3] for box in kept], np.float64),
        shares=shares,
        numbers=np.array([box[2] for box in kept], np.int64),
        places=[box[1] for box in kept],
        names=names,
    )


def _note_left_out(path: Path, count: int, what: str, places: Sequence[str] = ()) -> None:
    if count:
        boxes, are = ("1 box", "is") if count == 1 else (f"{count:,} boxes", "are")
        _LOG.warning("%s: %s %s %s left out%s", path, boxes, what, are, f", first {places[0]}" if places else "")
