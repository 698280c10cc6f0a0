"""`RobustLoss`: its formulas in plain arithmetic, its state, and that it can be used wherever cross-entropy can."""

import copy
import math
import os
import pickle

import pytest
import torch
from tests.helpers import forked
from torch.nn import functional as F

from jnpl import losses
from jnpl.losses import RobustLoss, functional, robust
from jnpl.losses.short_training import recall_above_chance


def logits_and_labels(batch=32, classes=5, seed=0, scale=2.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(batch, classes, generator=generator)
    return logits.to(dtype).requires_grad_(), torch.randint(0, classes, (batch,), generator=generator)


def learnt(classes=5, **settings):
    """A loss that has seen 1,000 samples of each class, all predicted as labelled."""
    criterion = RobustLoss(classes, **settings)
    criterion.statistics.copy_(torch.tensor([1000.0, 1000.0, 0.0, 1000.0])[:, None].expand(4, classes))
    return criterion


# --- The formulas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_the_weight_in_plain_arithmetic(strength):
    logits, labels = logits_and_labels()
    log_probs = logits.detach().log_softmax(1)
    found = robust.robust_weight(log_probs, labels, torch.tensor(strength))
    for row, label, weight in zip(log_probs.exp().tolist(), labels.tolist(), found.tolist(), strict=True):
        assert weight == pytest.approx((row[label] / max(row)) ** strength, rel=1e-4)


def test_at_strength_1_the_gradient_is_that_of_nl_plus_over_the_largest_probability():
    logits, labels = logits_and_labels()
    criterion = learnt(pl_weight=0.0, strength=1.0).eval()
    (own,) = torch.autograd.grad(criterion(logits, labels), logits)
    (nl_plus,) = torch.autograd.grad(functional.nl_plus_exhaustive(logits, labels).mean(), logits)
    torch.testing.assert_close(own, nl_plus / logits.detach().softmax(1).amax(1, keepdim=True))


def test_positive_is_pl_plus_times_the_probability_of_its_selection():
    logits, _ = logits_and_labels(batch=200, scale=3.0)
    log_probs = logits.log_softmax(1)
    found = robust.positive(log_probs, log_probs)
    p_hat, y_hat = logits.detach().softmax(1).max(1)
    expected = functional.pl_plus(logits, y_hat) * p_hat * functional.pl_plus_candidates(logits)
    torch.testing.assert_close(found, expected)
    assert 20 < (found > 0).sum() < 180
    (own,) = torch.autograd.grad(found.sum(), logits, retain_graph=True)
    (paper,) = torch.autograd.grad(expected.sum(), logits)
    torch.testing.assert_close(own, paper)


def test_positive_selects_by_balanced_predictions():
    """Class 0 is predicted for every sample: a sample that is a little less sure of it stands out as class 1."""
    log_probs = torch.tensor([[0.9, 0.1]]).log()
    found = robust.positive(log_probs, robust.balanced(log_probs, torch.tensor([98.0, 2.0])))
    ratio = [0.9 / 98, 0.1 / 2]  # y-hat is class 1, though p of class 0 is larger
    p, constant = 0.1, 1.0
    for power in (1, 2, 4, 8):
        constant *= 1 + p**power
    assert found.item() == pytest.approx(-ratio[1] / sum(ratio) * constant * math.log(p), rel=1e-5)


def test_labels_of_random_classes_are_told_from_plausible_ones():
    logits, _ = logits_and_labels(batch=5_000, classes=6)
    log_probs = logits.detach().log_softmax(1)
    predicted, second = log_probs.topk(2).indices.T
    random = (predicted + torch.randint(1, 6, (5_000,), generator=torch.Generator().manual_seed(1))) % 6
    given, agreed = torch.full((6,), 5_000 / 6), torch.zeros(6)
    found = [
        robust.randomness(given, agreed, robust.plausibility(log_probs, labels).sum().repeat(6) / 6).item()
        for labels in (random, second)
    ]
    assert found[0] > 0.9
    assert found[1] == 0.0
    assert robust.randomness(torch.ones(2), torch.zeros(2), torch.ones(2)) == 1.0  # two classes: one other
    assert robust.randomness(torch.zeros(6), torch.zeros(6), torch.zeros(6)) == 1.0


def test_progress_in_plain_arithmetic():
    for agreed, random in ((0.0, 0.4), (0.3, 0.0), (0.3, 1.0), (0.8, 0.5), (1.0, 0.0)):
        found = robust.progress(torch.tensor(agreed), torch.tensor(random))
        assert found.item() == pytest.approx(1 - (1 - agreed) ** (1 + 2 * random), abs=1e-6)


# --- From cross-entropy to NL+ and PL+ --------------------------------------------------------------------------------


def test_it_starts_as_cross_entropy():
    logits, labels = torch.zeros(8, 4, requires_grad=True), torch.arange(8) % 4
    criterion, plain = RobustLoss(4), F.cross_entropy(logits, labels)
    loss = criterion(logits, labels)
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (loss, plain)))
    assert criterion.agreement == 0.0


def test_the_whole_loss_in_the_terms_of_its_parts():
    logits, labels = logits_and_labels()
    criterion = learnt(pl_weight=0.2, strength=0.7).eval()
    log_probs = logits.log_softmax(1)
    weights = robust.robust_weight(log_probs.detach(), labels, torch.tensor(0.7))
    terms = weights * F.cross_entropy(logits, labels, reduction="none") + 0.2 * robust.positive(log_probs, log_probs)
    torch.testing.assert_close(criterion(logits, labels), terms.mean())


def test_strength_rises_with_the_agreement():
    logits, labels = logits_and_labels()
    found = []
    for agreed in (200.0, 400.0, 600.0, 1000.0):  # of 1,000 per class; chance is 200
        for plausible in (1.0, 0.0):  # of those that contradict the predictions
            criterion = learnt(pl_weight=0.0).eval()
            criterion.statistics[1], criterion.statistics[2] = agreed, plausible * (1000 - agreed)
            found.append(criterion(logits, labels).item())
    assert found[0] == found[1] == pytest.approx(F.cross_entropy(logits, labels).item())
    assert found[1] > found[2] > found[3]  # random labels count less
    assert found[2] > found[4] > found[5] > found[6] == found[7]


def test_the_exponent_is_half_as_much_again_when_the_agreement_has_settled():
    logits, labels = logits_and_labels()
    rising, at_rest = (learnt(pl_weight=0.0, strength=0.6).eval() for _ in range(2))
    at_rest.earlier.copy_(torch.tensor([10_000.0, 10_000.0]))
    terms = F.cross_entropy(logits, labels, reduction="none")
    for criterion, exponent in ((rising, 0.6), (at_rest, 0.9)):
        weights = robust.robust_weight(logits.log_softmax(1), labels, torch.tensor(exponent))
        torch.testing.assert_close(criterion(logits, labels), (weights * terms).mean())


def test_a_class_that_is_hardly_predicted_learns_as_with_cross_entropy():
    logits, labels = logits_and_labels()
    criterion = learnt(pl_weight=0.0).eval()
    criterion.statistics[3, 3] = 0.0
    (own,) = torch.autograd.grad(criterion(logits, labels), logits)
    (plain,) = torch.autograd.grad(F.cross_entropy(logits, labels), logits)
    of_class = labels == 3
    torch.testing.assert_close(own[of_class], plain[of_class])
    assert own[~of_class].norm() < plain[~of_class].norm()


def problem(classes, samples=600, seed=0):
    """Points around as many centres as classes, 30 % of them labelled as another class."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(samples) % classes
    centres = 4 * torch.randn(classes, 16, generator=generator)
    x = centres[truth] + torch.randn(samples, 16, generator=generator)
    other = (truth + torch.randint(1, classes, (samples,), generator=generator)) % classes
    return x, torch.where(torch.rand(samples, generator=generator) < 0.3, other, truth), truth


def trained(network, criterion, x, labels, epochs=40, optimizer=None):
    generator = torch.Generator().manual_seed(0)
    optimizer = optimizer or torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=generator).split(50):
            optimizer.zero_grad()
            criterion(network(x[index]), labels[index]).backward()
            optimizer.step()
    return network(x).argmax(1)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_it_learns_the_right_labels_and_not_the_wrong_ones(classes):
    x, labels, truth = problem(classes)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, classes))
    rival = copy.deepcopy(network)
    robust_share = (trained(network, RobustLoss(classes), x, labels) == truth).float().mean()
    plain_share = (trained(rival, torch.nn.CrossEntropyLoss(), x, labels) == truth).float().mean()
    assert robust_share > 0.97
    assert robust_share > plain_share + 0.02


def test_it_leads_back_from_a_lost_class_where_nl_plus_does_not():
    x, labels, truth = problem(4)
    found = {}
    for name, criterion in (("robust", learnt(4)), ("nl+", losses.NLPlusLoss(4, complements="exhaustive"))):
        torch.manual_seed(0)
        network = torch.nn.Linear(16, 4)
        with torch.no_grad():
            network.weight[2], network.bias[2] = 0.0, -12.0
        optimizer = torch.optim.SGD(network.parameters(), 0.1)  # Adam would enlarge a tiny gradient
        predicted = trained(network, criterion, x, labels, epochs=20, optimizer=optimizer)
        found[name] = ((predicted == 2) & (truth == 2)).sum() / (truth == 2).sum()
    assert found["nl+"] == 0.0
    assert found["robust"] > 0.9


# --- Its state --------------------------------------------------------------------------------------------------------


def test_the_measurements_are_decaying_sums():
    criterion, expected = RobustLoss(5, memory=40), torch.zeros(4, 5, dtype=torch.float64)
    earlier = [0.0, 0.0]
    for seed in range(4):
        logits, labels = logits_and_labels(seed=seed)
        criterion(logits, labels)
        expected *= math.exp(-32 / 40)
        for row, label in zip(logits.double().softmax(1), labels, strict=True):
            expected[0, label] += 1
            if row.argmax() == label:
                expected[1, label] += 1
            else:
                expected[2, label] += row[label].item() / (1 - row.max().item())
            expected[3] += row.detach()
        agreed = recall_above_chance(expected[0], expected[1]).item()
        earlier = [math.exp(-32 / 400) * each + 32 * new for each, new in zip(earlier, (agreed, 1), strict=True)]
    torch.testing.assert_close(criterion.statistics.double(), expected, rtol=1e-5, atol=1e-5)
    assert criterion.earlier.tolist() == pytest.approx(earlier, rel=1e-4)


def test_the_memory_is_counted_in_samples_not_in_batches():
    logits, labels = logits_and_labels(batch=64)
    whole, halves = RobustLoss(5, memory=10_000), RobustLoss(5, memory=10_000)
    whole(logits, labels)
    for part in (slice(32), slice(32, 64)):  # gradient accumulation
        halves(logits[part], labels[part])
    torch.testing.assert_close(halves.statistics, whole.statistics, rtol=0.01, atol=0.0)


def test_in_eval_mode_nothing_is_measured():
    logits, labels = logits_and_labels()
    criterion = learnt()
    before = criterion.statistics.clone()
    first = criterion.eval()(logits, labels)
    torch.testing.assert_close(criterion.statistics, before, rtol=0, atol=0)
    assert first == criterion(logits, labels)
    criterion.train()(logits, labels)
    assert not torch.equal(criterion.statistics, before)


def test_a_resumed_loss_is_exactly_the_same():
    whole, resumed = RobustLoss(5), RobustLoss(5)
    batches = [logits_and_labels(seed=seed) for seed in range(6)]
    expected = [whole(*batch).item() for batch in batches]
    first = RobustLoss(5)
    found = [first(*batch).item() for batch in batches[:3]]
    resumed.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    assert found + [resumed(*batch).item() for batch in batches[3:]] == expected
    assert list(first.state_dict()) == ["statistics", "earlier"]


def test_measuring_leaves_the_graph_alone():
    """Two losses of one network, then one backward: no tensor that the graph needs is changed in place."""
    logits, labels = logits_and_labels()
    criterion = learnt()
    (criterion(logits, labels) + criterion(2 * logits, labels)).backward()
    assert logits.grad.isfinite().all()


# --- Wherever cross-entropy can be used -------------------------------------------------------------------------------


def test_weights_multiply_the_samples():
    logits, labels = logits_and_labels()
    weights = torch.rand(32, generator=torch.Generator().manual_seed(1))
    weights[:16] = 0
    some = learnt()
    loss = some(logits, labels, weights=weights)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[:16] == 0).all()
    assert (gradient[16:] != 0).any(1).all()
    alone = learnt()
    torch.testing.assert_close(loss, alone(logits[16:], labels[16:], weights=weights[16:]) / 2)
    torch.testing.assert_close(some.statistics, alone.statistics)
    equal, plain = learnt(), learnt()
    torch.testing.assert_close(equal(logits, labels, weights=torch.ones(32)), plain(logits, labels))
    torch.testing.assert_close(equal.statistics, plain.statistics)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    logits, labels = logits_and_labels(dtype=dtype)
    criterion, single = learnt(), learnt()
    loss = criterion(logits, labels)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert criterion.statistics.dtype == torch.float32
    torch.testing.assert_close(loss.float(), single(logits.detach().float(), labels))
    loss.backward()
    assert logits.grad.dtype == dtype


def test_autocast_does_not_round_the_measurements():
    logits, labels = logits_and_labels()
    inside, outside = learnt(), learnt()
    weights = torch.rand(32, generator=torch.Generator().manual_seed(1))
    with torch.autocast("cpu", torch.bfloat16):
        inside(logits, labels, weights=weights)
    outside(logits, labels, weights=weights)
    torch.testing.assert_close(inside.statistics, outside.statistics, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("trained_before", [False, True])
def test_extreme_logits_give_finite_losses_and_gradients(dtype, trained_before):
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0], [1e4, 1e4, -1e4]], dtype=dtype)
    logits.requires_grad_()
    criterion = learnt(3) if trained_before else RobustLoss(3)
    for _ in range(3):
        loss = criterion(logits, torch.tensor([1, 1, 2, 2]))
        loss.backward()
        assert loss.isfinite()
        assert logits.grad.isfinite().all()
    assert criterion.statistics.isfinite().all()


def test_without_values_it_returns_a_shape_and_measures_nothing():
    criterion = learnt()
    loss = criterion(torch.zeros(2, 5, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta"))
    assert loss.shape == ()
    torch.testing.assert_close(criterion.statistics, learnt().statistics, rtol=0, atol=0)


def test_thousands_of_classes():
    logits, labels = logits_and_labels(batch=64, classes=5_000)
    criterion = RobustLoss(5_000)
    criterion(logits, labels).backward()
    assert logits.grad.isfinite().all()
    assert criterion.memory == 500_000


@pytest.mark.parametrize("weighted", [False, True])
def test_the_graph_has_no_break(weighted):
    """`fullgraph`: no value is read in Python, hence no waiting for a GPU. `aot_eager` needs no compiler."""
    logits, labels = logits_and_labels()
    weights = torch.rand(32, generator=torch.Generator().manual_seed(1)) if weighted else None
    plain, criterion = learnt(), learnt()
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        expected, found = plain(logits, labels, weights), compiled(logits, labels, weights)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(each, logits)[0] for each in (found, expected)))
    torch.testing.assert_close(criterion.statistics, plain.statistics)


def two_processes(rank, folder, synchronize):
    os.environ.update(MASTER_ADDR="127.0.0.1", USE_LIBUV="0")
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    criterion = RobustLoss(5, synchronize=synchronize)
    for seed in range(3):
        logits, labels = logits_and_labels(seed=seed)
        part = slice(16 * rank, 16 * rank + 16)
        criterion(logits[part], labels[part])
    criterion.eval()
    if rank == 0:  # in eval mode no process waits for another
        criterion(logits, labels)
    torch.save(criterion.statistics, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("synchronize", [True, False])
def test_processes_sum_their_measurements(synchronize, tmp_path):
    processes = [forked.start(tmp_path / f"said{rank}", two_processes, rank, tmp_path, synchronize) for rank in (0, 1)]
    for rank, process in enumerate(processes):
        process.join()
        assert process.exitcode == 0, (tmp_path / f"said{rank}").read_text()
    alone = RobustLoss(5)
    for seed in range(3):
        alone(*logits_and_labels(seed=seed))
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    if synchronize:
        torch.testing.assert_close(first, alone.statistics)
        torch.testing.assert_close(first, second, rtol=0, atol=0)
    else:
        assert not torch.allclose(first, second)
        assert first[0].sum() < 0.6 * alone.statistics[0].sum()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 1}, r"num_classes must be a whole number of at least 2, got 1"),
        ({"num_classes": 2.5}, r"num_classes must be a whole number of at least 2, got 2\.5"),
        ({"num_classes": 3, "pl_weight": -0.1}, r"pl_weight must be a finite number >= 0, got -0\.1"),
        ({"num_classes": 3, "strength": float("nan")}, r"strength must be a finite number >= 0, got nan"),
        ({"num_classes": 3, "memory": 0}, r"memory must be a number of samples >= 1, got 0"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        RobustLoss(**arguments)


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "message"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 1]), None, r"logits must have 3 classes, got shape \(2, 4\)"),
        (torch.zeros(3), torch.tensor([0]), None, r"logits must have shape \(B, C\), got \(3,\)"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), None, r"labels must lie in 0\.\.2 \(C = 3\), got 3"),
        (torch.zeros(2, 3), torch.zeros(2, 3), None, r"labels must be integer class indices"),
        (torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(3), r"weights must have shape \(2,\), got \(3,\)"),
    ],
)
def test_wrong_batches(logits, labels, weights, message):
    with pytest.raises(ValueError, match=message):
        RobustLoss(3)(logits, labels, weights)
