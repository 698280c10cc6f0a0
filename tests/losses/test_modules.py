"""The criteria: reductions, class weights, draws, settings, errors, compilation."""

import copy
import math
import pickle
import shutil
import sys
import warnings

import pytest
import torch

from jnpl import functional as JF
from jnpl import losses as L

SAMPLED_OR_NOT = ["sampled", "exhaustive"]


def batch(num_classes=5, size=12, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(size, num_classes, generator=g, dtype=torch.float64)
    return logits.to(dtype).requires_grad_(), torch.randint(num_classes, (size,), generator=g)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# --- Each shell is its function and a mean ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "function"),
    [
        (L.MAELoss(), JF.mae),
        (L.GCELoss(), JF.gce),
        (L.GCELoss(q=0.4), lambda f, y: JF.gce(f, y, q=0.4)),
        (L.GCELoss(k=0.5), JF.gce_truncated),
        (L.GCELoss(q=0.4, k=0.2), lambda f, y: JF.gce_truncated(f, y, q=0.4, k=0.2)),
        (L.SCELoss(), JF.sce),
        (L.SCELoss(6.0, 0.1), lambda f, y: JF.sce(f, y, 6.0, 0.1)),
        (L.FocalLoss(), JF.focal),
        (L.FocalLoss(2.0), lambda f, y: JF.focal(f, y, 2.0)),
        (L.NCERCELoss(), JF.nce_rce),
        (L.NCERCELoss(10.0, 0.1), lambda f, y: JF.nce_rce(f, y, 10.0, 0.1)),
        (L.NFLRCELoss(), JF.nfl_rce),
        (L.NFLRCELoss(10.0, 0.1, 2.0), lambda f, y: JF.nfl_rce(f, y, 10.0, 0.1, 2.0)),
    ],
)
def test_baseline_is_the_mean_of_its_function(criterion, function):
    logits, labels = batch()
    loss = criterion(logits, labels)
    assert loss.shape == ()
    assert loss.item() == pytest.approx(math.fsum(function(logits, labels).tolist()) / 12, rel=1e-13)
    loss.backward()
    assert logits.grad.abs().max() > 0


@pytest.mark.parametrize(("criterion_class", "gamma"), [(L.NLLoss, 0.0), (L.NLPlusLoss, 1.0)])
@pytest.mark.parametrize("k", [1, 4])
def test_negative_criterion_sums_over_complements_and_averages_over_samples(criterion_class, gamma, k):
    logits, labels = batch()
    criterion = criterion_class(5, num_complements=k)
    drawn = criterion.negative.draw(labels, seeded(3))
    assert drawn.shape == (12, k)
    expected = JF.nl_plus(logits, drawn, gamma).sum() / 12
    assert criterion(logits, labels, generator=seeded(3)).item() == pytest.approx(expected.item(), rel=1e-13)
    everything = criterion_class(5, complements="exhaustive")(logits, labels)
    expected = JF.nl_plus_exhaustive(logits, labels, gamma).sum() / 12
    assert everything.item() == pytest.approx(expected.item(), rel=1e-13)


def test_pl_plus_draws_its_own_uniforms():
    logits, _ = batch(num_classes=10, size=64)
    by_generator = L.PLPlusLoss()(logits, generator=seeded(5))
    uniforms = torch.rand(64, generator=seeded(5))
    assert by_generator.item() == L.PLPlusLoss()(logits, uniforms=uniforms).item()
    assert by_generator.item() != L.PLPlusLoss(n=0)(logits, uniforms=uniforms).item()
    total, selected = L.PLPlusLoss().total(logits, uniforms)
    assert by_generator.item() == pytest.approx(total.item() / selected.item(), rel=1e-14)


# --- Class weights ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("complements", SAMPLED_OR_NOT)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_weight_of_the_given_label_multiplies_and_does_not_divide(complements, as_tensor):
    logits, labels = batch()
    weights = [0.5, 2.0, 0.0, 1.0, 3.0]
    criterion = L.NLPlusLoss(5, complements, class_weight=torch.tensor(weights) if as_tensor else weights)
    drawn = criterion.negative.draw(labels, seeded(2))
    losses = JF.nl_plus_exhaustive(logits, labels) if drawn is None else JF.nl_plus(logits, drawn)
    expected = math.fsum(weights[y] * x for y, x in zip(labels.tolist(), losses.tolist(), strict=True)) / 12
    assert criterion(logits, labels, generator=seeded(2)).item() == pytest.approx(expected, rel=1e-13)


def test_nlnl_reads_the_training_labels():
    logits, labels = batch(num_classes=3)
    given = torch.tensor([0, 0, 0, 0, 1, 1])
    by_name = L.NLLoss(3, "exhaustive", class_weight="nlnl", labels=given)
    by_hand = L.NLLoss(3, "exhaustive", class_weight=[1.0, 2.0, 0.0])
    assert by_name(logits, labels).item() == by_hand(logits, labels).item()
    assert by_name(logits, labels).item() != L.NLLoss(3, "exhaustive")(logits, labels).item()
    assert L.JNPLLoss(3, class_weight="nlnl", labels=given).negative.class_weight.tolist() == [1, 2, 0]


@pytest.mark.filterwarnings("ignore:You are using `torch.load`:FutureWarning")  # pickle of tensors in torch 2.4
def test_the_weight_travels_with_the_module():
    criterion = L.JNPLLoss(3, class_weight=[1.0, 2.0, 3.0])
    assert list(criterion.state_dict()) == ["negative.class_weight"]
    assert not list(criterion.parameters())
    assert criterion.to("meta").negative.class_weight.device.type == "meta"
    assert not L.JNPLLoss(3).state_dict()
    logits, labels = batch(num_classes=3)
    criterion = L.JNPLLoss(3, class_weight=[1.0, 2.0, 3.0])
    for twin in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
        assert twin(logits, labels, generator=seeded()) == criterion(logits, labels, generator=seeded())


# --- Dtypes, training, compilation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("complements", SAMPLED_OR_NOT)
@pytest.mark.parametrize("class_weight", ["none", [1.0] * 9 + [2.0]], ids=["none", "vector"])
def test_autocast(complements, class_weight):
    logits, labels = batch(num_classes=10, size=64, dtype=torch.float32)
    criterion = L.JNPLLoss(10, complements=complements, class_weight=class_weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = criterion(logits, labels, generator=seeded())
    assert inside.dtype == torch.float32
    assert inside.item() == pytest.approx(criterion(logits, labels, generator=seeded()).item(), rel=1e-6)


NEEDS_COMPILER = pytest.mark.skipif(
    shutil.which("g++") is None or " " in sys.prefix, reason="needs g++ and a path without spaces"
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.slow, NEEDS_COMPILER])])
def test_compile_with_the_draws_outside(backend):
    torch._dynamo.reset()
    logits, labels = batch(num_classes=5, dtype=torch.float32)
    criterion = L.JNPLLoss(5, pl_weight=0.5, class_weight=[1, 2, 3, 4, 5])
    draws = criterion.draw(labels, seeded())
    compiled = torch.compile(criterion, fullgraph=True, backend=backend)
    got, expected = compiled(logits, labels, draws=draws), criterion(logits, labels, draws=draws)
    assert got.item() == pytest.approx(expected.item(), rel=1e-5)
    (slopes,), (slopes_eager,) = (torch.autograd.grad(loss, logits) for loss in (got, expected))
    torch.testing.assert_close(slopes, slopes_eager, rtol=1e-4, atol=1e-6)


def test_functional_call_and_per_sample_gradients():
    torch.manual_seed(0)
    net, inputs, labels = torch.nn.Linear(3, 5).double(), torch.randn(6, 3).double(), torch.arange(6) % 5
    criterion = L.JNPLLoss(5, pl_weight=0.0)
    draws = criterion.draw(labels, seeded())

    def loss(parameters, x, y, drawn):
        logits = torch.func.functional_call(net, parameters, (x[None],))
        return criterion(logits, y[None], draws=L.Draws(drawn[None], torch.zeros(1)))

    parameters = {name: value.detach() for name, value in net.named_parameters()}
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0, 0))
    grads = per_sample(parameters, inputs, labels, draws.complements)
    criterion(net(inputs), labels, draws=draws).backward()
    torch.testing.assert_close(grads["weight"].mean(0), net.weight.grad, rtol=1e-11, atol=1e-14)


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion_class", [L.NLLoss, L.NLPlusLoss, L.JNPLLoss])
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"num_classes": 1}, "num_classes must be at least 2, got 1"),
        ({"complements": "all"}, """complements must be "sampled" or "exhaustive", got 'all'"""),
        ({"num_complements": 0}, "num_complements must be at least 1 .*got 0"),
        ({"num_complements": -3}, "num_complements must be at least 1 .*got -3"),
        ({"num_complements": 2, "complements": "exhaustive"}, "goes with sampled complements, got 2 with 'exhaustive'"),
        (
            {"class_weight": "balanced"},
            """class_weight must be "none", "nlnl" or one number per class, got 'balanced'""",
        ),
        ({"class_weight": "nlnl"}, "needs labels=, the given labels of the whole training set"),
        ({"class_weight": [1.0, 2.0]}, r"class_weight must hold 4 finite numbers >= 0, got \(2,\)"),
        ({"class_weight": [1.0, 2.0, -1.0, 0.0]}, r"class_weight must hold 4 finite numbers >= 0, got .*-1\.0"),
        ({"class_weight": [1.0, float("nan"), 1.0, 0.0]}, r"class_weight must hold 4 finite numbers >= 0, got .*nan"),
        ({"class_weight": "nlnl", "labels": torch.tensor([0, 4])}, r"labels must lie in 0\.\.3 .*got 4"),
    ],
)
def test_wrong_settings(criterion_class, settings, told):
    with pytest.raises(ValueError, match=told):
        criterion_class(**{"num_classes": 4, **settings})


@pytest.mark.parametrize("bad", [-0.01, float("nan"), float("inf")])
def test_wrong_pl_weight(bad):
    with pytest.raises(ValueError, match=f"pl_weight must be a finite number >= 0, got {bad}"):
        L.JNPLLoss(4, pl_weight=bad)


@pytest.mark.parametrize("complements", SAMPLED_OR_NOT)
@pytest.mark.parametrize("width", [3, 5])
def test_logits_of_another_number_of_classes(complements, width):
    # Fewer columns than classes, or more: either way the criterion was built for another problem.
    criterion = L.JNPLLoss(4, complements=complements, num_complements=None if complements == "exhaustive" else 9)
    with pytest.raises(ValueError, match=rf"(4 classes|num_classes|\(B, 4\)|C = {width}).*got"):
        criterion(torch.zeros(8, width), torch.arange(8) % 3, generator=seeded())


def collapse_warnings(predicted, labels, *, batches=120, mode=True):
    """The warnings of JNPLLoss in batches of 100 samples whose predictions are `predicted`."""
    criterion = L.JNPLLoss(4, complements="exhaustive").train(mode)
    logits = 5.0 * torch.nn.functional.one_hot(predicted, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(batches):
            criterion(logits, labels, generator=seeded())
    return caught


def test_a_collapse_is_reported_once_after_5000_samples():
    labels, predicted = torch.arange(100) % 4, torch.full((100,), 2)
    predicted[0] = 1  # 99 % are class 2
    assert collapse_warnings(predicted, labels, batches=49) == []
    (found,) = collapse_warnings(predicted, labels)
    assert found.category is L.CollapseWarning
    assert "one class, 2, for 99% of the last 5,000 samples" in str(found.message)
    assert "docs/results/pl-plus.md says why; use jnpl.RobustLoss" in str(found.message)
    assert found.filename == __file__


def test_what_is_no_collapse():
    labels, one_class = torch.arange(100) % 4, torch.full((100,), 2)
    predicted = one_class.clone()
    predicted[:3] = 1  # 97 %
    assert collapse_warnings(predicted, labels) == []
    assert collapse_warnings(one_class, one_class) == []  # the labels are so
    assert collapse_warnings(one_class, labels, mode=False) == []


@pytest.mark.parametrize("loss", [L.JNPLLoss(3), L.NLPlusLoss(3), L.NLLoss(3)])
def test_labels_of_another_length_are_named(loss):
    with pytest.raises(ValueError, match=r"labels must have shape \(4,\), got \(2,\)"):
        loss(torch.zeros(4, 3), torch.tensor([0, 1]))
