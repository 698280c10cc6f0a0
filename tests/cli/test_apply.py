"""`jnpl apply`: corrected labels, a clean tree, and nothing of the user's touched."""

import json
import sys

import pandas as pd
import pytest
from tests.helpers.runs import findings, photos

from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.review.review_session import ReviewSession
from jnpl.outputs.review.samples import Samples
from jnpl.run_folder import RunFolder

PATHS = ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "eel/0.png"]


@pytest.fixture
def run(jnpl, tmp_path, monkeypatch):
    """Run `jnpl` beside a folder `run` of six images: arguments -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "photos", each=3)
    findings(paths=PATHS).save(tmp_path / "run")
    (tmp_path / "run" / "data.json").write_text(json.dumps({"root": str(tmp_path / "photos")}))

    return jnpl


def test_a_label_file_in_the_run(run, tmp_path):
    code, out, err = run("apply", "run")
    assert (code, err) == (0, "")
    assert "2 of 6 labels changed, 0 samples left out" in out
    assert "1 labelled cat becomes dog" in out
    table = pd.read_csv(tmp_path / "run" / "corrected.csv")
    assert list(table.columns) == ["id", "label", "given_label", "changed"]
    assert table["label"].tolist() == ["cat", "dog", "eel", "dog", "dog", "eel"]
    code, _, err = run("apply", "run", "--min-confidence", "0.7")
    assert (code, "corrected.csv' is there already; name another file, or give --overwrite" in err) == (2, True)
    assert pd.read_csv(tmp_path / "run" / "corrected.csv")["changed"].sum() == 2
    assert run("apply", "run", "--min-confidence", "0.7", "--overwrite")[0] == 0
    assert pd.read_csv(tmp_path / "run" / "corrected.csv")["changed"].sum() == 1


def test_a_preview_writes_nothing(run, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run("apply", "run", "--preview")
    assert (code, err) == (0, "")
    assert "2 of 6 labels would be changed" in out
    assert "nothing was written (--preview)" in out
    assert sorted(tmp_path.rglob("*")) == before
    code, out, err = run("apply", "run", "--preview", "--copy", "clean")
    assert (code, out) == (2, "")
    assert "--preview writes nothing" in err


def test_trees(run, tmp_path):
    code, out, err = run("apply", "run", "--copy", "clean", "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["tree"], json.loads(out)["files"], json.loads(out)["missing"]) == ("clean", 6, 0)
    assert len(list((tmp_path / "clean").rglob("*.png"))) == 6
    if sys.platform != "win32":
        assert run("apply", "run", "--link", "links", "--overwrite")[0] == 0
        assert all(path.is_symlink() for path in (tmp_path / "links").rglob("*.png"))
        assert run("apply", "run", "--link", "hard", "--hard", "--overwrite")[0] == 0
        assert all(path.stat().st_nlink > 1 for path in (tmp_path / "hard").rglob("*.png"))


def test_missing_images_are_told(run, tmp_path):
    (tmp_path / "photos" / "cat" / "0.png").unlink()
    code, out, err = run("apply", "run", "--copy", "clean")
    assert (code, err) == (0, "not in the tree: cat/0.png (no such file)\n")
    assert "5 images by class: clean" in out


def test_images_that_moved(run, refused, tmp_path):
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    assert "is not there; name it with --root" in refused("apply", "run", "--copy", "clean")
    assert run("apply", "run", "--copy", "clean", "--root", "elsewhere")[0] == 0


def test_decisions_are_never_written_over(refused, tmp_path):
    (tmp_path / "run" / "corrected.csv").write_text("id,label\ncat/1.png,eel\n")
    for options in ((), ("--overwrite",), ("-o", tmp_path / "run" / "corrected.csv", "--overwrite")):
        told = refused("apply", "run", "--decisions", "run/corrected.csv", *options)
        assert "corrected.csv' is the table of decisions itself; name another file" in told
    assert (tmp_path / "run" / "corrected.csv").read_text() == "id,label\ncat/1.png,eel\n"


def test_held_out_samples_keep_their_labels(run, tmp_path):
    """As after `jnpl find --holdout`: the findings know six of nine images, and data.json names the others."""
    rest = [{"id": f"{name}/{at}.png", "label": name} for name, at in (("dog", 2), ("eel", 1), ("eel", 2))]
    facts = {"root": str(tmp_path / "photos"), "held_out": rest}
    (tmp_path / "run" / "data.json").write_text(json.dumps(facts))
    code, out, err = run("apply", "run", "--copy", "clean", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["samples"], told["changed"], told["dropped"], told["held_out"], told["files"]) == (9, 2, 0, 3, 9)
    assert len(list((tmp_path / "clean").rglob("*.png"))) == 9
    assert (tmp_path / "clean" / "eel" / "2.png").read_bytes() == (tmp_path / "photos/eel/2.png").read_bytes()
    table = pd.read_csv(tmp_path / "run" / "corrected.csv")
    assert table["id"].tolist() == [*PATHS, "dog/2.png", "eel/1.png", "eel/2.png"]
    assert table["changed"].tolist() == [False, True, True] + [False] * 6
    code, out, _ = run("apply", "run", "-o", "out.csv")
    assert "2 of 9 labels changed, 0 samples left out" in out
    assert "3 of the samples were held out: the run has no findings for them" in out
    (tmp_path / "own.csv").write_text("id,label\neel/1.png,cat\n")
    assert run("apply", "run", "-o", "own.json", "--decisions", "own.csv")[0] == 0
    assert [row["label"] for row in json.loads((tmp_path / "own.json").read_text())][6:] == ["dog", "cat", "eel"]


def test_the_decisions_of_a_review_are_used(run, tmp_path):
    store = open_store(RunFolder(tmp_path / "run"))
    made = [NewDecision(0, "relabel", 2), NewDecision(1, "keep"), NewDecision(3, "drop"), NewDecision(5, "unsure")]
    store.decide(made, reviewer="Ann", tab="t")
    store.close()
    code, out, err = run("apply", "run", "--json")
    assert (code, err) == (0, "")
    assert {key: json.loads(out)[key] for key in ("samples", "changed", "dropped", "reviewed")} == {
        "samples": 5,
        "changed": 1,
        "dropped": 1,
        "reviewed": 3,
    }
    table = pd.read_csv(tmp_path / "run" / "corrected.csv")
    assert table["id"].tolist() == [path for path in PATHS if path != "dog/0.png"]
    assert table["label"].tolist() == ["eel", "cat", "cat", "dog", "eel"]
    assert "by 3 decisions of jnpl review" in run("apply", "run", "--overwrite")[1]
    assert json.loads(run("apply", "run", "--no-review", "--json", "-o", "other.csv")[1])["changed"] == 2
    (tmp_path / "own.csv").write_text("id,label\ncat/0.png,dog\n")
    code, out, _ = run("apply", "run", "--decisions", "own.csv", "--json", "-o", "third.csv")
    assert (code, json.loads(out)["changed"], json.loads(out)["dropped"]) == (0, 1, 0)
    assert run("apply", "run", "-o", "run/review.sqlite", "--overwrite")[0] == 2


def test_findings_are_read_once(run, tmp_path, loads):
    open_store(RunFolder(tmp_path / "run")).close()
    loads.clear()
    assert run("apply", "run", "--copy", "clean")[0] == 0
    assert len(loads) == 1


def test_unsure_samples_keep_their_label(run, tmp_path):
    store = open_store(RunFolder(tmp_path / "run"))
    store.decide([NewDecision(1, "unsure")], reviewer="Ann", tab="t")
    store.close()
    assert json.loads(run("apply", "run", "--json", "--preview")[1])["changed"] == 0
    assert run("apply", "run", "--min-confidence", "0", "-o", "out.csv")[0] == 0
    table = pd.read_csv(tmp_path / "out.csv")
    assert not table["changed"][1]
    assert table["changed"].any()
    assert run("apply", "run", "--drop", "-o", "kept.csv")[0] == 0
    assert PATHS[1] in pd.read_csv(tmp_path / "kept.csv")["id"].tolist()  # unsure is a decision: it is not dropped


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_an_export_of_a_review_gives_what_the_review_gives(run, tmp_path, suffix):
    folder = RunFolder(tmp_path / "run")
    session = ReviewSession(folder, Samples(folder, None, "no data"))
    made = [NewDecision(0, "relabel", 2), NewDecision(1, "unsure"), NewDecision(3, "drop"), NewDecision(4, "keep")]
    session._store.decide(made, reviewer="Ann", tab="t")
    (tmp_path / f"own.{suffix}").write_bytes(session.export(suffix))
    session.close()
    for more in ((), ("--min-confidence", "0")):
        assert run("apply", "run", *more, "-o", "review.csv", "--overwrite")[0] == 0
        code, out, err = run(
            "apply", "run", *more, "--decisions", f"own.{suffix}", "-o", "own-out.csv", "--overwrite", "--json"
        )
        assert (code, json.loads(out)["dropped"]) == (0, 1), err
        assert (tmp_path / "own-out.csv").read_bytes() == (tmp_path / "review.csv").read_bytes()
    assert run("apply", "run", "--decisions", f"own.{suffix}", "-o", "x.csv", "--copy", "clean")[0] == 0
    copied = sorted(str(path.relative_to(tmp_path / "clean")) for path in (tmp_path / "clean").rglob("*.png"))
    assert len(copied) == 5
    assert "dog/0.png" not in copied


def test_of_two_samples_with_one_id_one_is_dropped(jnpl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = findings(paths=["a.png", "a.png", *PATHS[2:]])
    found.save(tmp_path / "run")
    store = open_store(RunFolder(tmp_path / "run"))
    store.decide([NewDecision(0, "keep"), NewDecision(1, "drop")], reviewer="Ann", tab="t")
    store.close()
    assert jnpl("apply", "run")[0] == 0
    assert pd.read_csv(tmp_path / "run" / "corrected.csv")["id"].tolist() == ["a.png", *PATHS[2:]]


def test_actions_of_a_table_of_decisions(run, refused, tmp_path):
    (tmp_path / "own.csv").write_text("id,label,action\ncat/1.png,eel,drop\n")
    assert "has the action 'drop' and the label 'eel' in row 0" in refused("apply", "run", "--decisions", "own.csv")
    (tmp_path / "own.csv").write_text("id,label,action\ncat/1.png,,forget\n")
    told = refused("apply", "run", "--decisions", "own.csv")
    assert "has no label in row 0" in told
    assert "without one the action is drop or unsure, got 'forget'" in told
    (tmp_path / "own.csv").write_text("id,label,action\ncat/1.png,,drop\ncat/1.png,eel,\n")
    assert "in 2 rows, as 'drop' and 'eel'" in refused("apply", "run", "--decisions", "own.csv")
    (tmp_path / "own.csv").write_text("id,label,action\n" + "".join(f"{path},,drop\n" for path in PATHS))
    assert "no sample is left" in refused("apply", "run", "--decisions", "own.csv")
    (tmp_path / "own.csv").write_text("id,label,action\ncat/1.png,eel,bought\n")  # a column of another meaning
    code, out, _ = run("apply", "run", "--decisions", "own.csv")
    assert code == 0
    assert "are not decided and keep their labels: --min-confidence 0.9 changes" in " ".join(out.split())
    assert "too uncertain" not in out
