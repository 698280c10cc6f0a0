"""Charts of the report: positions of bars, lines and ticks, in percent of the plot, y from the top.

A new chart is one function, from findings and log to a `Chart`, and one line in CHARTS. The template draws them all.
Lengths in percent and labels outside the SVG let a plot stretch to any screen while its texts keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jnpl.outputs.report import text

if TYPE_CHECKING:
    from jnpl.judging.findings import Findings

_BINS = 40
_MIN_HEIGHT = 0.8  # percent: a bin with one sample among a million is still visible
_MAX_LINES = 6
Lines: TypeAlias = "Sequence[dict[str, Any]]"
_MAX_VALUE = 1e30  # a larger value (a diverged loss) is not drawn


@dataclass(frozen=True)
class Tick:
    """A label on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A rectangle; `kind` ("suspect" or "kept") chooses its colour."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclass(frozen=True)
class Line:
    """A curve: `points` are those of an SVG path; `number` chooses its colour and dashes."""

    name: str
    points: str
    number: int
    last: str


@dataclass(frozen=True)
class Mark:
    """A vertical dashed line; `kind` is "threshold" or "stage", `label` is printed above it."""

    at: float
    kind: str
    label: str = ""


@dataclass(frozen=True)
class LegendEntry:
    """An entry of the legend; `kind` is that of bars, or "line-" and the number of a line."""

    kind: str
    text: str


@dataclass(frozen=True)
class Chart:
    """A chart as the template draws it; `summary` replaces it for those who cannot see it."""

    title: str
    summary: str
    x_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    legend: tuple[LegendEntry, ...]
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""  # printed below the legend
    wide: bool = False


def draw(findings: Findings, lines: Lines) -> dict[str, list[Chart]]:
    """Return the charts of each section of the page, from findings and log; a chart without data is left out."""
    return {
        section: [chart for make in charts if (chart := make(findings, lines)) is not None]
        for section, charts in CHARTS.items()
    }


CHARTS: dict[str, tuple[Callable[[Findings, Lines], Chart | None], ...]] = {
    "quality": (lambda findings, _: histogram(findings),),
    "training": (
        lambda _, lines: curves("Loss", lines, ["loss"], share=False),
        lambda _, lines: curves("Accuracy", lines, accuracy_keys(lines), share=True),
    ),
}


def histogram(findings: Findings) -> Chart | None:
    """Return the histogram of label quality, suspects and kept labels apart; None if no label has a quality."""
    scored = ~np.isnan(findings.label_quality) & ~findings.is_decided
    if not scored.any():
        return None
    issue = findings.is_label_issue
    edges = np.linspace(0, 1, _BINS + 1)
    low = np.histogram(findings.label_quality[issue], edges)[0].tolist()
    high = np.histogram(findings.label_quality[scored & ~issue], edges)[0].tolist()
    steps = steps_to(max(a + b for a, b in zip(low, high, strict=True)))
    top, width, bars = steps[-1], 100 / _BINS, []
    for number, (below, above) in enumerate(zip(low, high, strict=True)):
        total, base, span = 0, 100.0, f"quality {edges[number]:.3g} to {edges[number + 1]:.3g}"
        for kind, count in (("suspect", below), ("kept", above)):  # both in a bin with a threshold in it
            if count:
                total += count
                height = max(base - (100 - 100 * math.sqrt(total / top)), _MIN_HEIGHT)
                base -= height
                title_text = f"{span}: {text.counted(count, 'label', 'labels')}, {kind}"
                bars.append(Bar(round(number * width, 3), round(base, 3), width, round(height, 3), kind, title_text))
    suspects, kept = sum(low), sum(high)
    spread, at = threshold_span(findings), f"{findings.threshold:.3g}"
    cut = f"the threshold {at}" if spread is None else f"the threshold of their class, {spread}"
    unsure = int(np.count_nonzero(np.abs(findings.label_quality - 0.5) <= 0.4))  # nan is not
    them = text.counted(unsure, "label has", "labels have") if unsure else "No label has"
    note = f"The scale is a square root, so that few suspects can be seen. {them} a quality between 0.1 and 0.9."
    if unsure:
        note += f" The run is less sure of {'it' if unsure == 1 else 'these'}."
    return Chart(
        title="",  # that of the section
        summary=f"Histogram of label quality: {suspects:,} labels below {cut}, {kept:,} above or on it.",
        x_label="label quality",
        x_ticks=tuple(Tick(100 * x, f"{x:g}") for x in (0, 0.25, 0.5, 0.75, 1)),
        y_ticks=tuple(
            Tick(round(100 - 100 * math.sqrt(step / top), 3), f"{step:,.0f}") for step in steps if step == int(step)
        ),
        legend=(LegendEntry("suspect", f"suspects ({suspects:,})"), LegendEntry("kept", f"kept ({kept:,})")),
        bars=tuple(bars),
        marks=(Mark(round(100 * findings.threshold, 3), "threshold", f"threshold {at}"),) if spread is None else (),
        note=note,
        wide=True,
    )


def threshold_span(findings: Findings) -> str | None:
    """Return the range of the thresholds of the given classes in words; None if there is one threshold for all."""
    by_class = findings.threshold_info.get("by_class")
    if by_class is None:
        return None
    thresholds = np.array(by_class)[np.unique(findings.given_labels)]
    low, high = f"{thresholds.min():.3g}", f"{thresholds.max():.3g}"
    return f"{low} for all of them" if low == high else f"from {low} to {high}"


def curves(title: str, lines: Lines, keys: Iterable[str], *, share: bool) -> Chart | None:
    """Return the metrics called `keys` over epochs, on an axis of 0..1 if they are shares; None without values."""
    kept = first_seed(lines)
    methods = list(dict.fromkeys(map(_method, kept)))  # several in the folder of `jnpl demo`
    epochs = [_epoch(line, number) for number, line in enumerate(kept)]
    drawn: list[tuple[str, list[tuple[float, float]]]] = []
    for key in keys:
        for method in methods:
            series = [
                (epoch, float(line[key]) if is_number(line.get(key)) else math.nan)
                for epoch, line in zip(epochs, kept, strict=True)
                if _method(line) == method
            ]
            if any(not math.isnan(value) for _, value in series):
                drawn.append((text.plain(key.replace("_", " ") + method, 60), series))
    drawn = drawn[:_MAX_LINES]
    if not drawn:
        return None
    values = [value for _, series in drawn for _, value in series if not math.isnan(value)]
    steps = [0.0, 0.25, 0.5, 0.75, 1.0] if share else steps_to(max(values), min(values))
    first, last = min(epochs), max(epochs)
    x_at = _scale(first, last)
    y_at = _scale(steps[0], steps[-1])
    form = text.percent if share else _short
    made = tuple(
        Line(name, _path(series, x_at, y_at), number, form(next(v for _, v in reversed(series) if not math.isnan(v))))
        for number, (name, series) in enumerate(drawn)
    )
    stages = _stages(kept, epochs, x_at)
    another = "" if share else " Each stage has a loss of its own: a jump at a line is no failure."
    return Chart(
        title=title,
        summary=f"{title} over {text.counted(len(set(epochs)), 'epoch', 'epochs')}, at the end "
        + ", ".join(f"{line.name} {line.last}" for line in made),
        x_label="epoch",
        x_ticks=tuple(Tick(x_at(mark), f"{mark:.0f}") for mark in _marks(first, last)),
        y_ticks=tuple(
            Tick(100 - y_at(step), f"{100 * step:.0f}\N{NO-BREAK SPACE}%" if share else _short(step)) for step in steps
        ),
        legend=tuple(LegendEntry(f"line-{line.number}", f"{line.name}: {line.last}") for line in made),
        lines=made,
        marks=tuple(Mark(stage.at, "stage") for stage in stages),
        note=f"Dashed lines: {', then '.join(stage.text for stage in stages)}.{another}" if stages else "",
    )


def accuracy_keys(lines: Lines) -> list[str]:
    """Return the names of the metrics that are accuracies, in the order they first appear."""
    metrics = dict.fromkeys(key for line in lines for key, value in line.items() if is_number(value))
    return [key for key in metrics if "accuracy" in key]


def first_seed(lines: Lines) -> list[dict[str, Any]]:
    """Return the lines of the first seed, to which the findings belong, where there are several seeds."""
    return [line for line in lines if line.get("seed") == lines[0].get("seed")]


def is_number(value: object) -> bool:
    """Return whether a value is a number that can be drawn: not nan, not infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MAX_VALUE


def steps_to(high: float, low: float = 0.0) -> list[float]:
    """Return about five round numbers, evenly spaced, from at most 0 and `low` to at least `high`.

    >>> steps_to(930), steps_to(1), steps_to(0.3, -0.1)
    ([0.0, 250.0, 500.0, 750.0, 1000.0], [0.0, 0.25, 0.5, 0.75, 1.0], [-0.1, 0.0, 0.1, 0.2, 0.3])
    """
    low = min(low, 0.0)
    span = high - low if high - low > 1 / _MAX_VALUE else 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor * 4 >= span * (1 - 1e-9))
    start, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.10g}") for number in range(start, max(end, start + 1) + 1)]


def _marks(first: float, last: float) -> list[float]:
    """Return the first and the last epoch, and round ones between them that leave room for both.

    >>> _marks(1, 12), _marks(1, 1), _marks(1, 1000)
    ([1, 5, 10, 12], [1], [1, 250, 500, 750, 1000])
    """
    room = (last - first) / 12
    between = [step for step in steps_to(last) if step == int(step) and first + room < step < last - room]
    return sorted({first, *(int(step) for step in between), last})


def _scale(first: float, last: float) -> Callable[[float], float]:
    """Return a function from a value to its percentage of the way from `first` to `last`; 50 if these are equal."""
    return lambda value: 50.0 if first == last else round(100 * (value - first) / (last - first), 3)


def _path(series: Sequence[tuple[float, float]], x_at: Callable[[float], float], y_at: Callable[[float], float]) -> str:
    """Return an SVG path with a gap where a value is missing; a lone point is a line of no length, drawn as a dot."""
    parts, pen_up = [], True
    for number, (epoch, value) in enumerate(series):
        if math.isnan(value):
            pen_up = True
            continue
        spot = f"{x_at(epoch):g} {100 - y_at(value):.3f}"
        alone = pen_up and (number + 1 == len(series) or math.isnan(series[number + 1][1]))
        parts.append(f"{'M' if pen_up else 'L'}{spot}" + (f"L{spot}" if alone else ""))
        pen_up = False
    return "".join(parts)


def _stages(lines: Lines, epochs: Sequence[float], x_at: Callable[[float], float]) -> tuple[Tick, ...]:
    """Return where each stage begins; nothing if there is one stage only."""
    starts = [
        Tick(x_at(epoch), text.plain(line["stage"], 40))
        for number, (line, epoch) in enumerate(zip(lines, epochs, strict=True))
        if line.get("stage") is not None and (number == 0 or lines[number - 1].get("stage") != line["stage"])
    ]
    return tuple(starts) if len(starts) > 1 else ()


def _method(line: dict[str, Any]) -> str:
    return f", {line['method']}" if "method" in line else ""


def _epoch(line: dict[str, Any], number: int) -> float:
    """Return the number of an epoch from 1; in the log they start from 0."""
    epoch = line.get("epoch")
    return float(epoch) + 1 if isinstance(epoch, int | float) and is_number(epoch) else number + 1.0


def _short(value: float) -> str:
    return f"{value:.3g}"
