"""`jnpl apply --same-form`: only classes change in the files of COCO and YOLO, and dropped boxes go."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.helpers.boxes import coco, coco_content, yolo
from tests.helpers.tag_runs import tag_findings, tag_run

from jnpl import Findings
from jnpl.cli import app as cli
from jnpl.data.opening import open_source
from jnpl.internal.tables import load_parquet, load_table
from jnpl.judging.tag_findings import TagFindings


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stored_run(folder, path, **options):
    """A run on the boxes of a file that suspects the box at position 1, and suggests the last class."""
    source = open_source(path, crops=True)
    probs = np.eye(3)[source.labels] * 0.85 + 0.05
    probs[1] = [0.01, 0.02, 0.97]
    found = Findings.from_probs(probs, source.labels, class_names=source.class_names, ids=source.ids)
    found.save(folder)
    facts = {"kind": "image", "options": {"data": str(path), "crops": True, **options}}
    (folder / "data.json").write_text(json.dumps(facts))
    return source


def jnpl(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(map(str, args)))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_coco(here, capsys):
    stored_run(here / "run", coco(here))
    code, out, err = jnpl(capsys, "apply", "run", "--same-form", "new.json", "--json")
    assert (code, err) == (0, "")
    assert {"same_form": "new.json", "changed_in_form": 1}.items() <= json.loads(out).items()
    wanted = coco_content()
    wanted["annotations"][4]["category_id"] = 5  # the id 104: green becomes blue
    assert json.loads((here / "new.json").read_text()) == wanted
    assert json.loads((here / "instances.json").read_text()) == coco_content()
    pd.DataFrame({"id": ["0.png#100", "3.png#103"], "label": [None, "red"], "action": ["drop", None]}).to_csv("d.csv")
    code, out, err = jnpl(capsys, "apply", "run", "--same-form", "new.json", "--decisions", "d.csv", "--overwrite")
    assert (code, err) == (0, "")
    assert "data with 2 changes: new.json" in out
    wanted = coco_content()
    wanted["annotations"][3]["category_id"] = 7
    del wanted["annotations"][0]
    assert json.loads((here / "new.json").read_text()) == wanted


def test_yolo(here, capsys):
    source = stored_run(here / "run", yolo(here / "data"))
    pd.DataFrame({"id": source.ids[[0, 6, 7]], "label": [None, "red", "red"], "action": ["drop", None, None]}).to_csv(
        "d.csv"
    )
    code, out, err = jnpl(capsys, "apply", "run", "--same-form", "new", "--decisions", "d.csv")
    assert (code, err) == (0, "")
    assert "data with 3 changes: new" in out
    before = {name: (here / "data" / "labels" / f"{name}.txt").read_bytes() for name in "013"}
    after = {name: (here / "new" / "labels" / f"{name}.txt").read_bytes() for name in "013"}
    assert after["0"] == b"".join(before["0"].splitlines(keepends=True)[1:])
    assert after["1"] == before["1"]
    assert after["3"] == before["3"].replace(b" 1.0 0.4", b" 0 0.4").replace(b"\n2\t", b"\n0\t")
    assert sorted(path.name for path in (here / "new").rglob("*.txt")) == ["0.txt", "1.txt", "3.txt"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--same-form", "instances.json"), "is the data itself; name another file"),
        (("--same-form", "there.json"), "there.json' is there already; name another file, or give --overwrite"),
        (("--same-form", "new.csv"), "--same-form writes a .json as .*instances.json' is, got 'new.csv'"),
        (("--same-form", "new.json", "--preview"), "--preview writes nothing; leave out --copy, --link and --same"),
        (("--copy", "tree"), "are boxes in images: jnpl apply RUN --same-form FILE writes them with corrected classes"),
        (("--copy", "tree", "--root", "."), "are boxes in images"),
    ],
)
def test_refusals(here, capsys, args, message):
    stored_run(here / "run", coco(here))
    (here / "there.json").write_text("{}")
    code, out, err = jnpl(capsys, "apply", "run", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert pd.Series([err]).str.contains(message).all(), err
    assert not (here / "run" / "corrected.csv").exists()


def test_other_runs_and_changed_data(here, capsys):
    stored_run(here / "run", coco(here))
    for target in ("label-studio", "fiftyone"):
        assert "are boxes in images" in jnpl(capsys, "export", "run", "--to", target, "-o", "out.json")[2]
    content = coco_content()
    content["annotations"][4]["category_id"] = 7
    coco(here, **content)
    code, _, err = jnpl(capsys, "apply", "run", "--same-form", "new.json")
    assert (code, "instances.json' has changed since the run: it has no 'green' '0.png#104' now" in err) == (2, True)
    assert not (here / "run" / "corrected.csv").exists()
    facts = {"kind": "image", "options": {"data": "instances.json"}}
    (here / "run" / "data.json").write_text(json.dumps(facts))
    assert "--same-form is for runs on boxes (--crops)" in jnpl(capsys, "apply", "run", "--same-form", "new.json")[2]


def test_from_find_to_the_corrected_file(here, capsys):
    """Crops are learnt from, shown, decided about and written back."""
    content = coco_content()
    images = [{"id": at, "file_name": f"{at % 4}.png"} for at in range(40)]
    annotations = [
        {**entry, "id": 12 * (at // 4) + row, "image_id": at}
        for at in range(0, 40, 4)
        for row, entry in enumerate(content["annotations"])
    ]
    for entry in annotations:
        entry["image_id"] += entry["id"] % 4
    for image in images:  # other names of the same four files
        image["file_name"] = "./" * (image["id"] // 4) + image["file_name"]
    coco(here, images=images, annotations=annotations)
    options = ["--backbone", "none", "--set", "train.epochs=6", "--set", "train.batch_size=16", "--threads", "1"]
    code, _, err = jnpl(capsys, "find", "instances.json", "--crops", "-o", "run", *options, "--size", "8")
    assert code == 0, err
    findings = Findings.load(here / "run")
    assert len(findings.ids) == 120
    assert findings.paths is None
    assert "thumbnails.parquet" in {path.name for path in (here / "run").iterdir()}
    code, _, err = jnpl(capsys, "apply", "run", "--same-form", "new.json")
    assert code == 0, err
    written = json.loads((here / "new.json").read_text())["annotations"]
    assert [{**entry, "category_id": 0} for entry in written] == [{**entry, "category_id": 0} for entry in annotations]


# Tables of several tags per sample


def table_of(findings, form, folder):
    """Write the given tags as a table with a column of numbers and one of remarks; returns its path and options."""
    tags = [findings.tags_of(row, findings.given) for row in range(len(findings))]
    frame = pd.DataFrame({"x": np.sin(np.arange(len(tags))), "note": [f'=1, "{row}"' for row in range(len(tags))]})
    columns = {name: findings.given[:, at] for at, name in enumerate(findings.tag_names)}
    kind, _, suffix = form.partition(" ")
    made = {
        "lists": {"tags": tags},
        "json": {"tags": [json.dumps(each) for each in tags]},
        "bars": {"tags": [" | ".join(each) for each in tags]},
        "columns": columns,
        "words": {name: np.where(has, "Yes", "no") for name, has in columns.items()},
    }[kind]
    path = folder / f"data{suffix}"
    frame = frame.assign(**made)
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in suffix else ",")
    several = kind in ("columns", "words")
    return path, {"tag_columns": list(columns)} if several else {"label_column": "tags", "multi_label": True}


@pytest.mark.parametrize(
    "form", ["lists .parquet", "columns .parquet", "json .csv", "bars .tsv.gz", "columns .csv", "words .tsv"]
)
@pytest.mark.parametrize("part", [None, slice(1, 20)], ids=["all rows", "some rows"])
def test_tables_of_tags(here, capsys, form, part):
    findings = tag_findings()
    path, options = table_of(findings, form, here)
    some = (
        findings
        if part is None
        else TagFindings(findings.tag_names, findings.given[part], findings.quality[part], findings.ids[part])
    )
    tag_run(here / "run", some, options={"data": str(path), **options})
    out = here / f"new{form.partition(' ')[2]}"
    code, text, err = jnpl(capsys, "apply", "run", "--same-form", out)
    assert (code, err) == (0, "")
    wanted = findings.given.copy()
    wanted[1] = True
    wanted[0] = [True, part is not None, False]
    before, after = (open_source(each, **options, exclude=["note"]) for each in (path, out))
    assert (before.tags == findings.given).all()
    assert (after.tags == wanted).all()
    old, new = (
        load_parquet(each).to_pandas() if each.suffix == ".parquet" else load_table(each) for each in (path, out)
    )
    changed = [0, 1] if part is None else [1]
    assert old.drop(index=changed).map(str).equals(new.drop(index=changed).map(str))
    assert old.dtypes.tolist() == new.dtypes.tolist()
    assert old[["x", "note"]].equals(new[["x", "note"]])
    if form.startswith("bars"):
        assert new["tags"][1] == "eel | cat | dog"  # those that stay come first
    assert "1 sample gets cat" in text


def test_dropped_rows_and_decided_tags(here, capsys):
    path, options = table_of(tag_findings(), "json .csv", here)
    tag_run(here / "run", options={"data": str(path), **options})
    (here / "d.csv").write_text('id,label,action\n2,,drop\n4,"[""eel"", ""cat""]",\n5,[],\n')
    code, _, err = jnpl(capsys, "apply", "run", "--decisions", "d.csv", "--same-form", "new.csv", "-o", "corrected.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv("new.csv")
    assert len(table) == 23
    assert table["tags"][[3, 4]].tolist() == ['["cat", "eel"]', "[]"]
    corrected = pd.read_csv("corrected.csv").fillna("")
    assert list(corrected.columns) == ["id", "tags", "given_tags", "changed"]
    changed = corrected[corrected["changed"]]
    assert changed[["id", "tags", "given_tags"]].values.tolist() == [
        [4, "cat;eel", "dog"],
        [5, "", "eel"],
    ]
    assert jnpl(capsys, "apply", "run", "-o", "corrected.parquet")[0] == 0
    assert load_table("corrected.parquet")["tags"].map(list).tolist()[:3] == [["cat"], ["cat", "dog", "eel"], []]
    (here / "d.csv").write_text("id,label\n1,fox\n")
    _, _, err = jnpl(capsys, "apply", "run", "--decisions", "d.csv", "-o", "other.csv")
    assert "the table of decisions has the tag 'fox', which is none of the run: ['cat', 'dog', 'eel']" in err


def test_refusals_of_tables_of_tags(here, capsys):
    path, options = table_of(tag_findings(), "json .csv", here)
    tag_run(here / "run", options={"data": str(path), **options})
    for args, message in (
        (("--same-form", "new.parquet"), "--same-form writes a .csv as"),
        (("--same-form", path), "is the data itself"),
        (("--copy", "tree"), "a sample with several tags has no folder of its class"),
    ):
        code, _, err = jnpl(capsys, "apply", "run", *args)
        assert (code, message in err, err.count("\n")) == (2, True, 1), err
    path.write_text("\n".join(path.read_text().splitlines()[:9]) + "\n")
    assert "has changed since the run: it has 8 rows now" in jnpl(capsys, "apply", "run", "--same-form", "new.csv")[2]
    assert not (here / "new.csv").exists()
