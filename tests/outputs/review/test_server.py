"""The server: what is answered, and that nothing acknowledged is lost."""

import http.client
import json
import signal
import threading

import pytest
from tests.outputs.review.conftest import body

from jnpl.outputs.review.decisions import open_store
from jnpl.outputs.review.request_checks import MAX_BODY
from jnpl.outputs.review.server import Address, listen
from jnpl.run_folder import RunFolder


@pytest.mark.parametrize(("port", "bare"), [(80, True), (8080, False)])
def test_browsers_leave_out_port_80(port, bare):
    class Listening:
        def getsockname(self):
            return "127.0.0.1", port

    hosts = Address(Listening(), "127.0.0.1").hosts
    assert f"127.0.0.1:{port}" in hosts
    assert ("127.0.0.1" in hosts) == ("localhost" in hosts) == bare


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


def test_names_of_this_machine():
    address = listen("127.0.0.1", 0)
    try:
        assert address.hosts == {f"{name}:{address.port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        assert address.link("a b") == f"http://127.0.0.1:{address.port}/?token=a%20b"
    finally:
        address.listening.close()
