"""Run folders to review, without a training, and servers for them."""

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import uvicorn
from PIL import Image
from tests.helpers.runs import many_findings

from jnpl.cli.review import data_opener
from jnpl.outputs.audit_session import AuditSession
from jnpl.outputs.review.decisions import open_store
from jnpl.outputs.review.request_checks import Access
from jnpl.outputs.review.review_session import ReviewSession
from jnpl.outputs.review.samples import Samples
from jnpl.outputs.review.server import listen, make_app
from jnpl.run_folder import RunFolder

TOKEN = "a-token-for-the-tests"
NAMES = ("cat", "dog", "eel", "fox")


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a run folder; with `files`, of images in a folder, which can be opened again."""

    def make(name="run", *, samples=120, files=False, data=None, names=NAMES, **more):
        folder = tmp_path / name
        if files:
            more |= {"paths": _write_images(tmp_path / "photos", samples, names)}
        many_findings(samples, len(names), 0.25, class_names=list(names), **more).save(folder)
        facts = {"kind": "image" if files else "vector"}
        if files:
            facts["options"] = {"data": str(tmp_path / "photos"), "out": str(folder), "backbone": "none"}
        (folder / "data.json").write_text(json.dumps(facts | (data or {})), "utf-8")
        (folder / "run.json").write_text(json.dumps({"data": "animals", "seed": 3}), "utf-8")
        return folder

    return make


def _write_images(root, samples, names):
    """Write images in class folders, in the order in which `jnpl` lists them; returns their paths."""
    random = np.random.default_rng(0)
    width = -(-samples // len(names))
    paths = [f"{names[number // width]}/{number:04d}.png" for number in range(samples)]
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (40, 60, 3), np.uint8)).save(root / path)
    return sorted(paths)


def body(*made, tab="t", reviewer="Ann"):
    """What the page sends to decide: (position, action[, label[, seen]]) of each sample."""
    keys = ("position", "action", "label", "seen")
    return {
        "tab": tab,
        "reviewer": reviewer,
        "decisions": [dict(zip(keys, (*each, *(None, 0)[len(each) - 2 :]), strict=True)) for each in made],
    }


@dataclass
class Client:
    """Requests to a server, with its cookie."""

    port: int
    cookie: str = ""

    def log_in(self):
        status, headers, _ = self.request(f"/?token={TOKEN}", Cookie=None)
        assert status == 200
        self.cookie = headers["set-cookie"].split(";")[0]
        return self

    def request(self, path, body=None, **headers):
        """Status, headers and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        own = {"Cookie": self.cookie, "Host": f"127.0.0.1:{self.port}"}
        if body is not None:
            own |= {"Origin": f"http://127.0.0.1:{self.port}", "Content-Type": "application/json"}
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {name: value for name, value in (own | headers).items() if value is not None}
        try:
            connection.request("GET" if body is None else "POST", path, body, own)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, path, body=None):
        status, _, content = self.request(path, body)
        assert status == 200, content
        return json.loads(content)

    @property
    def link(self):
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"


@pytest.fixture
def serve():
    """A function that serves a run folder in a thread of this process."""
    servers = []

    def start(run, **home):
        folder = RunFolder(run)
        session = ReviewSession(folder, Samples(folder, *data_opener(folder, None)))
        address = listen("127.0.0.1", 0)
        access, title = Access(TOKEN, address.hosts), folder.run_facts.data
        app = make_app(
            session, None if folder.has_tags else AuditSession(folder), access, title=title, reviewer="Ann", **home
        )
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, ws="none"))
        thread = threading.Thread(target=server.run, args=([address.listening],))
        thread.start()
        servers.append((server, thread, address))
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        return Client(address.port).log_in()

    yield start
    for server, thread, address in servers:
        server.should_exit = True
        thread.join(60)
        address.listening.close()


@pytest.fixture
def served(make_run, serve):
    """A server of a run of images."""
    return serve(make_run(files=True))


@pytest.fixture
def serve_process():
    """A function that starts `jnpl review` on a run folder as a process: it returns the process and a client."""
    started = []

    def start(run, *options):
        command = [sys.executable, "-m", "jnpl", "review", str(run), "--no-open", "--port", "0", "--token", TOKEN]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line)
        assert found, line + process.stderr.read()
        return process, Client(int(found[1])).log_in()

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def store(make_run):
    """The decisions of a run of 120 samples."""
    run = make_run()
    opened = open_store(RunFolder(run))
    yield opened
    opened.close()
