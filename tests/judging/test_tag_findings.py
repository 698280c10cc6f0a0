"""Findings on several tags per sample: what they say, and their files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jnpl.internal.errors import InputError
from jnpl.judging.noise_model import Interval
from jnpl.judging.tag_findings import TagFindings, TagNoise
from jnpl.run_folder import RunFolder

GIVEN = np.array([[True, False, False], [True, True, False], [False, False, False]])
QUALITY = np.array([[0.9, 0.25, np.nan], [0.1, 0.8, np.nan], [np.nan, np.nan, np.nan]])
BY_TAG = np.array([[0.3, 0.2, 0.4], [0.2, 0.1, 0.3], [np.nan] * 3])
NOISE = TagNoise(Interval(0.25, 0.2, 0.3), Interval(0.05, 0.0, 0.1), BY_TAG, BY_TAG / 2)


def findings(**changes):
    made = TagFindings(
        ("cat", "dog; red", "naïve,猫"),
        GIVEN,
        QUALITY,
        np.arange(3),
        np.array([0.5, 0.4, 0.5]),
        NOISE,
        unreadable=np.array([False, False, True]),
    )
    return replace(made, **changes)


def test_the_table_and_the_views_say_what_is_wrong():
    result = findings()
    assert result.table["given_tags"].tolist() == [["cat"], ["cat", "dog; red"], []]
    assert result.table["suggested_tags"].tolist() == [["cat", "dog; red"], ["dog; red"], []]
    assert result.table["is_label_issue"].tolist() == [True, True, False]
    np.testing.assert_allclose(result.sample_quality, [0.225, 0.08, np.nan], atol=1e-6)
    assert result.suspects[["position", "tag", "kind"]].values.tolist() == [
        [1, "cat", "extra"],
        [0, "dog; red", "missing"],
    ]
    assert result.missing["id"].tolist() == [0]
    assert result.extra["id"].tolist() == [1]
    assert len(result.pairs()) == 4  # those with a quality
    assert result.worst_positions(5).tolist() == [1, 0]
    assert result.summary() == {
        "samples": 3,
        "scored": 2,
        "tags": 3,
        "issues": 2,
        "missing": 1,
        "extra": 1,
        "missing_rate": 0.25,
        "extra_rate": 0.05,
        "missing_interval": [0.2, 0.3],
        "extra_interval": [0.0, 0.1],
    }
    assert result.noise_sentence == (
        "about 25.0% (20.0% to 30.0%) of the true tags are missing, "
        "and 5.0% (0.0% to 10.0%) of the given tags are extra"
    )
    assert result.tag_summary()["missing_rate"].tolist()[:2] == [0.3, 0.2]


def test_decided_pairs_are_no_issues_and_a_threshold_changes_what_is():
    decided = np.zeros((3, 3), bool)
    decided[1, 0] = True
    result = findings(decided=decided)
    assert result.suspects["position"].tolist() == [0]
    assert result.table["suggested_tags"].tolist()[1] == ["cat", "dog; red"]
    assert findings().with_threshold(0.2).suspects["position"].tolist() == [1]
    with pytest.raises(InputError, match="must be a number in"):
        findings().with_threshold(2)


@pytest.mark.parametrize("changes", [{}, {"noise": None, "thresholds": None}, {"decided": GIVEN, "unreadable": None}])
def test_what_is_saved_comes_back(tmp_path, changes):
    paths = np.array(["a.jpg", "b.jpg", "c.jpg"], object)
    for result in (findings(**changes), findings(ids=paths, paths=paths, **changes)):
        result.save(tmp_path)
        assert TagFindings.load(tmp_path) == result
        first = (tmp_path / "findings.parquet").read_bytes()
        result.save(tmp_path)
        assert (tmp_path / "findings.parquet").read_bytes() == first
    shown = pd.read_csv(tmp_path / "findings.csv", keep_default_na=False)
    assert shown["given_tags"].tolist() == ["cat", "cat|dog; red", ""]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parquet_sha256": "0"}, "is not the one that findings.json was written with"),
        ({"kind": "jnpl.findings"}, "kind 'jnpl.findings'"),
        ({"tag_names": ["cat", "cat", "dog"]}, "comes twice"),
        ({"thresholds": [0.5]}, "1 thresholds for 3 tags"),
        ({"samples": 4}, "where findings.json has 4"),
        ({"noise": {"missing": [2, 0, 1], "extra": [0, 0, 1]}}, "noise"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, change, message):
    findings().save(tmp_path)
    facts = json.loads((tmp_path / "findings.json").read_text("utf-8"))
    (tmp_path / "findings.json").write_text(json.dumps(facts | change), "utf-8")
    with pytest.raises(InputError, match=message) as error:
        TagFindings.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_run_folder_tells_tags_from_labels(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_facts({"format": "jnpl run 1", "kind": "tags"})
    folder.save_tag_findings(findings())
    assert RunFolder(tmp_path).has_tags
    assert RunFolder(tmp_path).tag_findings == findings()
    with pytest.raises(InputError, match="several tags per sample"):
        _ = RunFolder(tmp_path).findings
    with pytest.raises(InputError, match="name the folder"):
        TagFindings.load(tmp_path / "elsewhere")


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="quality must be of shape"):
        findings(quality=QUALITY[:2])
    with pytest.raises(InputError, match="must lie in"):
        findings(quality=QUALITY + 1)
