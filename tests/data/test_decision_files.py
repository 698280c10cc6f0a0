"""Exports of Label Studio, CVAT and FiftyOne in their documented formats, and tables with columns of any name."""

import json

import numpy as np
import pytest

from jnpl.data.decision_files import read_decisions
from jnpl.data.label_files import WithoutLabel
from jnpl.internal.errors import InputError

IDS = np.array(["cat/1.jpg", "cat/a b.jpg", "dog/1.jpg"], object)
LABEL_STUDIO = [
    {
        "id": 7,
        "data": {"image": "/data/local-files/?d=photos/cat/1.jpg", "id": "cat/1.jpg", "label_quality": 0.1},
        "annotations": [
            {"id": 1, "was_cancelled": False, "result": [{"type": "choices", "value": {"choices": ["cat"]}}]},
            {"id": 2, "was_cancelled": False, "result": [{"type": "choices", "value": {"choices": ["dog"]}}]},
        ],
        "predictions": [],
    },
    {
        "id": 8,
        "data": {"image": "/data/local-files/?d=photos/cat/a%20b.jpg"},
        "annotations": [{"id": 3, "was_cancelled": True, "result": []}],
    },
    {"id": 9, "data": {"id": "dog/1.jpg"}, "annotations": []},
]
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><name>pets</name></task></meta>
<image id="0" name="photos/cat/1.jpg" width="9" height="9"><tag label="dog" source="manual"></tag></image>
<image id="1" name="photos/cat/a b.jpg" width="9" height="9"></image>
<image id="2" name="photos/dog/1.jpg" width="9" height="9"><tag label="dog" source="manual"></tag></image>
</annotations>"""
FIFTYONE = {
    "name": "pets",
    "media_type": "image",
    "samples": [
        {"filepath": "/home/me/photos/cat/1.jpg", "tags": [], "decision": {"_cls": "Classification", "label": "dog"}},
        {"filepath": "cat/a b.jpg", "tags": ["drop"], "decision": None},
        {"filepath": "dog/1.jpg", "tags": ["label issue"], "mine": {"_cls": "Classification", "label": "cat"}},
    ],
}


@pytest.mark.parametrize(
    ("name", "content", "options", "rows"),
    [
        ("ls.json", json.dumps(LABEL_STUDIO), {}, [("cat/1.jpg", "dog"), ("cat/a b.jpg", WithoutLabel.UNSURE)]),
        ("cvat.xml", CVAT, {}, [("cat/1.jpg", "dog"), ("dog/1.jpg", "dog")]),
        ("fo.json", json.dumps(FIFTYONE), {}, [("cat/1.jpg", "dog"), ("cat/a b.jpg", WithoutLabel.DROP)]),
        (
            "fo.json",
            json.dumps(FIFTYONE),
            {"label_column": "mine"},
            [("cat/a b.jpg", WithoutLabel.DROP), ("dog/1.jpg", "cat")],
        ),
        (
            "own.csv",
            "file,verdict\ncat/1.jpg,dog\n",
            {"id_column": "file", "label_column": "verdict"},
            [("cat/1.jpg", "dog")],
        ),
        ("own.json", '[{"id": "cat/1.jpg", "label": "dog"}]', {}, [("cat/1.jpg", "dog")]),
    ],
)
def test_decisions_of_other_tools(tmp_path, name, content, options, rows):
    (tmp_path / name).write_text(content, "utf-8")
    assert read_decisions(tmp_path / name, IDS, **options) == rows


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xml", "<annotations>", "cannot be read as an export of CVAT"),
        ("a.xml", "<annotations/>", "has no decisions"),
        ("a.json", '{"samples": [{"filepath": "x", "tags": []}]}', "has a label in the field 'decision'"),
        ("a.json", "{", "not a valid .json table"),
        ("a.csv", "file,label\nx,y\n", "has no column 'id'"),
    ],
)
def test_files_without_decisions(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        read_decisions(tmp_path / name, IDS)
