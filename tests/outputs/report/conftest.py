"""Run folders without a training, and a browser to look at their reports with."""

import json

import numpy as np
import pytest
from tests.helpers.runs import many_findings

from jnpl.run_folder import RunFolder

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>hacked=1</script>",
    "<!-- <img src=x onerror=hacked=1>",
    '" onmouseover="hacked=1" \'',
    "{{ 7 * 7 }}{% raw %}",
    "cat\u202egpj.exe",
    "two\nlines\r\n\x00\x1b[31m",
    "&lt;b&gt; &amp; <b>",
    "https://example.org/pixel.png",
    "x" * 5_000,
    "\U0001f408\u200d\u2b1b \u05d7\u05ea\u05d5\u05dc",
    " ",
)


def logged(epochs, **more):
    """Lines of metrics.jsonl."""
    shares = [1 / (number + 1) for number in range(epochs)]
    return [
        {"epoch": number, "lr": 0.1, "loss": share, "selected": 0.5, "test_accuracy": 0.9 - share / 10, **more}
        for number, share in enumerate(shares)
    ]


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run folder; `pictures` of the suspects, `data` for data.json, `run` for run.json."""

    def make(name="run", samples=200, classes=4, *, pictures=False, lines=None, data=None, run=None, noise=0.2, **more):
        folder = tmp_path / name
        findings = many_findings(samples, classes, noise, **more)
        findings.save(folder)
        if lines is not None:
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (folder / "metrics.jsonl").write_text(text, "utf-8")
        for file, facts in (("data.json", data), ("run.json", run)):
            if facts is not None:
                (folder / file).write_text(json.dumps(facts), "utf-8")
        if pictures:
            random = np.random.default_rng(1)
            worst = findings.worst(int(findings.is_label_issue.sum())).index
            RunFolder(folder).write_thumbnails(worst, lambda _: random.integers(0, 256, (96, 96, 3), np.uint8))
        return folder

    return make


@pytest.fixture
def log():
    """A function that makes lines of metrics.jsonl."""
    return logged


@pytest.fixture
def full(make_run):
    """A run with everything."""
    return make_run(
        pictures=True,
        class_names=["cat", "dog", "eel", "fox"],
        paths=[f"{number}/IMG_{number:04d}.jpg" for number in range(200)],
        lines=logged(3),
        data={
            "kind": "image",
            "command": ["jnpl", "find", "my photos", "-o", "run"],
            "choices": ["resnet8: few images"],
            "unreadable": [{"id": "a.jpg", "reason": "empty file"}],
            "duplicates": [{"ids": ["b.jpg", "c.jpg"], "labels": ["cat", "dog"]}],
            "near_duplicates": [{"ids": ["3/IMG_0003.jpg", "4/IMG_0004.jpg"], "labels": ["cat", "dog"]}],
            "outliers": [{"id": "5/IMG_0005.jpg", "score": 0.7}],
            "tiny_classes": [{"class": "eel", "count": 3}],
        },
        run={
            "status": "finished",
            "seed": 5,
            "data": "photos",
            "versions": {"jnpl": "9.9"},
            "recipe": {"train": {"epochs": 3}},
            "precision": "32",
            "results": {
                "noise_rate": 0.21,
                "noise_interval": [0.17, 0.25],
                "epochs": 3,
                "seconds": 75.0,
                "ap": 0.987,
                "test_accuracy": 0.875,
                "best_test_accuracy": 0.9,
                "notes": ["the guard acted", "judged by trees"],
                "judged_by": "judged by trees",
            },
        },
    )


@pytest.fixture(params=["pictures", "table"])
def hostile(make_run, request):
    """A run with hostile texts wherever a text comes from outside."""
    bad = list(HOSTILE)
    return make_run(
        pictures=request.param == "pictures",
        classes=len(bad),
        class_names=bad,
        paths=[f"{number}-{bad[number % len(bad)]}" for number in range(200)],
        lines=[
            *logged(2, stage=bad[0], **{f"test_accuracy{bad[2]}": 0.5}),
            {"epoch": 2, "stage": bad[1], "loss": 1.0},
        ],
        data={
            "kind": bad[0],
            "command": bad,
            "choices": [*bad, bad[1] + "\ud800"],
            "unreadable": [{"id": text, "reason": text} for text in bad],
            "duplicates": [{"ids": bad, "labels": bad}],
            "near_duplicates": [{"ids": [f"{number}-{text}" for number, text in enumerate(bad)], "labels": bad}],
            "outliers": [{"id": f"{number}-{text}", "score": 1} for number, text in enumerate(bad)],
            "neighbours_searched": bad[0],
            "tiny_classes": [{"class": text, "count": 1} for text in bad],
            "columns": {"names": bad, "rows": dict.fromkeys(map(str, range(200)), bad)},
        },
        run={
            "status": bad[0],
            "precision": bad[1],
            "data": bad[1],
            "fingerprint": bad[2],
            "versions": dict.fromkeys(bad, bad[1]),
            "recipe": {text: {text: text} for text in bad},
            "results": {"notes": bad, "epochs": 1, "seconds": 1.0},
        },
    )


@pytest.fixture
def visit(watched):
    """A function that opens a file, which may ask for nothing."""
    return lambda file, **more: watched(file.resolve().as_uri(), file.resolve().as_uri(), **more)


def serious(page):
    """What axe-core calls serious or critical."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
