"""Who is let in: the token, the cookie, the host, the origin, and requests of a sane size."""

import http.client

import pytest
from tests.outputs.review.conftest import TOKEN, body

from jnpl.outputs.review.request_checks import Access, RequestChecks


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
    refusal = RequestChecks(None, access)._refusal("POST", headers)
    assert refusal is None if length == "\xb2" else refusal.status_code == 413


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


def test_a_body_without_a_length_is_limited_too(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    headers = {"Cookie": served.cookie, "Content-Type": "application/json", "Origin": f"http://127.0.0.1:{served.port}"}
    connection.request("POST", "/api/undo", iter([b" " * 65536] * 6), headers, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()
