"""How each claim of the paper is judged: results in, whether they bear it out and the figures out."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jnpl.reproduce.figures.smoothing import smooth
from jnpl.reproduce.items import ASYMM40, FIGURE2, SYMM60, nl_of
from jnpl.reproduce.paper import METHODS, TABLE1, TABLE2, Setting, percent
from jnpl.reproduce.results import mean_curve
from jnpl.reproduce.variants import PL_PLUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.reproduce.results import Result, Results

Status = Literal["agrees", "disagrees", "no difference", "not enough data"]
_REACHES = 0.01  # an accuracy so far below another still reaches it
_PARTS_BY = 0.05  # AUC: so much more is a difference that one sees in the histograms
_SIDED = 0.6  # of labels on their side of p_y = 0.5: a filter that says the same of all has 0.5
_KNOWS = 2  # times the accuracy of chance: what has learnt nothing reaches nothing
_PARTED = 0.6  # AUC: 0.5 is chance
_OVERFIT = 0.02  # of accuracy lost since the best epoch
_NOISE = 0.005  # of accuracy: differences that chance makes
_SLOPE = 0.01  # AP for 100 %: less is none
_EARLY = 0.9  # of what NL+ ends with: who is faster is measured there
_IN_ORDER = 0.6  # Kendall's tau that five values in order of N are asked for
_SHOWN = {"nl": "NL", "selnl": "SelNL", "selpl": "SelPL", "train": "JNPL"}
_DEFINITIONS = {"ap": "wrong labels positive", "ap_clean": "right labels positive"}

Answer = tuple[Status, str]
_NOTHING: Answer = ("not enough data", "There are no results.")
_NOT_ALL: Answer = ("not enough data", "Not all runs that the rule speaks of are there.")


def _answer(agrees: bool, figures: str) -> Answer:
    return ("agrees" if agrees else "disagrees"), figures


def one_stage(results: Results) -> Answer:
    """Labels on their side of 0.5 after NLNL's three stages, and after JNPL."""
    nlnl, jnpl = results.together(("nlnl", "jnpl"), SYMM60)
    if not nlnl:
        return _NOTHING
    told, last = [], []
    for result, stages in ((nlnl[0], ("nl", "selnl", "selpl")), (jnpl[0], ("train",))):
        for stage in stages:
            right, wrong = _sides(result.stage(stage))
            told.append(f"{_SHOWN[stage]} {right:.0%} and {wrong:.0%}")
        last.append((right + wrong) / 2)
    figures = f"symm 60, right labels above p_y = 0.5 and wrong ones below: after {', '.join(told)}."
    return _answer(last[1] >= max(last[0] - _REACHES, _SIDED), figures)


def _sides(facts: dict[str, Any]) -> tuple[float, float]:
    """Shares of right labels above 0.5 and of wrong ones below."""
    right, wrong = (np.array(facts[name]["histogram"]) for name in ("clean", "noisy"))
    half = len(right) // 2
    return float(right[half:].sum() / max(right.sum(), 1)), float(wrong[:half].sum() / max(wrong.sum(), 1))


def converges(results: Results) -> Answer:
    """NL+ beside NL at the end of each: how far right and wrong labels lie apart, and how well they are ranked."""
    variant, stage = nl_of(results.scale)
    gaps, aps, told = [], [], []
    for setting in FIGURE2:
        nl, plus = results.together((variant, "nl-plus"), setting)
        if not nl:
            return _NOT_ALL
        one, other = nl[0].stage(stage), plus[0].stage()
        apart = [each["clean"]["mean"] - each["noisy"]["mean"] for each in (one, other)]
        gaps.append(apart[1] - apart[0])
        aps.append(other["ap"] - one["ap"])
        told.append(
            f"symm {percent(setting[1])}: p_y of right less that of wrong labels {apart[0]:.2f} with NL "
            f"({one['epoch']} epochs), {apart[1]:.2f} with NL+ ({other['epoch']}); AP {one['ap']:.3f} and "
            f"{other['ap']:.3f}"
        )
    return _answer(all(gap > 0 for gap in gaps) and all(ap > 0 for ap in aps), "; ".join(told) + ".")


def reaches(results: Results) -> Answer:
    """NL+ alone beside NL and SelNL."""
    nlnl, plus = results.together(("nlnl", "nl-plus"), SYMM60)
    if not nlnl:
        return _NOTHING
    theirs = statistics.fmean(each.stage("selnl")["test_accuracy"] for each in nlnl)
    ours = statistics.fmean(each.stage()["test_accuracy"] for each in plus)
    epochs = nlnl[0].stage("selnl")["epoch"], plus[0].stage()["epoch"]
    chance = 1 / plus[0].classes
    told = (
        f"{_where(plus)}: accuracy {theirs:.1%} after NL and SelNL ({epochs[0]} epochs), {ours:.1%} after NL+ "
        f"({epochs[1]}); chance {chance:.1%}."
    )
    return _answer(ours >= max(theirs - _REACHES, _KNOWS * chance), told)


def _where(own: Sequence[Result]) -> str:
    """The setting of Figures 3 and 4, and of how many seeds the means are."""
    return "symm 60" if len(own) == 1 else f"symm 60, {len(own)} seeds"


def speeds_up(results: Results) -> Answer:
    """The mean accuracy since PL+ began, which rises with speed, of JNPL and of NL+."""
    found = results.together(("nl-plus", "jnpl"), SYMM60)
    start = _begins(found)
    if start is None:
        return _NOTHING
    plus, both = (mean_curve(own) for own in found)
    target = _EARLY * float(smooth(plus)[-1])
    shown = [f"{at} epochs" if (at := epochs_to(curve, target)) is not None else "never" for curve in (plus, both)]
    means = [statistics.fmean(curve[start:]) for curve in (plus, both)]
    told = (
        f"{_where(found[0])}: mean accuracy from epoch {start + 1} on {means[0]:.1%} with NL+ and {means[1]:.1%} with "
        f"PL+ beside it, at the end {smooth(plus)[-1]:.1%} and {smooth(both)[-1]:.1%}; {target:.1%} is reached after "
        f"{shown[0]} and {shown[1]}."
    )
    return _unless_even(means, means[1] > means[0], told)


def _begins(found: Sequence[Sequence[Result]]) -> int | None:
    """The epoch at which PL+ begins in the last of these variants; None where a curve does not reach it."""
    if not found[-1]:
        return None
    start = max(each.pl_begins() for each in found[-1])
    return start if all(len(mean_curve(own)) > start for own in found) else None


def _unless_even(means: Sequence[float], agrees: bool, figures: str) -> Answer:
    """No verdict where all differences are smaller than what chance makes of them."""
    if max(means) - min(means) < _NOISE:
        return "no difference", f"{figures} Differences below half a point are taken for chance."
    return _answer(agrees, figures)


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
        return _NOTHING
    nlnl, plus, both = (smooth(mean_curve(own)) for own in found)
    told = [f"NLNL ends with {nlnl[-1]:.1%}"]
    fine = []
    for name, curve in (("NL+", plus), ("JNPL", both)):
        told.append(f"{name} with {curve[-1]:.1%} (its best {curve.max():.1%})")
        fine.append(curve[-1] > nlnl[-1] and curve[-1] >= curve.max() - _OVERFIT)
    return _answer(all(fine), f"{_where(found[0])}: {', '.join(told)}.")


def larger_is_faster(results: Results) -> Answer:
    """The mean accuracy since PL+ began, which rises with speed, in order of N."""
    found = results.together(PL_PLUS, SYMM60)
    start = _begins(found)
    if start is None:
        return _NOTHING
    means = [statistics.fmean(mean_curve(own)[start:]) for own in found]
    tau = kendall(means)
    names = ("CE", "N = 0", "N = 1", "N = 2", "N = 3")
    told = ", ".join(f"{name} {mean:.1%}" for name, mean in zip(names, means, strict=True))
    figures = f"{_where(found[0])}, mean accuracy from epoch {start + 1} on: {told}; Kendall's tau {tau:.2f}."
    return _unless_even(means, tau >= _IN_ORDER and means[-1] > means[0], figures)


def kendall(values: Sequence[float]) -> float:
    """Of values that should rise: 1 if all pairs do, -1 if none.

    >>> kendall([1, 2, 3]), kendall([3, 2, 1]), round(kendall([1, 3, 2]), 3)
    (1.0, -1.0, 0.333)
    """
    pairs = [np.sign(later - value) for at, value in enumerate(values) for later in values[at + 1 :]]
    return float(np.mean(pairs))


def _gaps(results: Results, figure: str) -> dict[Setting, float] | None:
    """JNPL's AP less NLNL's in all settings; None where one is not known."""
    found = {}
    for setting in results.scale.settings:
        pairs = zip(*results.together(("jnpl", "nlnl"), setting), strict=True)
        known = [(jnpl.get(figure), nlnl.get(figure)) for jnpl, nlnl in pairs]
        leads = [ours - theirs for ours, theirs in known if ours is not None and theirs is not None]
        if not leads:
            return None
        found[setting] = statistics.fmean(leads)
    return found


def _told(gaps: dict[Setting, float]) -> str:
    return ", ".join(f"{noise} {percent(rate)} {gap:+.3f}" for (noise, rate), gap in gaps.items())


def filters_better(results: Results) -> Answer:
    """AP over all settings, by both definitions."""
    told, fine = [], []
    for figure, name in _DEFINITIONS.items():
        gaps = _gaps(results, figure)
        if gaps is None:
            return _NOT_ALL
        ahead = sum(gap > 0 for gap in gaps.values())
        mean = statistics.fmean(gaps.values())
        fine.append(mean > 0 and 2 * ahead > len(gaps))
        told.append(f"{name}: ahead in {ahead} of {len(gaps)}, {mean:+.3f} on average ({_told(gaps)})")
    return _answer(all(fine), "AP of JNPL less that of NLNL, " + "; ".join(told) + ".")


def lead_grows(results: Results) -> Answer:
    """The slope of the lead over the rate, for both noises and both definitions."""
    told, fine = [], []
    for figure, name in _DEFINITIONS.items():
        every = _gaps(results, figure)
        if every is None:
            return _NOT_ALL
        for noise in ("symm", "asymm"):
            gaps = {setting[1]: gap for setting, gap in every.items() if setting[0] == noise}
            if len(gaps) < 3:
                return ("not enough data", "Three rates of each noise are needed.")
            rates = list(gaps)
            slope = float(np.polyfit(rates, [gaps[rate] for rate in rates], 1)[0])
            fine.append(slope > _SLOPE)
            ends = f"{gaps[rates[0]]:+.3f} at {percent(rates[0])} %, {gaps[rates[-1]]:+.3f} at {percent(rates[-1])} %"
            told.append(f"{noise}, {name}: {ends}, slope {slope / 10:+.3f} for every 10 %")
    return _answer(all(fine), "Lead of JNPL over NLNL in AP. " + "; ".join(told) + ".")


def cats_part(results: Results) -> Answer:
    """How well right and wrong labels part among the samples given the label cat."""
    nlnl, plus = results.together(("nlnl", "nl-plus"), ASYMM40)
    facts = [nlnl[0].stage("nl"), nlnl[0].stage("selnl"), plus[0].stage()] if nlnl else []
    cats = [each["cat"] for each in facts if each.get("cat") and each["cat"]["auc"] is not None]
    if len(cats) < 3:
        return _NOTHING
    nl, selnl, ours = (each["auc"] for each in cats)
    apart = [each["clean"]["mean"] - each["noisy"]["mean"] for each in cats]
    told = (
        f"asymm 40, labelled cat: a wrong label lies below a right one with probability {nl:.2f} (NL), {selnl:.2f} "
        f"(SelNL), {ours:.2f} (NL+); mean p_y of right less that of wrong ones {apart[0]:+.2f}, {apart[1]:+.2f}, "
        f"{apart[2]:+.2f}."
    )
    return _answer(ours >= max(selnl + _PARTS_BY, _PARTED) and apart[2] > apart[1], told)


def best_of_table(results: Results) -> Answer:
    """How often JNPL is the best of the paper's seven methods in Table 1."""
    won, told = 0, []
    for setting in results.scale.settings:
        means = _accuracies(results, setting)
        if means is None:
            return _NOT_ALL
        first = max(means, key=lambda variant: means[variant])
        won += first == "jnpl"
        told.append(
            f"{setting[0]} {percent(setting[1])}: {METHODS[first]} {means[first]:.1f}, JNPL {means['jnpl']:.1f}"
        )
    known = len(told)
    return _answer(2 * won > known, f"best in {won} of {known} settings ({'; '.join(told)}).")


def _accuracies(results: Results, setting: Setting) -> dict[str, float] | None:
    """The paper's seven methods -> accuracy in percent, of a run without a classifier chance; None: one has not run."""
    found = {}
    for variant in TABLE1["cifar10"]:
        own = results.of(variant, setting, classify=True)
        if not own:
            return None
        values = [each.get("test_accuracy") for each in own]
        known = [1 / each.classes if value is None else value for each, value in zip(own, values, strict=True)]
        found[variant] = 100 * statistics.fmean(known)
    return found


def table_lead_grows(results: Results) -> Answer:
    """JNPL's accuracy less that of the best other method, at the lowest and the highest rate."""
    told, fine = [], []
    for noise in ("symm", "asymm"):
        leads = {}
        for setting in results.scale.settings:
            means = _accuracies(results, setting)
            if means is None:
                return _NOT_ALL
            if setting[0] == noise:
                leads[setting[1]] = means["jnpl"] - max(mean for name, mean in means.items() if name != "jnpl")
        if len(leads) < 2:
            return ("not enough data", "Two rates of each noise are needed.")
        rates = list(leads)
        fine.append(leads[rates[-1]] > leads[rates[0]])
        told.append(f"{noise}: " + ", ".join(f"{percent(rate)} % {lead:+.1f}" for rate, lead in leads.items()))
    return _answer(all(fine), "points over the best other method, " + "; ".join(told) + ".")


def clothing(results: Results) -> Answer:
    """Our JNPL on Clothing1M."""
    known = [value for each in results.of("jnpl", None, "clothing1m", classify=True)
             if (value := each.get("test_accuracy")) is not None]  # fmt: skip
    if not known:
        return ("not enough data", results.missing.get("clothing1m", _NOTHING[1]))
    ours, paper = 100 * statistics.fmean(known), TABLE2["jnpl"][1]
    return _answer(ours >= paper - 100 * _REACHES, f"accuracy {ours:.2f} %, in the paper {paper:.2f} %.")
