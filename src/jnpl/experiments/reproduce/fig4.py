"""Figure 4: test accuracy over epochs of NLNL, NL+ and JNPL."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jnpl.experiments import style
from jnpl.experiments.paper import STAGES
from jnpl.experiments.paper_variants import STABLE
from jnpl.experiments.reproduce import drawing
from jnpl.experiments.reproduce.experiment import (
    ACCURACY,
    NOT_ALL,
    REACHES,
    SYMM60,
    Claim,
    Experiment,
    Verdict,
    agrees_if,
    unless_even,
)
from jnpl.experiments.reproduce.fig3 import curve_notes
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns, mean_curve, smooth, start_of_pl, where
from jnpl.experiments.scales import Scale

_KNOWS = 2  # times the accuracy of chance: what has learnt nothing reaches nothing
_OVERFIT = 0.02  # of accuracy lost since the best epoch
_EARLY = 0.9  # of the accuracy that NL+ ends with: where the speed of both is compared


def _variants(scale: Scale) -> tuple[str, ...]:
    return (
        "nlnl",
        "nl-plus",
        "jnpl",
        *([STABLE] if STABLE in scale.beside else [] if scale.paper_schedule else ["nl-plus-late", "jnpl-late"]),
    )


def draw(runs: PaperRuns) -> Figure:
    """Draw accuracy over epochs: NLNL with the borders of its stages, NL+, JNPL; thinner our own variants."""
    figure = style.new(6.4, 4.0)
    (axis,) = style.panels(figure, 1, 1)
    rows = (("nlnl", "NLNL", 0), ("nl-plus", "NL+", 1), ("jnpl", "JNPL (NL+ and PL+)", 2))
    ours = {STABLE: f"{STABLE} (not the paper's)"} if STABLE in runs.scale.beside else {}
    ours |= {} if runs.scale.paper_schedule else {"nl-plus-late": "NL, then NL+ (not the paper's)"}
    curves = runs.curves((*(row[0] for row in rows), *ours), SYMM60)
    drawn = [(name, number, curves[variant]) for variant, name, number in rows if variant in curves]
    beyond = [(ours[variant], curves[variant]) for variant in ours if variant in curves]
    if not drawn and not beyond:
        style.absent(axis, "Not run")
        return figure
    for name, number, curve in drawn:
        drawing.accuracy_curve(axis, curve, number, name, 1.8)
    for name, curve in beyond:
        epochs = np.arange(1, len(curve) + 1)
        axis.plot(epochs, 100 * smooth(curve), color=style.LINES[3], linewidth=1.2, zorder=1.5, label=name)
    style.tidy(axis, "epoch", "test accuracy (%)")
    axis.set_xlim(0, max(map(len, curves.values())) * 1.01)
    bottom, top = axis.get_ylim()
    axis.set_ylim(bottom, top + 0.1 * (top - bottom))
    _borders(axis, runs)
    # Outside: inside it would cover a curve or the name of a stage.
    figure.legend(loc="outside upper center", ncols=2, fontsize=8.5, frameon=False)
    return figure


def _borders(axis: Any, runs: PaperRuns) -> None:
    """Draw dashed lines between the stages of NLNL, and their names."""
    nlnl, start = runs.first("nlnl", SYMM60), 0
    for name, epochs in nlnl.borders() if nlnl is not None else []:
        if start:
            axis.axvline(start + 0.5, color=style.MUTED, linewidth=0.9, linestyle="--", zorder=1)
        shown = STAGES.get(name, name)
        place = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top"}
        axis.text(start + epochs / 2, 0.985, shown, **place, fontsize=8.5, color=style.MUTED)
        start += epochs


def reaches(runs: PaperRuns) -> Verdict:
    """Check the accuracy of NL+ alone against NL and SelNL after as many epochs."""
    groups = runs.together(("nlnl", "nl-plus"), SYMM60)
    if not all(groups):
        return NOT_ALL
    nlnl, plus = (smooth(mean_curve(group)) for group in groups)
    selnl = sum(epochs for name, epochs in groups[0][0].borders() if name in ("nl", "selnl"))
    same = min(selnl, len(plus))
    theirs, ours, chance = nlnl[selnl - 1], plus[same - 1], 1 / groups[1][0].classes
    figures = (
        f"{where(groups[1])}: accuracy {theirs:.1%} after NL and SelNL ({selnl} epochs), {ours:.1%} after {same} of "
        f"NL+ and {plus[-1]:.1%} at its end ({len(plus)}), means of five epochs; chance {chance:.1%}."
    )
    return agrees_if(bool(ours >= max(theirs - REACHES, _KNOWS * chance)), figures)


def speeds_up(runs: PaperRuns) -> Verdict:
    """Check the mean accuracy since PL+ began, which rises with speed, of JNPL against NL+."""
    groups = runs.together(("nl-plus", "jnpl"), SYMM60)
    start = start_of_pl(groups)
    if start is None:
        return NOT_ALL
    plus, both = (mean_curve(group) for group in groups)
    target = _EARLY * float(smooth(plus)[-1])
    shown = [f"{at} epochs" if (at := epochs_to(curve, target)) is not None else "never" for curve in (plus, both)]
    means = [statistics.fmean(curve[start:]) for curve in (plus, both)]
    figures = (
        f"{where(groups[0])}: mean accuracy from epoch {start + 1} on {means[0]:.1%} with NL+ and {means[1]:.1%} with "
        f"PL+ beside it, at the end {smooth(plus)[-1]:.1%} and {smooth(both)[-1]:.1%} (means of five epochs); nine "
        f"tenths of NL+'s end, {target:.1%}, are reached after {shown[0]} and {shown[1]}."
    )
    return unless_even([means[1] - means[0]], ACCURACY, means[1] > means[0], figures)


def epochs_to(curve: Sequence[float], target: float) -> int | None:
    """The first epoch, from 1, whose smoothed accuracy is at least `target`.

    >>> epochs_to([0.1, 0.3, 0.5], 0.3), epochs_to([0.1], 0.3)
    (3, None)
    """
    reached = np.flatnonzero(smooth(list(curve)) >= target)
    return int(reached[0]) + 1 if len(reached) else None


def overtakes(runs: PaperRuns) -> Verdict:
    """Check the final accuracy of NL+ and JNPL against NLNL's and against their own best."""
    groups = runs.together(("nlnl", "nl-plus", "jnpl"), SYMM60)
    if not all(groups):
        return NOT_ALL
    nlnl, plus, both = (smooth(mean_curve(group)) for group in groups)
    texts, leads, overfits = [f"NLNL ends with {nlnl[-1]:.1%}"], [], False
    for name, curve in (("NL+", plus), ("JNPL", both)):
        texts.append(f"{name} with {curve[-1]:.1%} (its best {curve.max():.1%})")
        leads.append(float(curve[-1] - nlnl[-1]))
        overfits |= bool(curve[-1] < curve.max() - _OVERFIT)
    ahead = min(leads) >= ACCURACY and not overfits
    one = " NL+ does, JNPL does not." if leads[0] >= ACCURACY > leads[1] else ""
    return unless_even(leads, ACCURACY, ahead, f"{where(groups[0])}, means of five epochs: {', '.join(texts)}.{one}")


def notes(runs: PaperRuns, _used: Sequence[PaperRun]) -> list[str]:
    """How curves are drawn, and what else was run."""
    late = "Runs of NL that becomes NL+, with PL+, go with it and are in no picture of it."
    return [*curve_notes(runs), *([] if runs.scale.paper_schedule else [late])]


EXPERIMENT = Experiment(
    name="fig4",
    title="Figure 4: test accuracy over epochs, 60 % symmetric noise",
    claim="NL+ alone reaches NL followed by SelNL; with PL+ it is faster; both overtake NLNL and do not overfit.",
    variants=_variants,
    settings=lambda _scale: (SYMM60,),
    draw=draw,
    notes=notes,
    not_shown=("jnpl-late",),
    claims=(
        Claim(
            "reaches",
            "NL+ alone reaches the accuracy of NL followed by SelNL.",
            "After as many epochs as NL and SelNL have (at its end, if it has fewer) its test accuracy, the mean of "
            "five epochs, is at most one point below theirs, and at least twice that of chance. Only seeds that both "
            "have.",
            reaches,
        ),
        Claim(
            "speeds-up",
            "PL+ beside NL+ makes training faster.",
            "The mean accuracy from the epoch at which PL+ begins is higher with it (a difference below half a point "
            "is taken for chance). Only seeds that both have.",
            speeds_up,
        ),
        Claim(
            "overtakes",
            "NL+ and JNPL overtake NLNL in accuracy, and do not overfit.",
            "At 60 % symmetric noise both end half a point or more above NLNL's last stage, and at most two points "
            "below their own best epoch (means of five epochs). Only seeds that all three have.",
            overtakes,
        ),
    ),
)
