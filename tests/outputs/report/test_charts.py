"""Charts as numbers, against counts made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jnpl import Findings
from jnpl.outputs.report import charts


def findings_of(quality, threshold=0.5):
    quality = np.asarray(quality)
    return Findings.from_probs(np.stack([quality, 1 - quality], 1), np.zeros(len(quality), int), threshold=threshold)


def test_bars_are_counts_and_part_at_the_threshold():
    quality = [0.0, 0.01, 0.02, 0.31, 0.319, 0.99, 1.0]
    chart = charts.histogram(findings_of(quality, threshold=0.315))  # inside the bin 0.3 to 0.325
    bars = {(bar.kind, round(bar.x / 100, 3)): bar for bar in chart.bars}
    assert set(bars) == {("suspect", 0.0), ("suspect", 0.3), ("kept", 0.3), ("kept", 0.975)}
    top = 3  # the largest bin; steps_to(3) ends there
    for key, count in {("suspect", 0.0): 3, ("suspect", 0.3): 1, ("kept", 0.3): 1, ("kept", 0.975): 2}.items():
        base = 1 if key == ("kept", 0.3) else 0  # on a suspect
        share = math.sqrt((base + count) / top) - math.sqrt(base / top)
        assert bars[key].height == pytest.approx(100 * share, abs=1e-3)
    low, high = bars["suspect", 0.3], bars["kept", 0.3]
    assert low.y + low.height == pytest.approx(100)  # suspects stand on the ground, the others on them
    assert high.y + high.height == pytest.approx(low.y, abs=1e-2)
    assert chart.marks == (charts.Mark(31.5, "threshold", "threshold 0.315"),)
    assert "2 labels have a quality between 0.1 and 0.9" in chart.note
    assert "4 labels below the threshold 0.315, 3 above" in chart.summary


def by_class(quality, labels, cuts):
    """Findings of binary labels with a threshold for each class."""
    quality, labels = np.asarray(quality), np.asarray(labels)
    probs = np.where(
        np.arange(len(cuts)) == labels[:, None], quality[:, None], (1 - quality[:, None]) / (len(cuts) - 1)
    )
    info = {"rule": "per-class", "value": 0.3, "reason": "one for each given class, so", "by_class": cuts}
    return replace(Findings.from_probs(probs, labels), threshold_info=info)


def test_thresholds_of_classes_are_no_line():
    found = by_class([0.05, 0.2, 0.2, 0.9], [0, 0, 1, 1], [0.1, 0.4, 0.5])  # nobody is given the third class
    chart = charts.histogram(found)
    assert chart.marks == ()
    assert "2 labels below the threshold of their class, from 0.1 to 0.4, 2 above or on it." in chart.summary
    assert {bar.kind for bar in chart.bars if bar.x == 20} == {"suspect", "kept"}  # 0.2 is both
    assert charts.threshold_span(by_class([0.2, 0.9], [0, 1], [0.5, 0.5])) == "0.5 for all of them"
    assert charts.threshold_span(findings_of([0.2])) is None


def test_ticks_are_whole_numbers_of_labels():
    assert [tick.text for tick in charts.histogram(findings_of([0.3])).y_ticks] == ["0", "1"]


def test_one_label_among_many_is_still_seen():
    chart = charts.histogram(findings_of([0.2] + [0.99] * 100_000))
    assert min(bar.height for bar in chart.bars) > 0.5


def test_no_quality_no_histogram():
    mask = np.ones(2, bool)
    assert charts.histogram(Findings.from_probs([[0.5, 0.5]] * 2, [0, 1], unreadable=mask)) is None


@given(st.floats(1e-6, 1e12))
def test_steps_cover_what_is_drawn(high):
    steps = charts.steps_to(high)
    assert steps[0] == 0
    assert steps[-1] >= high * (1 - 1e-9)
    assert 2 <= len(steps) <= 6
    assert np.allclose(np.diff(steps), steps[1])


@pytest.mark.parametrize("value", [0, 5e-324, 1e29])
def test_steps_of_odd_values(value):
    assert charts.steps_to(value)[-1] >= value


def points(path):
    """The path's pieces as lists of (x, y)."""
    pieces = path.split("M")[1:]
    return [[tuple(map(float, spot.split())) for spot in piece.split("L")] for piece in pieces]


def test_a_curve_goes_through_its_values():
    lines = [{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": 0.5}, {"epoch": 4, "loss": 0.0}]
    chart = charts.curves("Loss", lines, ["loss"], share=False)
    assert points(chart.lines[0].points) == [[(0, 0), (25, 50), (100, 100)]]
    assert [tick.text for tick in chart.x_ticks][:1] == ["1"]
    assert [tick.text for tick in chart.x_ticks][-1:] == ["5"]
    assert [(tick.at, tick.text) for tick in chart.y_ticks][::4] == [(100, "0"), (0, "1")]
    assert chart.summary == "Loss over 3 epochs, at the end loss 0"


def test_missing_values_are_gaps_and_a_lone_one_a_dot():
    losses = [1.0, math.nan, 0.5, None, 0.25, 0.125, math.inf, "bad", 10**400]
    lines = [{"epoch": number, "loss": loss} for number, loss in enumerate(losses)]
    chart = charts.curves("Loss", lines, ["loss"], share=False)
    pieces = points(chart.lines[0].points)
    assert [len(piece) for piece in pieces] == [2, 2, 2]
    assert pieces[0][0] == pieces[0][1]
    assert pieces[1][0] == pieces[1][1]
    assert pieces[2][0] != pieces[2][1]
    assert chart.lines[0].last == "0.125"


def test_one_epoch_is_a_dot_in_the_middle():
    chart = charts.curves("Accuracy", [{"epoch": 0, "test_accuracy": 0.5}], ["test_accuracy"], share=True)
    assert points(chart.lines[0].points) == [[(50, 50), (50, 50)]]
    assert [tick.text for tick in chart.x_ticks] == ["1"]
    assert [tick.text for tick in chart.y_ticks] == [f"{step}\N{NO-BREAK SPACE}%" for step in (0, 25, 50, 75, 100)]


def test_stages_and_several_methods():
    lines = [{"epoch": number, "stage": "nl" if number < 2 else "selnl", "loss": 1.0} for number in range(4)]
    chart = charts.curves("Loss", lines, ["loss"], share=False)
    assert chart.note == (
        "Dashed lines: nl, then selnl. Each stage has a loss of its own: a jump at a line is no failure."
    )
    assert chart.marks[1].at == pytest.approx(200 / 3, abs=1e-3)
    lines = [
        {"seed": seed, "method": method, "epoch": epoch, "test_accuracy": 0.5 + seed / 10}
        for seed in (3, 4)
        for method in ("ce", "jnpl")
        for epoch in (0, 1)
    ]
    chart = charts.curves("Accuracy", lines, charts.accuracy_keys(lines), share=True)
    assert [line.name for line in chart.lines] == ["test accuracy, ce", "test accuracy, jnpl"]
    assert {line.last for line in chart.lines} == {"80.0\N{NO-BREAK SPACE}%"}
    assert chart.marks == ()


def test_nothing_to_draw():
    assert charts.curves("Loss", [], ["loss"], share=False) is None
    assert charts.curves("Loss", [{"epoch": 0, "loss": math.nan}], ["loss"], share=False) is None
    assert charts.accuracy_keys([{"test_accuracy": "?", "validation_accuracy": 0.5, "loss": 1}]) == [
        "validation_accuracy"
    ]
