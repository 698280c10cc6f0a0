"""The page as text: complete, closed in itself, escaped, small; looked at in test_browser.py."""

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.helpers.tag_runs import tag_findings, tag_run

from jnpl.internal.errors import InputError
from jnpl.outputs.report import page
from jnpl.run_folder import RunFolder

VOID = {"wbr", "meta", "link", "img", "br"}
SECTIONS = {"quality", "suspects", "classes", "problems", "training", "repeat"}


class Reader(HTMLParser):
    """Checks that every element is closed in order; keeps elements and texts."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), f"an attribute comes twice: {attributes}"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):  # <path/>
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(file):
    reader = Reader()
    reader.feed(file.read_text("utf-8"))
    reader.close()
    assert reader.open == []
    return reader


def write(folder, out=None):
    return page.write(RunFolder(folder), out)


def test_everything_that_is_known_is_shown(full):
    file = write(full)
    assert file == full / "report.html"
    reader = parsed(file)
    text = " ".join(" ".join(reader.texts).split()).replace("\N{NO-BREAK SPACE}", " ")
    assert {attributes.get("id") for attributes in reader.all("section")} == SECTIONS | {None}
    for shown in (
        f"{100 * RunFolder(full).findings.noise_rate:.1f} %",  # of the findings, whatever run.json says
        "the guard acted",
        "87.5 %",
        "0.987",
        "1 min 15 s",
        "resnet8: few",
        "jnpl find 'my photos' -o run",
        "a.jpg",
        "empty file",
        "b.jpg",
        "2 of them are in groups with different labels",
        "eel",
        "train.epochs",
        "The best epoch reached 90.0 %",
        "photos",
        "9.9",
        "threshold 0.5",
    ):
        assert shown in text, shown
    assert text.count("judged by trees") == 1  # among the choices: a fact, and nothing to act on
    assert text.index("the guard acted") < text.index("resnet8: few") < text.index("judged by trees")
    cards = [a for a in reader.all("li") if a.get("class") == "card"]
    assert len(reader.all("img")) == len(cards) - text.count("no picture") > 20
    assert all(
        attributes["alt"] and attributes["src"].startswith("data:image/jpeg;") for attributes in reader.all("img")
    )


def test_labels_that_are_likely_right_are_to_check(make_run):
    from dataclasses import replace

    from jnpl import Findings
    from jnpl.judging.noise_model import NoiseEstimate

    folder = make_run()
    found = replace(Findings.load(folder), noise=NoiseEstimate(0.02, 0.0, 0.1, overlap=0.2))
    found = replace(found, label_quality=0.9 + found.label_quality / 10).with_threshold("budget=7")
    found.save(folder)
    text = words_of(folder)
    assert "7 of 200 labels to check" in text
    assert "Suspects 7 of which about 1 are expected to be wrong" in text
    assert "Wrong labels, estimated 2" in text


def test_findings_alone_make_a_page(make_run):
    """`Findings.save` of one's own loop: no log, no settings."""
    text = "".join(parsed(write(make_run())).texts)
    assert "The run folder has no log of the epochs" in text
    assert "did not search for unreadable samples" in text
    assert "does not contain the command" in text


def test_no_suspects_and_no_verdicts(make_run):
    text = "".join(parsed(write(make_run("clean", noise=0, threshold=0.001))).texts)
    assert "None of 200 labels look wrong" in " ".join(text.split())
    assert "No label lies below the threshold" in text
    text = "".join(parsed(write(make_run("blind", unreadable=np.ones(200, bool)))).texts)
    assert "No sample has a label quality" in text
    assert "200 samples could not be read" in text


def test_vectors_have_tables_in_place_of_pictures(make_run):
    rows = {str(position): [position, 0.5] for position in range(200)}
    folder = make_run(data={"columns": {"names": ["length", "a\nb"], "rows": rows}})
    reader = parsed(write(folder))
    assert reader.all("img") == []
    assert {"length", "a\\nb"} <= set(reader.texts)


def words_of(folder):
    """The words of the page, in one line."""
    return " ".join(" ".join(parsed(write(folder)).texts).split()).replace("\N{NO-BREAK SPACE}", " ")


def test_the_page_names_a_threshold_for_each_class(make_run):
    from jnpl import Findings

    folder = make_run(samples=400, classes=2, threshold="per-class")
    low, high = sorted(Findings.load(folder).threshold_info["by_class"])
    words = words_of(folder)
    assert f"Each given class has a threshold of its own, from {low:.3g} to {high:.3g}, and a label below" in words
    assert "is a suspect (2 of 2 fitted, 0.5 for the others)" in words
    assert "A label below the threshold of" not in words
    assert {f"{low:.3f}", f"{high:.3f}"} <= set(words.split())
    reader = parsed(folder / "report.html")
    assert "Threshold" in reader.texts
    assert not [each for each in reader.all("path") if each["class"] == "threshold"]
    assert not [each for each in reader.all("span") if (each.get("class") or "").startswith("mark")]
    assert widths(folder) == {7}

    one = make_run("one", samples=400, classes=2)
    assert "A label below the threshold of 0.5 is a suspect." in words_of(one)
    reader = parsed(one / "report.html")
    assert "Threshold" not in reader.texts
    assert len([each for each in reader.all("path") if each["class"] == "threshold"]) == 1
    assert widths(one) == {6}


def widths(folder):
    """How many cells the rows of the table of classes have."""
    text = (folder / "report.html").read_text("utf-8")
    table = re.search('<table class="sortable">(.*?)</table>', text, re.DOTALL)[1]
    return {len(re.findall("<t[hd][ >]", row)) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)}


def test_lists_are_cut_but_all_are_counted(make_run):
    group = {"ids": list(range(100)), "labels": ["a"] * 100, "count": 1234, "conflicting": False}
    odd = {"ids": [7, 8], "labels": ["a", "b"], "count": 2, "conflicting": True}
    counts = {"unreadable_samples": 5_000, "duplicate_samples": 300_000, "conflicting_samples": 2}
    lists = {"unreadable": [{"id": number} for number in range(1_000)], "duplicates": [group] * 150 + [odd]}
    words = words_of(make_run(data={**lists, **counts}))
    assert "5,000 samples could not be read and took no part. The first 100:" in words
    assert "300,000 samples have the same content as another one; 2 of them are in groups with" in words
    assert "The first 100 groups:" in words
    assert words.count("and 1,224 more") == 99

    few = {"unreadable": lists["unreadable"][:2], "duplicates": [group]}
    words = words_of(make_run("uncounted", data=few))
    assert "2 samples could not be read and took no part. Sample" in words
    assert (
        "1,234 samples have the same content as another one; all samples of a group have the same label. Samples"
        in words
    )


def test_what_was_not_compared_is_not_said_to_differ(make_run):
    none = {"unreadable": [], "duplicates": [], "duplicate_samples": 0, "conflicting_samples": 0, "tiny_classes": []}
    words = words_of(make_run(data={**none, "compared": False}))
    assert "The contents of the samples were not compared." in words
    assert "No two samples" not in words
    words = words_of(make_run("compared", data={**none, "compared": True}))
    assert "No two samples have the same content." in words
    assert "not compared" not in words


def near_duplicates(count=1):
    odd = {"ids": [7, 8, 9, 10, 11, 12], "labels": ["a"] * 5 + ["b"], "count": 600, "conflicting": True}
    same = {"ids": [1, 2], "labels": ["a", "a"], "count": 2, "conflicting": False}
    return {
        "near_duplicates": [same] * count + [odd],
        "near_duplicate_samples": 5_000,
        "near_conflicting_samples": 600,
        "outliers": [{"id": number, "score": 1 - number / 1000} for number in range(20, 20 + 60 * count)],
        "outlier_samples": 900,
        "neighbours_searched": "all pairs of samples were compared",
    }


def test_near_duplicates_are_side_by_side_and_different_labels_first(make_run):
    columns = {"names": ["text"], "rows": {number: [f"text {number}"] for number in range(200)}}
    folder = make_run(data={**near_duplicates(), "columns": columns})
    words = words_of(folder)
    assert "5,000 samples are nearly the same as another one, by their embeddings (all pairs" in words
    assert "600 of them are in groups with different labels" in words
    assert "which come first. The first 2 groups:" in words
    html = (folder / "report.html").read_text("utf-8")
    groups = re.findall('<li class="group.*?</ul>.*?</li>', html, re.DOTALL)
    assert ["differs" in group for group in groups] == [True, False]
    assert re.findall("<bdi>text (\\d+)</bdi>", groups[0]) == ["7", "8", "9", "12"]  # 12 has the other label
    assert "and 596 more" in groups[0]
    assert "900 samples look like nothing else" in words
    assert "The first 50:" in words
    assert "distance 0.980" in words


def test_many_near_duplicates_are_cut(make_run):
    html = write(make_run(data=near_duplicates(100))).read_text("utf-8")
    assert html.count('<li class="group') == 50
    assert "The first 50 groups:" in html


def test_without_near_duplicates_the_page_says_so(make_run):
    words = words_of(make_run(data={"near_duplicates": [], "outliers": []}))
    assert "No two samples are nearly the same" in words
    assert "No sample is far from all others." in words
    words = words_of(make_run("older", data={"duplicates": []}))
    assert "Near duplicates" not in words
    assert "Outliers" not in words


def test_labels_that_were_kept_aside_may_be_wrong_too(make_run):
    results = {"results": {"test_accuracy": 0.8}}
    aside = {"held_out": [{"id": 1, "label": "a"}]}
    assert "not used in training, whose labels may be wrong too" in words_of(make_run("doubt", data=aside, run=results))
    known = words_of(make_run("known", data={**aside, "true_labels": True}, run=results))
    assert "not used in training" in known
    assert "may be wrong too" not in known


def test_many_classes_have_pairs_in_place_of_the_matrix(make_run):
    text = write(make_run(samples=2000, classes=31)).read_text("utf-8")
    assert '<table class="heat' not in text
    assert text.count('<span class="unseen"> looks like </span>') == 30
    text = write(make_run("fewer", samples=2000, classes=30)).read_text("utf-8")
    assert '<table class="heat dense short"' in text
    assert text.count('<span class="unseen"> looks like </span>') == 10


def test_what_the_reader_must_know_first(make_run):
    folder = make_run(noise=0.8, run={"status": "running"})
    text = write(folder).read_text("utf-8")
    assert "The run was not finished" in text
    assert "More than half of the labels look wrong" in text


def test_hostile_texts_stay_texts(hostile):
    file = write(hostile)
    reader = parsed(file)
    text, shown = file.read_text("utf-8"), "".join(reader.texts)
    assert len(reader.all("script")) == 1
    assert {attributes["src"][:11] for attributes in reader.all("img")} <= {"data:image/"}
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    assert "<!--" not in text
    assert "\u202e" not in text
    assert "cat\\u202egpj.exe" in shown
    assert "<script>alert(1)</script>" in shown
    assert "{{ 7 * 7 }}{% raw %}" in shown
    long = re.findall("x{1000,}", text)
    assert len(long) == 1  # in the command, which must be whole to be of use


def test_nothing_is_fetched_and_nothing_else_may_run(full):
    text = write(full).read_text("utf-8")
    reader = parsed(full / "report.html")
    policy = next(each["content"] for each in reader.all("meta") if "http-equiv" in each)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    for tag, attributes in reader.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            assert attributes.get(name, "#")[:5] in {"data:", *(f"#{each}"[:5] for each in ("", "main", *SECTIONS))}, (
                tag
            )
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style


def test_the_same_run_gives_the_same_bytes(full, tmp_path):
    first = write(full).read_bytes()
    assert write(full, tmp_path / "elsewhere.html").read_bytes() == first


def test_nothing_is_written_if_anything_is_wrong(full, tmp_path):
    before = write(full).read_bytes()
    (full / "run.json").write_text("{")
    with pytest.raises(InputError):
        write(full)
    assert (full / "report.html").read_bytes() == before
    (full / "run.json").unlink()
    with pytest.raises(InputError, match="cannot write"):
        write(full, tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        write(full, tmp_path / "no" / "folder.html")
    assert not [each for each in (*full.iterdir(), *tmp_path.iterdir()) if each.name.endswith(".tmp")]


def test_no_run_at_all(tmp_path):
    with pytest.raises(InputError, match=r"nowhere' is no folder; name a run folder"):
        write(tmp_path / "nowhere")
    (tmp_path / "run.json").write_text('{"status": "running"}')
    with pytest.raises(InputError, match=r"holds no findings: .*repeat its command if it was stopped"):
        write(tmp_path)


def test_a_hundred_thousand_samples_are_a_small_page(make_run, log):
    paths = [f"{'a long folder name/' * 5}IMG_{number:06d}.jpg" for number in range(100_000)]
    folder = make_run(samples=100_000, classes=10, paths=paths, lines=log(1000), pictures=True)
    file = write(folder)
    assert file.stat().st_size < 20e6
    reader = parsed(file)
    assert len(reader.all("img")) == 1500
    assert len(reader.elements) < 45_000


def test_thousands_of_classes_are_a_small_page(make_run):
    file = write(make_run(samples=20_000, classes=3_000))
    assert file.stat().st_size < 5e6
    assert len(parsed(file).elements) < 45_000
    assert "The 1,000 classes with the largest share of suspects, of 3,000" in file.read_text("utf-8")


def test_torch_is_not_loaded(make_run):
    code = (
        "import sys; from jnpl.run_folder import RunFolder; from jnpl.outputs.report import page; "
        "page.write(RunFolder(sys.argv[1])); print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(make_run(pictures=True))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_samples_with_several_tags(tmp_path):
    names = ("cat", "<script>alert(1)</script>", "eel")
    html = page.render(RunFolder(tag_run(tmp_path / "run", tag_findings(names=names))))
    reader = Reader()
    reader.feed(html)
    text = " ".join(" ".join(reader.texts).split())
    assert "2 of 24 samples have tags that look wrong" in text
    for line in (
        "Missing tags, estimated 25.0 % 20.0 % to 30.0 % with 90 % confidence, of the true tags; 2 suspected",
        "Extra tags, estimated 4.0 % 3.0 % to 5.0 % with 90 % confidence, of the given tags; 1 suspected",
        "missing: <script>alert(1)</script> 95.0 %",
        "extra: <script>alert(1)</script> 90.0 %",
        "missing: cat 70.0 %",
        "20.0 % (10.0 % to 30.0 %)",
    ):
        assert line.replace(" %", "\N{NO-BREAK SPACE}%") in text.replace(" %", "\N{NO-BREAK SPACE}%"), line
    assert "Most confused pairs" not in text
    rows = [attributes for tag, attributes in reader.elements if "data-suggested" in attributes]
    assert [(row["data-given"], row["data-suggested"]) for row in rows] == [("", "1 0"), ("1", "")]
    none = page.render(RunFolder(tmp_path / "run"), "0.01")
    assert "None of 24 samples has a tag that looks wrong" in none
    with pytest.raises(InputError, match=r"the threshold '1/c' has no meaning for several tags per sample"):
        page.render(RunFolder(tmp_path / "run"), "1/c")
