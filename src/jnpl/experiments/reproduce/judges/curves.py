"""Claims of accuracy over epochs: Figures 3 and 4."""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jnpl.experiments.reproduce.figures.smoothing import smooth
from jnpl.experiments.reproduce.items import SYMM60
from jnpl.experiments.reproduce.judges.answers import ACCURACY, NOT_ALL, REACHES, Answer, answer, unless_even
from jnpl.experiments.reproduce.results import mean_curve
from jnpl.experiments.reproduce.variants import PL_PLUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.results import Result, Results

_KNOWS = 2  # times the accuracy of chance: what has learnt nothing reaches nothing
_OVERFIT = 0.02  # of accuracy lost since the best epoch
_EARLY = 0.9  # of what NL+ ends with: who is faster is told there
_IN_ORDER = 0.6  # Kendall's tau that five values in order of N are asked for


def reaches(results: Results) -> Answer:
    """NL+ alone beside NL and SelNL, after as many epochs."""
    found = results.together(("nlnl", "nl-plus"), SYMM60)
    if not all(found):
        return NOT_ALL
    nlnl, plus = (smooth(mean_curve(own)) for own in found)
    selnl = sum(epochs for name, epochs in found[0][0].borders() if name in ("nl", "selnl"))
    same = min(selnl, len(plus))
    theirs, ours, chance = nlnl[selnl - 1], plus[same - 1], 1 / found[1][0].classes
    told = (
        f"{_where(found[1])}: accuracy {theirs:.1%} after NL and SelNL ({selnl} epochs), {ours:.1%} after {same} of "
        f"NL+ and {plus[-1]:.1%} at its end ({len(plus)}), means of five epochs; chance {chance:.1%}."
    )
    return answer(bool(ours >= max(theirs - REACHES, _KNOWS * chance)), told)


def _where(own: Sequence[Result]) -> str:
    """The setting of Figures 3 and 4, and of how many seeds the means are."""
    return "symm 60" if len(own) == 1 else f"symm 60, {len(own)} seeds"


def speeds_up(results: Results) -> Answer:
    """The mean accuracy since PL+ began, which rises with speed, of JNPL and of NL+."""
    found = results.together(("nl-plus", "jnpl"), SYMM60)
    start = _begins(found)
    if start is None:
        return NOT_ALL
    plus, both = (mean_curve(own) for own in found)
    target = _EARLY * float(smooth(plus)[-1])
    shown = [f"{at} epochs" if (at := epochs_to(curve, target)) is not None else "never" for curve in (plus, both)]
    means = [statistics.fmean(curve[start:]) for curve in (plus, both)]
    told = (
        f"{_where(found[0])}: mean accuracy from epoch {start + 1} on {means[0]:.1%} with NL+ and {means[1]:.1%} with "
        f"PL+ beside it, at the end {smooth(plus)[-1]:.1%} and {smooth(both)[-1]:.1%} (means of five epochs); nine "
        f"tenths of NL+'s end, {target:.1%}, are reached after {shown[0]} and {shown[1]}."
    )
    return unless_even([means[1] - means[0]], ACCURACY, means[1] > means[0], told)


def _begins(found: Sequence[Sequence[Result]]) -> int | None:
    """The epoch at which PL+ begins in the last of these variants; None where a curve does not reach it."""
    if not found[-1]:
        return None
    start = max(each.pl_begins() for each in found[-1])
    return start if all(len(mean_curve(own)) > start for own in found) else None


def epochs_to(curve: Sequence[float], target: float) -> int | None:
    """The first epoch, from 1, whose smoothed accuracy is at least `target`.

    >>> epochs_to([0.1, 0.3, 0.5], 0.3), epochs_to([0.1], 0.3)
    (3, None)
    """
    reached = np.flatnonzero(smooth(list(curve)) >= target)
    return int(reached[0]) + 1 if len(reached) else None


def overtakes(results: Results) -> Answer:
    """Accuracy of NL+ and JNPL at the end, beside NLNL's and beside their own best."""
    found = results.together(("nlnl", "nl-plus", "jnpl"), SYMM60)
    if not all(found):
        return NOT_ALL
    nlnl, plus, both = (smooth(mean_curve(own)) for own in found)
    told, leads, overfits = [f"NLNL ends with {nlnl[-1]:.1%}"], [], False
    for name, curve in (("NL+", plus), ("JNPL", both)):
        told.append(f"{name} with {curve[-1]:.1%} (its best {curve.max():.1%})")
        leads.append(float(curve[-1] - nlnl[-1]))
        overfits |= bool(curve[-1] < curve.max() - _OVERFIT)
    ahead = min(leads) >= ACCURACY and not overfits
    return unless_even(leads, ACCURACY, ahead, f"{_where(found[0])}, means of five epochs: {', '.join(told)}.")


def larger_is_faster(results: Results) -> Answer:
    """The mean accuracy since PL+ began, which rises with speed, in order of N."""
    found = results.together(tuple(PL_PLUS), SYMM60)
    start = _begins(found)
    if start is None:
        return NOT_ALL
    means = [statistics.fmean(mean_curve(own)[start:]) for own in found]
    tau = kendall(means)
    told = ", ".join(f"{name} {mean:.1%}" for name, mean in zip(PL_PLUS.values(), means, strict=True))
    figures = f"{_where(found[0])}, mean accuracy from epoch {start + 1} on: {told}; Kendall's tau {tau:.2f}."
    return unless_even([max(means) - min(means)], ACCURACY, tau >= _IN_ORDER and means[-1] > means[0], figures)


def kendall(values: Sequence[float]) -> float:
    """Of values that should rise: 1 if all pairs do, -1 if none.

    >>> kendall([1, 2, 3]), kendall([3, 2, 1]), round(kendall([1, 3, 2]), 3)
    (1.0, -1.0, 0.333)
    """
    return float(np.mean([np.sign(later - value) for value, later in combinations(values, 2)]))
