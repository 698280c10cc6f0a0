"""Checkpoints: what comes back is what went in, torn ones are recognised, nothing is left behind."""

import json
import os
import shutil

import pytest
import torch
from tests.helpers.marks import posix
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.recipes.schema import Training
from jnpl.training import checkpoint
from jnpl.training.checkpoint import State
from jnpl.training.learner import make_optimizer


def state(number):
    tensors = {"a": torch.arange(6.0).reshape(2, 3).t() + number, "b/c": torch.tensor(number), "empty": torch.zeros(0)}
    return State(tensors, {"epoch": number, "text": "größe", "none": None, "nested": {"1": [0.1, 1e-300]}})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def expect(found, number):
    wanted = state(number)
    assert found.facts == wanted.facts
    assert found.tensors.keys() == wanted.tensors.keys()
    for name, tensor in wanted.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert found.tensors[name].equal(tensor)


def test_round_trip_and_the_two_newest_stay(tmp_path):
    folder = tmp_path / "run" / "checkpoint"
    assert checkpoint.load(folder) == (None, [])
    for number in range(4):
        assert checkpoint.save(folder, state(number)) == folder / f"{number:08d}"
        found, torn = checkpoint.load(folder)
        expect(found, number)
        assert torn == []
        assert names(folder) == [f"{each:08d}" for each in range(max(0, number - 1), number + 1)]


def test_parts_that_share_memory_are_saved_apart(tmp_path):
    whole = torch.arange(10.0)
    checkpoint.save(tmp_path, State({"one": whole[:5], "two": whole[3:]}, {}))
    found, _ = checkpoint.load(tmp_path)
    assert found.tensors["two"].equal(whole[3:])


def test_no_pickle(tmp_path):
    path = checkpoint.save(tmp_path, state(0))
    assert names(path) == ["state.json", "state.safetensors"]
    json.loads((path / "state.json").read_text("utf-8"))
    content = (path / "state.safetensors").read_bytes()
    assert b"pickle" not in content
    size = int.from_bytes(content[:8], "little")
    json.loads(content[8 : 8 + size])  # safetensors: a length, JSON, numbers


def cut_tensors(path):
    file = path / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-3])


def empty_tensors(path):
    (path / "state.safetensors").write_bytes(b"")


def cut_facts(path):
    file = path / "state.json"
    file.write_text(file.read_text("utf-8")[:-4], "utf-8")


def flip_a_bit_of_tensors(path):
    file = path / "state.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def flip_a_bit_of_facts(path):
    """Still valid JSON: epoch 1 becomes epoch 5."""
    file = path / "state.json"
    text = file.read_text("utf-8")
    assert text.count('"epoch": 1') == 1
    file.write_text(text.replace('"epoch": 1', '"epoch": 5'), "utf-8")


DAMAGE = {
    "tensors cut": cut_tensors,
    "tensors empty": empty_tensors,
    "tensors gone": lambda path: (path / "state.safetensors").unlink(),
    "tensors flipped": flip_a_bit_of_tensors,
    "facts cut": cut_facts,
    "facts empty": lambda path: (path / "state.json").write_text(""),
    "facts gone": lambda path: (path / "state.json").unlink(),
    "facts flipped": flip_a_bit_of_facts,
    "facts of others": lambda path: (path / "state.json").write_text('{"a": 1}'),
    "facts a list": lambda path: (path / "state.json").write_text("[1, 2]"),
    "facts a number": lambda path: (path / "state.json").write_text("3"),
    "facts of no text": lambda path: (path / "state.json").write_bytes(b"\xff\xfe"),
    "other format": lambda path: (path / "state.json").write_text('{"format": "jnpl checkpoint 9"}'),
    "all gone": lambda path: [file.unlink() for file in path.iterdir()],
    "tensors a folder": lambda path: ((path / "state.safetensors").unlink(), (path / "state.safetensors").mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_torn_one_is_told_and_the_older_used(tmp_path, damage):
    checkpoint.save(tmp_path, state(0))
    newest = checkpoint.save(tmp_path, state(1))
    damage(newest)
    found, torn = checkpoint.load(tmp_path)
    expect(found, 0)
    assert len(torn) == 1
    assert str(newest) in torn[0]
    assert "an older one is used" in torn[0]
    assert checkpoint.save(tmp_path, state(2)).name == "00000002"  # never into the torn one
    expect(checkpoint.load(tmp_path)[0], 2)


def test_all_torn_is_a_start_from_the_beginning(tmp_path):
    for number in range(2):
        cut_tensors(checkpoint.save(tmp_path, state(number)))
    found, torn = checkpoint.load(tmp_path)
    assert found is None
    assert len(torn) == 2


def test_drafts_left_by_a_kill_are_ignored_and_go(tmp_path):
    """One of them with our own process number, as containers have it: number and process are the same after a kill."""
    path = checkpoint.save(tmp_path, state(0))
    for draft in (f".00000001.{os.getpid()}.tmp", ".00000001.99999.tmp", ".00000000.7.tmp"):
        shutil.copytree(path, tmp_path / draft)
        (tmp_path / draft / "state.json").write_text("{", "utf-8")
    found, torn = checkpoint.load(tmp_path)
    expect(found, 0)
    assert torn == []
    checkpoint.save(tmp_path, state(1))
    assert names(tmp_path) == ["00000000", "00000001"]


def test_a_failed_save_leaves_the_old_ones_and_no_draft(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, state(0))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(InputError, match=r"cannot write the checkpoint '.*00000001': .*No space left on device"):
            checkpoint.save(tmp_path, state(1))
    assert names(tmp_path) == ["00000000"]
    expect(checkpoint.load(tmp_path)[0], 0)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write the checkpoint"):
        checkpoint.save(tmp_path / "file", state(0))
    with pytest.raises(InputError, match="cannot write the checkpoint"):
        checkpoint.save(tmp_path / "file" / "below", state(0))


def network(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    return net.to(memory_format=torch.channels_last)


def advance(net, optimizer, steps):
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(8, 1, 4, 4, generator=generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), torch.arange(8) % 3).backward()
        optimizer.step()


PLANS = {
    "sgd": {"optimizer": "sgd", "lr": 0.1, "momentum": 0.9},
    "sgd without momentum": {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0},
    "adam": {"optimizer": "adam", "lr": 0.01, "momentum": 0.8},
    "adamw": {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_training_goes_on_bit_by_bit(tmp_path, plan):
    torch.set_num_threads(1)
    plan = Training(epochs=1, **plan)
    through = network(0)
    advance(through, make_optimizer(through, plan), range(6))

    first = network(0)
    optimizer = make_optimizer(first, plan)
    advance(first, optimizer, range(3))
    packed = checkpoint.pack_optimizer(optimizer)
    tensors = checkpoint.prefixed("method", first.state_dict()) | checkpoint.prefixed("optimizer", packed.tensors)
    checkpoint.save(tmp_path, State(tensors, packed.facts))

    second = network(1)
    optimizer = make_optimizer(second, plan)
    found, _ = checkpoint.load(tmp_path)
    second.load_state_dict(checkpoint.part("method", found.tensors))
    checkpoint.unpack_optimizer(optimizer, State(checkpoint.part("optimizer", found.tensors), found.facts))
    advance(second, optimizer, range(3, 6))
    for name, value in through.state_dict().items():
        assert second.state_dict()[name].equal(value), name


def test_a_fresh_optimiser_has_no_state_and_takes_none(tmp_path):
    net = nn.Linear(2, 2)
    optimizer = make_optimizer(net, Training(epochs=1, lr=0.1))
    packed = checkpoint.pack_optimizer(optimizer)
    assert packed.tensors == {}
    checkpoint.unpack_optimizer(optimizer, packed)


def test_prefixes_do_not_mix():
    one, two = torch.zeros(1), torch.ones(1)
    together = checkpoint.prefixed("sum", {"s/a": one}) | checkpoint.prefixed("sums", {"a": two})
    assert checkpoint.part("sum", together) == {"s/a": one}
    assert checkpoint.part("sums", together) == {"a": two}


@posix
def test_checkpoints_are_not_written_or_deleted_through_a_link(tmp_path):
    (tmp_path / "mine" / "00000001").mkdir(parents=True)
    (tmp_path / "checkpoint").symlink_to(tmp_path / "mine")
    for use in (
        lambda: checkpoint.save(tmp_path / "checkpoint", state(1)),
        lambda: checkpoint.load(tmp_path / "checkpoint"),
    ):
        with pytest.raises(InputError, match="is a link"):
            use()
    assert names(tmp_path / "mine") == ["00000001"]
