"""The ledger against a dict of lists that remembers everything, and compact against full."""

import json
import os
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

from jnpl.internal.errors import InputError
from jnpl.judging.ledger import Ledger

SAMPLES = 5


@st.composite
def recordings(draw, classes=3):
    """Batches of (epoch, index, probs): epochs may be skipped, samples missed, or seen twice in a row."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batches, epoch = [], 0
    for _ in range(draw(st.integers(1, 40))):
        epoch += draw(st.sampled_from([0, 1, 1, 1, 3]))
        index = np.array(draw(st.lists(st.integers(0, SAMPLES - 1), max_size=6)), np.int64)
        batches.append((epoch, index, rng.dirichlet(np.full(classes, 0.5), len(index)).astype(np.float32)))
    return batches


def remembered(batches):
    """sample -> list of its predictions, one an epoch: the later of two replaces the earlier."""
    lists, last = {i: [] for i in range(SAMPLES)}, {}
    for epoch, index, probs in batches:
        for i, p in zip(index.tolist(), probs.tolist(), strict=True):
            if last.get(i) == epoch:
                lists[i].pop()
            lists[i].append(p)
            last[i] = epoch
    return lists


def first_of_each_epoch(batches):
    """The same, but what a later batch says about an epoch already recorded is dropped."""
    lists, done = {i: [] for i in range(SAMPLES)}, set()
    for epoch, index, probs in batches:
        batch = dict(zip(index.tolist(), probs.tolist(), strict=True))  # the last of two in one batch
        for i, p in batch.items():
            if (i, epoch) not in done:
                lists[i].append(p)
                done.add((i, epoch))
    return lists


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def fill(ledger, batches):
    for epoch, index, probs in batches:
        ledger.record(index, probs, epoch)
    return ledger


@given(recordings(), st.sampled_from([1, 2, 3, 10]))
@settings(max_examples=150, deadline=None)
def test_full_is_the_mean_of_the_last_recorded_epochs(batches, history):
    labels = [0, 1, 2, 0, 1]
    ledger = fill(Ledger(SAMPLES, 3, history, labels=labels), batches)
    lists = remembered(batches)
    assert ledger.seen.tolist() == [len(lists[i]) for i in range(SAMPLES)]
    for i in range(SAMPLES):
        if not lists[i]:
            assert np.isnan(ledger.mean_probs()[i]).all()
            assert np.isnan(ledger.quality()[i])
            assert np.isnan(ledger.confidence()[i])
            assert ledger.prediction()[i] == -1
            continue
        expected = mean(lists[i][-history:])
        np.testing.assert_allclose(ledger.mean_probs()[i], expected, atol=1e-6)
        assert ledger.quality()[i] == pytest.approx(expected[labels[i]], abs=1e-6)
        assert ledger.confidence()[i] == pytest.approx(max(expected), abs=1e-6)
        assert expected[ledger.prediction()[i]] == pytest.approx(max(expected), abs=1e-6)


@given(recordings(classes=4), st.sampled_from([1, 2, 3, 10]))
@settings(max_examples=150, deadline=None)
def test_compact_is_full_up_to_four_classes_and_ten_epochs(batches, history):
    """Three rivals and the given label are all classes: only the steps of 1/255 differ."""
    labels = [0, 1, 2, 3, 1]
    full = fill(Ledger(SAMPLES, 4, history, labels=labels), batches)
    compact = fill(Ledger(SAMPLES, 4, history, keep="compact", labels=labels), batches)
    assert (compact.seen == full.seen).all()
    np.testing.assert_allclose(compact.quality(), full.quality(), atol=1e-6)
    np.testing.assert_allclose(compact.confidence(), full.confidence(), atol=1 / 255)
    seen = full.seen > 0
    chosen = full.mean_probs()[seen, compact.prediction()[seen]]
    np.testing.assert_allclose(chosen, full.confidence()[seen], atol=2 / 255)
    assert (compact.prediction()[~seen] == -1).all()


@given(recordings(classes=9), st.sampled_from([1, 3, 10]))
@settings(max_examples=150, deadline=None)
def test_compact_never_overstates_a_suggestion(batches, history):
    labels = [0, 1, 2, 3, 8]
    full = fill(Ledger(SAMPLES, 9, history, labels=labels), batches)
    compact = fill(Ledger(SAMPLES, 9, history, keep="compact", labels=labels), batches)
    np.testing.assert_allclose(compact.quality(), full.quality(), atol=1e-6)
    for i in np.flatnonzero(full.seen):
        suggested, confidence = compact.prediction()[i], compact.confidence()[i]
        assert compact.quality()[i] <= confidence <= full.mean_probs()[i, suggested] + 1 / 255


@given(recordings(), st.sampled_from([11, 20, 25]))
@settings(max_examples=150, deadline=None)
def test_a_long_compact_history_is_a_mean_over_blocks(batches, history):
    labels = [0, 1, 2, 0, 1]
    ledger = fill(Ledger(SAMPLES, 3, history, keep="compact", labels=labels), batches)
    lists = first_of_each_epoch(batches)
    length = {11: 2, 20: 2, 25: 3}[history]  # ceil(history / 10)
    blocks = {11: 6, 20: 10, 25: 9}[history]  # ceil(history / length)
    for i in np.flatnonzero(ledger.seen):
        split = [lists[i][start : start + length] for start in range(0, len(lists[i]), length)][-blocks:]
        window = [p for block in split for p in block]
        assert len(window) == len(lists[i]) or abs(len(window) - history) < length
        assert ledger.quality()[i] == pytest.approx(mean(window)[labels[i]], abs=1e-5)


@pytest.mark.parametrize("keep", ["full", "compact"])
def test_the_later_record_of_an_epoch_replaces_the_earlier(keep):
    ledger = Ledger(2, 3, keep=keep, labels=[0, 1])
    ledger.record([0, 1, 0], [[0.1, 0.8, 0.1], [0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], epoch=3)
    assert ledger.quality().tolist() == pytest.approx([0.6, 0.5])
    ledger.record([0], [[0.2, 0.1, 0.7]], epoch=3)
    assert ledger.quality()[0] == pytest.approx(0.2)
    assert ledger.prediction().tolist() == [2, 1]
    assert ledger.seen.tolist() == [1, 1]


@pytest.mark.parametrize("keep", ["full", "compact"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_of_any_type_with_a_graph_or_without(keep, dtype):
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]], requires_grad=True)
    ledger = Ledger(2, 3, keep=keep, labels=torch.tensor([0, 0]))
    ledger.record(torch.tensor([1, 0], dtype=torch.int32), logits.softmax(1).to(dtype), epoch=np.int64(0))
    p = np.exp(2) / (np.exp(2) + 2)
    assert ledger.quality().tolist() == pytest.approx([(1 - p) / 2, p], abs=4e-3)
    assert ledger.prediction().tolist() == [2, 0]


def test_a_class_predicted_later_replaces_the_weakest_rival():
    ledger = Ledger(1, 100_000, history=4, keep="compact", labels=[7])
    for epoch, (best, p) in enumerate([(10, 0.5), (11, 0.6), (12, 0.7), (99_999, 0.9)]):
        row = np.full((1, 100_000), (1 - p) / 99_999, np.float32)
        row[0, best] = p
        ledger.record([0], row, epoch)
    assert ledger.prediction()[0] == 99_999
    assert ledger.confidence()[0] == pytest.approx(0.9 / 4, abs=1 / 255)


def test_a_million_samples_of_a_thousand_classes_stay_under_150_megabytes():
    tracemalloc.start()
    try:
        ledger = Ledger(1_000_000, 1000, 10, "compact", np.arange(1_000_000, dtype=np.int32) % 1000)
        ledger.record([999_999], np.full((1, 1000), 0.001), epoch=0)
        quality, (prediction, confidence) = ledger.quality(), ledger.top()
        peak = tracemalloc.get_traced_memory()[1]  # numpy reports its arrays here
    finally:
        tracemalloc.stop()
    assert ledger.bytes_per_sample * 1_000_000 < 96e6
    assert ledger.bytes_per_sample * 1_000_000 < peak < 150e6  # with the answers, the labels and all temporaries
    assert (quality[-1], prediction[-1], confidence[-1]) == pytest.approx((0.001, 999, 0.001), abs=1e-6)


@pytest.fixture(scope="module")
def trained():
    """Full and compact ledgers of a net trained by CE on digits with 40 % wrong labels, after 57 epochs."""
    x, true = load_digits(return_X_y=True)
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    wrong = rng.permutation(len(true))[: int(0.4 * len(true))]
    labels = true.copy()
    labels[wrong] = (true[wrong] + rng.integers(1, 10, len(wrong))) % 10
    inputs, targets = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(labels)
    weights = [torch.randn(64, 64, generator=generator) / 8, torch.randn(64, 10, generator=generator) / 8]
    parameters = [w.requires_grad_() for w in weights]
    optimiser = torch.optim.SGD(parameters, lr=0.2, momentum=0.9)
    ledgers = {
        (keep, history): Ledger(len(true), 10, history, keep, labels)
        for keep in ("full", "compact")
        for history in (10, 50)
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the steps are tiny
    for epoch in range(57):
        for index in torch.randperm(len(true), generator=generator).split(128):
            noise = 0.1 * torch.randn(len(index), 64, generator=generator)
            logits = ((inputs[index] + noise) @ parameters[0]).relu() @ parameters[1]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, targets[index]).backward()
            optimiser.step()
            for ledger in ledgers.values():
                ledger.record(index, logits.softmax(1), epoch)
    torch.set_num_threads(threads)
    return ledgers, labels != true


@pytest.mark.parametrize(
    ("history", "spearman", "ap", "quality", "labels", "confidence"),
    [(10, 1 - 1e-6, 1e-9, 1e-6, 0.99, 1e-3), (50, 0.999, 1e-3, 0.05, 0.98, 0.02)],
)
def test_compact_agrees_with_full_in_a_training(trained, history, spearman, ap, quality, labels, confidence):
    ledgers, noisy = trained
    full, compact = ledgers["full", history], ledgers["compact", history]
    ap_full = average_precision_score(noisy, -full.quality())
    assert ap_full > 0.9  # the comparison is about a ranking that means something
    assert average_precision_score(noisy, -compact.quality()) == pytest.approx(ap_full, abs=ap)
    assert spearmanr(full.quality(), compact.quality()).statistic > spearman
    np.testing.assert_allclose(compact.quality(), full.quality(), atol=quality)
    same = full.prediction() == compact.prediction()
    assert same.mean() > labels
    assert same[noisy].mean() > labels
    assert np.abs(full.confidence() - compact.confidence()).mean() < confidence


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_samples": 0}, "num_samples must be a whole number of at least 1, not 0"),
        ({"num_classes": 1}, "num_classes must be a whole number of at least 2, not 1"),
        ({"history": 0}, "history must be a whole number of at least 1, not 0"),
        ({"history": 2.5}, "history must be a whole number of at least 1, not 2.5"),
        ({"num_samples": True}, "num_samples must be a whole number of at least 1, not True"),
        ({"keep": "all"}, "keep must be 'full' or 'compact', not 'all'"),
        ({"keep": "compact"}, "keep='compact' follows the given labels: pass labels="),
        ({"labels": [0, 1]}, "labels must be 4 whole numbers, not int64 of shape (2,)"),
        ({"labels": [0.0, 1.0, 2.0, 0.0]}, "labels must be 4 whole numbers, not float64 of shape (4,)"),
        ({"labels": [0, 1, 2, 3]}, "labels must lie in 0..2, not 0..3"),
        ({"labels": [0, 1, 2, -1]}, "labels must lie in 0..2, not -1..2"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError) as error:
        Ledger(**{"num_samples": 4, "num_classes": 3, **settings})
    assert str(error.value) == message


@pytest.mark.parametrize("keep", ["full", "compact"])
@pytest.mark.parametrize(
    ("index", "probs", "epoch", "message"),
    [
        ([4], [[0.2, 0.3, 0.5]], 5, "index must lie in 0..3, not 4..4"),
        ([-1], [[0.2, 0.3, 0.5]], 5, "index must lie in 0..3, not -1..-1"),
        ([0.0], [[0.2, 0.3, 0.5]], 5, "index must be (B,) whole numbers, not float64 of shape (1,)"),
        ([True], [[0.2, 0.3, 0.5]], 5, "index must be (B,) whole numbers, not bool of shape (1,)"),
        ([[0]], [[0.2, 0.3, 0.5]], 5, "index must be (B,) whole numbers, not int64 of shape (1, 1)"),
        ([0, 1], [[0.2, 0.3, 0.5]], 5, "probs must have shape (2, 3), not (1, 3)"),
        ([0], [[0.5, 0.5]], 5, "probs must have shape (1, 3), not (1, 2)"),
        ([0], [[2.0, -3.0, 0.5]], 5, "probs must lie in 0..1, not -3.0..2.0: logits? a diverged network?"),
        ([1, 0], [[0.2, 0.3, 0.5], [0.9, 0.9, 0.9]], 5, "probs of a sample must sum to 1, not 2.7 (sample 0): logits?"),
        ([0], [[0.5, 0.5j, 0.5]], 5, "predictions must be real numbers, not complex128"),
        ([0], [[np.nan, 0.5, 0.5]], 5, "probs must lie in 0..1, not nan..nan: logits? a diverged network?"),
        ([0], [[0.2, 0.3, 0.5]], 4, "epoch must be a whole number of at least 5, not 4"),
        ([0], [[0.2, 0.3, 0.5]], 5.5, "epoch must be a whole number of at least 5, not 5.5"),
    ],
)
def test_a_bad_batch_is_named_and_leaves_the_ledger_as_it_was(keep, index, probs, epoch, message):
    ledger = Ledger(4, 3, keep=keep, labels=[0, 1, 2, 0])
    ledger.record([0], [[0.1, 0.2, 0.7]], epoch=5)
    with pytest.raises(InputError) as error:
        ledger.record(index, probs, epoch)
    assert str(error.value) == message
    assert (ledger.epoch, ledger.seen.tolist()) == (5, [1, 0, 0, 0])
    assert ledger.quality()[0] == pytest.approx(0.1)


def test_the_first_epoch_may_be_any_but_not_negative():
    with pytest.raises(InputError, match="epoch must be a whole number of at least 0, not -1"):
        Ledger(1, 2).record([0], [[0.5, 0.5]], epoch=-1)


def test_compact_says_what_it_does_not_hold():
    ledger = Ledger(2, 3, keep="compact", labels=[0, 1])
    with pytest.raises(InputError, match="holds no whole predictions"):
        ledger.mean_probs()
    with pytest.raises(InputError, match="sample 1 was made with 1, not 2"):
        ledger.quality([0, 2])
    with pytest.raises(InputError, match=r"quality\(\) needs labels"):
        Ledger(2, 3).quality()


def test_full_scores_any_labels():
    ledger = Ledger(1, 3, labels=[0])
    ledger.record([0], [[0.5, 0.3, 0.2]], epoch=0)
    assert [ledger.quality([label])[0] for label in range(3)] == pytest.approx([0.5, 0.3, 0.2])


def test_the_ledger_keeps_its_own_labels():
    labels = np.array([0, 1])
    ledger = Ledger(2, 3, labels=labels)
    ledger.record([0, 1], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], epoch=0)
    labels[:] = 2
    assert ledger.quality().tolist() == pytest.approx([0.5, 0.3])


FORMS = [
    ("full", None, 10),
    ("full", [0, 1, 2, 0, 1], 3),
    ("compact", [0, 1, 2, 0, 1], 10),
    ("compact", [0, 1, 2, 0, 1], 25),
]


@pytest.mark.parametrize("way", ["state_dict", "file"])
@pytest.mark.parametrize(("keep", "labels", "history"), FORMS)
def test_saved_and_loaded_the_ledger_goes_on_as_if_nothing_had_happened(tmp_path, way, keep, labels, history):
    rng = np.random.default_rng(0)
    batches = [(e, rng.permutation(SAMPLES)[:4], rng.dirichlet([1, 1, 1], 4)) for e in range(30)]
    whole = fill(Ledger(SAMPLES, 3, history, keep, labels), batches)
    half = fill(Ledger(SAMPLES, 3, history, keep, labels), batches[:15])
    if way == "file":
        half.save(tmp_path / "ledger.safetensors")
        resumed = Ledger.load(tmp_path / "ledger.safetensors")
        assert [p.name for p in tmp_path.iterdir()] == ["ledger.safetensors"]
    else:
        torch.save(half.state_dict(), tmp_path / "state.pt")
        resumed = Ledger(SAMPLES, 3, history, keep, labels)
        resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))  # nothing pickled inside
    assert repr(resumed) == repr(half)
    with pytest.raises(InputError, match="epoch must be a whole number of at least 14, not 13"):
        resumed.record([0], [[1, 0, 0]], epoch=13)
    fill(resumed, batches[15:])
    for name, array in whole.state_dict()["arrays"].items():
        assert torch.equal(resumed.state_dict()["arrays"][name], array), name


def test_the_same_ledger_gives_the_same_file_with_the_usual_permissions(tmp_path):
    ledger = fill(Ledger(2, 3), [(0, np.array([0]), np.array([[0.2, 0.3, 0.5]]))])
    for name in ("a", "b"):
        ledger.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    (tmp_path / "c").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "c").stat().st_mode


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    ledger = Ledger(2, 3)
    ledger.save(tmp_path / "ledger")
    old = (tmp_path / "ledger").read_bytes()
    ledger.record([0], [[0.2, 0.3, 0.5]], epoch=0)

    def full_disk(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        ledger.save(tmp_path / "ledger")
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]
    assert (tmp_path / "ledger").read_bytes() == old


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff" * 100, None])
def test_a_foreign_file_is_named(tmp_path, content):
    path = tmp_path / "ledger.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"ledger\.safetensors is not a ledger that can be read"):
        Ledger.load(path)


@pytest.mark.parametrize("keep", ["full", "compact"])
def test_a_torn_file_is_named_wherever_it_was_cut(tmp_path, keep):
    path = tmp_path / "ledger"
    Ledger(3, 3, keep=keep, labels=[0, 1, 2]).save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(InputError, match="is not a ledger that can be read"):
            Ledger.load(path)


SETTINGS = {"version": 1, "num_samples": 3, "num_classes": 3, "history": 10, "keep": "full", "epoch": 0}


@pytest.mark.parametrize(
    "header",
    [
        None,
        {},
        [],
        {**SETTINGS, "version": 2},
        {**SETTINGS, "num_samples": "x"},
        {**SETTINGS, "num_samples": 10**12},
        {**SETTINGS, "num_classes": 10**6},
        {**SETTINGS, "keep": "compact"},
        SETTINGS,
    ],
)
def test_a_safetensors_file_that_is_no_ledger_is_named(tmp_path, header):
    metadata = None if header is None else {"jnpl.ledger": json.dumps(header)}
    save_file({"seen": np.zeros(3, np.int32)}, tmp_path / "weights", metadata=metadata)
    with pytest.raises(InputError, match="weights is not a ledger that can be read"):
        Ledger.load(tmp_path / "weights")


def test_a_state_of_another_ledger_is_refused():
    ledger = Ledger(3, 3, keep="compact", labels=[0, 1, 2])
    for other, message in [
        (Ledger(4, 3), "num_samples=4, not 3"),
        (Ledger(3, 4), "num_classes=4, not 3"),
        (Ledger(3, 3, history=5), "history=5, not 10"),
        (Ledger(3, 3), "keep='full', not 'compact'"),
        (Ledger(3, 3, keep="compact", labels=[0, 1, 1]), "other labels"),
    ]:
        with pytest.raises(InputError, match=message):
            ledger.load_state_dict(other.state_dict())
    state = ledger.state_dict()
    state["arrays"]["given"] = state["arrays"]["given"].double()
    with pytest.raises(InputError, match="as given, not"):
        ledger.load_state_dict(state)


@pytest.mark.parametrize("state", [None, 5, {**Ledger(4, 3).state_dict(), "arrays": None}])
def test_a_state_that_is_none_is_refused(state):
    with pytest.raises(InputError, match="must be a dictionary, as state_dict"):
        Ledger(4, 3).load_state_dict(state)
