"""DATA, whatever the user means by it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from jnpl.data.datasets import DATASETS
from jnpl.data.opening import open_source
from jnpl.data.sources import cifar, cifarn, clothing1m, huggingface
from jnpl.internal.errors import InputError

FRAME = pd.DataFrame({"x": [1.0, 2.0], "z": [3.0, 4.0], "label": ["a", "b"]})


def folder(root):
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        Image.new("L", (2, 2)).save(root / name / "1.png")
    return root


@pytest.mark.parametrize("kind", [str, Path])
def test_paths(tmp_path, kind):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    FRAME.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", x=[[1.0], [2.0]], y=[0, 1])
    assert open_source(kind(folder(tmp_path / "pictures.csv"))).kind == "image"  # a folder, whatever it is called
    for name in ("t.csv", "t.tsv", "t.parquet", "t.npz"):
        assert open_source(kind(tmp_path / name)).name == "t"


def test_objects():
    pair = (np.zeros((2, 3)), [0, 1])
    assert open_source(pair).kind == "vector"
    assert open_source(FRAME).class_names == ("a", "b")
    assert len(open_source(TensorDataset(torch.zeros(2, 3), torch.tensor([0, 1])))) == 2
    source = open_source(pair)
    assert open_source(source) is source
    for wrong in (3, None, np.zeros((2, 3)), {1, 2}):
        with pytest.raises(InputError, match=f"data must be a path, .* not {type(wrong).__name__}"):
            open_source(wrong)


@pytest.mark.parametrize("unique", [100, 51])
def test_labels_that_are_identifiers_are_refused(tmp_path, unique):
    labels = [f"label {at}" for at in range(unique)] + ["same"] * (100 - unique)
    values = len(set(labels))
    frame = pd.DataFrame({"text": [f"some text {at}" for at in range(100)], "kind": labels})
    frame.to_csv(tmp_path / "t.csv", index=False)
    line = f"label column 'kind' has {values} values in 100 rows: it looks like an identifier; .*--label-column"
    for data in (frame, tmp_path / "t.csv"):
        with pytest.raises(InputError, match=line):
            open_source(data, label_column="kind")
        with pytest.raises(InputError, match=line):
            open_source(data, label_column="kind", text_column="text")
    with pytest.raises(InputError, match=f"has {values} different labels for 100 samples: .* identifiers, not classes"):
        open_source((np.zeros((100, 3)), labels))


def test_labels_of_one_sample_each_are_classes_in_small_data_and_up_to_half():
    assert len(open_source((np.zeros((20, 3)), np.arange(20))).class_names) == 20
    assert len(open_source((np.zeros((100, 3)), np.minimum(np.arange(100), 50))).class_names) == 51


def test_options_reach_the_table():
    frame = FRAME.rename(columns={"label": "kind"}).assign(truth=["a", "a"], e=["[1]", "[2]"])
    source = open_source(frame, label_column="kind", true_label_column="truth", feature_columns=["z"])
    assert source.inputs.values.tolist() == [[3], [4]]
    assert source.true_labels.tolist() == [0, 0]
    assert open_source(frame, label_column="kind", embedding_column="e").inputs.values.tolist() == [[1], [2]]


def test_texts_reach_the_table_through_a_function_of_ones_own(monkeypatch, tmp_path):
    (tmp_path / "own_embedding.py").write_text("def lengths(texts):\n    return [[len(text)] for text in texts]\n")
    monkeypatch.syspath_prepend(tmp_path)
    frame = FRAME.assign(words=["one two", "three"])
    source = open_source(frame, text_column="words", embed="own_embedding:lengths")
    assert source.inputs.values.tolist() == [[7], [5]]
    assert source.texts.tolist() == ["one two", "three"]
    with pytest.raises(InputError, match="text_column has no meaning for digits"):
        open_source("digits", text_column="words", embed="own_embedding:lengths")
    with pytest.raises(InputError, match=r"embed \(--embed\) takes texts or images, but digits holds vectors"):
        open_source("digits", embed="own_embedding:lengths")


def test_an_encoding_reaches_the_table():
    encoding = open_source(FRAME, feature_columns=["z"]).encoding
    assert open_source(FRAME.assign(z=[7, 8]), encoding=encoding).inputs.values.tolist() == [[7], [8]]
    with pytest.raises(InputError, match="encoding has no meaning for data of type tuple"):
        open_source(([[1.0]], [0]), encoding=encoding)


def test_a_folder_knows_where_its_ids_start(tmp_path, monkeypatch):
    folder(tmp_path / "pictures")
    monkeypatch.chdir(tmp_path)
    near, far = open_source("./pictures"), open_source(tmp_path / "pictures")
    assert near.root == far.root == str(tmp_path / "pictures")
    assert (Path(near.root) / near.ids[0]).is_file()
    before = near.fingerprint()
    (tmp_path / "pictures").rename(tmp_path / "photos")
    moved = open_source("photos")
    assert moved.root == str(tmp_path / "photos")
    assert moved.fingerprint() == before  # the same data, wherever they lie
    assert open_source(([[1.0], [2.0]], [0, 1])).root is None


def test_options_without_a_meaning_are_refused(tmp_path):
    pictures = folder(tmp_path / "p")
    with pytest.raises(InputError, match=r"image_column, noise has no meaning for the folder '.*p'"):
        open_source(pictures, image_column="x", noise="worse")
    with pytest.raises(InputError, match="config has no meaning for a table"):
        open_source(FRAME, config="plain")
    with pytest.raises(InputError, match="label_column has no meaning for digits"):
        open_source("digits", label_column="x")
    with pytest.raises(InputError, match="image_root has no meaning for a Hugging Face"):
        open_source("hf:some/name", image_root="x")
    with pytest.raises(InputError, match="noise has no meaning for data of type tuple"):
        open_source((1, 2), noise="worse")


def test_what_is_not_there():
    with pytest.raises(InputError, match=r"no such file or folder: 'cifar1', .*cifar10n.*hf:NAME\); did you mean 'cif"):
        open_source("cifar1")
    with pytest.raises(InputError, match=r"no such file or folder: 'fotos/x', and no data set has this name \(digits"):
        open_source("fotos/x", label_column="kind")
    with pytest.raises(InputError, match=r"no such file: 'none.csv'"):
        open_source("none.csv")


def test_files_of_another_kind(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"")
    with pytest.raises(
        InputError,
        match=r".csv.gz, .tsv.gz, an .npz, or a .json or .yaml of boxes, not",
    ):
        open_source(tmp_path / "a.zip")


def test_digits():
    source = open_source("digits")
    assert source.inputs.values.shape == (1400, 64)
    assert len(source.test) == 397
    assert (source.inputs.values.min(), source.inputs.values.max()) == (0, 1)
    counts = np.bincount(source.test.labels)
    assert counts.max() - counts.min() <= 3
    np.testing.assert_array_equal(source.labels, source.true_labels)
    assert source.fingerprint() == open_source("digits").fingerprint() != open_source("digits", seed=1).fingerprint()


def test_digits_are_those_of_the_demo():
    from jnpl.experiments.demo import DemoSettings, load_digits

    (demo, noisy), source = load_digits(DemoSettings(), seed=2), open_source("digits", seed=2)
    np.testing.assert_array_equal(demo.inputs.values, source.inputs.values)
    np.testing.assert_array_equal(demo.test.labels, source.test.labels)
    np.testing.assert_array_equal(noisy.clean_labels, source.labels)


def test_names_go_to_their_readers(monkeypatch, tmp_path):
    calls, made = [], open_source(([[0.0], [1.0]], [0, 1]))

    def reader(title):
        return lambda *args, **kwargs: calls.append((title, args, kwargs)) or made

    for module in (cifar, cifarn, clothing1m, huggingface):
        monkeypatch.setattr(module, "load", reader(module.__name__.rpartition(".")[2]))
    (tmp_path / "Clothing1M").mkdir()
    open_source("cifar100", root=tmp_path, coarse=True, val_size=500)
    open_source("cifar10n", root=tmp_path, noise="aggre")
    open_source("clothing1m", root=tmp_path, balanced=True, seed=3)
    open_source("hf:owner/name", label_column="kind", config="plain")
    assert calls == [
        ("cifar", ("cifar100", tmp_path), {"labels": "coarse", "val_size": 500}),
        ("cifarn", ("cifar10n",), {"root": tmp_path, "noise": "aggre"}),
        ("clothing1m", (calls[2][1][0],), {"balanced": True, "seed": 3}),
        ("huggingface", ("owner/name",), {"label_column": "kind", "config": "plain"}),
    ]
    assert calls[2][1][0].samefile(tmp_path / "Clothing1M")


def test_a_name_goes_before_a_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "digits")
    assert open_source("digits").kind == "vector"
    assert open_source("./digits").kind == open_source(Path("digits")).kind == "image"


def test_the_table_of_data_sets():
    assert tuple(DATASETS) == ("digits", "cifar10", "cifar100", "cifar10n", "cifar100n", "clothing1m")
    for known in DATASETS.values():
        assert known.classes > 1
        assert known.samples > known.test_samples
        assert known.what
        assert known.origin
        assert known.licence


def test_a_folder_is_opened_without_heavy_libraries(tmp_path):
    folder(tmp_path / "p")
    code = (
        "import sys; from jnpl.data.opening import open_source; open_source(sys.argv[1]).inputs.read(0, 4);"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'datasets', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "p"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
