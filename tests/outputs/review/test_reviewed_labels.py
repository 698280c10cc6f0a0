"""What decisions mean for labels, in this run and in the next one."""

import numpy as np
import pytest

from jnpl import Findings
from jnpl.data.label_files import WithoutLabel
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError
from jnpl.outputs.review.decisions import NewDecision, open_store
from jnpl.outputs.review.reviewed_labels import reviewed_run, with_review
from jnpl.run_folder import RunFolder


def decide(run, *made):
    store = open_store(RunFolder(run))
    store.decide([NewDecision(*decision) for decision in made], reviewer="Ann", tab="one")
    store.close()


def test_what_the_decisions_mean_for_labels(make_run):
    run = make_run()
    findings = Findings.load(run)
    assert not reviewed_run(RunFolder(run)).has_decisions
    decide(run, (0, "keep"), (1, "relabel", 3), (2, "drop"), (4, "unsure"))
    reviewed = reviewed_run(RunFolder(run))
    codes = [findings.given_labels[0], 3, WithoutLabel.DROP.value, -1, WithoutLabel.UNSURE.value]
    assert reviewed.decisions[:5].tolist() == codes
    assert (reviewed.decided, reviewed.has_decisions) == (3, True)


def test_a_source_with_the_decisions(make_run):
    run = make_run(samples=60)
    findings = Findings.load(run)
    decide(run, (0, "keep"), (1, "relabel", 3), (2, "drop"))
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    names = [findings.class_names[label] for label in findings.given_labels]
    source = from_arrays(x, names, name="animals")
    seen = with_review(source, run)
    assert seen.ids.tolist() == [0, 1, *range(3, 60)]
    assert seen.labels.tolist() == np.delete(source.labels, 2).tolist()  # the given ones stay
    assert seen.decided[:3].tolist() == [findings.given_labels[0], 3, -1]
    assert seen.fingerprint() != source.fingerprint()


def test_a_run_without_a_review_or_with_other_data(make_run):
    run = make_run(samples=60)
    source = from_arrays(np.zeros((2, 3), np.float32), ["cat", "dog"], name="two")
    with pytest.raises(InputError, match="has no decisions"):
        with_review(source, run)
    open_store(RunFolder(run)).close()
    with pytest.raises(InputError, match="has a class 'eel' that two has not"):
        with_review(source, run)
