"""Claims of how well right and wrong labels part: Figures 1, 2, 5 and 6."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.experiments.reproduce.items import ASYMM40, FIGURE2, SYMM60, nl_of
from jnpl.experiments.reproduce.judges.answers import AP, NOT_ALL, REACHES, Answer, answer, parts_of, unless_even
from jnpl.experiments.reproduce.paper import STAGES, Setting, percent

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.results import Results

_SIDED = 0.6  # of labels on their side of p_y = 0.5: a filter that says the same of all has 0.5
_APART = 0.01  # of p_y: less is none
_PARTS_BY = 0.05  # AUC: so much more is a difference that one sees in the histograms
_PARTED = 0.6  # AUC: 0.5 is chance
_SLOPE = 0.05  # AP for 100 %: less is none
_DEFINITIONS = {"ap": "wrong labels positive", "ap_clean": "right labels positive"}


def one_stage(results: Results) -> Answer:
    """Labels on their side of 0.5 after NLNL's three stages, and after JNPL."""
    nlnl, jnpl = results.together(("nlnl", "jnpl"), SYMM60)
    if not nlnl:
        return NOT_ALL
    told, sided = [], {}
    for own, stages in ((nlnl, STAGES), (jnpl, {"train": "JNPL"})):
        for stage, name in stages.items():
            right, wrong = np.mean([sides(each.stage(stage)) for each in own], axis=0)
            told.append(f"{name} {right:.0%} and {wrong:.0%}")
            sided[name] = float(right + wrong) / 2
    figures = (
        f"symm 60, {len(nlnl)} seed{'' if len(nlnl) == 1 else 's'}, right labels above p_y = 0.5 and wrong ones below: "
        f"after {', '.join(told)}; the mean of both is {sided['SelPL']:.1%} after SelPL, {sided['JNPL']:.1%} with JNPL."
    )
    return answer(sided["JNPL"] >= max(sided["SelPL"] - REACHES, _SIDED), figures)


def sides(facts: dict[str, Any]) -> tuple[float, float]:
    """Shares of right labels above 0.5 and of wrong ones below."""
    right, wrong = (np.array(facts[name]["histogram"]) for name in ("clean", "noisy"))
    half = len(right) // 2
    return float(right[half:].sum() / max(right.sum(), 1)), float(wrong[:half].sum() / max(wrong.sum(), 1))


def _apart(facts: dict[str, Any]) -> float:
    """Mean p_y of right less that of wrong labels."""
    return float(facts["clean"]["mean"] - facts["noisy"]["mean"])


def converges(results: Results) -> Answer:
    """NL+ beside NL at the end of each: how far right and wrong labels lie apart, and how well they are ranked."""
    variant, stage = nl_of(results.scale)
    gaps, aps, told = [], [], []
    for setting in FIGURE2:
        nl, plus = results.together((variant, "nl-plus"), setting)
        if not nl:
            return NOT_ALL
        one, other = nl[0].stage(stage), plus[0].stage()
        gaps.append(_apart(other) - _apart(one))
        aps.append(other["ap"] - one["ap"])
        told.append(
            f"symm {percent(setting[1])}: p_y of right less that of wrong labels {_apart(one):.2f} with NL "
            f"({one['epoch']} epochs), {_apart(other):.2f} with NL+ ({other['epoch']}); AP {one['ap']:.3f} and "
            f"{other['ap']:.3f}"
        )
    ahead = min(gaps) >= _APART and min(aps) >= AP
    # Both margins in one: what is below its own is below 1.
    differences = [each / _APART for each in gaps] + [each / AP for each in aps]
    further, higher = sum(gap >= _APART for gap in gaps), sum(ap >= AP for ap in aps)
    shown = f"Further apart in {further} of {len(gaps)}, a higher AP in {higher}."
    return unless_even(differences, 1.0, ahead, f"{'; '.join(told)}. {shown}")


def _gaps(results: Results, figure: str, part: str) -> dict[Setting, float] | None:
    """JNPL's AP less NLNL's in all settings; None where one is not known."""
    found = {}
    for setting in results.scale.settings:
        pairs = zip(*results.together(("jnpl", "nlnl"), setting, part), strict=True)
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
    told, means, most = [], [], True
    for part, where in parts_of(results).items():
        for figure, name in _DEFINITIONS.items():
            gaps = _gaps(results, figure, part)
            if gaps is None:
                return NOT_ALL
            ahead = sum(gap > 0 for gap in gaps.values())
            means.append(statistics.fmean(gaps.values()))
            most &= 2 * ahead > len(gaps)
            told.append(f"{where}{name}: ahead in {ahead} of {len(gaps)}, {means[-1]:+.3f} on average ({_told(gaps)})")
    figures = "AP of JNPL less that of NLNL, " + "; ".join(told) + "."
    return unless_even(means, AP, most and min(means) >= AP, figures)


def lead_grows(results: Results) -> Answer:
    """The slope of the lead over the rate, for both noises and both definitions."""
    told, slopes, ends = [], [], []
    for part, where in parts_of(results).items():
        for figure, name in _DEFINITIONS.items():
            every = _gaps(results, figure, part)
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
                told.append(f"{where}{noise}, {name}: {both}, slope {slopes[-1] / 10:+.3f} for every 10 %")
    agrees = min(slopes) >= _SLOPE and min(ends) > 0
    return unless_even(slopes, _SLOPE, agrees, "Lead of JNPL over NLNL in AP. " + "; ".join(told) + ".")


def cats_part(results: Results) -> Answer:
    """How well right and wrong labels part among the samples given the label cat."""
    nlnl, plus = results.together(("nlnl", "nl-plus"), ASYMM40)
    facts = [nlnl[0].stage("nl"), nlnl[0].stage("selnl"), plus[0].stage()] if nlnl else []
    cats = [each["cat"] for each in facts if each.get("cat") and each["cat"]["auc"] is not None]
    if len(cats) < 3:
        return NOT_ALL
    nl, selnl, ours = (each["auc"] for each in cats)
    apart, right = [_apart(each) for each in cats], [each["clean"]["mean"] for each in cats]
    told = (
        f"asymm 40, labelled cat: a wrong label lies below a right one with probability {nl:.2f} (NL), {selnl:.2f} "
        f"(SelNL), {ours:.2f} (NL+); mean p_y of right ones {right[0]:.2f}, {right[1]:.2f}, {right[2]:.2f}, less that "
        f"of wrong ones {apart[0]:+.2f}, {apart[1]:+.2f}, {apart[2]:+.2f}."
    )
    parts = ours >= max(selnl + _PARTS_BY, _PARTED) and apart[2] > apart[1]
    return answer(parts and selnl < nl + _PARTS_BY, told)
