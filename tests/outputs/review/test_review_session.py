"""One review: lists, the way through them, decisions of several people, exports."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.helpers.tag_runs import tag_run
from tests.outputs.review.conftest import body

from jnpl.internal.tables import load_table
from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.review.reviewed_labels import reviewed_run
from jnpl.run_folder import RunFolder


def test_pages_of_a_list(served):
    run = served.json("/api/run")
    total = run["status"]["counts"]["suspects"]
    assert run["classes"] == ["cat", "dog", "eel", "fox"]
    pages = [served.json(f"/api/list?limit=10&offset={offset}") for offset in range(0, total, 10)]
    positions = [item["position"] for page in pages for item in page["items"]]
    assert all(page["total"] == total for page in pages)
    assert len(positions) == len(set(positions)) == total
    qualities = [item["quality"] for page in pages for item in page["items"]]
    assert qualities == sorted(qualities)
    assert len(served.json("/api/list?list=all&limit=200")["items"]) == 120
    assert served.json(f"/api/list?offset={10**6}&limit=5")["items"]  # beyond the end: the last one


def test_the_way_through_a_list(served):
    positions = [item["position"] for item in served.json("/api/list?limit=200")["items"]]
    first = served.json("/api/sample")
    assert (first["item"]["position"], first["index"], first["previous"]) == (positions[0], 0, None)
    assert first["next"] == first["next_open"] == positions[1]
    served.json("/api/decide", body((positions[0], "keep"), (positions[2], "drop")))
    assert served.json("/api/sample")["item"]["position"] == positions[1]  # the first undecided one
    second = served.json(f"/api/sample?position={positions[1]}")
    assert (second["previous"], second["next"], second["next_open"]) == (positions[0], positions[2], positions[3])
    last = served.json(f"/api/sample?index={len(positions) - 1}")
    assert (last["item"]["position"], last["next"], last["next_open"]) == (positions[-1], None, positions[1])
    undecided = served.json("/api/sample?decided=no")
    assert (undecided["index"], undecided["total"]) == (0, len(positions) - 2)
    assert served.json("/api/sample?decided=drop")["item"]["position"] == positions[2]
    assert served.json("/api/sample?search=no-such-name")["item"] is None


def test_a_group_of_samples_is_listed(make_run, serve):
    run = make_run()
    findings = RunFolder(run).findings
    names = np.array([None, *(["ann", "bob", "cy"] * 40)[:119]], object)
    replace(findings, groups={"annotator": names, "week": np.full(120, 7, object)}).save(run)
    served = serve(run)
    counts = [tuple(each.values()) for each in served.json("/api/run")["groups"]]
    assert counts == [("annotator", "ann", 40), ("annotator", "bob", 40), ("annotator", "cy", 39), ("week", "7", 120)]
    found = served.json("/api/list?list=all&limit=200&group=1")["items"]
    assert sorted(item["position"] for item in found) == np.flatnonzero(names == "bob").tolist()
    suspects = set(np.flatnonzero(findings.is_label_issue & (names == "bob")).tolist())
    assert {item["position"] for item in served.json("/api/list?limit=200&group=1")["items"]} == suspects
    searched = served.json("/api/list?list=all&limit=200&group=1&search=11")["items"]
    assert {item["position"] for item in searched} == {at for at in np.flatnonzero(names == "bob") if "11" in str(at)}
    assert served.json("/api/list?list=all&group=3")["total"] == 120
    status, _, content = served.request("/api/list?group=4")
    assert (status, b"this run has 4 groups, got number 4" in content) == (400, True)


def test_decisions_of_another_process_are_seen_after_an_own_one(make_run, serve):
    run = make_run()
    served = serve(run)
    served.json("/api/status")
    other = open_store(RunFolder(run))
    other.decide([NewDecision(5, "drop")], reviewer="Bob", tab="other")
    assert served.json("/api/decide", body((1, "keep")))["counts"]["decided"] == 2
    other.undo("other")
    other.close()
    assert served.json("/api/decide", body((2, "keep")))["counts"]["actions"]["drop"] == 0
    assert served.json("/api/status")["counts"]["decided"] == 2


def test_exports(served, tmp_path):
    served.json("/api/decide", body((1, "keep"), (2, "relabel", 3), (3, "drop"), (4, "unsure")))
    status, headers, content = served.request("/export/csv")
    assert status == 200
    assert headers["content-disposition"] == 'attachment; filename="decisions.csv"'
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [row["action"] for row in rows] == ["keep", "relabel", "drop", "unsure"]
    assert [row["label"] for row in rows] == [rows[0]["given_label"], "fox", "", ""]
    assert {row["reviewer"] for row in rows} == {"Ann"}
    file = tmp_path / "decisions.parquet"
    file.write_bytes(served.request("/export/parquet")[2])
    table = load_table(file).to_dict("records")
    labels = [row["label"] for row in table]
    assert labels[:2] == [rows[0]["given_label"], "fox"]
    assert pd.isna(labels[2:]).all()
    tasks = json.loads(served.request("/export/label-studio")[2])
    chosen = [task.get("annotations", [{}])[0].get("result", []) for task in tasks]
    assert [each[0]["value"]["choices"] if each else None for each in chosen] == [
        [rows[0]["given_label"]],
        ["fox"],
        None,
        None,
    ]
    assert [task.get("annotations", [{}])[0].get("was_cancelled") for task in tasks] == [False, False, True, None]
    assert served.request("/export/xml")[0] == 404


@pytest.mark.parametrize(
    ("facts", "how"), [({}, "repeat its command to add that"), ({"command": []}, "repeat it with `jnpl find` on files")]
)
def test_a_run_without_its_data(make_run, serve, facts, how):
    served = serve(make_run(samples=60, data=facts))
    status = served.json("/api/status")
    assert status["data"]["state"] == "missing"
    assert f"does not say how its data were opened; {how}" in status["data"]["problem"]
    assert served.request("/image/0")[0] == 404
    item = served.json("/api/sample")["item"]
    assert item["content"] == {"kind": "row", "cells": []}
    assert served.json(f"/api/similar/{item['position']}")["items"] == []
    served.json("/api/decide", body((item["position"], "keep")))
    served.json("/api/learn", {"tab": "t"})
    while (learning := served.json("/api/status")["learning"])["state"] == "running":
        pass
    assert learning["state"] == "failed"


@pytest.fixture
def tagged(tmp_path, serve):
    """A server of a run on several tags."""
    return serve(tag_run(tmp_path / "tagged"))


def test_samples_with_several_tags(tagged):
    run = tagged.json("/api/run")
    assert (run["tags"], run["classes"]) == (["cat", "dog", "eel"], [])
    assert run["noise"].startswith("about 25.0% (20.0% to 30.0%) of the true tags are missing, and 4.0%")
    assert [item["position"] for item in tagged.json("/api/list")["items"]] == [1, 0]
    item = tagged.json("/api/sample")["item"]
    assert (item["given"], item["suggested"]) == ("2", "0,1,2")
    assert [(tag, round(quality, 2), issue) for tag, quality, issue in item["doubts"]][:2] == [
        (1, 0.05, True),
        (0, 0.3, True),
    ]
    assert tagged.json("/api/sample?list=all&position=2")["item"]["given"] == "-"
    assert tagged.json("/api/pairs") == [
        {"given": 1, "suggested": None, "count": 1, "undecided": 1},
        {"given": None, "suggested": 0, "count": 1, "undecided": 1},
        {"given": None, "suggested": 1, "count": 1, "undecided": 1},
    ]
    for query, positions in (("given=1", [0]), ("suggested=1", [1]), ("given=0", []), ("verdict=other", [1, 0])):
        assert [item["position"] for item in tagged.json(f"/api/list?{query}")["items"]] == positions
    assert tagged.request("/api/list?given=3")[0] == 400
    assert [each["name"] for each in tagged.json("/api/examples/1")["classes"]] == ["dog", "cat"]


def test_decisions_about_tags(tagged, tmp_path):
    made = tagged.json(
        "/api/decide", body((1, "relabel", "1,2"), (0, "relabel", "0,1"), (5, "relabel", "-"), (6, "drop"))
    )
    assert [(each["position"], each["action"], each["label"]) for each in made["decisions"]] == [
        (0, "keep", None),
        (1, "relabel", "1,2"),
        (5, "relabel", "-"),
        (6, "drop", None),
    ]
    table = pd.read_csv(io.BytesIO(tagged.request("/export/csv")[2]))
    assert table["given_label"].tolist() == ['["cat", "dog"]', '["eel"]', '["eel"]', '["cat"]']
    assert table["label"].fillna("").tolist() == ['["cat", "dog"]', '["dog", "eel"]', "[]", ""]
    status, _, content = tagged.request("/api/decide", body((1, "keep"), tab="other"))
    assert (status, json.loads(content)["conflicts"][0]["label"]) == (409, "1,2")
    assert [each["position"] for each in tagged.json("/api/list?decided=relabel&list=all")["items"]] == [1, 5]
    assert tagged.json("/api/undo", {"tab": "t"})["positions"] == [1, 0, 5, 6]
    assert reviewed_run(RunFolder(tmp_path / "tagged")).decided == 0


@pytest.mark.parametrize(
    ("label", "status"),
    [
        ("3", 400),
        (1, 400),
        (None, 400),
        ("0,,1", 422),
        ("", 422),
        ("-1", 400),
        ("cat", 422),
        (["0"], 422),
        ("9" * 6, 400),
    ],
)
def test_what_no_set_of_tags_can_be(tagged, label, status):
    assert tagged.request("/api/decide", body((1, "relabel", label)))[0] == status
    assert tagged.json("/api/status")["counts"]["decided"] == 0


def test_what_is_for_one_label_alone(tagged, served):
    tagged.json("/api/decide", body((1, "keep")))
    for path, sent in (("/api/learn", {"tab": "t"}), ("/export/label-studio", None)):
        status, _, content = tagged.request(path, sent)
        assert (status, "one label per sample" in json.loads(content)["error"]) == (400, True)
    assert tagged.request("/api/audit")[0] == 404
    assert served.request("/api/decide", body((1, "relabel", "0,1")))[0] == 400
