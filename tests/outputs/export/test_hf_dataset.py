"""A Hugging Face data set with given and corrected labels."""

import json

import numpy as np
import pytest
from PIL import Image
from tests.helpers.runs import CLASSES, findings, photos

from jnpl.data.sources.huggingface import load as load_hf
from jnpl.internal.errors import InputError

datasets = pytest.importorskip("datasets", reason="needs the extra hf")

from jnpl.outputs.corrections import correct  # noqa: E402 - after the skip
from jnpl.outputs.export.hf_dataset import export, write  # noqa: E402 - after the skip
from jnpl.outputs.export.targets import ExportRequest  # noqa: E402
from jnpl.run_folder import RunFolder  # noqa: E402

PATHS = ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "gone.png", "eel/0.png"]


def test_images_with_both_labels(tmp_path):
    root = photos(tmp_path / "photos")
    found = findings(paths=PATHS, unreadable=[False, False, False, True, False, False])
    assert write(correct(found), tmp_path / "out", root) == {"rows": 6, "missing_images": 1}
    data = datasets.load_from_disk(tmp_path / "out")
    assert data.features["label"].names == list(CLASSES)
    assert data["id"][:] == PATHS
    assert data["given_label"][:] == [0, 0, 0, 1, 1, 2]
    assert data["label"][:] == [0, 1, 2, 1, 1, 2]
    assert data["is_label_issue"][:] == [False, True, True, False, False, False]
    assert [each is None for each in data["image"][:]] == [False, False, False, True, True, False]
    assert (np.asarray(data[1]["image"]) == np.asarray(Image.open(root / "cat" / "1.png"))).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


def test_it_can_be_trained_on(tmp_path):
    write(correct(findings(paths=PATHS)), tmp_path / "out", photos(tmp_path / "photos"))
    source = load_hf(datasets.load_from_disk(tmp_path / "out"), label_column="label")
    assert source.labels.tolist() == [0, 1, 2, 1, 1, 2]
    assert source.inputs.read(0, 8).shape == (8, 8, 3)


def test_rows_have_their_positions(tmp_path):
    (tmp_path / "out").mkdir()
    assert write(correct(findings()), tmp_path / "out", None) == {"rows": 6}
    data = datasets.load_from_disk(tmp_path / "out")
    assert data["id"][:] == list(range(6))
    assert "image" not in data.features


def test_a_folder_with_something_in_it_stays(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    for target in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(InputError, match="is there and not empty; name a new folder"):
            write(correct(findings()), target, None)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_no_image_at_all_is_an_error(tmp_path):
    (tmp_path / "photos").mkdir()
    broken = findings(paths=PATHS, unreadable=[True] + [False] * 5)
    with pytest.raises(InputError, match=r"none of the 6 images is in '.*photos'; name the data folder with --root"):
        write(correct(broken), tmp_path / "out", tmp_path / "photos")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_an_image_outside_its_folder_is_an_error(tmp_path):
    root = photos(tmp_path / "photos")
    with pytest.raises(InputError, match=r"the image '\.\./gone\.png' lies outside the images' folder"):
        write(correct(findings(paths=[*PATHS[:4], "../gone.png", PATHS[5]])), tmp_path / "out", root)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_a_data_set_with_something_else_in_it_stays(tmp_path):
    write(correct(findings()), tmp_path / "out", None)
    write(correct(findings()), tmp_path / "out", None, overwrite=True)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="is there and not empty; name a new folder"):
        write(correct(findings()), tmp_path / "out", None, overwrite=True)
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_progress_bars_are_as_they_were(tmp_path):
    before = datasets.are_progress_bars_disabled()
    write(correct(findings()), tmp_path / "out", None)
    assert datasets.are_progress_bars_disabled() == before


def test_images_inside_a_table_are_named_by_their_ids(tmp_path):
    findings(paths=PATHS).save(tmp_path / "run")
    (tmp_path / "run" / "data.json").write_text(json.dumps({"kind": "image", "root": None}))
    assert export(ExportRequest(RunFolder(tmp_path / "run"), "hf", tmp_path / "out")) == {"rows": 6}
    data = datasets.load_from_disk(tmp_path / "out")
    assert (data["id"][:], "image" in data.features) == (PATHS, False)
