"""Figure 5: average precision of NLNL and JNPL over the noise rates."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from jnpl.experiments import style
from jnpl.experiments.paper import DATA_NAMES, Setting, percent
from jnpl.experiments.reproduce.experiment import AP, NOT_ALL, Claim, Experiment, Verdict, parts_of, unless_even

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns


_SLOPE = 0.05  # AP for 100 %: less is none
_DEFINITIONS = {"ap": "wrong labels positive", "ap_clean": "right labels positive"}


def draw(runs: PaperRuns) -> Figure:
    """Draw AP of NLNL and JNPL over the rates, by both definitions, in four panels."""
    figure = style.new(7.4, 5.8)
    panels = style.panels(figure, 2, 2)
    kinds = [(part, noise) for part in ("cifar10", "cifar100") for noise in ("symm", "asymm")]
    shown: dict[str, Any] = {}
    for axis, tag, (part, noise) in zip(panels, ("(a)", "(b)", "(c)", "(d)"), kinds, strict=True):
        title = f"{_data_name(runs, part)}, {noise}"
        if not _precision(axis, runs, part, noise, shown):
            style.absent(axis, f"Not run: {runs.missing.get(part, 'no results')}", tag, title)
            continue
        style.tidy(axis, r"noise rate $\eta$ (%)", "average precision", title, tag)
    if shown:
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return figure


def _data_name(runs: PaperRuns, part: str) -> str:
    return "digits" if runs.scale.stands_for.get(part) == "digits" else DATA_NAMES[part]


def _precision(axis: Any, runs: PaperRuns, part: str, noise: str, shown: dict[str, Any]) -> bool:
    settings: list[Setting] = [setting for setting in runs.scale.settings if setting[0] == noise]
    shared = {setting: runs.shared(("nlnl", "jnpl", *runs.scale.beside), setting, part) for setting in settings}
    lines = [("nlnl", "NLNL", style.NOISY, "s"), ("jnpl", "JNPL", style.CLEAN, "o")]
    lines += [
        (variant, name, style.LINES[3 + number], "Dv"[number])
        for number, (variant, name) in enumerate(runs.scale.beside.items())
    ]
    for variant, name, color, mark in lines:
        for (figure, kind), dash in zip(_DEFINITIONS.items(), ("-", "--"), strict=True):
            points: dict[float, list[float]] = {}  # rate in percent -> AP of its runs
            for setting in settings:
                aps = [ap for run in shared[setting].get(variant, []) if (ap := run.get(figure)) is not None]
                points |= {float(percent(setting[1])): aps} if aps else {}
            if not points:
                continue
            means = [statistics.fmean(aps) for aps in points.values()]
            filled = {"marker": mark, "markersize": 5, "markerfacecolor": color if dash == "-" else "white"}
            (line,) = axis.plot(list(points), means, color=color, linestyle=dash, linewidth=1.6, **filled)
            shown.setdefault(f"{name}, {kind}", line)
            for rate, aps in points.items():
                if len(aps) > 1:
                    axis.vlines(rate, min(aps), max(aps), color=color, linewidth=1)
    axis.set_xticks(sorted({float(rate) for line in axis.lines for rate in line.get_xdata()}))
    return bool(axis.lines)


def _gaps(runs: PaperRuns, figure: str, part: str) -> dict[Setting, float] | None:
    """JNPL's AP less NLNL's in all settings; None where one is not known."""
    gaps = {}
    for setting in runs.scale.settings:
        pairs = zip(*runs.together(("jnpl", "nlnl"), setting, part), strict=True)
        aps = [(jnpl.get(figure), nlnl.get(figure)) for jnpl, nlnl in pairs]
        leads = [ours - theirs for ours, theirs in aps if ours is not None and theirs is not None]
        if not leads:
            return None
        gaps[setting] = statistics.fmean(leads)
    return gaps


def _range(gaps: dict[Setting, float]) -> str:
    """The least and the largest.

    >>> _range({("symm", 0.2): 0.1, ("symm", 0.4): -0.2})
    '-0.200 at symm 40 to +0.100 at symm 20'
    """
    ends = (choose(gaps, key=lambda setting: gaps[setting]) for choose in (min, max))
    return " to ".join(f"{gaps[noise, rate]:+.3f} at {noise} {percent(rate)}" for noise, rate in ends)


def filters_better(runs: PaperRuns) -> Verdict:
    """Check JNPL's lead in AP over all settings, by both definitions."""
    texts, means, most = [], [], True
    for part, where in parts_of(runs).items():
        for figure, name in _DEFINITIONS.items():
            gaps = _gaps(runs, figure, part)
            if gaps is None:
                return NOT_ALL
            ahead = sum(gap > 0 for gap in gaps.values())
            means.append(statistics.fmean(gaps.values()))
            most &= 2 * ahead > len(gaps)
            texts.append(
                f"{where}{name}: ahead in {ahead} of {len(gaps)}, {means[-1]:+.3f} on average ({_range(gaps)})"
            )
    figures = "AP of JNPL less that of NLNL, " + "; ".join(texts) + "."
    return unless_even(means, AP, most and min(means) >= AP, figures)


def lead_grows(runs: PaperRuns) -> Verdict:
    """Check the slope of the lead over the rate, for both noises and both definitions."""
    texts, slopes, ends = [], [], []
    for part, where in parts_of(runs).items():
        for figure, name in _DEFINITIONS.items():
            every = _gaps(runs, figure, part)
            if every is None:
                return NOT_ALL
            for noise in ("symm", "asymm"):
                gaps = {setting[1]: gap for setting, gap in every.items() if setting[0] == noise}
                if len(gaps) < 3:
                    return ("not enough data", "Three rates of each noise are needed.")
                rates = list(gaps)
                slopes.append(float(np.polyfit(rates, [gaps[rate] for rate in rates], 1)[0]))
                ends.append(gaps[rates[-1]])
                both = ", ".join(f"{gaps[rate]:+.3f} at {percent(rate)} %" for rate in (rates[0], rates[-1]))
                texts.append(f"{where}{noise}, {name}: {both}, slope {slopes[-1] / 10:+.3f} for every 10 %")
    agrees = min(slopes) >= _SLOPE and min(ends) > 0
    return unless_even(slopes, _SLOPE, agrees, "Lead of JNPL over NLNL in AP. " + "; ".join(texts) + ".")


def notes(_runs: PaperRuns, used: Sequence[PaperRun]) -> list[str]:
    """How several seeds are drawn."""
    if len({run.spec.seed for run in used}) > 1:
        return ["Where a setting has several seeds, a point is their mean and a line goes from least to most."]
    return []


EXPERIMENT = Experiment(
    name="fig5",
    title="Figure 5: average precision of the filters",
    claim="JNPL filters better than NLNL, and its lead grows with the noise.",
    variants=lambda scale: ("nlnl", "jnpl", *scale.beside),
    parts=("cifar10", "cifar100"),
    draw=draw,
    notes=notes,
    claims=(
        Claim(
            "filters-better",
            "JNPL filters wrong labels better than NLNL.",
            "Its AP is higher by 0.005 or more on average, and higher in more than half of the settings, by both "
            "definitions of AP (the paper has one) and on each data set.",
            filters_better,
        ),
        Claim(
            "lead-grows",
            "JNPL's lead over NLNL in AP grows with the noise.",
            "The lead rises by 0.005 or more for every 10 % (least squares) and is positive at the highest rate, "
            "for both noises, by both definitions of AP (the paper has one) and on each data set.",
            lead_grows,
        ),
    ),
)
