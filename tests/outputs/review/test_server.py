"""The server: who is let in, what is answered, and that nothing acknowledged is lost."""

from __future__ import annotations

import csv
import http.client
import io
import json
import signal
import threading

import pandas as pd
import pytest
from tests.outputs.review.conftest import TOKEN

from jnpl.internal.tables import load_table
from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.review.request_checks import MAX_BODY, Access, RequestChecks
from jnpl.outputs.review.server import Address
from jnpl.run_folder import RunFolder


def body(*made, tab="t", reviewer="Ann"):
    keys = ("position", "action", "label", "seen")
    return {
        "tab": tab,
        "reviewer": reviewer,
        "decisions": [dict(zip(keys, (*each, *(None, 0)[len(each) - 2 :]), strict=True)) for each in made],
    }


@pytest.fixture
def served(make_run, serve):
    return serve(make_run(files=True))


def test_who_is_let_in(served):
    port = served.port
    own = f"http://127.0.0.1:{port}"
    decision = body((1, "keep"))
    assert served.request("/api/status")[0] == 200
    assert served.request("/api/status", Host=f"localhost:{port}")[0] == 200
    # the cookie
    for path in ("/", "/api/status", "/image/0", "/static/review.js", "/export/csv"):
        assert served.request(path, Cookie=None)[0] == 403, path
        assert served.request(path, Cookie=served.cookie[:-1])[0] == 403, path
    # the token
    assert served.request("/?token=wrong", Cookie=None)[0] == 403
    assert served.request("/?token=", Cookie=None)[0] == 403
    status, headers, _ = served.request(f"/?token={TOKEN}", Cookie=None)
    assert status == 200
    assert all(part in headers["set-cookie"] for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
    assert TOKEN not in headers["set-cookie"]
    # the host: a name of an attacker that leads to this machine
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", ""):
        assert served.request("/api/status", Host=host)[0] == 421, host
        assert served.request(f"/?token={TOKEN}", Host=host, Cookie=None)[0] == 421, host
    # the origin
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"):
        assert served.request("/api/decide", decision, Origin=origin)[0] == 403, origin
        assert served.request("/api/status", Origin=origin)[0] == 403, origin
    assert served.request("/api/decide", decision, Origin=None, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    # what a form of another page can send
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert served.request("/api/decide", decision, **{"Content-Type": kind})[0] == 415, kind
    assert served.json("/api/status")["counts"]["decided"] == 0
    assert served.request("/api/decide", decision, Origin=own)[0] == 200
    assert served.json("/api/status")["counts"]["decided"] == 1


@pytest.mark.parametrize(("port", "bare"), [(80, True), (8080, False)])
def test_browsers_leave_out_port_80(port, bare):
    class Listening:
        def getsockname(self):
            return "127.0.0.1", port

    hosts = Address(Listening(), "127.0.0.1").hosts
    assert f"127.0.0.1:{port}" in hosts
    assert ("127.0.0.1" in hosts) == ("localhost" in hosts) == bare


def test_cookies_of_other_pages_do_no_harm(served):
    for others in ("foo[bar]=1; {}", "{}; a=b; c", "=; {};", 'x="a; {}', "ü=é; {}"):
        assert served.request("/api/run", Cookie=others.format(served.cookie))[0] == 200, others
    name = served.cookie.split("=")[0]
    for wrong in (name, f"{name}=", f"{name}={'0' * 64}", f"x{served.cookie}", f"{served.cookie}0"):
        assert served.request("/api/run", Cookie=wrong)[0] == 403, wrong


@pytest.mark.parametrize("length", ["1" * 5000, "99999999", "\xb2"])
def test_a_length_of_any_size_is_answered(length):
    access = Access(TOKEN, frozenset({"here"}))
    headers = {"host": "here", "content-type": "application/json", "content-length": length}
    refusal = RequestChecks(None, access)._refusal({"method": "POST"}, headers)
    assert refusal is None if length == "\xb2" else refusal[0] == 413


def test_headers_of_every_answer(served):
    for path in ("/", "/api/run", "/image/0", "/static/review.css", "/nothing", "/?token=wrong"):
        _, headers, _ = served.request(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert served.request("/docs")[0] == served.request("/openapi.json")[0] == 404


def test_images_come_by_number_only(served):
    status, headers, content = served.request("/image/0?small=true")
    assert (status, headers["content-type"], content[:4]) == (200, "image/png", b"\x89PNG")
    for path in (
        "/image/..%2f..%2f..%2fetc%2fpasswd",
        "/image/../../../etc/passwd",
        "/image/cat/0000.png",
        "/image/-1",
        "/image/120",
        "/image/9999999999999999999",
        "/static/..%2fserver.py",
        "/static/../../server.py",
        "/static/%2e%2e/request_checks.py",
        "/static/page/review.js",
        "/export/..%2frun.json",
        "/review.sqlite",
    ):
        status, _, content = served.request(path)
        assert status in (404, 422), path
        assert b"root:" not in content
        assert b"import" not in content


def test_size_limits(served):
    assert served.request("/api/decide", b" " * (MAX_BODY + 1))[0] == 413
    many = body(*((position, "keep") for position in range(120)), (0, "keep"))
    assert served.request("/api/decide", many)[0] == 400  # 0 twice
    too_many = {**many, "decisions": many["decisions"] * 9}
    assert served.request("/api/decide", too_many)[0] == 422
    assert served.request("/api/list?limit=201")[0] == 422
    assert served.request(f"/api/list?search={'x' * 201}")[0] == 422
    assert served.json("/api/status")["counts"]["decided"] == 0


def test_a_body_without_a_length_is_limited_too(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    headers = {"Cookie": served.cookie, "Content-Type": "application/json", "Origin": f"http://127.0.0.1:{served.port}"}
    connection.request("POST", "/api/undo", iter([b" " * 65536] * 6), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"decisions": []}, "at least 1"),
        ({"reviewer": ""}, "at least 1"),
        ({"extra": 1}, "not permitted"),
        ({"decisions": [{"position": 1, "action": "guess", "seen": 0}]}, "keep"),
        ({"decisions": [{"position": 1, "action": "relabel", "label": 4, "seen": 0}]}, "0 to 3"),
        ({"decisions": [{"position": 1, "action": "relabel", "seen": 0}]}, "0 to 3"),
        ({"decisions": [{"position": 1, "action": "keep", "label": 2, "seen": 0}]}, "has no label"),
        ({"decisions": [{"position": 120, "action": "keep", "seen": 0}]}, "0 to 119"),
    ],
)
def test_wrong_decisions_are_refused_in_words(served, change, reason):
    status, _, content = served.request("/api/decide", body((1, "keep")) | change)
    assert status in (400, 422)
    assert reason in json.loads(content)["error"]


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


def test_search_by_file_name(served):
    found = served.json("/api/list?list=all&limit=200&search=DOG/")
    assert found["total"] == 30
    assert all(item["id"].startswith("dog/") for item in found["items"])


def test_conflicts_are_answered(served):
    served.json("/api/decide", body((1, "keep"), reviewer="Ann", tab="a"))
    status, _, content = served.request("/api/decide", body((1, "drop"), reviewer="Bob", tab="b"))
    assert status == 409
    answer = json.loads(content)
    assert answer["positions"] == [1]
    assert [(each["reviewer"], each["action"]) for each in answer["conflicts"]] == [("Ann", "keep")]
    assert served.json("/api/undo", {"tab": "b"})["positions"] == []
    assert served.json("/api/undo", {"tab": "a"})["positions"] == [1]


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


def test_a_run_without_its_data(make_run, serve):
    served = serve(make_run(samples=60))
    status = served.json("/api/status")
    assert status["data"]["state"] == "missing"
    assert "repeat its command" in status["data"]["problem"]
    assert served.request("/image/0")[0] == 404
    item = served.json("/api/sample")["item"]
    assert item["content"] == {"kind": "row", "cells": []}
    assert served.json(f"/api/similar/{item['position']}")["items"] == []
    served.json("/api/decide", body((item["position"], "keep")))
    served.json("/api/learn", {"tab": "t"})
    while (learning := served.json("/api/status")["learning"])["state"] == "running":
        pass
    assert learning["state"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_in_order(make_run, serve_process, number):
    run = make_run()
    process, client = serve_process(run)
    client.json("/api/decide", body((1, "keep")))
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "jnpl apply" in errors
    store = open_store(RunFolder(run))
    assert [each.position for each in store.all_current()] == [1]
    store.close()


def test_a_kill_in_the_middle_of_rapid_decisions(make_run, serve_process):
    run = make_run(samples=3000)
    acknowledged: list[int] = []
    for number in range(3):
        process, client = serve_process(run)
        stop = threading.Timer(0.6, process.kill)
        stop.start()
        try:
            for position in range(number * 1000, (number + 1) * 1000):
                status, _, _ = client.request("/api/decide", body((position, "keep")))
                assert status == 200
                acknowledged.append(position)
        except (OSError, http.client.HTTPException):  # the server is gone
            pass
        stop.join()
        process.wait(60)
        store = open_store(RunFolder(run))
        stored = {each.position for each in store.all_current()}
        assert store._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        store.close()
        assert set(acknowledged) <= stored
        assert len(stored) <= len(acknowledged) + number + 1  # one may be stored and not acknowledged
    assert len(acknowledged) > 30
