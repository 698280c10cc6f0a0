"""The model of a run as a folder, and on a hub: a local server with the part of its interface that is used."""

import base64
import hashlib
import importlib
import json
import re
import shutil

import numpy as np
import pytest
from werkzeug import Response

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


@pytest.fixture
def hub(monkeypatch, tmp_path, httpserver):
    """A hub with one repository: name -> content of its files."""
    library = pytest.importorskip("huggingface_hub", reason="needs the extra hf")
    files, address, commit = {}, httpserver.url_for("").rstrip("/"), "0" * 40

    def preupload(request):
        names = [file["path"] for file in request.get_json()["files"]]
        regular = [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]
        return Response(json.dumps({"files": regular}))

    def take(request):
        for line in map(json.loads, request.get_data(as_text=True).splitlines()):
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        url = f"{address}/user/reviews/commit/{commit}"
        return Response(json.dumps({"commitUrl": url, "commitOid": commit, "pullRequestUrl": None, "success": True}))

    def tree(_):
        return Response(
            json.dumps([{"type": "file", "path": name, "size": len(files[name]), "oid": "1" * 40} for name in files])
        )

    def model(_):
        facts = {"id": "user/reviews", "modelId": "user/reviews", "sha": commit, "tags": [], "private": False}
        return Response(json.dumps(facts | {"siblings": [{"rfilename": name} for name in files]}))

    def give(request):
        content = files[request.path.rpartition("/")[2]]
        return Response(content, headers={"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": commit})

    repository = "/api/models/user/reviews"
    httpserver.expect_request("/api/repos/create").respond_with_json({"url": f"{address}/user/reviews"})
    httpserver.expect_request("/api/validate-yaml").respond_with_json({"errors": [], "warnings": []})
    httpserver.expect_request(f"{repository}/preupload/main").respond_with_handler(preupload)
    httpserver.expect_request(f"{repository}/commit/main").respond_with_handler(take)
    httpserver.expect_request(re.compile(f"{repository}/tree/.*")).respond_with_handler(tree)
    httpserver.expect_request(re.compile(f"{repository}(/revision/.*)?")).respond_with_handler(model)
    httpserver.expect_request(re.compile("/user/reviews/resolve/.*")).respond_with_handler(give)
    constants = importlib.import_module(f"{library.__name__}.constants")
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants._HF_DEFAULT_ENDPOINT, address)
    changes = {"ENDPOINT": address, "HUGGINGFACE_CO_URL_TEMPLATE": template, "HF_HUB_OFFLINE": False}
    for name, value in (changes | {"HF_HUB_CACHE": str(tmp_path / "cache")}).items():
        monkeypatch.setattr(constants, name, value)
    return files


@pytest.mark.filterwarnings("ignore")  # of the client
def test_a_model_goes_to_the_hub_and_comes_back(run, hub, httpserver):
    url = jnpl.push_to_hub(run, "user/reviews", private=True, token="hf_test")
    assert url.endswith("/user/reviews/commit/" + "0" * 40)
    assert set(hub) >= FILES
    posts = [request for request, _ in httpserver.log if request.method == "POST"]
    assert {request.path for request in posts} >= {"/api/repos/create", "/api/models/user/reviews/commit/main"}
    assert all(request.headers["authorization"] == "Bearer hf_test" for request in posts)
    assert 'jnpl.load("hf:user/reviews")' in hub["README.md"].decode()
    assert hub["README.md"].startswith(b"---")
    model = jnpl.load("hf:user/reviews")
    np.testing.assert_array_equal(model.predict_proba(TEXTS), jnpl.load(run).predict_proba(TEXTS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", ["antigravity:geohash", "finetune:antigravity:geohash"])
def test_a_model_on_the_hub_cannot_name_code(run, hub, named):
    facts = json.loads((run / "model.json").read_text("utf-8")) | {"model": named}
    hub |= {"model.json": json.dumps(facts).encode(), "model.safetensors": b""}
    with pytest.raises(InputError, match=f"names code to import, '{named}'"):
        jnpl.load("hf:user/reviews")


@pytest.mark.filterwarnings("ignore")
def test_a_finetuned_model_on_the_hub_is_no_code(run, hub):
    facts = json.loads((run / "model.json").read_text("utf-8")) | {"model": "finetune:efficientnet-lite0"}
    hub |= {"model.json": json.dumps(facts).encode(), "model.safetensors": b""}
    assert (download("user/reviews") / "model.json").is_file()


@pytest.mark.filterwarnings("ignore")
def test_what_the_hub_refuses_is_one_line(run, hub):
    with pytest.raises(InputError, match=r"cannot load 'user/other' from the hub: \w+Error") as caught:
        jnpl.load("hf:user/other")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot upload to 'no name'"):
        jnpl.push_to_hub(run, "no name")
