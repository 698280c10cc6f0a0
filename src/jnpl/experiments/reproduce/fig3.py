"""Figure 3: PL+: two candidates, gradients by N, accuracy by N."""

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from jnpl.experiments import style
from jnpl.experiments.paper_variants import STABLE
from jnpl.experiments.reproduce import drawing
from jnpl.experiments.reproduce.experiment import ACCURACY, NOT_ALL, SYMM60, Claim, Experiment, Verdict, unless_even
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns, mean_curve, start_of_pl, where
from jnpl.experiments.scales import Scale

# Variants by their N.
PL_PLUS = {
    "jnpl-ce": "CE",
    "jnpl-n0": "N = 0",
    "jnpl-n1": "N = 1",
    "jnpl-n2": "N = 2",
    "jnpl": "N = 3",
}
# The paper's two cases: the given label is the surest class, or another is; all the others are below 1 / c.
_CASES = (
    ("the given label is the surest", 3, (0.03, 0.04, 0.05, 0.62, 0.06, 0.07, 0.03, 0.04, 0.03, 0.03)),
    ("another class is the surest", 7, (0.03, 0.04, 0.05, 0.06, 0.62, 0.07, 0.03, 0.04, 0.03, 0.03)),
)
_IN_ORDER = 0.6  # the least Kendall's tau of five values in the order of N


def _variants(scale: Scale) -> tuple[str, ...]:
    """As the paper has them and, where that is run too, in jnpl-stable."""
    return (*PL_PLUS, *_stable(scale))


def _stable(scale: Scale) -> tuple[str, ...]:
    return tuple(f"{name}-stable" for name in PL_PLUS) if STABLE in scale.beside else ()


def draw(runs: PaperRuns) -> Figure:
    """Draw two candidates of PL+, gradients by N and accuracy by N."""
    figure = style.new(7.4, 5.6)
    a, b, c, d = style.panels(figure, 2, 2, height_ratios=[0.85, 1.15])
    for axis, tag, case in zip((a, b), ("(a)", "(b)"), _CASES, strict=True):
        _candidate(axis, tag, *case)
    _gradients(c)
    _by_n(d, runs)
    return figure


def _candidate(axis: Any, tag: str, title: str, label: int, probs: tuple[float, ...]) -> None:
    surest = int(np.argmax(probs))
    colors = [style.CLEAN if k == surest else "#b8c4d6" for k in range(len(probs))]
    axis.bar(range(len(probs)), probs, color=colors, width=0.75)
    axis.axhline(1 / len(probs), color=style.NOISY, linewidth=1.2, linestyle="--")
    axis.text(len(probs) - 0.5, 1 / len(probs) + 0.015, "1/c", color=style.NOISY, fontsize=8, ha="right", va="bottom")
    style.tidy(axis, "class", "p", title, tag)
    axis.grid(False)
    labels = [{label: "y"}.get(k, "") if k != surest else ("y = ŷ" if label == surest else "ŷ") for k in range(10)]
    axis.set_xticks(range(len(probs)), labels)
    axis.set_ylim(0, 0.75)


def _gradients(axis: Any) -> None:
    p = np.linspace(0, 1, 401)
    for number, name in enumerate(PL_PLUS.values()):  # N is one less
        axis.plot(p, 1 - p ** (2**number), **drawing.line(number, 1.6), label=name)
    style.tidy(axis, r"$p_{\hat y}$", "size of the gradient", "gradient of PL+ against CE", "(c)")
    axis.set(xlim=(0, 1), ylim=(0, 1.04))
    axis.legend(fontsize=8, frameon=False, loc="lower left")


def _by_n(axis: Any, runs: PaperRuns) -> None:
    variants = _stable(runs.scale) or tuple(PL_PLUS)  # from the first step PL+ ruins the network, whatever N is
    curves = runs.curves(variants, SYMM60)
    for number, (variant, name) in enumerate(zip(variants, PL_PLUS.values(), strict=True)):
        if curve := curves.get(variant):
            drawing.accuracy_curve(axis, curve, number, name, 1.6)
    if not axis.lines:
        style.absent(axis, "Not run", "(d)", "accuracy by N")
        return
    when = STABLE if STABLE in runs.scale.beside else "symm 60 %"
    style.tidy(axis, "epoch", "test accuracy (%)", f"accuracy by N, {when}", "(d)")
    axis.legend(fontsize=8, framealpha=0.85, edgecolor="none", loc="best")


def larger_is_faster(runs: PaperRuns) -> Verdict:
    """Check that the mean accuracy since PL+ began, which rises with speed, rises with N."""
    groups = runs.together(tuple(PL_PLUS), SYMM60)
    start = start_of_pl(groups)
    if start is None:
        return NOT_ALL
    means = [statistics.fmean(mean_curve(group)[start:]) for group in groups]
    tau = kendall(means)
    texts = ", ".join(f"{name} {mean:.1%}" for name, mean in zip(PL_PLUS.values(), means, strict=True))
    figures = f"{where(groups[0])}, mean accuracy from epoch {start + 1} on: {texts}; Kendall's tau {tau:.2f}."
    return unless_even([max(means) - min(means)], ACCURACY, tau >= _IN_ORDER and means[-1] > means[0], figures)


def kendall(values: Sequence[float]) -> float:
    """Of values that should rise: 1 if all pairs do, -1 if none.

    >>> kendall([1, 2, 3]), kendall([3, 2, 1]), round(kendall([1, 3, 2]), 3)
    (1.0, -1.0, 0.333)
    """
    return float(np.mean([np.sign(later - value) for value, later in combinations(values, 2)]))


def notes(runs: PaperRuns, _used: Sequence[PaperRun]) -> list[str]:
    """What the paper does not say, and how curves are drawn."""
    stable = ["(d) is of jnpl-stable."] if STABLE in runs.scale.beside else []
    return ["The paper does not say the rate of (d): 60 % is our choice.", *stable, *curve_notes(runs)]


def curve_notes(runs: PaperRuns) -> list[str]:
    """How the curves of Figures 3 and 4 are drawn, and what PL+ is at this scale."""
    few = runs.scale.curve_images
    noted = ["Thin lines are of each epoch, thick ones means of it and up to four before it."]
    noted += [] if few is None else [f"Curves are of the first {few:,} test images."]
    if runs.scale.paper_schedule:
        return noted
    return [*noted, "PL+ begins after a third of the epochs and weighs a ninth of the paper's proportion."]


EXPERIMENT = Experiment(
    name="fig3",
    title="Figure 3: PL+",
    claim="PL+ takes samples whose other classes are all below 1/c; with a larger N it pushes sure samples more and "
    "learns faster.",
    variants=_variants,
    settings=lambda _scale: (SYMM60,),
    draw=draw,
    notes=notes,
    claims=(
        Claim(
            "larger-n",
            "PL+ with a larger N learns faster.",
            "The mean accuracy from the epoch at which PL+ begins rises from CE to N = 3: Kendall's tau is 0.6 or "
            "more, and N = 3 beats CE (if all lie within half a point, that is taken for chance). Only seeds that "
            "all five have.",
            larger_is_faster,
        ),
    ),
)
