"""Tables of the report, against counts in plain Python."""

import base64
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.tag_runs import tag_findings

from jnpl import Findings
from jnpl.internal.pictures import encoded
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.outputs.report import page_tables
from jnpl.run_folder import DataFacts, TableRows

NAMES = ["cat", "dog", "eel"]


@pytest.fixture
def findings():
    random = np.random.default_rng(0)
    probs = random.dirichlet([0.4] * 3, 200)
    return Findings.from_probs(probs, random.integers(0, 3, 200), class_names=NAMES)


def test_confused_pairs(findings):
    table = findings.table
    moved = table[table.is_label_issue & ~table.is_unclear]
    counts = Counter(zip(moved.given_label, moved.suggested_label, strict=True))
    pairs = page_tables.confused_pairs(findings, NAMES, 10)
    assert {(pair.given, pair.suggested): pair.count for pair in pairs} == counts
    assert [pair.count for pair in pairs] == sorted(counts.values(), reverse=True)
    assert pairs[0].bar == 100
    for pair in pairs:
        assert pair.share == pytest.approx(pair.count / (table.given_label == pair.given).sum())
    assert page_tables.confused_pairs(findings, NAMES, 2) == pairs[:2]


def test_the_heat_map_has_true_classes_in_rows(findings):
    rows = page_tables.heat_map(findings, NAMES)
    matrix = findings.transition_matrix
    largest = max(matrix[i, j] for i in range(3) for j in range(3) if i != j)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            assert cell["is_diagonal"] == (i == j)
            assert cell["heat"] == pytest.approx(matrix[i, j] / (1 if i == j else largest), abs=1e-3)
            assert cell["title"].startswith(f"{NAMES[i]} labelled {NAMES[j]}: ")
    assert max(cell["heat"] for row in rows for cell in row if not cell["is_diagonal"]) == 1


def test_rare_mistakes_are_pale():
    labels = np.arange(200) % 2
    probs = np.where(labels[:, None] == [0, 1], 0.9, 0.1)
    labels[0] = 1  # 1 of 100
    rows = page_tables.heat_map(Findings.from_probs(probs, labels), ["a", "b"])
    assert rows[0][1]["heat"] == pytest.approx(0.1)


def test_classes_by_their_share_of_suspects(findings):
    rows = page_tables.classes(findings, NAMES)
    assert [row["rate"] for row in rows] == sorted((row["rate"] for row in rows), reverse=True)
    table = findings.table
    for row in rows:
        own = table[table.given_label == row["name"]]
        assert (row["count"], row["issues"]) == (len(own), own.is_label_issue.sum())
        assert row["quality"] == pytest.approx(own.label_quality.mean())
        others = Counter(own[own.is_label_issue & (own.suggested_label != row["name"])].suggested_label)
        assert others[row["most_suggested"]] == max(others.values())


def test_a_class_of_nobody_has_no_quality():
    row = page_tables.classes(Findings.from_probs([[0.9, 0.1]], [0]), ["0", "1"])[1]
    assert (row["count"], row["issues"], row["most_suggested"]) == (0, 0, None)
    assert np.isnan(row["quality"])


def test_suspects_worst_first_with_what_is_known_of_them(findings):
    worst = findings.worst(int(findings.is_label_issue.sum()))
    position = int(worst.index[1])
    picture = encoded(np.zeros((4, 4, 1), np.uint8), 96)
    columns = TableRows(names=["length", "text"], rows={position: [1.23456, "two\nlines"]})
    found = page_tables.suspects(findings, NAMES, {position: picture}, DataFacts(columns=columns))[0]
    assert [each.id for each in found] == [str(name) for name in worst.id]
    assert [each.quality for each in found] == worst.label_quality.tolist()
    assert [each.given for each in found] == worst.given_label.tolist()
    assert [each.suggested for each in found] == worst.suggested_label.tolist()
    assert [each.values for each in found[:2]] == [("\N{EN DASH}", "\N{EN DASH}"), ("1.235", "two lines")]
    assert [each.picture is None for each in found[:3]] == [True, False, True]
    assert base64.b64decode(found[1].picture.removeprefix("data:image/png;base64,")) == picture


def test_the_worst_are_issues_first(findings):
    some = np.arange(200) < 150
    blind = Findings.from_probs(np.full((200, 3), 1 / 3), findings.given_labels, unreadable=some)
    for found in (findings, blind):
        for most in (0, 7, 200):
            assert found.worst_positions(most).tolist() == found.worst(most).index.tolist()
    info = {**findings.threshold_info, "rule": "per-class", "by_class": [0.05, 0.3, 0.6]}
    uneven = replace(findings, threshold_info=info)
    table = uneven.table
    assert not uneven.worst(table.is_label_issue.sum()).is_label_issue.all()  # quality alone is not enough
    issues = table[table.is_label_issue].sort_values("label_quality", kind="stable")
    found = page_tables.suspects(uneven, NAMES, {}, DataFacts())[0]
    assert [each.id for each in found] == [str(name) for name in issues.id]
    assert sorted(uneven.worst_positions(200)) == list(range(200))


def test_only_pictures_and_only_so_many_bytes_go_into_the_page(findings, monkeypatch):
    positions = findings.worst(4).index.tolist()
    png = encoded(np.zeros((4, 4, 1), np.uint8), 96)
    pictures = dict(zip(positions, [b"<svg onload=alert(1)>", png, b"", png], strict=True))
    shown = [each.picture is not None for each in page_tables.suspects(findings, NAMES, pictures, DataFacts())[0][:4]]
    assert shown == [False, True, False, True]
    monkeypatch.setattr(page_tables, "_MAX_PICTURE_BYTES", 150)
    shown = [each.picture is not None for each in page_tables.suspects(findings, NAMES, pictures, DataFacts())[0][:4]]
    assert shown == [False, True, False, False]


def test_a_suspect_is_shown_beside_samples_that_surely_have_either_class(findings):
    first, second = findings.worst(2).index.tolist()
    given, suggested = int(findings.given_labels[first]), int(findings.suggested_labels[first])
    third = ({0, 1, 2} - {given, suggested}).pop()
    picture = encoded(np.zeros((4, 4, 1), np.uint8), 96)
    facts = DataFacts(
        evidence={first: {suggested: 5, given: 7, third: 9}, second: {int(findings.given_labels[second]): 7}}
    )
    suspects, pictures = page_tables.suspects(findings, NAMES, {7: picture}, facts)
    shown = [(each.id, each.label, each.is_given, each.number) for each in suspects[0].examples]
    assert shown == [("7", NAMES[given], True, 0), ("5", NAMES[suggested], False, None)]  # not of the third class
    assert [each.number for each in suspects[1].examples] == [0]
    assert len(pictures) == 1  # both show it
    is_decided = np.isin(np.arange(200), [5, 7])
    labels = np.where(is_decided, third, findings.suggested_labels)
    suspects, _ = page_tables.suspects(replace(findings, decided=is_decided, suggested_labels=labels), NAMES, {}, facts)
    assert suspects[0].examples == ()  # somebody has decided otherwise


def test_wide_tables_are_cut():
    names, hidden = page_tables.column_names(TableRows(names=[f"c{i}" for i in range(64)], rows={}))
    assert (names[0], len(names), hidden) == ("c0", 12, 52)
    assert page_tables.column_names(None) == ([], 0)


def test_the_log_as_a_table():
    lines = [{"epoch": number, "loss": 1 / (number + 1), "test_accuracy": 0.5} for number in range(1000)]
    names, rows = page_tables.epochs(lines)
    assert names == ["epoch", "loss", "test accuracy"]
    assert (len(rows), rows[0], rows[-1]) == (100, ["1", "1", "0.5"], ["1000", "0.001", "0.5"])
    assert page_tables.epochs([]) == ([], [])


def test_the_filters_of_tags_leave_out_suspects_without_an_open_tag():
    tags = tag_findings()
    found = TagSetFindings.of(replace(tags, decided=tags.is_issue & (np.arange(24) == 0)[:, None]))
    assert found.is_label_issue[0]
    assert not found.issues_of(0)
    made, _ = page_tables.suspects(found, page_tables.printable_names(found), {}, DataFacts(evidence={0: {9: 5}}))
    assert [suspect.key("given") for suspect in made if suspect.id == "0"] == [""]
    assert page_tables.filter_options(made, "given", found) == []
    assert page_tables.filter_options(made, "suggested", found) == [(0, "cat", 1), (1, "dog", 1)]
