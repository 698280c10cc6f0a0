"""`functional` away from the equations: extreme logits, transforms, dtypes, errors, and the baselines of METHODS 5."""

import decimal
import functools
import itertools
import math
import shutil
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.arithmetic import gradient, softmax

from jnpl import functional as JF

EXTREMES = [-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4]
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
LABELLED = [
    JF.pl,
    JF.nl,
    JF.nl_plus,
    JF.nl_exhaustive,
    JF.nl_plus_exhaustive,
    JF.pl_plus,
    JF.mae,
    JF.gce,
    JF.gce_truncated,
    JF.rce,
    JF.sce,
    JF.focal,
    JF.nce,
    JF.nfl,
    JF.nce_rce,
    JF.nfl_rce,
]
NEGATIVE = [JF.nl, JF.nl_plus, JF.nl_exhaustive, JF.nl_plus_exhaustive]


def named(function):
    return function.__name__


def compute_dtype(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def random_batch(size=6, num_classes=5, dtype=torch.float64, scale=2.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = (scale * torch.randn(size, num_classes, generator=g, dtype=torch.float64)).to(dtype)
    return logits.requires_grad_(), torch.randint(num_classes, (size,), generator=g)


# --- Extreme logits against 60 exact digits --------------------------------------------------------------------------


@functools.cache
def exact(row):
    """log(1 - p_k), 1 - p_k and p_k for all k, as Decimals of 60 digits, from the very floats in `row`."""
    with decimal.localcontext(decimal.Context(prec=60, Emin=-(10**7), Emax=10**7)) as context:
        powers = [context.exp(decimal.Decimal(value)) for value in row]
        total = sum(powers)
        logs, keeps, probs = [], [], []
        for k, power in enumerate(powers):
            p, keep = power / total, sum(powers[:k] + powers[k + 1 :]) / total
            small = p < decimal.Decimal("1e-15")  # 1 - p would eat the digits: the series of log(1 - p)
            logs.append(-(p + p**2 / 2 + p**3 / 3 + p**4 / 4) if small else context.ln(keep))
            keeps.append(keep)
            probs.append(p)
        return logs, keeps, probs


def exact_loss(row, k, gamma):
    """Eqs. 2 and 5 and their gradients, Eqs. 3 and 6, for one complement, from the exact numbers."""
    logs, keeps, probs = exact(row)
    weight = keeps[k] if gamma else decimal.Decimal(1)
    pull = weight / keeps[k] * probs[k]
    grad = [float(pull * keeps[k] if i == k else -pull * probs[i]) for i in range(len(row))]
    return float(-weight * logs[k]), grad


def extreme_rows(dtype):
    rows = torch.tensor(list(itertools.product(EXTREMES, repeat=3)), dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    scales = torch.tensor([0.1, 1.0, 10.0, 100.0]).repeat(25)
    random = scales[:, None] * torch.randn(100, 3, generator=g, dtype=torch.float64)
    return torch.cat([rows, random]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_one_minus_softmax_is_exact_to_a_few_ulp(dtype):
    logits = extreme_rows(dtype)
    got = JF.log_one_minus_softmax(logits)
    info = torch.finfo(compute_dtype(dtype))
    assert got.dtype == compute_dtype(dtype)
    for row, values in zip(logits.tolist(), got.tolist(), strict=True):
        # f_i - f_j is rounded once: half an ulp of the gap is an error of p itself, unless the gap is a whole number.
        whole = all(value == int(value) for value in row)
        gap = 0.0 if whole else max(row) - min(row)
        for value, reference in zip(values, exact(tuple(row))[0], strict=True):
            room = (6 + gap) * info.eps * abs(float(reference)) + info.tiny
            assert abs(float(decimal.Decimal(value) - reference)) <= room, (row, value, float(reference))


@pytest.mark.parametrize("function", [JF.nl, JF.nl_plus], ids=named)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values_and_gradients_of_one_complement(function, dtype):
    logits = extreme_rows(dtype).requires_grad_()
    info = torch.finfo(compute_dtype(dtype))
    for k in range(3):
        loss = function(logits, torch.full((len(logits),), k))
        grads = gradient(loss, logits)
        assert loss.dtype == compute_dtype(dtype)
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert grads.isfinite().all()
        assert grads.abs().max() <= 1 + 4 * info.eps
        for row, value, grad in zip(logits.tolist(), loss.tolist(), grads.tolist(), strict=True):
            expected, slopes = exact_loss(tuple(row), k, gamma=int(function is JF.nl_plus))
            whole = all(entry == int(entry) for entry in row)
            gap = max(row) - min(row)
            room = (8 + (0 if whole else 2 * gap)) * info.eps
            assert value == pytest.approx(expected, rel=room, abs=1e5 * info.tiny), row
            # The gap's own rounding is granted here; equations/test_eq3 asks for more where it can be had.
            grain = torch.finfo(dtype).eps  # the gradient returns to the logits' dtype
            assert grad == pytest.approx(slopes, rel=grain, abs=(8 + gap) * info.eps + grain / 4), row


@pytest.mark.parametrize("function", [JF.nl_exhaustive, JF.nl_plus_exhaustive], ids=named)
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values_and_gradients_of_all_complements(function, dtype):
    logits = extreme_rows(dtype).requires_grad_()
    info = torch.finfo(compute_dtype(dtype))
    for label in range(3):
        loss = function(logits, torch.full((len(logits),), label))
        grads = gradient(loss, logits)
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert grads.isfinite().all()
        assert grads.abs().max() <= 2 + 8 * info.eps  # C - 1 complements
        for row, value in zip(logits.tolist(), loss.tolist(), strict=True):
            gamma = int(function is JF.nl_plus_exhaustive)
            expected = math.fsum(exact_loss(tuple(row), k, gamma)[0] for k in range(3) if k != label)
            whole = all(entry == int(entry) for entry in row)
            room = (8 + (0 if whole else 2 * (max(row) - min(row)))) * info.eps
            assert value == pytest.approx(expected, rel=room, abs=1e5 * info.tiny), row


@pytest.mark.parametrize("function", LABELLED, ids=named)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_loss_is_finite_and_not_negative_at_the_extremes(function, dtype):
    logits = extreme_rows(dtype).requires_grad_()
    for label in range(3):
        loss = function(logits, torch.full((len(logits),), label))
        assert loss.dtype == compute_dtype(dtype)
        assert loss.shape == (len(logits),)
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert gradient(loss, logits).isfinite().all()


def test_gradients_are_bounded_by_the_number_of_complements():
    logits = extreme_rows(torch.float32).requires_grad_()
    complements = torch.tensor([[0, 0, 0, 1, 2]]).expand(len(logits), 5)
    for gamma in (0.0, 0.3, 1.0, 2.0):
        grads = gradient(JF.nl_plus(logits, complements, gamma), logits)
        assert grads.isfinite().all()
        assert grads.abs().max() <= 5 * (1 + 1e-6)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.99])
def test_the_two_branches_meet_where_float32_ends(gamma):
    # Below 1 - p = 1e-30 another branch takes over: neither value nor gradient may jump there.
    gaps = torch.arange(60.0, 80.0, 0.25)
    rows = torch.stack([gaps, torch.zeros_like(gaps), -torch.ones_like(gaps)], dim=1)
    for row in rows:
        single, double = row[None].clone().requires_grad_(), row[None].double().requires_grad_()
        got, expected = JF.nl_plus(single, torch.tensor([0]), gamma), JF.nl_plus(double, torch.tensor([0]), gamma)
        assert got.item() == pytest.approx(expected.item(), rel=5e-5, abs=0)
        assert gradient(got, single)[0].tolist() == pytest.approx(
            gradient(expected, double)[0].tolist(), rel=5e-5, abs=0
        )


def test_a_batch_that_mixes_the_branches_keeps_its_rows_apart():
    calm, labels = random_batch(5, 3, torch.float32)
    rows = torch.cat([calm.detach(), torch.tensor([[1e4, 0.0, -1e4]])]).requires_grad_()
    labels = torch.cat([labels, torch.tensor([0])])
    mixed, alone = JF.nl(rows, labels), JF.nl(calm, labels[:5])
    torch.testing.assert_close(mixed[:5], alone, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(gradient(mixed, rows)[:5], gradient(alone, calm), rtol=1e-5, atol=1e-6)
    assert mixed[5].item() == 1e4


# --- Transforms, compilation, autocast -------------------------------------------------------------------------------


@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_vmap_grad_and_jacrev_agree_with_eager(function):
    logits, labels = random_batch()
    eager = function(logits, labels)
    slopes = gradient(eager, logits)
    rows = torch.func.vmap(lambda f, y: function(f[None], y[None])[0])(logits.detach(), labels)
    torch.testing.assert_close(rows, eager.detach(), rtol=1e-12, atol=1e-14)
    total = torch.func.grad(lambda f: function(f, labels).sum())(logits.detach())
    torch.testing.assert_close(total, slopes, rtol=1e-11, atol=1e-14)
    per_row = torch.func.vmap(torch.func.grad(lambda f, y: function(f[None], y[None])[0]))(logits.detach(), labels)
    torch.testing.assert_close(per_row, slopes, rtol=1e-11, atol=1e-14)
    jacobian = torch.func.jacrev(lambda f: function(f, labels))(logits.detach())
    torch.testing.assert_close(jacobian.sum(0), slopes, rtol=1e-11, atol=1e-14)


@pytest.mark.filterwarnings("ignore:`torch.jit.script")  # torch's own, in forward mode
@pytest.mark.parametrize("function", NEGATIVE, ids=named)
def test_hessian_of_the_sum_is_block_diagonal_and_sums_to_zero(function):
    logits, labels = random_batch(3, 4)
    hessian = torch.autograd.functional.hessian(lambda f: function(f, labels).sum(), logits)
    by_func = torch.func.hessian(lambda f: function(f, labels).sum())(logits.detach())
    torch.testing.assert_close(by_func, hessian, rtol=1e-10, atol=1e-13)
    assert hessian.sum(3).abs().max() < 1e-13  # a constant added to all logits changes nothing
    assert hessian[0, :, 1].abs().max() == 0


def all_losses(logits, labels, complements, uniforms):
    """Every function of the module in one graph."""
    parts = [function(logits, labels) for function in LABELLED]
    parts += [JF.nl_plus(logits, complements, gamma) for gamma in (0.0, 0.5, 1.0)]
    parts += [JF.nl_plus(logits, complements, reduction="mean").expand(len(labels))]
    selected, y_hat = JF.pl_plus_select(logits, uniforms)
    parts += [selected * JF.pl_plus(logits, y_hat), JF.log_one_minus_softmax(logits).sum(1)]
    return torch.stack(parts)


def the_papers_losses(logits, labels, complements, uniforms):
    selected, y_hat = JF.pl_plus_select(logits, uniforms)
    exhaustive = JF.nl_exhaustive(logits, labels)
    return torch.stack([JF.nl_plus(logits, complements), exhaustive, selected * JF.pl_plus(logits, y_hat)])


def check_compiled(function, backend):
    torch._dynamo.reset()
    logits, labels = random_batch(8, 5, torch.float32)
    g = torch.Generator().manual_seed(1)
    arguments = (labels, torch.randint(5, (8, 3), generator=g), torch.rand(8, generator=g))
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    got, expected = compiled(logits, *arguments), function(logits, *arguments)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient(got, logits), gradient(expected, logits), rtol=1e-4, atol=1e-5)


def test_compile_fullgraph():
    check_compiled(all_losses, "aot_eager")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None or " " in sys.prefix, reason="needs g++ and a path without spaces")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_fullgraph_with_inductor():
    check_compiled(the_papers_losses, "inductor")


@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_autocast_layer_in_front(function):
    torch.manual_seed(0)
    layer, inputs = torch.nn.Linear(4, 10), torch.randn(16, 4)
    labels = torch.arange(16) % 10
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(inputs)
        loss = function(logits, labels)
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(loss, function(logits.float(), labels), rtol=1e-6, atol=1e-6)
    loss.mean().backward()
    assert layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_no_grad_and_non_contiguous_logits(function):
    logits, labels = random_batch()
    with torch.no_grad():
        loss = function(logits, labels)
    assert not loss.requires_grad
    transposed = logits.detach().t().contiguous().t()
    assert not transposed.is_contiguous()
    before = transposed.clone()
    torch.testing.assert_close(function(transposed, labels), loss, rtol=1e-13, atol=1e-14)
    assert torch.equal(transposed, before)  # the arguments are left as they came


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_labels_of_any_integer_type(function, dtype):
    logits, labels = random_batch()
    assert torch.equal(function(logits, labels.to(dtype)), function(logits, labels))


# --- Properties ------------------------------------------------------------------------------------------------------


@st.composite
def cases(draw):
    size, num_classes = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    numbers = st.floats(-60, 60, allow_nan=False, width=32)
    rows = draw(st.lists(st.lists(numbers, min_size=num_classes, max_size=num_classes), min_size=size, max_size=size))
    labels = draw(st.lists(st.integers(0, num_classes - 1), min_size=size, max_size=size))
    return torch.tensor(rows, dtype=torch.float64), torch.tensor(labels), draw(st.permutations(range(num_classes)))


@settings(max_examples=60, deadline=None)
@given(case=cases(), constant=st.floats(-100, 100, width=16))
def test_any_input(case, constant):
    logits, labels, order = case
    order = torch.tensor(order)
    place = order.argsort()  # where each class went
    for function in LABELLED:
        leaf = logits.clone().requires_grad_()
        loss = function(leaf, labels)
        grads = gradient(loss, leaf)
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert grads.isfinite().all()
        assert grads.sum(1).abs().max() < 1e-9  # no loss can tell a constant added to all logits
        torch.testing.assert_close(function(logits + constant, labels), loss.detach(), rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(function(logits[:, order], place[labels]), loss.detach(), rtol=1e-9, atol=1e-12)
    candidates = JF.pl_plus_candidates(logits)
    assert torch.equal(JF.pl_plus_candidates(logits[:, order]), candidates)
    assert not (candidates & (logits.softmax(1).amax(1) <= 1 / logits.shape[1])).any()
    log_keep = JF.log_one_minus_softmax(logits)
    assert (log_keep <= 0).all()
    torch.testing.assert_close(log_keep.exp() + logits.softmax(1), torch.ones_like(logits), rtol=1e-12, atol=0)


# --- Errors: what came and what would be right -----------------------------------------------------------------------


@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_wrong_logits(function):
    labels = torch.zeros(3, dtype=torch.long)
    for bad, message in (
        (torch.zeros(3), r"shape \(B, C\), got \(3,\)"),
        (torch.zeros(3, 2, 2), r"shape \(B, C\), got \(3, 2, 2\)"),
        (torch.zeros(3, 2, dtype=torch.long), "floating point, got torch.int64"),
        (torch.zeros(0, 2), r"at least one sample, got an empty batch \(0, 2\)"),
        (torch.zeros(3, 1), "at least 2 classes, got 1"),
        ([[0.0, 1.0]], r"torch.Tensor of shape \(B, C\), got list"),
    ):
        with pytest.raises(ValueError, match="logits must .*" + message):
            function(bad, labels)


@pytest.mark.parametrize("function", LABELLED, ids=named)
def test_wrong_labels(function):
    logits = torch.zeros(3, 4)
    name = "complements" if function in (JF.nl, JF.nl_plus) else "labels"
    for bad, message in (
        (torch.zeros(3), "integer class indices .*got torch.float32"),
        (torch.zeros(3, dtype=torch.bool), "integer class indices .*got torch.bool"),
        (torch.tensor([0, 1, -1]), r"lie in 0\.\.3 .*got -1"),
        (torch.tensor([0, 1, -100]), r"lie in 0\.\.3 .*got -100"),  # cross_entropy would ignore it
        (torch.tensor([0, 1, 4]), r"lie in 0\.\.3 .*got 4"),
        (torch.tensor([0, 1]), r"shape \(3,\).*got \(2,\)"),
        (torch.zeros(3, 1, 1, dtype=torch.long), r"shape \(3,\).*got \(3, 1, 1\)"),
        (torch.zeros((), dtype=torch.long), r"shape \(3,\).*got \(\)"),
        (torch.zeros(3, dtype=torch.long, device="meta"), "be on cpu, where the logits are, got meta"),
        ([0, 1, 2], "torch.Tensor of class indices, got list"),
    ):
        with pytest.raises(ValueError, match=f"{name} must .*{message}"):
            function(logits, bad)


def test_wrong_complements():
    for bad, message in (
        (torch.zeros(3, 0, dtype=torch.long), r"\(3,\) or \(3, K\) with K >= 1, got \(3, 0\)"),
        (torch.zeros(2, 5, dtype=torch.long), r"\(3,\) or \(3, K\) with K >= 1, got \(2, 5\)"),
        (torch.tensor([[0, 1], [2, 3], [1, 4]]), r"lie in 0\.\.3 .*got 4"),
    ):
        with pytest.raises(ValueError, match="complements must .*" + message):
            JF.nl_plus(torch.zeros(3, 4), bad)


@pytest.mark.parametrize(
    ("functions", "setting", "values", "message"),
    [
        (
            (JF.nl_plus, JF.nl_plus_exhaustive, JF.focal, JF.nfl, JF.nfl_rce),
            "gamma",
            (-0.1, -1.0, math.nan, math.inf),
            "gamma must be a finite number >= 0, got {}",
        ),
        ((JF.gce, JF.gce_truncated), "q", (0.0, -0.7, 1.1, math.nan), r"q must lie in \(0, 1\], got {}"),
        ((JF.gce_truncated,), "k", (0.0, 1.0, -0.5, math.nan), r"k must lie in \(0, 1\), got {}"),
        ((JF.pl_plus,), "n", (-2, 2.5), "n must be an integer >= -1 .*got {}"),
        (NEGATIVE, "reduction", ("sum",), """reduction must be "none" or "mean", got '{}'"""),
    ],
)
def test_wrong_settings(functions, setting, values, message):
    for function, bad in itertools.product(functions, values):
        with pytest.raises(ValueError, match=message.format(bad)):
            function(torch.zeros(1, 2), torch.tensor([0]), **{setting: bad})


@pytest.mark.parametrize("bad", [torch.zeros(2), torch.zeros(3, 1), torch.zeros(3, dtype=torch.long)])
def test_wrong_uniforms(bad):
    message = rf"uniforms must be a floating point tensor of shape \(3,\), got {bad.dtype}"
    with pytest.raises(ValueError, match=message):
        JF.pl_plus_select(torch.zeros(3, 4), bad)


# --- The baselines of METHODS 5 in plain Python ----------------------------------------------------------------------


def plain_rce(p, y):
    """-sum_k p_k log q_k with the one-hot q clipped to [1e-4, 1]."""
    return -math.fsum(p_k * math.log(1.0 if k == y else 1e-4) for k, p_k in enumerate(p))


def plain_nfl(p, y, gamma=0.5):
    terms = [(1 - p_k) ** gamma * math.log(p_k) for p_k in p]
    return terms[y] / math.fsum(terms)


PLAIN = {
    "mae": (JF.mae, lambda p, y: math.fsum(abs(p_k - (k == y)) for k, p_k in enumerate(p))),
    "gce": (JF.gce, lambda p, y: (1 - p[y] ** 0.7) / 0.7),
    "gce q=1 is half MAE": (functools.partial(JF.gce, q=1.0), lambda p, y: 1 - p[y]),
    "gce q -> 0 is CE": (functools.partial(JF.gce, q=1e-9), lambda p, y: -math.log(p[y])),
    "gce_truncated": (JF.gce_truncated, lambda p, y: (1 - max(p[y], 0.5) ** 0.7) / 0.7),
    "gce_truncated k": (functools.partial(JF.gce_truncated, k=0.1), lambda p, y: (1 - max(p[y], 0.1) ** 0.7) / 0.7),
    "rce": (JF.rce, plain_rce),
    "sce": (JF.sce, lambda p, y: 0.1 * -math.log(p[y]) + 1.0 * plain_rce(p, y)),
    "sce cifar100": (
        functools.partial(JF.sce, alpha=6.0, beta=0.1),
        lambda p, y: 6.0 * -math.log(p[y]) + 0.1 * plain_rce(p, y),
    ),
    "focal": (JF.focal, lambda p, y: -((1 - p[y]) ** 0.5) * math.log(p[y])),
    "focal 2": (functools.partial(JF.focal, gamma=2.0), lambda p, y: -((1 - p[y]) ** 2) * math.log(p[y])),
    "nce": (JF.nce, lambda p, y: math.log(p[y]) / math.fsum(map(math.log, p))),
    "nfl": (JF.nfl, plain_nfl),
    "nce_rce": (JF.nce_rce, lambda p, y: plain_nfl(p, y, 0.0) + plain_rce(p, y)),
    "nfl_rce": (JF.nfl_rce, lambda p, y: plain_nfl(p, y) + plain_rce(p, y)),
    "nfl_rce cifar100": (
        functools.partial(JF.nfl_rce, alpha=10.0, beta=0.1),
        lambda p, y: 10 * plain_nfl(p, y) + 0.1 * plain_rce(p, y),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
def test_baseline_values(name, num_classes):
    function, plain = PLAIN[name]
    for dtype, tolerance in ((torch.float64, 1e-7 if "q ->" in name else 1e-11), (torch.float32, 1e-5)):
        logits, labels = random_batch(8, num_classes, dtype)
        with torch.no_grad():
            logits[::2].scatter_add_(1, labels[::2, None], torch.full((4, 1), 6.0, dtype=dtype))
        expected = [plain(softmax(row), y) for row, y in zip(logits.tolist(), labels.tolist(), strict=True)]
        assert function(logits, labels).tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance / 10)


@pytest.mark.parametrize("name", [name for name in PLAIN if "focal" not in name and "nfl" not in name])
def test_baseline_gradients_are_those_of_the_formula(name):
    function, plain = PLAIN[name]
    logits, labels = random_batch(6, 4, scale=1.5)
    grads = gradient(function(logits, labels), logits)
    step = 1e-6
    for row, grad, y in zip(logits.tolist(), grads.tolist(), labels.tolist(), strict=True):
        for i in range(4):
            up, down = list(row), list(row)
            up[i] += step
            down[i] -= step
            slope = (plain(softmax(up), y) - plain(softmax(down), y)) / (2 * step)
            assert grad[i] == pytest.approx(slope, rel=1e-5, abs=1e-7)
        assert grad[y] <= 0  # every baseline pulls the given label up (or, truncated, leaves it alone)


@pytest.mark.parametrize("normalised", [False, True], ids=["focal", "nfl"])
def test_focal_factors_are_constants(normalised):
    # APL's code keeps the factor out of the graph: with gamma = 0.5 that changes the gradient (METHODS 5.5).
    logits, labels = random_batch(6, 4, scale=1.5)
    grads = gradient((JF.nfl if normalised else JF.focal)(logits, labels), logits)
    step, flowing_differs = 1e-6, False
    for row, grad, y in zip(logits.tolist(), grads.tolist(), labels.tolist(), strict=True):
        factors = [(1 - p) ** 0.5 for p in softmax(row)]

        def loss(moved, weights, y=y):
            terms = [-w * math.log(p) for w, p in zip(weights, softmax(moved), strict=True)]
            return terms[y] / math.fsum(terms) if normalised else terms[y]

        for i in range(4):
            up, down = list(row), list(row)
            up[i] += step
            down[i] -= step
            frozen = (loss(up, factors) - loss(down, factors)) / (2 * step)
            assert grad[i] == pytest.approx(frozen, rel=1e-5, abs=1e-7)
            ends = [loss(moved, [(1 - p) ** 0.5 for p in softmax(moved)]) for moved in (up, down)]
            flowing_differs |= abs((ends[0] - ends[1]) / (2 * step) - frozen) > 1e-2
    assert flowing_differs


def test_truncated_gce_does_not_teach_below_k():
    logits = torch.tensor([[0.4, 0.6], [0.6, 0.4]], dtype=torch.float64).log().requires_grad_()
    grads = gradient(JF.gce_truncated(logits, torch.tensor([0, 0])), logits)
    assert grads[0].tolist() == [0, 0]
    assert grads[1, 0].item() == pytest.approx(-(0.6**0.7) * 0.4, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_truncated_gce_does_not_teach_at_k(q, dtype):
    # p_y = k = 1/2 exactly, as in a fresh two-class network: "held where p_y <= k, so that such samples do not learn".
    logits = torch.zeros(1, 2, dtype=dtype, requires_grad=True)
    assert gradient(JF.gce_truncated(logits, torch.tensor([0]), q=q), logits).tolist() == [[0, 0]]


def test_soft_labels_in_plain_arithmetic():
    logits, targets = (
        torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]]),
        torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]),
    )
    wanted = []
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        total = sum(map(math.exp, row))
        wanted.append(-sum(t * math.log(math.exp(value) / total) for t, value in zip(target, row, strict=True)))
    assert JF.soft_pl(logits, targets).tolist() == pytest.approx(wanted, rel=1e-6)
    assert JF.soft_pl(logits, targets)[1].isclose(JF.pl(logits, torch.tensor([0, 0]))[1])
    assert JF.soft_pl(logits * 1e4, targets).isfinite().all()
    with pytest.raises(ValueError, match="targets must have shape"):
        JF.soft_pl(logits, targets[:1])
