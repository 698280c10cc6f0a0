"""Images and texts inside a table."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from jnpl.data.sources import table
from jnpl.data.sources.images import ImageBytes, ImageFiles
from jnpl.data.sources.sample_columns import texts_of
from jnpl.internal.errors import InputError
from jnpl.internal.tables import save_parquet

LABELS = ["cat", "dog", "cat"]
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def png(value, size=(6, 4)):
    file = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(file, "PNG")
    return file.getvalue()


def cells(*paths):
    return [{"bytes": png(10 * at), "path": path} for at, path in enumerate(paths)]


def saved(path, column, name="image", **more):
    columns = {name: column, "label": pa.array(LABELS), **more}
    save_parquet(path, pa.table(columns))
    return path


def structs(*paths):
    return pa.array(cells(*paths), STRUCT)


def test_structs_in_a_parquet_file_are_images(tmp_path):
    path = saved(tmp_path / "t.parquet", structs("a.png", "b.png", "c.png"), "photo", size=pa.array([1, 2, 3]))
    source = table.load(path)
    assert isinstance(source.inputs, ImageBytes)
    assert (source.kind, source.class_names, source.root) == ("image", ("cat", "dog"), None)
    assert source.ids.tolist() == ["a.png", "b.png", "c.png"]
    assert [source.inputs.read(at)[0, 0, 0] for at in range(3)] == [0, 10, 20]


@pytest.mark.parametrize("paths", [("a.png", "a.png", "b.png"), ("a.png", None, "b.png"), (None, None, None)])
def test_ids_are_positions_where_paths_do_not_name_the_rows(tmp_path, paths):
    assert table.load(saved(tmp_path / "t.parquet", structs(*paths))).ids.tolist() == [0, 1, 2]


def test_plain_bytes_and_data_frames(tmp_path):
    images = [png(0), None, b"broken"]
    path = saved(tmp_path / "t.parquet", pa.array(images, pa.binary()), "jpeg")
    frame = pd.DataFrame({"jpeg": pd.Series(images, dtype=object), "label": LABELS})
    for source in (table.load(path), table.load(frame), table.load(frame, image_column="jpeg")):
        assert source.kind == "image"
        assert source.unreadable == {1: "the table has no image"}
    rows = pd.DataFrame({"image": cells("x", "y", "z"), "label": LABELS})
    assert table.load(rows).ids.tolist() == ["x", "y", "z"]
    assert table.load(rows).fingerprint() == table.load(rows).fingerprint()


def test_structs_of_paths_alone_are_files(tmp_path):
    (tmp_path / "a.png").write_bytes(png(5))
    column = pa.array([{"bytes": None, "path": "a.png"}] * 3, STRUCT)
    source = table.load(saved(tmp_path / "t.parquet", column))
    assert isinstance(source.inputs, ImageFiles)
    assert source.inputs.read(2)[0, 0, 0] == 5
    assert source.root == str(tmp_path)


def test_mistakes(tmp_path):
    with pytest.raises(InputError, match=r"column 'image' of '.*' holds no image at all"):
        table.load(saved(tmp_path / "t.parquet", pa.array([None] * 3, STRUCT)))
    two = pd.DataFrame({"x": cells("a", "b", "c"), "y": cells("a", "b", "c"), "label": LABELS})
    with pytest.raises(InputError, match=r"several columns of images, x, y; image_column \(--image-column\) names one"):
        table.load(two)
    assert table.load(two, image_column="y").kind == "image"
    mixed = pd.DataFrame({"x": pd.Series([png(0), 3, png(1)], dtype=object), "label": LABELS})
    with pytest.raises(InputError, match=r"column 'x' .* must hold the bytes of images, not int in row 1"):
        table.load(mixed)


def test_classes_of_a_hugging_face_file_have_names(tmp_path):
    kind = {"_type": "ClassLabel", "names": ["cat", "dog"]}
    features = {"info": {"features": {"image": {"_type": "Image"}, "label": kind, "truth": kind}}}
    columns = {"image": structs("a", "b", "c"), "label": pa.array([1, 0, 1]), "truth": pa.array([1, 0, 0])}
    made = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(features)})
    save_parquet(tmp_path / "t.parquet", made)
    source = table.load(tmp_path / "t.parquet", true_label_column="truth")
    assert source.class_names == ("cat", "dog")
    np.testing.assert_array_equal(source.labels, [1, 0, 1])
    np.testing.assert_array_equal(source.true_labels, [1, 0, 0])


def test_cells_that_hold_no_text():
    texts, unreadable = texts_of(pd.Series(["a", None, "  "]), "words", "the table")
    assert texts.tolist() == ["a", "", "  "]
    assert list(unreadable) == [1, 2]
    assert texts_of(pd.Series(["a"]), "words", "the table")[1] is None
    with pytest.raises(InputError, match="column 'words' of the table holds no text at all"):
        texts_of(pd.Series([None, ""]), "words", "the table")
    with pytest.raises(InputError, match=r"must hold texts, not float in row 1 \(counted from 0\)"):
        texts_of(pd.Series(["a", 1.5], dtype=object), "words", "the table")
