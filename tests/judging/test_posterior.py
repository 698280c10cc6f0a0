"""Who is taken for whom: EM and Bayes' rule against loops, and against draws from models that are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnpl import metrics
from jnpl.internal.errors import InputError
from jnpl.judging.posterior import posterior, share_factors, tied


def literal_background(probs):
    """What the surest hundredth says of any other class is taken off, but for a thousandth of what was there."""
    size, count = len(probs[0]), max(round(len(probs) / 100), 1)
    surest = sorted((max(row) for row in probs), reverse=True)[:count]
    background = (1 - sum(surest) / count) / (size - 1)
    rows = [[max(value - background, 1e-3 * value) for value in row] for row in probs]
    return [[value / sum(row) for value in row] for row in rows]


def literal_tie(matrix):
    """The largest rate is freed as long as it is three times the mean of those that are smaller, and those before it.

    The first that is so large may be any of the C largest.
    """
    size = len(matrix)
    shared = sorted(((matrix[t][y], t, y) for t in range(size) for y in range(size) if t != y), reverse=True)
    result = [[0.0] * size for _ in range(size)]

    def stands_out(at):
        rest = [rate for rate, _, _ in shared[at + 1 :]]
        return bool(rest) and shared[at][0] > 3 * sum(rest) / len(rest)

    first = next((at for at in range(min(size, len(shared))) if stands_out(at)), None)
    for rate, t, y in shared[: first or 0]:
        result[t][y] = rate
    shared = shared if first is None else shared[first:]
    while stands_out(0):
        rate, t, y = shared.pop(0)
        result[t][y] = rate
    for _, t, y in shared:
        result[t][y] = sum(rate for rate, _, _ in shared) / len(shared)
    for t in range(size):
        result[t][t] = max(1 - sum(result[t]), matrix[t][t] / 2)
    return [[rate / sum(row) for rate in row] for row in result]


def literal_em(probs, labels, rounds=100, enough=1e-5):
    """EM in plain loops: one pseudo-count a row, half of it on the diagonal."""
    size = len(probs[0])
    probs = literal_background(probs)

    def start(t, y):
        return 0.5 if t == y else 0.5 / (size - 1)

    def bayes(matrix):
        rows = []
        for p, y in zip(probs, labels, strict=True):
            joint = [p[t] * matrix[t][y] for t in range(size)]
            rows.append([value / sum(joint) for value in joint])
        return rows

    matrix = [[start(t, y) for y in range(size)] for t in range(size)]
    for _ in range(rounds):
        q = bayes(matrix)
        counts = [[start(t, y) for y in range(size)] for t in range(size)]
        for row, y in zip(q, labels, strict=True):
            for t in range(size):
                counts[t][y] += row[t]
        old, matrix = matrix, literal_tie([[count / sum(row) for count in row] for row in counts])
        changes = [abs(a - b) for new, was in zip(matrix, old, strict=True) for a, b in zip(new, was, strict=True)]
        if max(changes) < enough:
            break
    return bayes(matrix), matrix


def draws(transition, samples, seed, sharpness=2.0):
    """Calibrated predictions (N, C), true classes drawn from them, and given labels drawn from the transition."""
    random = np.random.default_rng(seed)
    size = len(transition)
    scores = np.exp(sharpness * random.normal(size=(samples, size)))
    probs = scores / scores.sum(1, keepdims=True)
    true = (probs.cumsum(1) > random.random((samples, 1))).argmax(1)
    given_labels = (np.asarray(transition)[true].cumsum(1) > random.random((samples, 1))).argmax(1)
    return probs, true, given_labels


def uniform_noise(rate, size):
    return np.full((size, size), rate / (size - 1)) + np.eye(size) * (1 - rate - rate / (size - 1))


def ranks(values):
    return np.argsort(np.argsort(values)).astype(float)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_against_em_in_plain_loops(size):
    probs, _, labels = draws(uniform_noise(0.3, size), 60, seed=size)
    wanted, matrix = literal_em(probs.tolist(), labels.tolist())
    found = posterior(probs, labels)
    np.testing.assert_allclose(found.transition, matrix, rtol=1e-9)
    np.testing.assert_allclose(found.probs, wanted, rtol=1e-9)


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_rates_are_tied_as_in_plain_loops(size):
    """Also where every mistake stands out: the least frequent two share a rate then; and where C are about equal."""
    random = np.random.default_rng(size)
    for draw in range(300):
        rates = np.exp(4 * random.normal(size=(size, size)))
        if draw % 2:
            rates = 0.01 * rates / rates.max() + 0.3 * np.roll(np.eye(size), 1, 1) + 0.7 * np.eye(size)
        matrix = rates / rates.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(tied(matrix), literal_tie(matrix.tolist()), atol=1e-12)


def test_uniform_noise_leaves_the_order_as_it_is():
    """No mistake stands out: one rate for all, and q_y rises with p_y."""
    probs, _, labels = draws(uniform_noise(0.4, 5), 20_000, seed=0)
    each = np.arange(len(labels))
    found = posterior(probs, labels)
    assert len(np.unique(found.transition.round(12))) == 2
    np.testing.assert_allclose(found.transition, uniform_noise(0.4, 5), atol=0.02)
    quality, said = found.probs[each, labels], probs[each, labels]
    assert np.corrcoef(ranks(quality), ranks(said))[0, 1] > 0.999


def test_a_network_that_has_learnt_the_noise_is_told_apart_from_one_without():
    """It predicts what is given: 80 % wrong, so at best 0.2 for the true class. EM alone would believe every label."""
    probs, true, labels = draws(uniform_noise(0.8, 10), 20_000, seed=0, sharpness=3.0)
    learnt = probs @ uniform_noise(0.8, 10)
    found = posterior(learnt, labels)
    np.testing.assert_allclose(found.transition.diagonal(), 0.2, atol=0.1)
    exact = posterior(probs, labels).probs
    assert (found.probs.argmax(1) == true).mean() > (exact.argmax(1) == true).mean() - 0.03


STRUCTURED = np.array(
    [[0.6, 0.4, 0, 0, 0], [0, 0.75, 0.25, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0.7, 0.3], [0, 0, 0, 0, 1]]
)


def test_structured_noise_is_recovered_and_ranks_labels_better():
    probs, true, labels = draws(STRUCTURED, 20_000, seed=0)
    found = posterior(probs, labels)
    np.testing.assert_allclose(found.transition, STRUCTURED, atol=0.03)
    each, wrong = np.arange(len(labels)), labels != true
    # What Bayes' rule says with the true matrix is the most that can be had.
    joint = probs * STRUCTURED[:, labels].T
    exact = joint / joint.sum(1, keepdims=True)
    ap, alone, most = (metrics.average_precision(q[each, labels], wrong) for q in (found.probs, probs, exact))
    assert ap > alone + 0.1  # eight seeds: 0.853 to 0.863 beside 0.731 to 0.742
    assert ap > most - 0.01
    assert np.abs(found.probs - exact).mean() < 0.01


def test_rows_of_nan_stay_and_count_nothing():
    probs, _, labels = draws(STRUCTURED, 200, seed=1)
    holes = probs.copy()
    holes[::7] = np.nan
    holes[1, 2] = np.nan  # one is enough
    known = ~np.isnan(holes).any(1)
    found, without = posterior(holes, labels), posterior(probs[known], labels[known])
    assert np.isnan(found.probs[~known]).all()
    np.testing.assert_allclose(found.probs[known], without.probs, rtol=1e-12)
    np.testing.assert_allclose(found.transition, without.transition, rtol=1e-12)
    nothing = posterior(np.full((3, 2), np.nan), [0, 1, 1])
    assert np.isnan(nothing.probs).all()
    assert nothing.transition.tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("absent", [0, 2, 4])
def test_a_class_that_nobody_is_given_keeps_a_proper_row(absent):
    """In the middle and at both ends, where slices of sorted labels would be empty."""
    probs, _, labels = draws(STRUCTURED, 300, seed=4)
    labels = np.where(labels == absent, (absent + 1) % 5, labels)
    found = posterior(probs, labels)
    wanted, matrix = literal_em(probs.tolist(), labels.tolist())
    np.testing.assert_allclose(found.probs, wanted, rtol=1e-9)
    np.testing.assert_allclose(found.transition, matrix, rtol=1e-9)
    assert (found.transition[:, absent] < 0.1).all()


def test_sure_predictions_are_not_tied_and_not_final():
    """1e-12 and 1e-20 still differ; a probability of exactly 0 gives no nan."""
    sure = np.array([[1.0, 1e-12], [1.0, 1e-20], [1.0, 0.0]] + [[1.0, 0.0], [0.0, 1.0]] * 30)
    found = posterior(sure, [1, 1, 1] + [0, 1] * 30)
    assert found.probs[0, 1] > found.probs[1, 1] > found.probs[2, 1] > 0


@pytest.mark.parametrize("labels", [[0, 2], [-1, 0]])
def test_labels_of_no_class_are_refused(labels):
    with pytest.raises(InputError, match="labels must be 0 to 1, got"):
        posterior([[0.5, 0.5], [0.5, 0.5]], labels)


@st.composite
def _cases(draw):
    size, samples = draw(st.integers(2, 6)), draw(st.integers(1, 12))
    value = st.floats(0, 1, allow_subnormal=False)
    rows = draw(st.lists(st.lists(value, min_size=size, max_size=size), min_size=samples, max_size=samples))
    probs = np.asarray(rows)
    total = probs.sum(1, keepdims=True)
    probs = np.where(total > 0, probs / np.where(total > 0, total, 1), 1 / size)
    return probs, np.asarray(draw(st.lists(st.integers(0, size - 1), min_size=samples, max_size=samples)))


@settings(max_examples=60, deadline=None)
@given(_cases())
def test_always_probabilities(case):
    found = posterior(*case)
    assert np.isfinite(found.probs).all()
    assert (found.probs >= 0).all()
    np.testing.assert_allclose(found.probs.sum(1), 1, rtol=1e-9)
    assert (found.transition > 0).all()
    np.testing.assert_allclose(found.transition.sum(1), 1, rtol=1e-9)


def test_known_classes_are_certain_and_count_in_the_matrix():
    probs = np.full((300, 3), 1 / 3)  # predictions that say nothing
    true = np.arange(300) % 3
    labels = np.where((true == 0) & (np.arange(300) < 150), 1, true)  # half of class 0 is labelled 1
    known = np.where(np.arange(300) < 290, true, -1)
    found = posterior(probs, labels, decided=known)
    np.testing.assert_array_equal(found.probs[:290], np.eye(3)[true[:290]])
    assert found.transition[0, :2] == pytest.approx([0.5, 0.5], abs=0.05)
    row = found.probs[290:][labels[290:] == 1][0]
    assert row[0] > row[2]  # a given 1 may be a 0, and is hardly a 2
    np.testing.assert_array_equal(
        posterior(probs, labels, decided=np.full(300, -1)).probs, posterior(probs, labels).probs
    )


def test_classes_are_predicted_as_often_as_they_truly_occur():
    transition = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    true = np.repeat([0, 1, 2], [450, 450, 100])
    labels = np.repeat([0, 1, 2] * 3, [360, 45, 45, 45, 360, 45, 10, 10, 80])
    learnt = np.eye(3)[labels] * 0.4 + np.eye(3)[true] * 0.4 + 0.2 / 3  # as often as labels were given
    learnt[0] = np.nan
    factors = share_factors(learnt, labels, transition)
    changed = learnt[1:] * factors / (learnt[1:] * factors).sum(1, keepdims=True)
    np.testing.assert_allclose(changed.mean(axis=0), [0.45, 0.45, 0.1], atol=0.003)
    of_its_own = transition.copy()
    of_its_own[0, :2] = 0.6, 0.3
    for other in (of_its_own, np.full((3, 3), 0.001) + 0.997 * np.eye(3), np.full((3, 3), 1 / 3)):
        assert share_factors(learnt, labels, other) is None
    assert share_factors(learnt[:1], labels[:1], transition) is None


def test_very_many_probabilities_take_half_the_memory(monkeypatch):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), 200)
    labels = np.where(rng.random(200) < 0.7, probs.argmax(1), rng.integers(4, size=200))
    expected = posterior(probs, labels)
    monkeypatch.setattr("jnpl.judging.posterior._MANY_NUMBERS", probs.size - 1)
    found = posterior(probs, labels)
    assert (expected.probs.dtype, found.probs.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(found.probs, expected.probs, atol=1e-5)
