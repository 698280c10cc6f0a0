"""What `jnpl find` says to people when it is done, and to programs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from jnpl import Findings
from jnpl.cli import summary
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.run_folder import RunFolder

NAMES = ["cat", "dog", "eel"]
# Quality of each label, given and suggested class: cat for dog twice, dog for eel once, a cat that nothing else is.
ROWS = [(0.1, 0, 1), (0.2, 0, 1), (0.05, 1, 2), (0.45, 0, 0), *[(0.9, label, label) for label in (0, 1, 1, 2, 2, 2)]]
RESULT = {
    "samples": 10,
    "classes": 3,
    "issues": 4,
    "noise_rate": 0.4,
    "epochs": 5,
    "seconds": 12.3,
}


def findings(rows=ROWS, **more):
    probs = np.zeros((len(rows), 3))
    for row, (quality, given, suggested) in zip(probs, rows, strict=True):
        row[:] = (1 - quality) / 2 if given == suggested else 0
        row[suggested] = 1 - quality
        row[given] = quality
    labels = [given for _, given, _ in rows]
    paths = [f"[b]{number}[/b].png" for number in range(len(rows))]  # markup that is none
    return Findings.from_probs(probs, labels, class_names=NAMES, paths=paths, **more)


@pytest.fixture
def said(tmp_path, capsys, monkeypatch):
    """Findings, results and top -> the words on the screen, in one line."""
    monkeypatch.setenv("COLUMNS", "300")

    def call(found, top=20, **results):
        found.save(tmp_path)
        summary.show({**RESULT, **results}, RunFolder(tmp_path), top)
        out, err = capsys.readouterr()
        assert err == ""
        return " ".join(out.split())

    return call


def test_the_headline_and_the_interval(said):
    told = said(findings())
    assert "4 of 10 labels look wrong: 40.0%; 3 classes, 5 epochs in 12 s" in told
    assert "overlap" not in told
    estimated = said(replace(findings(), noise=NoiseEstimate(0.35, 0.3, 0.4, overlap=0.2)))
    assert "look wrong; estimated share of wrong labels 35.0% (30.0% to 40.0% with 90 % confidence); 3" in estimated
    assert "the classes overlap: about 20% of the samples" in estimated
    assert "more than half" not in told
    assert "test accuracy" not in told
    assert "AP" not in told


def test_calibrated_issues_have_an_expected_number_of_wrong_labels(said):
    """Qualities 0.05, 0.1, 0.2 and 0.45 of the issues: 3.2 wrong labels are expected."""
    estimate = NoiseEstimate(0.35, 0.3, 0.4, overlap=0.0)
    told = said(replace(findings(), noise=estimate))
    assert "about 3 of these labels are expected to be truly wrong: look before you change them" in told
    assert told.split("[b]3[/b].png ")[1].startswith("cat unclear: cat or dog 0.45 0.28 all labels")
    likely = [(0.7, 0, 0), (0.8, 1, 1), *[(0.99, label, label) for label in (0, 1, 2)]]
    budget = replace(findings(likely, threshold="budget=2"), noise=estimate)
    told = said(budget, samples=5, issues=2, noise_rate=0.1)
    assert "2 of 5 labels to check; estimated share" in told
    assert "[b]0[/b].png cat unclear: cat or dog 0.70" in told
    assert "about 0 of these labels are expected to be truly wrong" in told


def test_without_issues_the_next_step_is_named(said, tmp_path):
    told = said(findings([(0.9, label, label) for label in (0, 1, 2)]), issues=0, noise_rate=0.0)
    assert f"to see the most doubtful ones: jnpl report {tmp_path} --budget 10" in told  # of 10 samples
    assert "jnpl review" not in told
    told = said(findings([(0.9, label, label) for label in (0, 1, 2)]), issues=0, noise_rate=0.0, samples=1000)
    assert f"jnpl report {tmp_path} --budget 20" in told


@pytest.mark.parametrize(("count", "what"), [(3, "judge"), (10, "estimate how many labels are wrong")])
def test_few_samples_are_told_before_all_other_notes(said, count, what):
    told = said(findings([(0.2, 0, 1)] * count), samples=count, issues=count)
    assert f"in 12 s only {count} samples: too few to {what}; the order is a hint more than half" in told


def test_data_with_few_different_samples(said, tmp_path):
    line = "120 samples, but only 2 different ones"
    (tmp_path / "data.json").write_text('{"samples": 120, "different_samples": 2}')
    assert line in said(findings())
    (tmp_path / "data.json").write_text('{"samples": 120, "different_samples": 13}')
    assert "different ones" not in said(findings())


def test_pairs_that_are_confused_the_most_frequent_first(said):
    told = said(findings())
    assert "most frequent mistakes: 2 labelled cat look like dog 1 labelled dog looks like eel labels to check" in told
    right = [(0.9, label, label) for label in (0, 1, 2)]
    told = said(findings(right), issues=0, noise_rate=0.0)
    assert "most frequent mistakes" not in told
    assert "labels to check first" not in told


@pytest.mark.parametrize("top", [0, 1, 3, 20])
def test_the_worst_suspects_are_as_many_as_asked(said, top):
    told = said(findings(), top=top)
    shown = [number for number in (2, 0, 1, 3) if f"[b]{number}[/b].png" in told]
    assert shown == [2, 0, 1, 3][:top]
    assert ("labels to check first" in told) == (top > 0)
    if top:
        assert "[b]2[/b].png dog eel 0.05 0.95" in told


def test_suspects_are_below_the_threshold_of_their_class(said, tmp_path):
    info = {"rule": "per-class", "value": 0.3, "reason": "so", "by_class": [0.15, 0.95, 0.5]}
    found = replace(findings(), threshold_info=info)
    assert np.flatnonzero(found.is_label_issue).tolist() == [0, 2, 5, 6]
    told = said(found, issues=4)
    shown = [number for number in range(10) if f"[b]{number}[/b].png" in told]
    assert shown == [0, 2, 5, 6]  # 1 and 3 have a lower quality than 5 and 6, but also a lower threshold
    facts = json.loads(json.dumps(summary.facts(RunFolder(tmp_path), 3)))
    assert [each["id"] for each in facts["suspects"]] == ["[b]2[/b].png", "[b]0[/b].png", "[b]5[/b].png"]
    assert facts["confused"] == [
        {"given": given, "suggested": suggested, "count": 1} for given, suggested in (("cat", "dog"), ("dog", "eel"))
    ]


def test_notes_and_what_could_not_be_read(said):
    told = said(findings(), notes=["a note", "[i]twice[/i]"], unreadable=1200)
    assert "a note [i]twice[/i] 1,200 samples could not be read and were left out: the report says why" in told
    assert "could not be read" not in said(findings())


def test_more_than_half_is_doubted(said):
    told = said(findings(ROWS[:6]))
    assert (
        "more than half of the labels look wrong: check that labels and samples belong together (order, column); if "
        "they do, train longer (--set train.epochs=100), or the threshold is too high (--threshold)"
    ) in told
    assert "more than half" in told
    told = said(findings(ROWS[:6], threshold="per-class"))
    assert "or the thresholds are too high" in told


def test_accuracies(said):
    told = said(findings(), ap=0.98765, test_accuracy=0.9, best_test_accuracy=0.95)
    assert "AP 0.988 of the ranking by label quality (true labels are known)" in told
    assert "test accuracy 0.900 after the last epoch (best epoch 0.950, chosen on the test data)" in told
    told = said(
        findings(),
        test_accuracy=0.9,
        best_test_accuracy=0.95,
        last_test_accuracy=0.85,
        test_accuracy_a=0.8,
        test_accuracy_b=1.0,
        filter_test_accuracy=0.7,
    )
    assert (
        "0.900 of the epoch chosen on the validation data (last epoch 0.850; best epoch 0.950, chosen on the test data)"
        in told
    )
    assert "mean of a 0.800, b 1.000" in told
    assert "test accuracy before training on pseudo-labels: 0.700" in told


@pytest.mark.parametrize(("cats", "told"), [(4_000, True), (3_001, True), (3_000, False)])
def test_uneven_classes(said, cats, told):
    rows = [(0.9, 0, 0)] * cats + [(0.9, 1, 1)] * 1_000  # nobody is an eel: that class is no small one
    words = said(findings(rows), issues=0)
    line = f"uneven classes: cat has {cats:,} labels, dog 1,000; --threshold per-class gives each class its own"
    assert (line in words) == told
    assert ("uneven classes" in words) == told


def test_uneven_classes_with_thresholds_of_their_own(said):
    rows = [(0.9, 0, 0)] * 8 + [(0.9, 1, 1)] * 2 + [(0.9, 2, 2)]
    words = said(findings(rows, threshold="per-class", unreadable=np.arange(11) == 8), issues=0)
    assert "uneven classes: cat has 8 labels, dog 1; each class has its own threshold" in words
    assert "--threshold" not in words


def test_where_the_rest_is(said, tmp_path):
    told = said(findings())
    assert f"all labels with their quality: {tmp_path / 'findings.csv'}" in told
    assert "report:" not in told
    (tmp_path / "report.html").touch()
    assert f"report: {tmp_path / 'report.html'}" in said(findings())


def test_what_the_data_themselves_tell(said, tmp_path):
    facts = {"held_out": [{"id": 1, "label": "cat"}] * 30, "conflicting_samples": 2}
    (tmp_path / "data.json").write_text(json.dumps(facts))
    told = said(findings(), test_accuracy=0.8, best_test_accuracy=0.8)
    assert "tested on 30 held-out samples, whose labels may also be wrong" in told
    assert "2 samples have the same content as a sample with another label: keep one label for each" in told
    assert "near" not in told
    (tmp_path / "data.json").write_text(json.dumps({**facts, "true_labels": True, "conflicting_samples": 0}))
    told = said(findings(), test_accuracy=0.8, best_test_accuracy=0.8)
    assert "held-out" not in told
    assert "another label" not in told
    (tmp_path / "data.json").write_text(json.dumps({"near_conflicting_samples": 1400, "outlier_samples": 1}))
    told = said(findings())
    assert "1,400 samples are near duplicates of a sample with another label: compare them in the report" in told
    assert "1 sample looks like nothing else: check in the report whether it belongs to the data (Outliers)" in told


def test_nothing_is_cut_in_a_pipe(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    long = [f"{'folder/' * 30}{number}.png" for number in range(len(ROWS))]
    found = replace(findings(), ids=np.array(long, object), paths=np.array(long, object))
    found.save(tmp_path)
    summary.show(RESULT, RunFolder(tmp_path), 20)
    assert f" {long[2]}  dog" in capsys.readouterr().out
