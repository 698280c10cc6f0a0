"""What a data owner gets beside the findings: all of it, of their own cells, and never half of a file."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.helpers.command import jnpl

from jnpl import Findings
from jnpl.analysis import data_report
from jnpl.analysis.data_report import describe_data
from jnpl.data import split
from jnpl.data.source import EmbeddedInputs
from jnpl.data.sources import folder as image_folder
from jnpl.data.sources import table
from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.outputs.report import page
from jnpl.run_folder import RunFolder

THREE = ("data.json", "report.html", "thumbnails.parquet")


def judged(source, out, wrong, broken=()):
    """A run folder with findings by which the samples at `wrong` look so, the first most of all; returns these."""
    quality = np.full(len(source), 0.9)
    quality[list(wrong)] = np.linspace(0.05, 0.4, len(wrong))
    classes = len(source.class_names)
    probs = np.repeat((1 - quality[:, None]) / (classes - 1), classes, 1)
    probs[np.arange(len(source)), source.labels] = quality
    unreadable = np.isin(np.arange(len(source)), list(broken)) if broken else None
    where = {"paths": source.ids.tolist()} if source.ids.dtype == object else {"ids": source.ids}
    findings = Findings.from_probs(probs, source.labels, class_names=source.class_names, unreadable=unreadable, **where)
    findings.save(out)
    return findings


def write(out, source, *, held_out=(), report=True, **more):
    """Write what `jnpl find` writes at the end of a run: facts of the data, pictures, the page."""
    run = RunFolder(out)
    run.write_data(describe_data(source, Findings.load(out), held_out), thumbnails=report, **more)
    if report:
        page.write(run)


def facts(out):
    return json.loads((out / "data.json").read_text("utf-8"))


@pytest.fixture
def photos(tmp_path):
    """A folder of 2 x 6 images, of which two are the same and one is broken."""
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(6):
            pixels = np.full((40, 50, 3), 20 * number + (label == "dog"), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{number}.png")
    (tmp_path / "photos" / "dog" / "5.png").write_bytes((tmp_path / "photos" / "cat" / "0.png").read_bytes())
    (tmp_path / "photos" / "cat" / "3.png").write_bytes(b"no image")
    return image_folder.load(tmp_path / "photos")


@pytest.fixture
def towns():
    """40 rows of a table as people keep them."""
    return pd.DataFrame(
        {
            "town": [f"town{number % 7}" for number in range(40)],
            "when": [f"2024-03-{1 + number % 28:02d}" for number in range(40)],
            "size": [None if number == 7 else 1234.56 + number for number in range(40)],
            "rooms": [None if number == 8 else float(number % 5) for number in range(40)],
            "label": ["old", "new"] * 20,
            "checked": ["new", "old"] * 20,
        }
    )


def test_the_three_files(photos, tmp_path):
    out = tmp_path / "run"
    judged(photos, out, [2, 8], broken=[3])
    held_out = [{"id": "dog/9.png", "label": "dog"}]
    write(out, photos, command=["jnpl", "find"], choices=["network: small"], held_out=held_out)
    assert {each.name for each in out.iterdir()} == {*THREE, "findings.csv", "findings.json", "findings.parquet"}
    content = facts(out)
    assert (content["kind"], content["command"], content["choices"]) == ("image", ["jnpl", "find"], ["network: small"])
    assert content["root"] == str(tmp_path / "photos")
    assert content["held_out"] == held_out
    assert [each["ids"] for each in content["duplicates"]] == [["cat/0.png", "dog/5.png"]]
    assert [each["id"] for each in content["unreadable"]] == ["cat/3.png"]
    assert content["unreadable"][0]["reason"]
    assert "columns" not in content
    pictures = RunFolder(out).thumbnails()
    assert list(pictures)[:2] == [2, 8]  # the worst first
    assert 3 not in pictures
    page = (out / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    for text in ("network: small", "cat/2.png", "cat/3.png", "dog/5.png"):
        assert text in page


def test_without_a_report_the_facts_are_still_there(photos, tmp_path):
    out = tmp_path / "run"
    judged(photos, out, [2, 8], broken=[3])
    write(out, photos, report=False)
    assert [name for name in THREE if (out / name).exists()] == ["data.json"]
    assert facts(out)["unreadable_samples"] == 1


def test_without_suspects_the_worst_twenty_are_there(tmp_path, towns):
    source = table.load(towns)
    judged(source, tmp_path, [])
    write(tmp_path, source)
    assert len(facts(tmp_path)["columns"]["rows"]) == 20


def test_suspects_of_a_class_with_a_high_threshold_have_pictures(photos, tmp_path, monkeypatch):
    out = tmp_path / "run"
    findings = judged(photos, out, [1, 2, 8])
    info = {"rule": "per-class", "value": 0.5, "reason": "so", "by_class": [0.001, 0.5]}
    replace(findings, threshold_info=info).save(out)
    monkeypatch.setattr(data_report, "MAX_SUSPECTS", 1)
    write(out, photos)
    assert list(RunFolder(out).thumbnails()) == [
        8,
        0,
        11,
    ]  # and duplicates; 1 and 2 have a lower quality, but no label of a cat is a suspect


@pytest.mark.parametrize("suffix", [None, ".csv", ".parquet"])
def test_rows_of_a_table_are_its_own_cells(tmp_path, towns, suffix):
    data = towns
    if suffix == ".csv":
        towns.to_csv(data := tmp_path / "towns.csv", index=False)
    elif suffix == ".parquet":
        towns.assign(when=pd.to_datetime(towns.when)).to_parquet(data := tmp_path / "towns.parquet")
    source = table.load(data, true_label_column="checked")
    out = tmp_path / "run"
    judged(source, out, [13, 7, 8])
    write(out, source)
    columns = facts(out)["columns"]
    assert columns["names"] == ["town", "when", "size", "rooms"]  # no label, and not the true one
    assert columns["rows"]["13"] == ["town6", "2024-03-14", "1247.56", "3"]
    assert columns["rows"]["7"] == ["town0", "2024-03-08", None, "2"]
    assert columns["rows"]["8"] == ["town1", "2024-03-09", "1242.56", None]
    page = (out / "report.html").read_text("utf-8")
    for text in ("town6", "2024-03-14", "1247.56"):
        assert f"<bdi>{text}</bdi>" in page
    assert "town=town6" not in page
    assert "not shown" not in page


def test_a_part_of_a_table_has_the_cells_of_its_rows(tmp_path, towns):
    source = split.part(table.load(towns), np.arange(40)[::-3])  # 39, 36, 33, ...
    judged(source, tmp_path, [2])
    write(tmp_path, source)
    rows = facts(tmp_path)["columns"]["rows"]
    assert next(iter(rows)) == "2"
    assert rows["2"][:3] == ["town5", "2024-03-06", "1267.56"]  # row 33
    assert "<bdi>33</bdi>" in (tmp_path / "report.html").read_text("utf-8")


def test_chosen_columns_come_first_and_the_others_are_counted(tmp_path, towns):
    wide = towns.assign(**{f"more{number}": range(number, number + 40) for number in range(12)})
    source = table.load(wide, feature_columns=["more11", "size", "more11"])
    judged(source, tmp_path, [5])
    write(tmp_path, source)
    columns = facts(tmp_path)["columns"]
    assert columns["names"][:4] == ["more11", "size", "town", "when"]
    assert len(columns["names"]) == 17
    assert columns["rows"]["5"][:3] == ["16", "1239.56", "town5"]
    assert {len(row) for row in columns["rows"].values()} == {12}
    assert "5 more columns are not shown." in (tmp_path / "report.html").read_text("utf-8")


def test_embeddings_have_the_columns_beside_them_or_numbers(tmp_path):
    frame = pd.DataFrame({"vector": [[number / 3, *[1.0] * 13] for number in range(6)], "label": [0, 1] * 3})
    title = table.load(frame.assign(title=[f"title {number}" for number in range(6)]), embedding_column="vector")
    judged(title, tmp_path, [4])
    write(tmp_path, title)
    columns = facts(tmp_path)["columns"]
    assert (columns["names"], columns["rows"]["4"]) == (["title"], ["title 4"])

    alone = table.load(frame, embedding_column="vector")
    write(tmp_path, alone)
    columns = facts(tmp_path)["columns"]
    assert columns["names"] == [f"feature {number}" for number in range(14)]
    assert columns["rows"]["4"] == [1.333, *[1.0] * 11]
    assert "2 more columns are not shown." in (tmp_path / "report.html").read_text("utf-8")


def test_texts_are_shown_as_texts(tmp_path):
    frame = pd.DataFrame({"text": ["x" * 1000, "good", "bad", "fine"], "label": [0, 1, 0, 1]})
    source = table.load(frame, text_column="text", embed=lambda texts: [[len(text), 1] for text in texts])
    judged(source, tmp_path, [2, 0])
    write(tmp_path, source)
    columns = facts(tmp_path)["columns"]
    assert columns["names"] == ["text"]
    assert columns["rows"]["2"] == ["bad"]
    assert columns["rows"]["0"] == ["x" * 400]


def test_long_fractions_are_shown_with_eight_digits(tmp_path):
    cells = pd.Series([4.8644573765994945, 0.1, 3.0, None, 1234567.25, -0.000012345678912])
    assert data_report._texts(cells) == ["4.8644574", "0.1", "3", None, "1234567.25", "-1.2345679e-05"]


def test_odd_cells_can_be_written(tmp_path):
    odd = pd.DataFrame(
        {
            "x": np.array([0.1, 2, 3, 4], np.float32),
            "list": [[1, 2], None, b"\xff", {"a": pd.NA}],
            "kind": pd.Categorical(["a", None, "b", "a"]),
            "count": pd.array([1, None, 3, 4], "Int64"),
            "at": pd.to_datetime(["2024-02-29 10:30", None, "2024-02-29 00:00", "2024-03-01 00:00"]),
            "label": ["u", "v", "u", "v"],
        }
    )
    source = table.load(odd, feature_columns=["x"])
    judged(source, tmp_path, [0, 1])
    write(tmp_path, source)
    rows = facts(tmp_path)["columns"]["rows"]
    assert rows["0"] == ["0.1", "[1, 2]", "a", "1", "2024-02-29 10:30:00"]
    assert rows["1"] == ["2", None, None, None, None]
    assert rows["2"] == ["3", "b'\\xff'", "b", "3", "2024-02-29"]


def embedded(source, values):
    return replace(source, inputs=EmbeddedInputs(values.astype(np.float16), "key"), pictures=source.inputs)


def test_near_duplicates_and_outliers_have_pictures(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    for number in range(60):
        (tmp_path / "photos" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / "ab"[number % 2] / f"{number:02d}.png")
    values = 2 + random.standard_normal((60, 2, 32))
    values[40] = values[10, ::-1]
    values[20] = np.eye(32)[3]
    source = embedded(image_folder.load(tmp_path / "photos"), values)
    out = tmp_path / "run"
    judged(source, out, [33])
    monkeypatch.setattr(data_report, "MAX_SUSPECTS", 1)
    write(out, source, report=False)
    assert not (out / "thumbnails.parquet").exists()
    write(out, source)
    content = facts(out)
    names = source.ids.tolist()
    assert [each["ids"] for each in content["near_duplicates"]] == [[names[10], names[40]]]
    assert (content["near_duplicate_samples"], content["near_conflicting_samples"]) == (2, 2)
    assert content["outliers"][0]["id"] == names[20]
    assert list(RunFolder(out).thumbnails())[:4] == [33, 10, 40, 20]
    table_of = load_parquet(out / "neighbours.parquet").to_pandas()
    assert list(table_of.columns) == ["position", "near_duplicate_group", "outlier_score", "is_outlier"]
    assert table_of.position.tolist() == list(range(60))
    assert table_of.near_duplicate_group.dropna().to_dict() == {10: 0, 40: 0}
    assert table_of.is_outlier[20]
    page = (out / "report.html").read_text("utf-8")
    assert page.count('<li class="group differs"') == 1


def whole(out):
    """The files by name; none may be a draft."""
    files = {each.name: each.read_bytes() for each in out.iterdir()}
    assert not [name for name in files if name.startswith(".") or name.endswith(".tmp")]
    return files


def test_what_fails_later_leaves_no_half_of_a_file(photos, tmp_path, monkeypatch):
    out = tmp_path / "run"
    judged(photos, out, [2, 8])
    write(out, photos, command=["first"])
    before = whole(out)
    (out / "check.json").write_text("{")  # the page cannot be made
    with pytest.raises(InputError, match=r"check\.json' cannot be read"):
        write(out, photos, command=["second"])
    after = whole(out)
    assert after["report.html"] == before["report.html"]
    assert after["thumbnails.parquet"] == before["thumbnails.parquet"]
    assert facts(out)["command"] == ["second"]

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("jnpl.internal.pictures.encoded", stop)
    with pytest.raises(KeyboardInterrupt):
        write(out, photos, command=["third"])
    assert whole(out) == {**after, "data.json": (out / "data.json").read_bytes()}
    assert facts(out)["command"] == ["third"]


@pytest.mark.parametrize("mixed", [False, True])
def test_images_beside_the_folder_of_their_table(photos, tmp_path, capsys, mixed):
    (tmp_path / "tables").mkdir()
    rows = [f"../photos/{path},{path.split('/')[0]}" for path in photos.ids]
    if mixed:
        (tmp_path / "tables" / "own.png").write_bytes((tmp_path / "photos" / "cat" / "1.png").read_bytes())
        rows += ["own.png,dog", f"{tmp_path / 'photos' / 'cat' / '2.png'},cat", ",cat"]
    (tmp_path / "tables" / "t.csv").write_text("image,label\n" + "\n".join(rows) + "\n")
    source = table.load(tmp_path / "tables" / "t.csv")
    judged(source, tmp_path / "run", [0, 1], source.unreadable or ())
    held = [{"id": "../photos/cat/4.png", "label": "cat"}]
    write(tmp_path / "run", source, held_out=held, report=False)
    assert facts(tmp_path / "run")["images"] == str(tmp_path if mixed else tmp_path / "photos")
    before = sorted(map(str, tmp_path.rglob("*")))
    out = tmp_path.parent / f"{tmp_path.name}-clean"  # outside the common folder of all images
    code, told, err = jnpl(capsys, "apply", str(tmp_path / "run"), "-o", str(tmp_path / "o.csv"), "--copy", str(out))
    assert code == 0, err
    assert "13 images by class" in told if not mixed else "15 images by class" in told
    assert set(map(str, tmp_path.rglob("*"))) - set(before) == {str(tmp_path / "o.csv")}
    assert (out / "cat" / "2.png").read_bytes() == (tmp_path / "photos" / "cat" / "2.png").read_bytes()
    if mixed:
        assert err.splitlines() == ["not in the tree: row 14 (no such file)"]
        return
    (tmp_path / "photos").rename(tmp_path / "moved")
    args = ["-o", str(tmp_path / "p.csv"), "--copy", f"{out}-2"]
    code, _, err = jnpl(capsys, "apply", str(tmp_path / "run"), *args)
    assert (code, "photos' is not there; name it with --root" in err) == (2, True)
    assert jnpl(capsys, "apply", str(tmp_path / "run"), *args, "--root", str(tmp_path / "moved"))[0] == 0


def test_images_in_the_folder_of_their_table_need_no_other(photos, tmp_path):
    judged(photos, tmp_path / "run", [0, 1])
    write(tmp_path / "run", photos, report=False)
    assert "images" not in facts(tmp_path / "run")
