"""Findings whose labels are sets of tags."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.helpers.tag_runs import tag_findings

from jnpl.internal.errors import InputError
from jnpl.judging.tag_sets import TagSetFindings, TagSets


def test_numbers_masks_and_texts_fit_together():
    mask = np.random.default_rng(0).random((200, 11)) < 0.2
    sets = TagSets([f"tag {at}" for at in range(11)])
    numbers = sets.numbers(mask)
    assert (sets.mask(numbers) == mask).all()
    assert len(sets.sets) == len({tuple(row) for row in mask.tolist()})
    assert sets.number(np.flatnonzero(mask[7]).tolist()) == numbers[7]
    assert sets.numbers(np.zeros((0, 11), bool)).tolist() == []
    assert (sets.shown(sets.number([2, 1])), sets.shown(sets.number([]))) == ("tag 1 + tag 2", "no tag")
    for strange in ([11], [-1, 2]):
        with pytest.raises(InputError, match="there are tags 0 to 10"):
            sets.number(strange)


@pytest.mark.parametrize(
    "cells", [["cat;eel", "", "eel"], [["eel", "cat"], [], ["eel"]], ['["cat","eel"]', "[]", "eel"]]
)
def test_tags_of_tables(cells):
    sets = TagSets(("cat", "dog", "eel"))
    assert sets.read(cells, "column 'x'") == ['["cat", "eel"]', "[]", '["eel"]']
    with pytest.raises(InputError, match=r"column 'x' has the tag 'fox', which is none of the run: \['cat'"):
        sets.read([*cells[:2], "fox"], "column 'x'")


def test_findings_on_sets():
    tags = tag_findings()
    findings = TagSetFindings.of(tags)
    assert findings.is_label_issue.tolist() == tags.is_label_issue.tolist()
    assert findings.label_quality[:3].round(3).tolist() == [0.1, 0.05, tags.quality[2].min().round(3)]
    assert np.isnan(findings.label_quality[3])
    assert findings.table["given_label"].tolist()[:3] == ['["cat", "dog"]', '["eel"]', "[]"]
    assert findings.table["suggested_label"].tolist()[:3] == ['["cat"]', '["cat", "dog", "eel"]', "[]"]
    assert findings.expected_left == pytest.approx(np.nansum(1 - tags.sample_quality))
    assert findings.fingerprint == tags.fingerprint
    decided = findings.with_decisions(np.where(np.arange(24) == 1, findings.given_labels, -1))
    assert decided.pair_findings.is_decided.sum(1).tolist() == [0, 3, *[0] * 22]
    assert not decided.is_label_issue[1]
    assert TagSetFindings.of(decided.pair_findings).is_decided.tolist() == decided.is_decided.tolist()


def test_a_part_of_the_samples_has_their_tags():
    tags = tag_findings(paths=np.array([f"{at}.png" for at in range(24)]))
    findings = TagSetFindings.of(replace(tags, decided=np.arange(72).reshape(24, 3) % 5 == 0))
    part = findings.part([4, 1])
    pd.testing.assert_frame_equal(part.table, findings.table.iloc[[4, 1]].reset_index(drop=True))
    assert part.tags.paths.tolist() == ["4.png", "1.png"]
    assert part.issues_of(1) == findings.issues_of(1) == [1, 0]


def test_which_tags_are_turned_over_without_a_person():
    tags = replace(tag_findings(), noise=None)
    findings = TagSetFindings.of(tags)
    sets = lambda *args: [findings.sets.sets[at] for at in findings.turned_over(*args)[:3].tolist()]  # noqa: E731
    assert sets() == [(0,), (0, 1, 2), ()]
    assert sets(0.8) == [(0,), (1, 2), ()]
    assert sets(0.92) == [(0, 1), (1, 2), ()]
    quality = tags.quality.copy()
    quality[0, 1], quality[1, 0] = 0.451, 0.449
    findings = TagSetFindings.of(replace(tags, quality=quality))
    assert sets() == [(0, 1), (0, 1, 2), ()]  # likelier wrong than right by 0.1
    findings = TagSetFindings.of(replace(tag_findings(), quality=quality))
    assert sets() == [(0, 1), (1, 2), ()]  # not if the rate is as low as its interval allows
