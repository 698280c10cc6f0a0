"""Labels that a person has decided on: trained on in place of the given ones, and certain in the findings."""

from dataclasses import replace

import numpy as np
import pytest

from jnpl.data.sources.arrays import from_arrays
from jnpl.data.split import hold_out
from jnpl.internal.errors import InputError
from jnpl.judging.metrics import average_precision
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter


@pytest.fixture(scope="module")
def data():
    """300 vectors of three classes; class 0 is labelled 1 in half of the cases, which a head cannot see through."""
    random = np.random.default_rng(0)
    true = np.arange(300) % 3
    x = (random.normal(size=(3, 128))[true] + 4.0 * random.normal(size=(300, 128))).astype(np.float32)
    given = np.where((true == 0) & (random.random(300) < 0.5), 1, true)
    return replace(from_arrays(x, given, name="vectors"), true_labels=None), true


def train(source, method=None, changes=None):
    report = Reporter()
    report.quiet(True)
    return run_recipe(source, adapt_recipe(source, None, method, changes or {}).recipe, report=report)


def test_decided_labels_are_certain_and_help_the_others(data):
    source, true = data
    decided = np.where(np.arange(300) < 150, true, -1)
    plain, trusted = train(source).findings, train(replace(source, decided=decided)).findings
    known = decided >= 0
    np.testing.assert_array_equal(trusted.suggested_labels[known], true[known])
    np.testing.assert_array_equal(trusted.label_quality[known], (source.labels == true)[known])
    assert trusted.given_labels.tolist() == source.labels.tolist()
    wrong = (source.labels != true)[~known]
    one, other = (average_precision(each.label_quality[~known], wrong) for each in (plain, trusted))
    assert other > one
    right = (trusted.suggested_labels == true)[~known].mean()
    assert right > (plain.suggested_labels == true)[~known].mean()


def test_no_decision_changes_nothing(data):
    source, _ = data
    one, two = train(source).findings, train(replace(source, decided=np.full(300, -1))).findings
    np.testing.assert_array_equal(one.label_quality, two.label_quality)


def test_other_methods_learn_from_them_and_judge_the_given_labels(data):
    source, true = data
    decided = np.where(np.arange(300) < 150, true, -1)
    reviewed, fixed = replace(source, decided=decided), np.where(decided >= 0, decided, source.labels)
    result = train(reviewed, "ce", {"train.epochs": 1})
    found = result.findings
    assert found.given_labels.tolist() == source.labels.tolist()
    assert found.suggested_labels[:150].tolist() == true[:150].tolist()
    assert found.label_quality[:150].tolist() == (source.labels == true)[:150].tolist()
    learnt = train(replace(source, labels=fixed), "ce", {"train.epochs": 1})
    assert result.history[-1]["loss"] == learnt.history[-1]["loss"]  # on the decided labels


def test_a_compact_ledger_is_refused_before_the_training(data):
    source, true = data
    reviewed = replace(source, decided=np.where(np.arange(300) < 150, true, -1))
    with pytest.raises(InputError, match=r"ce with decided labels needs whole predictions .* got compact"):
        train(reviewed, "ce", {"train.epochs": 1, "verdict.keep": "compact"})


def test_held_out_samples_are_tested_by_their_decided_labels(data):
    source, true = data
    decided = np.where(np.arange(300) < 150, true, -1)
    parts = hold_out(replace(source, decided=decided), np.arange(100, 200))
    assert parts.test.labels.tolist() == [*true[100:150], *source.labels[150:200]]
    assert parts.test.decided is None
    assert parts.decided.tolist() == [*decided[:100], *decided[200:]]


def test_decisions_are_part_of_the_fingerprint(data):
    source, true = data
    assert replace(source, decided=true).fingerprint() != source.fingerprint()
