"""Label Studio's import: tasks with predictions, and an interface whose names they use."""

import json
from urllib.parse import parse_qs, urlparse
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from tests.helpers.runs import findings

from jnpl.internal.errors import InputError
from jnpl.outputs.export.label_studio import interface, write

PATHS = ["cat/a b.png", "cat/#1?&=.png", "/abs/ü.png", "d.png", "e.png", "f.png"]
HOSTILE = ['<b> & "q"', "'$x'", "naïve"]


def read(path):
    return json.loads(path.read_text("utf-8"))


def follows(tasks, config):
    """Check what https://labelstud.io/guide/predictions asks for, against the interface's own names."""
    view = ET.fromstring(config)
    choices = view.find("Choices")
    shown = view.find(choices.get("toName").capitalize())
    values = {each.get("value") for each in choices.findall("Choice")}
    ids = []
    for task in tasks:
        assert task["data"][shown.get("value").removeprefix("$")]
        assert view.find("Header").get("value").split("$")[1] in task["data"]
        for prediction in task.get("predictions", ()):
            assert isinstance(prediction["model_version"], str)
            assert 0 <= prediction["score"] <= 1
            for result in prediction["result"]:
                assert result["type"] == "choices"
                assert (result["from_name"], result["to_name"]) == (choices.get("name"), shown.get("name"))
                assert set(result["value"]["choices"]) <= values
                ids.append(result["id"])
    assert len(ids) == len(set(ids))
    return len(ids)


def test_images(tmp_path):
    found = findings(paths=PATHS, class_names=HOSTILE)
    result = write(found, tmp_path / "tasks.json")
    tasks = read(tmp_path / "tasks.json")
    assert result == {"tasks": 6, "config": str(tmp_path / "tasks.config.xml")}
    assert follows(tasks, (tmp_path / "tasks.config.xml").read_text("utf-8")) == 6
    assert [parse_qs(urlparse(task["data"]["image"]).query)["d"][0] for task in tasks] == [
        path.lstrip("/") for path in PATHS
    ]
    second = tasks[1]
    assert second["data"]["given_label"] == HOSTILE[0]
    assert second["data"]["label_quality"] == pytest.approx(0.1)
    assert second["predictions"][0]["result"][0]["value"]["choices"] == [HOSTILE[1]]
    assert second["predictions"][0]["score"] == pytest.approx(0.1)  # label quality: the queue begins with the worst


def test_another_place_for_the_images(tmp_path):
    write(findings(paths=PATHS), tmp_path / "tasks.json", image_prefix="https://host/pictures/")
    assert read(tmp_path / "tasks.json")[0]["data"]["image"] == "https://host/pictures/cat/a%20b.png"


def test_issues_alone_worst_first_without_what_cannot_be_read(tmp_path):
    found = findings(paths=PATHS, unreadable=[False, False, True, False, False, False])
    assert write(found, tmp_path / "tasks.json", issues=True)["tasks"] == 2
    assert [task["data"]["id"] for task in read(tmp_path / "tasks.json")] == [PATHS[1], PATHS[3]]
    assert write(found, tmp_path / "all.json")["tasks"] == 5
    assert write(findings(paths=PATHS, threshold=0.01), tmp_path / "none.json", issues=True)["tasks"] == 0
    assert read(tmp_path / "none.json") == []


def test_rows_of_a_table(tmp_path):
    table = pd.DataFrame({"size": range(6), "town": list("abcdef")})
    write(findings(), tmp_path / "tasks.json", table=table, issues=True)
    tasks = read(tmp_path / "tasks.json")
    assert tasks[0]["data"]["text"] == "size: 1\ntown: b"
    assert follows(tasks, interface(findings())) == 3
    write(findings(), tmp_path / "texts.json", table=table[["town"]])
    assert read(tmp_path / "texts.json")[2]["data"]["text"] == "c"
    write(findings(), tmp_path / "bare.json")
    assert read(tmp_path / "bare.json")[2]["data"]["text"] == "sample 2"


def test_rows_are_found_by_their_numbers(tmp_path):
    """A run with --holdout has seen a part of its table."""
    table = pd.DataFrame({"town": list("abcdefgh")})
    write(findings(ids=[0, 2, 3, 5, 6, 7]), tmp_path / "tasks.json", table=table)
    shown = [(task["data"]["id"], task["data"]["text"]) for task in read(tmp_path / "tasks.json")]
    assert shown == [("0", "a"), ("2", "c"), ("3", "d"), ("5", "f"), ("6", "g"), ("7", "h")]
    write(findings(ids=list("uvwxyz")), tmp_path / "texts.json", table=table[:6])
    assert [task["data"]["text"] for task in read(tmp_path / "texts.json")] == list("abcdef")


def test_mistakes(tmp_path):
    with pytest.raises(InputError, match=r"Label Studio imports \.json files"):
        write(findings(), tmp_path / "tasks.csv")
    two = pd.DataFrame({"a": [1, 2]})
    with pytest.raises(InputError, match=r"the table has 2 rows, but the run's are 0 to 5 \(counted from 0\)"):
        write(findings(), tmp_path / "tasks.json", table=two)
    with pytest.raises(InputError, match="the run's are -1 to 4"):
        write(findings(ids=range(-1, 5)), tmp_path / "tasks.json", table=pd.DataFrame({"a": range(6)}))
    with pytest.raises(InputError, match="the table has 2 rows, but the run's data 6"):
        write(findings(ids=list("uvwxyz")), tmp_path / "tasks.json", table=two)
    assert list(tmp_path.iterdir()) == []
