"""Weight files: what fits is loaded whole, what does not is named, what means harm is never run."""

import hashlib
import os
import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.models.resnet import resnet18
from jnpl.models.small import cnn9, preact_resnet32, resnet8
from jnpl.models.weights import LoadedWeights, load_weights, one_line


def same(model, other, skip=()):
    mine, theirs = model.state_dict(), other.state_dict()
    return all(torch.equal(mine[name], theirs[name]) for name in mine if name not in skip)


def sha256(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def trained():
    """A network that is not as it was born: batch norms with statistics."""
    torch.manual_seed(1)
    model = resnet8(10)
    model(torch.randn(4, 3, 8, 8))
    return model


@pytest.fixture
def saved(trained, tmp_path):
    path = tmp_path / "trained.pth"
    torch.save(trained.state_dict(), path)
    return path


def test_whole(trained, saved):
    model = resnet8(10)
    assert not same(model, trained)
    answer = load_weights(model, saved)
    assert answer == LoadedWeights(loaded=tuple(trained.state_dict()), skipped_head=())
    assert same(model, trained)
    with pytest.raises(AttributeError):
        answer.loaded = ()


@pytest.mark.parametrize("kind", ["pt", "legacy", "safetensors", "checkpoint", "parallel", "both", "half", "PTH"])
def test_formats(kind, trained, tmp_path):
    state = trained.state_dict()
    path = tmp_path / {"safetensors": "w.safetensors", "PTH": "w.PTH"}.get(kind, "w.pt")
    if kind in ("parallel", "both"):
        state = {f"module.{name}": value for name, value in state.items()}
    if kind == "safetensors":
        save_file(state, path)
    elif kind == "legacy":
        torch.save(state, path, _use_new_zipfile_serialization=False)
    elif kind in ("checkpoint", "both"):
        torch.save({"epoch": 3, "state_dict": state, "best": 0.5}, path)
    elif kind == "half":
        torch.save({name: value.half() if value.is_floating_point() else value for name, value in state.items()}, path)
    else:
        torch.save(state, path)
    model = resnet8(10)
    assert load_weights(model, str(path)).skipped_head == ()
    if kind == "half":
        assert model.fc.weight.dtype == torch.float32
        torch.testing.assert_close(model.fc.weight, trained.fc.weight, rtol=1e-3, atol=1e-4)
    else:
        assert same(model, trained)


def test_into_a_parallel_wrapper(trained, saved):
    model = nn.DataParallel(resnet8(3))
    answer = load_weights(model, saved)
    assert answer.skipped_head == ("module.fc.weight", "module.fc.bias")
    assert "module.conv1.weight" in answer.loaded
    assert same(model.module, trained, skip=("fc.weight", "fc.bias"))


@pytest.mark.parametrize("model", [resnet18, cnn9, preact_resnet32])
def test_the_head_of_another_class_count_stays_behind(model, tmp_path):
    source, target = model(12), model(5)
    torch.save(source.state_dict(), tmp_path / "w.pth")
    head = target.fc.weight.clone()
    answer = load_weights(target, tmp_path / "w.pth")
    assert answer.skipped_head == ("fc.weight", "fc.bias")
    assert set(answer.loaded) == set(target.state_dict()) - {"fc.weight", "fc.bias"}
    assert torch.equal(target.fc.weight, head)
    assert same(target, source, skip=answer.skipped_head)


def test_files_older_than_the_batch_counter(trained, tmp_path):
    state = {name: value for name, value in trained.state_dict().items() if not name.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth")
    model = resnet8(10)
    answer = load_weights(model, tmp_path / "old.pth")
    assert answer.loaded == tuple(state)
    assert torch.equal(model.layer3[0].bn2.running_var, trained.layer3[0].bn2.running_var)


def change(state, kind):  # noqa: PLR0911
    if kind == "missing":
        return {name: value for name, value in state.items() if not name.startswith("layer1")}
    if kind == "unexpected":
        return {**state, "aux.weight": torch.zeros(2)}
    if kind == "shape":
        return {**state, "conv1.weight": torch.zeros(16, 3, 7, 7)}
    if kind == "head width":
        return {**state, "fc.weight": torch.zeros(4, 32), "fc.bias": torch.zeros(4)}
    if kind == "no head":
        return {name: value for name, value in state.items() if not name.startswith("fc.")}
    if kind == "integers":
        return {**state, "bn1.weight": torch.ones(16, dtype=torch.int64)}
    if kind == "sparse":
        return {**state, "fc.bias": torch.ones(10).to_sparse()}
    return {**state, "fc.bias": torch.empty(10, device="meta")}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", r"missing layer1\.0\.conv1\.weight, layer1\.0\.bn1\.weight, layer1\.0\.bn1\.bias and 7 more$"),
        ("unexpected", r"unexpected aux\.weight$"),
        ("shape", r"conv1\.weight is \(16, 3, 7, 7\) instead of \(16, 3, 3, 3\)$"),
        ("head width", r"fc\.weight is \(4, 32\) instead of \(10, 64\)$"),
        ("no head", r"missing fc\.weight, fc\.bias$"),
        ("integers", r"bn1\.weight is torch\.int64 .* instead of torch\.float32"),
        ("sparse", r"fc\.bias is torch\.float32 \(torch\.sparse_coo\)"),
        ("meta", r"named tensors only, got something else at fc\.bias$"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(kind, message, trained, tmp_path):
    path = tmp_path / "w.pth"
    torch.save(change(trained.state_dict(), kind), path)
    model = resnet8(10)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message) as caught:
        load_weights(model, path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("content", [torch.zeros(3), [1, 2], {}, {"a": 3}, {3: torch.zeros(1)}, "text", None])
def test_what_is_no_state_dict(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(InputError, match=r"must hold|missing"):
        load_weights(resnet8(10), tmp_path / "w.pth")


class Harm:
    """Unpickled, it would create a file by way of the shell."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"echo harm > {self.path}",)


@pytest.mark.parametrize("how", ["zip", "legacy", "bare pickle", "inside a state dict"])
@pytest.mark.parametrize("suffix", [".pth", ".pt", ".safetensors"])
def test_hostile_pickles_are_refused_and_not_run(how, suffix, tmp_path, trained):
    canary, path = tmp_path / "harmed", tmp_path / f"w{suffix}"
    harm = Harm(canary)
    if how == "bare pickle":
        path.write_bytes(pickle.dumps(harm))
    elif how == "inside a state dict":
        torch.save({**trained.state_dict(), "fc.bias": harm}, path)
    else:
        torch.save(harm, path, _use_new_zipfile_serialization=how == "zip")
    with pytest.raises(InputError, match="cannot be read as weights") as caught:
        load_weights(resnet8(10), path)
    assert not canary.exists()
    assert "\n" not in str(caught.value)
    assert "weights_only=False" not in str(caught.value)
    if suffix != ".safetensors":  # pickles of protocol 4 are refused before they can name a function
        refused = "it" if how == "bare pickle" else f"{os.name}.system"
        assert str(caught.value).endswith(f"weights-only loading refuses {refused}")


@pytest.mark.parametrize("suffix", [".pth", ".legacy.pth", ".safetensors"])
def test_torn_files(suffix, trained, tmp_path):
    whole, torn = tmp_path / f"whole{suffix}", tmp_path / f"torn{suffix}"
    if suffix == ".safetensors":
        save_file(trained.state_dict(), whole)
    else:
        torch.save(trained.state_dict(), whole, _use_new_zipfile_serialization=suffix == ".pth")
    content = whole.read_bytes()
    for length in (0, 1, 10, 100, 5000, len(content) // 2, len(content) - 100):
        torn.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"cannot be read as weights") as caught:
            load_weights(resnet8(10), torn)
        assert "\n" not in str(caught.value)
    torn.write_bytes(b"<html>404 not found</html>")
    with pytest.raises(InputError, match=r"cannot be read as weights"):
        load_weights(resnet8(10), torn)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent.pth", r"^no weights file '.*absent\.pth'$"),
        ("folder.pth", r"^no weights file"),
        ("w.ckpt", r"ending in \.pth, \.pt, \.safetensors, got '.*w\.ckpt'$"),
        ("w", r"ending in"),
    ],
)
def test_paths(name, message, tmp_path):
    (tmp_path / "folder.pth").mkdir()
    with pytest.raises(InputError, match=message):
        load_weights(resnet8(10), tmp_path / name)


def test_digest_of_a_file(saved):
    digest = sha256(saved)
    load_weights(resnet8(10), saved, digest=digest)
    load_weights(resnet8(10), saved, digest=digest.upper())
    load_weights(resnet8(10), saved, digest="md5:" + hashlib.md5(saved.read_bytes()).hexdigest())
    with pytest.raises(InputError, match=r"wrong sha256: expected 0{64}, got " + digest[7:]):
        load_weights(resnet8(10), saved, digest="sha256:" + "0" * 64)
    for wrong in ("", "sha256:12", digest[7:], "sha512:" + "0" * 64, "md5:" + "g" * 32):
        with pytest.raises(InputError, match=r"^a digest reads 'md5"):
            load_weights(resnet8(10), saved, digest=wrong)


def test_from_the_web(httpserver, trained, saved, tmp_path, monkeypatch):
    monkeypatch.setenv("JNPL_DATA", str(tmp_path / "data"))
    other = tmp_path / "other.pth"
    torch.save(resnet8(4).state_dict(), other)
    for path, file in (("/w.pth", saved), ("/a/w.pth", other)):
        httpserver.expect_request(path).respond_with_data(file.read_bytes())
    address = httpserver.url_for("/w.pth?download=1")
    model = resnet8(10)
    assert load_weights(model, address, digest=sha256(saved)).skipped_head == ()
    assert same(model, trained)
    assert load_weights(resnet8(10), f"{httpserver.url_for('/a/w.pth')}#{sha256(other)}").skipped_head
    kept = sorted(path.name for path in (tmp_path / "data" / "weights").rglob("*.pth"))
    assert kept == ["w.pth", "w.pth"]  # two addresses, two files

    httpserver.clear()  # the second time nothing is asked
    again = resnet8(10)
    load_weights(again, f"{address}#{sha256(saved)}")
    assert same(again, trained)


def test_addresses_that_are_refused(httpserver, tmp_path, monkeypatch):
    monkeypatch.setenv("JNPL_DATA", str(tmp_path / "data"))
    httpserver.expect_request("/w.pth").respond_with_data(status=404)
    root = httpserver.url_for("")
    with pytest.raises(InputError, match=r"need their digest: append #sha256:<64 digits> to 'http.*w\.pth'$"):
        load_weights(resnet8(10), f"{root}/w.pth")
    with pytest.raises(InputError, match=r"ending in \.pth"):
        load_weights(resnet8(10), f"{root}/download?id=3")
    with pytest.raises(InputError, match=r"404"):
        load_weights(resnet8(10), f"{root}/w.pth", digest="sha256:" + "0" * 64)
    assert list(tmp_path.joinpath("data").rglob("*.pth")) == []


def test_one_line():
    assert one_line(ValueError("a\n  b")) == "ValueError: a b"
    assert len(one_line(ValueError("x" * 1000))) == 200
