"""Claims of the classifier in the end: Tables 1 and 2."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.judges.answers import ACCURACY, NOT_ALL, REACHES, Answer, answer, parts_of, unless_even
from jnpl.experiments.reproduce.paper import METHODS, TABLE1, TABLE2, Setting, percent

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.results import Results


def best_of_table(results: Results) -> Answer:
    """How often JNPL is the best of the paper's seven methods in Table 1."""
    won, told = 0, []
    for part, where in parts_of(results).items():
        for setting in results.scale.settings:
            means = _accuracies(results, setting, part)
            if means is None:
                return NOT_ALL
            first = max(means, key=lambda variant: means[variant])
            won += first == "jnpl"
            told.append(
                f"{where}{setting[0]} {percent(setting[1])}: {METHODS[first]} {means[first]:.1f}, JNPL "
                f"{means['jnpl']:.1f}"
            )
    return answer(2 * won > len(told), f"Best in {won} of {len(told)} settings ({'; '.join(told)}).")


def _accuracies(results: Results, setting: Setting, part: str) -> dict[str, float] | None:
    """The paper's seven methods -> accuracy in percent, over the seeds that all have; None: there are none.

    A run without a classifier counts as chance.
    """
    names = tuple(TABLE1[part])
    found = {}
    for variant, own in zip(names, results.together(names, setting, part, classify=True), strict=True):
        if not own:
            return None
        values = [each.get("test_accuracy") for each in own]
        known = [1 / each.classes if value is None else value for each, value in zip(own, values, strict=True)]
        found[variant] = 100 * statistics.fmean(known)
    return found


def table_lead_grows(results: Results) -> Answer:
    """JNPL's accuracy less that of the best other method, at the lowest and the highest rate."""
    told, growth, ends = [], [], []
    for part, where in parts_of(results).items():
        for noise in ("symm", "asymm"):
            leads = {}
            for setting in (each for each in results.scale.settings if each[0] == noise):
                means = _accuracies(results, setting, part)
                if means is None:
                    return NOT_ALL
                leads[setting[1]] = means["jnpl"] - max(mean for name, mean in means.items() if name != "jnpl")
            if len(leads) < 2:
                return ("not enough data", "Two rates of each noise are needed.")
            rates = list(leads)
            growth.append((leads[rates[-1]] - leads[rates[0]]) / 100)
            ends.append(leads[rates[-1]])
            told.append(f"{where}{noise}: " + ", ".join(f"{percent(rate)} % {leads[rate]:+.1f}" for rate in rates))
    figures = "Points over the best other method, " + "; ".join(told) + "."
    return unless_even(growth, ACCURACY, min(growth) >= ACCURACY and min(ends) > 0, figures)


def clothing(results: Results) -> Answer:
    """Our JNPL on Clothing1M."""
    known = [
        value
        for each in results.of("jnpl", None, "clothing1m", classify=True)
        if (value := each.get("test_accuracy")) is not None
    ]
    if not known:
        return ("not enough data", results.missing.get("clothing1m", NOT_ALL[1]))
    ours, paper = 100 * statistics.fmean(known), TABLE2["jnpl"][1]
    return answer(ours >= paper - 100 * REACHES, f"accuracy {ours:.2f} %, in the paper {paper:.2f} %.")
