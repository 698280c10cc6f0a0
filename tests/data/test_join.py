"""Two sources as one."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from jnpl.data.join import join
from jnpl.data.opening import open_source
from jnpl.internal.errors import InputError


def folder(place, **numbers):
    for name, count in numbers.items():
        (place / name).mkdir(parents=True)
        for at in range(count):
            Image.new("RGB", (8 + at, 8), (at, len(name), 0)).save(place / name / f"{at}.png")
    return open_source(place)


def test_folders_of_images(tmp_path):
    old, new = folder(tmp_path / "old", cat=2, dog=1), folder(tmp_path / "new", bee=1, dog=2)
    both = join(old, replace(new, unreadable={2: "broken"}))
    assert both.class_names == ("cat", "dog", "bee")
    assert both.labels.tolist() == [0, 0, 1, 2, 1, 1]
    assert both.ids.tolist() == [*(f"old/{name}" for name in old.ids), *(f"new/{name}" for name in new.ids)]
    assert both.root == str(tmp_path)
    assert both.unreadable == {5: "broken"}
    for at in range(6):
        expected = old if at < 3 else new
        assert both.inputs.path(at) == expected.inputs.path(at % 3)
        assert np.array_equal(both.inputs.read(at, 8), expected.inputs.read(at % 3, 8))
        assert both.inputs.side(at) == expected.inputs.side(at % 3)
        assert both.inputs.content(at) == expected.inputs.content(at % 3)
    for name in ("sizes", "modified_times"):
        wanted = [*getattr(old.inputs, name)(), *getattr(new.inputs, name)()]
        assert getattr(both.inputs, name)().tolist() == wanted
    assert both.fingerprint() != join(new, old).fingerprint()
    with pytest.raises(InputError, match=r"old has 3 samples that are in old and new already, first 'old/cat/0\.png'"):
        join(both, old)


def test_tables():
    frame = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "label": [*"abab"], "who": [*"xyxy"]})
    old = open_source(frame, group_columns=["who"])
    new = open_source(frame.drop(columns="who").replace("b", "c"), encoding=old.encoding)
    both = join(replace(old, decided=np.array([1, -1, -1, -1])), new)
    assert both.ids.tolist() == list(range(8))
    assert both.inputs.array().ravel().tolist() == [1, 2, 3, 4] * 2
    assert both.cells["size"].tolist() == [1, 2, 3, 4] * 2
    assert both.decided.tolist() == [1] + [-1] * 7
    assert both.groups["who"].tolist() == [*"xyxy", None, None, None, None]
    assert both.class_names == ("a", "b", "c")


def test_texts():
    old, new = (open_source(([f"{name} {at}" for at in range(3)], [0, 1, 1])) for name in ("old", "new"))
    both = join(old, new)
    assert both.inputs.texts().tolist() == ["old 0", "old 1", "old 2", "new 0", "new 1", "new 2"]
    assert both.true_labels is None


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (["a", "b"], "holds texts, but .* vectors"),
        ([[1.0, 2.0], [2.0, 3.0]], r"shape \(2,\), but .* of \(1,\)"),
    ],
)
def test_data_of_another_kind_are_refused(new, message):
    with pytest.raises(InputError, match=message):
        join(open_source(([[0.0], [1.0]], ["x", "y"])), open_source((new, ["x", "y"])))


def test_tags_are_not_joined():
    old = open_source(([[0.0], [1.0]], ["x", "y"]))
    with pytest.raises(InputError, match="several tags per sample"):
        join(old, replace(old, tags=np.eye(2, dtype=bool)))
