"""The model of a run as a folder, and on a hub: a local server that speaks the part of its interface that is used."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import jnpl
from jnpl.internal.errors import InputError
from jnpl.outputs.hub import download, save_pretrained
from jnpl.run_folder import RunFolder

TEXTS = ["a good film", "a bad film", "good music", "bad music", "a good book", "a bad book"] * 10
FILES = {"README.md", "backbone.safetensors", "model.json", "model.safetensors"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub") / "run"
    jnpl.find_label_issues(TEXTS, ["good", "bad"] * 30, out=folder, settings=["train.epochs=2"])
    return folder


def test_a_folder_that_loads_and_a_card_that_says_what_it_is(run, tmp_path):
    folder = save_pretrained(run, tmp_path / "reviews")
    assert {each.name for each in folder.iterdir()} == FILES
    np.testing.assert_array_equal(jnpl.load(folder).predict_proba(TEXTS), jnpl.load(run).predict_proba(TEXTS))
    card = (folder / "README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: jnpl\npipeline_tag: text-classification\n")
    assert "# reviews" in card
    assert "2 classes (bad, good)" in card
    assert "| training samples | 60 |" in card
    assert str(run) not in card + (folder / "model.json").read_text("utf-8")


def test_the_card_has_the_present_label_issues(run, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run, other)
    issues = RunFolder(other).change_threshold("0.999")
    assert issues != json.loads((run / "model.json").read_text("utf-8"))["results"]["issues"]
    folder = save_pretrained(other, tmp_path / "reviews")
    assert f"| labels that looked wrong | {issues} |" in (folder / "README.md").read_text("utf-8")
    assert json.loads((folder / "model.json").read_text("utf-8"))["results"]["issues"] == issues
    (other / "findings.json").write_text("{")
    with pytest.raises(InputError, match="findings"):
        save_pretrained(other, tmp_path / "more")
    assert not (tmp_path / "more").exists()
    for name in ("findings.json", "findings.parquet"):  # the model alone
        (other / name).unlink()
    assert (save_pretrained(other, tmp_path / "alone") / "README.md").is_file()


def test_wrong_folders_are_refused_and_nothing_is_written(run, tmp_path):
    with pytest.raises(InputError, match="no run folder"):
        save_pretrained(tmp_path / "none", tmp_path / "made")
    assert not (tmp_path / "made").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(InputError, match="is there already"):
        save_pretrained(run, tmp_path / "full")


class Hub(BaseHTTPRequestHandler):
    """Creates repositories, takes commits of small files, gives files back."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        files, asked = self.server.files, self.server.asked
        asked.append((self.path, self.headers.get("authorization")))
        if self.path == "/api/repos/create":
            self.reply({"url": f"{self.server.address}/user/reviews", **json.loads(body)})
        elif self.path == "/api/validate-yaml":
            assert json.loads(body)["content"].startswith("---")
            self.reply({"errors": [], "warnings": []})
        elif self.path.endswith("/preupload/main"):
            names = [each["path"] for each in json.loads(body)["files"]]
            self.reply({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif self.path.endswith("/commit/main"):
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"{self.server.address}/user/reviews/commit/{'0' * 40}"
            self.reply({"commitUrl": url, "commitOid": "0" * 40, "pullRequestUrl": None, "success": True})
        else:
            self.send_error(404)

    def do_GET(self):
        files = self.server.files
        if self.path.startswith("/api/models/user/reviews/tree/"):
            self.reply(
                [{"type": "file", "path": name, "size": len(data), "oid": "1" * 40} for name, data in files.items()]
            )
        elif self.path.startswith("/api/models/user/reviews"):
            names = [{"rfilename": name} for name in files]
            facts = {"id": "user/reviews", "modelId": "user/reviews", "sha": "0" * 40, "siblings": names, "tags": []}
            self.reply({**facts, "private": False, "downloads": 0, "likes": 0})
        elif (name := self.path.split("/")[-1]) in files and "/resolve/" in self.path:
            self.reply(files[name], {"ETag": f'"{hashlib.sha256(files[name]).hexdigest()}"', "X-Repo-Commit": "0" * 40})
        else:
            self.send_error(404)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def reply(self, content, headers=()):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    library = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.files, server.asked, server.address = {}, [], f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    constants = importlib.import_module(f"{library.__name__}.constants")
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants._HF_DEFAULT_ENDPOINT, server.address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore")  # of the client
def test_a_model_goes_to_the_hub_and_comes_back(run, hub):
    url = jnpl.push_to_hub(run, "user/reviews", private=True, token="hf_test")
    assert url.endswith("/user/reviews/commit/" + "0" * 40)
    assert set(hub.files) >= FILES
    assert all(sent == "Bearer hf_test" for _, sent in hub.asked)
    assert 'jnpl.load("hf:user/reviews")' in hub.files["README.md"].decode()
    model = jnpl.load("hf:user/reviews")
    np.testing.assert_array_equal(model.predict_proba(TEXTS), jnpl.load(run).predict_proba(TEXTS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", ["antigravity:geohash", "finetune:antigravity:geohash"])
def test_a_model_on_the_hub_cannot_name_code(run, hub, named):
    facts = json.loads((run / "model.json").read_text("utf-8")) | {"model": named}
    hub.files |= {"model.json": json.dumps(facts).encode(), "model.safetensors": b""}
    with pytest.raises(InputError, match=f"names code to import, '{named}'"):
        jnpl.load("hf:user/reviews")


@pytest.mark.filterwarnings("ignore")
def test_a_finetuned_model_on_the_hub_is_no_code(run, hub):
    facts = json.loads((run / "model.json").read_text("utf-8")) | {"model": "finetune:efficientnet-lite0"}
    hub.files |= {"model.json": json.dumps(facts).encode(), "model.safetensors": b""}
    assert (download("user/reviews") / "model.json").is_file()


@pytest.mark.filterwarnings("ignore")
def test_what_the_hub_refuses_is_one_line(run, hub):
    with pytest.raises(InputError, match=r"cannot load 'user/other' from the hub: \w+Error") as caught:
        jnpl.load("hf:user/other")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot upload to 'no name'"):
        jnpl.push_to_hub(run, "no name")
