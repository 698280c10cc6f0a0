"""`jnpl predict`: rows in files, one JSON object on stdout, one line for a mistake, exit code 2."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import CLASSES, findings, image_model, photos, vector_model, write_model

QUICK = ("--workers", "0", "--device", "cpu")


@pytest.fixture
def arrays(tmp_path):
    vector_model(tmp_path / "run")
    x = np.random.default_rng(0).normal(2, 2, (30, 4)).astype(np.float32)
    np.savez(tmp_path / "new.npz", x=x, y=np.array(CLASSES)[np.arange(30) % 3])
    return x


def test_json_without_a_file_holds_the_predictions(run, arrays):
    code, out, err = run("predict", "run", "new.npz", "--json", *QUICK)
    assert (code, err, out.count("\n")) == (0, "", 1)
    told = json.loads(out)
    assert list(told)[:5] == ["run", "data", "samples", "predicted", "unreadable"]
    assert (told["samples"], told["labelled"], len(told["predictions"])) == (30, 30, 30)
    right = [row["predicted_label"] == CLASSES[at % 3] for at, row in enumerate(told["predictions"])]
    assert told["accuracy"] == pytest.approx(np.mean(right))
    assert sum(told["predicted_labels"].values()) == 30


def test_words_for_people(run, arrays):
    code, out, err = run("predict", "run", "new.npz", *QUICK)
    assert (code, err) == (0, "")
    for part in ("... of 30 samples; -o FILE writes all", "30 samples predicted: ", "accuracy 0.", "30 samples with a"):
        assert part in out
    code, out, _ = run("predict", "run", "new.npz", "-o", "out.csv", *QUICK)
    assert "every prediction: out.csv" in out


def test_long_names_are_whole_in_a_pipe(run, tmp_path):
    image_model(tmp_path / "run")
    name = "a" * 90 + "/" + "b" * 90
    photos(tmp_path / "new" / name, each=1)
    code, out, err = run("predict", "run", "new", *QUICK)
    assert code == 0, err
    assert f"{name}/cat/0.png" in out


def test_a_folder_with_bad_files(run, tmp_path):
    folder = photos(tmp_path / "new", each=2)
    (folder / "cat" / "1.png").write_bytes(b"torn")
    (folder / "[bold]notes.txt").write_text("hello")
    image_model(tmp_path / "run")
    code, out, err = run("predict", "run", "new", "-o", "out.csv", *QUICK)
    assert code == 0
    assert err.splitlines() == [
        "cannot be read: [bold]notes.txt (not an image that Pillow can open)",
        "cannot be read: cat/1.png (not an image that Pillow can open)",
    ]
    assert "5 samples predicted" in out
    assert "2 could not be read" in out
    table = pd.read_csv(tmp_path / "out.csv")
    assert list(table.columns) == ["id", "predicted_label", "confidence", "p_cat", "p_dog", "p_eel", "problem"]
    assert table["problem"].notna().sum() == table["confidence"].isna().sum() == 2


def test_columns(run, tmp_path):
    vector_model(tmp_path / "run")
    frame = pd.DataFrame(np.ones((2, 4)), columns=list("abcd")).assign(kind=["dog", "cow"], noise=["x", "y"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    features = [part for name in "abcd" for part in ("--feature-column", name)]
    code, out, err = run("predict", "run", "new.csv", "--label-column", "kind", *features, "--json", *QUICK)
    assert (code, err) == (0, "")
    assert (json.loads(out)["labelled"], json.loads(out)["unknown_labels"]) == (1, 1)


def test_texts(run, tmp_path):
    vector_model(tmp_path / "run", 2)
    (tmp_path / "lengths_of.py").write_text("def embed(texts):\n    return [[len(text), 1] for text in texts]\n")
    pd.DataFrame({"text": ["a", "", "ccc"]}).to_csv(tmp_path / "new.csv", index=False)
    code, out, err = run(
        "predict", "run", "new.csv", "--text-column", "text", "--embed", "lengths_of:embed", "--json", *QUICK
    )
    assert (code, err) == (0, "cannot be read: 1 (the table has no text)\n")
    rows = json.loads(out)["predictions"]
    assert [row["problem"] for row in rows] == [None, "the table has no text", None]


def test_nothing_readable(run, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.txt").write_text("hello")
    image_model(tmp_path / "run")
    code, out, err = run("predict", "run", "new", "-o", "out.csv", *QUICK)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("jnpl: none of the 1 samples can be read")
    assert not (tmp_path / "out.csv").exists()


def test_what_is_there_stays(run, refused, arrays, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    told = refused("predict", "run", "new.npz", "-o", "mine.csv", *QUICK)
    assert "'mine.csv' is there already; name another file, or give --overwrite" in told
    assert (tmp_path / "mine.csv").read_text() == "mine"
    assert run("predict", "run", "new.npz", "-o", "mine.csv", "--overwrite", *QUICK)[0] == 0
    assert len(pd.read_csv(tmp_path / "mine.csv")) == 30
    findings().save(tmp_path / "run")
    for name in ("findings.csv", "run.json"):
        before = (tmp_path / "run" / name).read_bytes()
        told = refused("predict", "run", "new.npz", "-o", tmp_path / "run" / name, "--overwrite")
        assert "is a file of the run itself; name another file" in told
        assert (tmp_path / "run" / name).read_bytes() == before
    pd.DataFrame(np.ones((2, 4))).to_csv(tmp_path / "new.csv", index=False)
    assert "is the data itself" in refused("predict", "run", "new.csv", "-o", "new.csv", "--overwrite")


def test_only_code_of_ones_own_is_imported_from_here(run, arrays, tmp_path):
    assert run("predict", "run", "new.npz", *QUICK)[0] == 0
    assert str(tmp_path) not in sys.path
    net = "from torch import nn\ndef make(num_classes, input_shape):\n    return nn.Linear(*input_shape, num_classes)\n"
    (tmp_path / "own_net.py").write_text(net)
    sys.path.append(str(tmp_path))
    transform = {"kind": "Standardize", "mean": [0.0] * 4, "std": [1.0] * 4}
    write_model(tmp_path / "own", "own_net:make", (4,), transform=transform)
    sys.path.pop()
    del sys.modules["own_net"]
    code, _, err = run("predict", "own", "new.npz", *QUICK)
    assert (code, "own_net" in sys.modules, str(tmp_path) in sys.path) == (2, False, False)
    assert "is code of its own, 'own_net:make', which loading would run" in err
    assert run("predict", "own", "new.npz", *QUICK, "--trust-code")[0] == 0
    assert (sys.path[-1], sys.path.count(str(tmp_path))) == (str(tmp_path), 1)  # last: it hides no other module
