from dataclasses import replace

import numpy as np
import pytest

from jnpl import Findings
from jnpl.internal.errors import InputError
from jnpl.judging.groups import sentences, step_up
from jnpl.judging.noise_model import NoiseEstimate


def drawn(sizes, rates, seed=0, separation=2.0):
    """Findings whose qualities are exact posteriors at the overall rate, the groups, and which labels are wrong."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    wrong = random.random(len(group)) < np.asarray(rates)[group]
    score = random.normal(size=len(group)) + separation * wrong  # log-likelihood ratio: separation (x - separation / 2)
    odds = np.exp(separation * (score - separation / 2)) * wrong.mean() / (1 - wrong.mean())
    quality = 1 / (1 + odds)
    probs = np.stack([quality, 1 - quality], axis=1)
    findings = Findings.from_probs(probs, np.zeros(len(group), int), class_names=["cat", "dog"])
    rate = float(1 - findings.label_quality.mean())
    noise = NoiseEstimate(rate, rate - 0.02, rate + 0.02, 0.0)
    names = np.array([f"g{number}" for number in group], object)
    return replace(findings, noise=noise, groups={"annotator": names}), wrong, group


def test_a_bad_group_is_told():
    findings, _, _ = drawn([400, 400, 400, 20], [0.05, 0.05, 0.4, 0.05])
    table = findings.by_group("annotator").set_index("group")
    assert table.index[0] == "g2"
    assert table.loc["g2", "differs"]
    assert table.loc["g2", "noise_rate"] == pytest.approx(0.4, abs=0.08)
    assert table.loc["g0", "noise_rate"] == pytest.approx(0.05, abs=0.04)
    assert table.loc["g3", "high"] - table.loc["g3", "low"] > table.loc["g0", "high"] - table.loc["g0", "low"]
    line = next(line for line in sentences(findings) if line.startswith("annotator g2: "))
    assert "of 400 labels wrong" in line
    assert line.endswith("most often dog labelled cat")


def test_intervals_hold_in_nine_of_ten():
    hits = []
    for seed in range(40):
        random = np.random.default_rng(1000 + seed)
        sizes, rates = random.integers(15, 200, 12), random.beta(2, 12, 12)
        findings, _, _ = drawn(sizes, rates, seed)
        table = findings.by_group("annotator").set_index("group")
        for number, rate in enumerate(rates):
            hits.append(table.loc[f"g{number}", "low"] <= rate <= table.loc[f"g{number}", "high"])
    assert 0.86 <= np.mean(hits) <= 0.95  # 480 intervals: standard error 0.014


def test_no_group_differs_if_all_have_one_rate():
    told = [sentences(drawn([100] * 10, [0.1] * 10, seed)[0]) for seed in range(60)]
    assert np.mean([bool(lines) for lines in told]) <= 0.1


def test_groups_from_elsewhere_and_missing_ones():
    findings, _, _ = drawn([30, 30], [0.1, 0.1])
    names = np.array(["a"] * 20 + [None] * 20 + ["b"] * 20, object)
    assert findings.by_group(names)["samples"].tolist() == [20, 20]
    with pytest.raises(InputError, match="groups must be 60"):
        findings.by_group(["a"])
    with pytest.raises(InputError, match="no group column 'week'; there are annotator"):
        findings.by_group("week")
    with pytest.raises(InputError, match="no sample has"):
        findings.by_group([None] * 60)


def test_groups_are_saved_with_the_findings(tmp_path):
    findings, _, _ = drawn([30, 30], [0.1, 0.1])
    findings.save(tmp_path)
    loaded = Findings.load(tmp_path)
    assert loaded == findings
    assert loaded.table["group annotator"].tolist() == findings.groups["annotator"].tolist()
    assert findings.part([0, 59]).groups["annotator"].tolist() == ["g0", "g1"]


def test_step_up_takes_all_up_to_the_last_that_passes():
    assert step_up([0.01, 0.04, 0.03, 0.9], 0.05).tolist() == [True, False, False, False]
    assert step_up([0.02, 0.03, 0.037, 0.9], 0.05).tolist() == [True, True, True, False]  # the third carries the others
    assert step_up([], 0.05).tolist() == []
