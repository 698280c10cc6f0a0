"""`jnpl methods`, `jnpl backbones`, `jnpl train`, and the pages that are generated from the registry."""

import json
import subprocess
import sys

import pytest
from tests.helpers.command import jnpl
from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script

from jnpl.methods.registry import METHODS, table

NAMES = [
    "ce",
    "mae",
    "gce",
    "sce",
    "nce-rce",
    "nfl-rce",
    "co-teaching",
    "jocor",
    "nlnl",
    "jnpl",
    "forward",
    "m-correction",
    "limit",
    "joint-optim",
    "metacleaner",
    "mlnt",
    "pencil",
]


def test_methods_json_is_as_pinned(capsys):
    code, out, err = jnpl(capsys, "methods", "--json")
    rows = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["name"] for row in rows if row["name"] in NAMES] == NAMES  # in this order, and there may be more
    assert all(set(row) == {"name", "paper", "networks", "stages", "needs", "score"} for row in rows)
    by_name = {row["name"]: row for row in rows}
    assert by_name["nlnl"]["stages"] == ["nl", "selnl", "selpl"]
    assert len(by_name["pencil"]["stages"]) == 3
    assert len(by_name["joint-optim"]["stages"]) == 2
    assert {name: by_name[name]["needs"] for name in ("co-teaching", "jocor")} == dict.fromkeys(
        ("co-teaching", "jocor"), "noise rate"
    )
    assert by_name["jnpl"]["needs"] == by_name["nlnl"]["needs"] == "nothing"
    assert "reconstruction" in by_name["metacleaner"]["paper"]
    assert "validation" in by_name["mlnt"]["needs"]


def test_methods_are_listed_without_loading_torch():
    script = "import sys; from jnpl.cli import main; sys.argv = ['jnpl', 'methods', '--json']\ntry: main()\n"
    script += "except SystemExit: print('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stderr.strip() == "False"
    assert json.loads(done.stdout) == table()  # docs/generate.py writes it from the registry


def test_methods_for_people(capsys):
    code, out, _ = jnpl(capsys, "methods")
    assert code == 0
    assert all(name in out for name in NAMES)
    assert max(map(len, out.splitlines())) < 160


def test_backbones_json(capsys):
    code, out, err = jnpl(capsys, "backbones", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert (code, err) == (0, "")
    assert list(rows) == [
        *("efficientnet-lite0", "tfidf", "tfidf-characters", "minilm"),
        *("hf:NAME_OR_FOLDER", "timm:NAME", "package.module:factory"),
    ]
    keys = {"name", "takes", "width", "size", "mean_std", "licence", "source", "extra", "usable", "why_not"}
    assert all(set(row) == keys for row in rows.values())
    default = rows["efficientnet-lite0"]
    assert (default["takes"], default["width"], default["size"], default["usable"]) == ("image", 1280, 224, True)
    assert rows["tfidf"]["usable"] is True
    assert all(row["usable"] == (row["why_not"] is None) for row in rows.values())


def test_backbones_for_people(capsys, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    code, out, err = jnpl(capsys, "backbones")
    assert (code, err) == (0, "")
    assert "image -> 1280 numbers; up to 224 x 224 pixels; mean and std: (value - 127) / 128" in out
    assert 'not installed: pip install "jnpl[timm]"' in out
    assert max(map(len, out.splitlines())) < 160


def test_every_method_has_a_page_and_the_pages_are_up_to_date():
    for path, text in load_script("docs/generate.py").pages().items():
        assert path.read_text("utf-8") == text, f"{path} is not up to date: run python docs/generate.py"
    for name in METHODS:
        page = (ROOT / f"docs/methods/{name}.md").read_text("utf-8")
        for heading in ("## Equation", "## Settings", "## What differs", "## Unverified"):
            assert heading in page, (name, heading)
        assert all(f"method.{key}" in page for key in METHODS[name].Settings.model_fields if key != "name")


def test_every_setting_says_what_it_is():
    for name, method in METHODS.items():
        for key, field in method.Settings.model_fields.items():
            assert key == "name" or field.description, (name, key)
        assert method.Settings.model_fields["name"].default == name
    assert all(row["score"] and row["paper"] for row in table())


def test_train_tells_the_filter_and_the_classifier(capsys, tmp_path):
    args = ["train", "digits", "-o", str(tmp_path / "run"), "--set", "train.epochs=2", "--threads", "1", "--json"]
    code, out, _ = jnpl(capsys, *args, "--set", "verdict.threshold=1/c")
    told = json.loads(out)
    assert code == 0
    pinned = {"run", "samples", "classes", "issues", "noise_rate", "epochs", "seconds"}
    assert pinned | {"test_accuracy", "best_test_accuracy", "filter_test_accuracy"} <= set(told)
    assert told["epochs"] == 2 + 6


def test_another_method_by_its_name(capsys, tmp_path):
    run = ["digits", "-o", str(tmp_path / "run"), "--set", "train.epochs=1", "--threads", "1"]
    code, out, _ = jnpl(capsys, "train", *run, "--method", "jocor", "--set", "method.noise_rate=0.2")
    assert code == 0
    assert "mean of network_1 0." in out


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--method", "jnlp"], f"setting method.name: there are {', '.join(METHODS)}, got 'jnlp'"),
        (["--method", "co-teaching"], "co-teaching needs the noise rate"),
        (["--method", "co-teaching", "--set", "method.noise_rate=oracle"], "oracle.*true labels"),
        (["--method", "ce", "--set", "method.pl_weight=1"], "no setting 'method.pl_weight'; there are method.name"),
        (["--method", "nlnl", "--set", "stages.pl.epochs=1"], "setting stages.pl: the stages of nlnl are nl, selnl"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, args, told):
    import re

    data = tmp_path / "data.csv"
    data.write_text("a,b,label\n" + "".join(f"{i},{i % 3},{'xy'[i % 2]}\n" for i in range(40)), "utf-8")
    code, out, err = jnpl(capsys, "train", str(data), "-o", str(tmp_path / "run"), *args)
    assert (code, out) == (2, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("jnpl: ")
    assert re.search(told, last), last
