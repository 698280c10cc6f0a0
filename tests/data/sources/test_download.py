import hashlib
import io
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jnpl.data.sources import download
from jnpl.data.sources.download import data_root, fetch, safe_members
from jnpl.internal.errors import InputError, UnwritableError

BODY = np.random.default_rng(0).bytes(1_000_003)
MD5 = "md5:" + hashlib.md5(BODY).hexdigest()
SHA256 = "sha256:" + hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves BODY as its server's `plan` says, and notes each request's Range."""

    def do_GET(self):
        plan = self.server.plan
        asked = self.headers.get("Range")
        plan.asked.append(asked)
        if plan.failures:
            self.send_error(plan.failures.pop(0))
            return
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", plan.location)
            self.end_headers()
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and plan.ranges else 0
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + plan.shift}-{len(BODY) - 1}/{len(BODY)}")
        if plan.length:
            self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        stop = plan.cuts.pop(0) if plan.cuts else len(BODY)
        self.wfile.write(BODY[start:stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSE", 0.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.plan = SimpleNamespace(
            asked=[], failures=[], cuts=[], ranges=True, length=True, shift=0, location="file:///etc/passwd"
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_port}/data.bin"
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("digest", [MD5, SHA256, MD5.upper().replace("MD5", "md5")])
def test_a_file_comes_whole_and_alone(server, tmp_path, digest):
    target = tmp_path / "new" / "folder" / "data.bin"
    assert fetch(server.url, target, digest=digest) == target
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]
    assert fetch(server.url, target, digest=digest) == target  # no second request
    assert server.plan.asked == [None]


def test_a_file_that_is_wrong_is_replaced_but_only_by_a_right_one(server, tmp_path):
    target = tmp_path / "data.bin"
    target.write_bytes(b"old")
    with pytest.raises(InputError, match="wrong md5"):
        fetch(server.url, target, digest="md5:" + 32 * "0")
    assert target.read_bytes() == b"old"
    assert fetch(server.url, target, digest=MD5).read_bytes() == BODY


def test_an_earlier_part_is_continued(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY[:700_000])
    seen = []
    target = fetch(server.url, tmp_path / "data.bin", digest=MD5, progress=lambda *step: seen.append(step))
    assert target.read_bytes() == BODY
    assert server.plan.asked == ["bytes=700000-"]
    assert seen[0] == (700_000, len(BODY))
    assert seen[-1] == (len(BODY), len(BODY))


def test_a_part_that_is_whole_needs_no_request(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY)
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY
    assert server.plan.asked == []


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "data.bin.part").write_bytes(BODY + b"more")
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY
    assert server.plan.asked == [f"bytes={len(BODY) + 4}-", None]


def test_a_cut_connection_is_taken_up_where_it_broke(server, tmp_path):
    server.plan.cuts = [300_000, 300_001, 900_000]
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY
    assert server.plan.asked == [None, "bytes=300000-", "bytes=300001-", "bytes=900000-"]


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.plan.ranges, server.plan.cuts = False, [400_000]
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY
    assert server.plan.asked == [None, "bytes=400000-"]


def test_a_server_that_gives_another_range_starts_again(server, tmp_path):
    server.plan.shift = 1
    (tmp_path / "data.bin.part").write_bytes(BODY[:10])
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY
    assert server.plan.asked == ["bytes=10-", None]


def test_a_server_that_tells_no_length_will_do(server, tmp_path):
    server.plan.length = False
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY


def test_a_server_that_always_breaks_is_given_up_and_the_part_stays(server, tmp_path):
    server.plan.cuts = [100 * (number + 1) for number in range(20)]
    with pytest.raises(InputError, match=r"^cannot download http.*broke after .* by hand and put it at .*data\.bin'$"):
        fetch(server.url, tmp_path / "data.bin", digest=MD5)
    assert len(server.plan.asked) == download.TRIES
    assert (tmp_path / "data.bin.part").read_bytes() == BODY[:500]


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    wrong = "sha256:" + 64 * "a"
    with pytest.raises(InputError, match=f"wrong sha256: expected {64 * 'a'}, got {SHA256[7:]}"):
        fetch(server.url, tmp_path / "data.bin", digest=wrong)
    assert list(tmp_path.iterdir()) == []


def test_not_found_is_told_at_once(server, tmp_path):
    server.plan.failures = [404]
    with pytest.raises(InputError, match="404 Not Found; download it by hand"):
        fetch(server.url, tmp_path / "data.bin", digest=MD5)
    assert len(server.plan.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_in_trouble_gets_another_chance(server, tmp_path):
    server.plan.failures = [503, 429]
    assert fetch(server.url, tmp_path / "data.bin", digest=MD5).read_bytes() == BODY


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/data.bin"])
def test_a_redirection_leads_to_the_web_only(server, tmp_path, location):
    server.plan.location = location
    with pytest.raises(InputError, match="cannot download"):
        fetch(server.url.replace("data.bin", "elsewhere"), tmp_path / "data.bin", digest=MD5)
    server.plan.location = server.url
    assert fetch(server.url.replace("data.bin", "elsewhere"), tmp_path / "data.bin", digest=MD5).exists()


def test_without_a_network_one_line_says_what_to_do(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError) as caught:
        fetch(server.url, tmp_path / "data.bin", digest=MD5)
    assert "\n" not in str(caught.value)
    assert f"download it by hand and put it at {str(tmp_path / 'data.bin')!r}" in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/file", "/etc/passwd", "data:,x"])
def test_only_the_web_is_asked(tmp_path, url):
    with pytest.raises(InputError, match="only http and https"):
        fetch(url, tmp_path / "x", digest=MD5)


@pytest.mark.parametrize("digest", ["", "md5:", "md5:zz", "sha1:" + 40 * "0", 32 * "0", "sha256:" + 32 * "0"])
def test_a_digest_is_named_with_its_kind(tmp_path, digest):
    with pytest.raises(InputError, match="a digest reads"):
        fetch("http://127.0.0.1/", tmp_path / "x", digest=digest)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match="cannot write"):
        fetch("http://127.0.0.1/", tmp_path / "file" / "data.bin", digest=MD5)


def test_several_at_once_ask_once(server, tmp_path):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(fetch(server.url, tmp_path / "data.bin", digest=MD5)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == 4 * [tmp_path / "data.bin"]
    assert sys.platform == "win32" or len(server.plan.asked) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["data.bin"]


def test_a_terminal_shows_a_bar(server, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    fetch(server.url, tmp_path / "data.bin", digest=MD5)
    assert "data.bin" in sys.stderr.getvalue()


def test_no_terminal_shows_nothing(server, tmp_path, capsys):
    fetch(server.url, tmp_path / "data.bin", digest=MD5)
    assert capsys.readouterr() == ("", "")


def archive(path: Path, **changes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        good = tarfile.TarInfo("folder/good.bin")
        good.size = 3
        tar.addfile(good, io.BytesIO(b"abc"))
        if changes:
            bad = tarfile.TarInfo("folder/bad.bin")
            for key, value in changes.items():
                setattr(bad, key, value)
            tar.fileobj.write(bad.tobuf(tarfile.GNU_FORMAT))
    return path


def test_regular_files_are_listed(tmp_path):
    with tarfile.open(archive(tmp_path / "a.tar.gz")) as tar:
        assert [member.name for member in safe_members(tar)] == ["folder/good.bin"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "/etc/passwd"}, "outside its own folder"),
        ({"name": "../../outside"}, "outside its own folder"),
        ({"name": "folder/../../outside"}, "outside its own folder"),
        ({"name": "..\\outside"}, "outside its own folder"),
        ({"name": "C:/outside"}, "outside its own folder"),
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "link or a device"),
        ({"type": tarfile.LNKTYPE, "linkname": "folder/good.bin"}, "link or a device"),
        ({"type": tarfile.CHRTYPE}, "link or a device"),
        ({"type": tarfile.FIFOTYPE}, "link or a device"),
        ({"size": 2**50}, "claims 1,125,899,906,842,624 bytes"),
    ],
)
def test_a_hostile_archive_is_refused(tmp_path, changes, reason):
    path = archive(tmp_path / "a.tar.gz", **changes)
    with tarfile.open(path) as tar, pytest.raises(InputError, match=reason) as caught:
        list(safe_members(tar))
    assert str(path) in str(caught.value)


def test_a_file_of_less_than_nothing_is_never_listed(tmp_path):
    with tarfile.open(archive(tmp_path / "a.tar.gz", size=-512)) as tar:
        try:
            found = [member.name for member in safe_members(tar)]
        except InputError:
            return
    assert found == ["folder/good.bin"]  # newer versions of tarfile stop at such a header


def test_files_together_have_a_limit(tmp_path):
    with tarfile.open(archive(tmp_path / "a.tar.gz")) as tar, pytest.raises(InputError, match=r"may have 2$"):
        list(safe_members(tar, limit=2))


def test_a_cut_archive_is_told(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name in ("one", "two"):
            member = tarfile.TarInfo(name)
            member.size = len(BODY)
            tar.addfile(member, io.BytesIO(BODY))
    path.write_bytes(path.read_bytes()[:-500_000])
    with tarfile.open(path) as tar, pytest.raises(InputError, match="damaged or cut short"):
        list(safe_members(tar))


def test_data_goes_where_the_user_says_else_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JNPL_DATA", "~/data")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_root(Path("here")) == Path("here")
    assert data_root(None) == tmp_path / "data"
    monkeypatch.delenv("JNPL_DATA")
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_root() == tmp_path / ".cache" / "jnpl"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data_root() == tmp_path / "xdg" / "jnpl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_root() == tmp_path / ".cache" / "jnpl"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_root() == tmp_path / "Library" / "Caches" / "jnpl"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_root() == tmp_path / "local" / "jnpl"
