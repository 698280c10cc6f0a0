"""Figures 3, 4 and 5: curves."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.experiments.reproduce import style
from jnpl.experiments.reproduce.figures.smoothing import smooth
from jnpl.experiments.reproduce.items import SYMM60
from jnpl.experiments.reproduce.paper import DATA_NAMES, STAGES, percent
from jnpl.experiments.reproduce.variants import PL_PLUS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.paper import Setting
    from jnpl.experiments.reproduce.results import Results

# The paper's two cases: the given label is the surest class, or another is; all the others are below 1 / c.
_CASES = (
    ("the given label is the surest", 3, (0.03, 0.04, 0.05, 0.62, 0.06, 0.07, 0.03, 0.04, 0.03, 0.03)),
    ("another class is the surest", 7, (0.03, 0.04, 0.05, 0.06, 0.62, 0.07, 0.03, 0.04, 0.03, 0.03)),
)


def figure3(results: Results) -> Figure:
    """PL+: two candidates, gradients by N, accuracy by N."""
    figure = style.new(7.4, 5.6)
    a, b, c, d = style.panels(figure, 2, 2, height_ratios=[0.85, 1.15])
    for axis, tag, case in zip((a, b), ("(a)", "(b)"), _CASES, strict=True):
        _candidate(axis, tag, *case)
    _gradients(c)
    _by_n(d, results)
    return figure


def _candidate(axis: Any, tag: str, title: str, given: int, probs: tuple[float, ...]) -> None:
    surest = int(np.argmax(probs))
    colors = [style.CLEAN if k == surest else "#b8c4d6" for k in range(len(probs))]
    axis.bar(range(len(probs)), probs, color=colors, width=0.75)
    axis.axhline(1 / len(probs), color=style.NOISY, linewidth=1.2, linestyle="--")
    axis.text(len(probs) - 0.5, 1 / len(probs) + 0.015, "1/c", color=style.NOISY, fontsize=8, ha="right", va="bottom")
    style.tidy(axis, "class", "p", title, tag)
    axis.grid(False)
    labels = [{given: "y"}.get(k, "") if k != surest else ("y = ŷ" if given == surest else "ŷ") for k in range(10)]
    axis.set_xticks(range(len(probs)), labels)
    axis.set_ylim(0, 0.75)


def _gradients(axis: Any) -> None:
    p = np.linspace(0, 1, 401)
    for number, name in enumerate(PL_PLUS.values()):  # N is one less
        axis.plot(
            p,
            1 - p ** (2**number),
            color=style.LINES[number],
            linestyle=style.DASHES[number],
            label=name,
            linewidth=1.6,
        )
    style.tidy(axis, r"$p_{\hat y}$", "size of the gradient", "gradient of PL+ against CE", "(c)")
    axis.set(xlim=(0, 1), ylim=(0, 1.04))
    axis.legend(fontsize=8, frameon=False, loc="lower left")


def _by_n(axis: Any, results: Results) -> None:
    curves, drawn = results.curves(tuple(PL_PLUS), SYMM60), False
    for number, (variant, name) in enumerate(PL_PLUS.items()):
        curve = curves.get(variant)
        if curve:
            epochs = np.arange(1, len(curve) + 1)
            axis.plot(epochs, np.multiply(curve, 100), color=style.LINES[number], linewidth=0.5, alpha=0.35)
            axis.plot(
                epochs,
                100 * smooth(curve),
                color=style.LINES[number],
                linestyle=style.DASHES[number],
                linewidth=1.6,
                label=name,
            )
            drawn = True
    if not drawn:
        style.absent(axis, "Not run", "(d)", "accuracy by N")
        return
    style.tidy(axis, "epoch", "test accuracy (%)", "accuracy by N, symm 60 %", "(d)")
    axis.legend(fontsize=8, framealpha=0.85, edgecolor="none", loc="best")


def figure4(results: Results) -> Figure:
    """Accuracy over epochs: NLNL with the borders of its stages, NL+, JNPL; thin and green what is ours."""
    figure = style.new(6.4, 4.0)
    (axis,) = style.panels(figure, 1, 1)
    rows = (("nlnl", "NLNL", 0), ("nl-plus", "NL+", 1), ("jnpl", "JNPL (NL+ and PL+)", 2))
    curves = results.curves((*(row[0] for row in rows), "nl-plus-late"), SYMM60)
    drawn = [(name, number, curves[variant]) for variant, name, number in rows if variant in curves]
    late = curves.get("nl-plus-late", [])
    if not drawn and not late:
        style.absent(axis, "Not run")
        return figure
    for name, number, curve in drawn:
        epochs, color = np.arange(1, len(curve) + 1), style.LINES[number]
        axis.plot(epochs, np.multiply(curve, 100), color=color, linewidth=0.5, alpha=0.35)
        axis.plot(epochs, 100 * smooth(curve), color=color, linestyle=style.DASHES[number], linewidth=1.8, label=name)
    if late:
        axis.plot(
            np.arange(1, len(late) + 1),
            100 * smooth(late),
            color=style.LINES[3],
            linewidth=1.0,
            zorder=1.5,
            label="NL, then NL+ (not the paper's)",
        )
    style.tidy(axis, "epoch", "test accuracy (%)")
    axis.set_xlim(0, max(len(curve) for curve in [late, *(each[2] for each in drawn)]) * 1.01)
    bottom, top = axis.get_ylim()
    axis.set_ylim(bottom, top + 0.1 * (top - bottom))
    _borders(axis, results)
    # Outside: inside it would cover a curve or the name of a stage.
    figure.legend(loc="outside upper center", ncols=2, fontsize=8.5, frameon=False)
    return figure


def _borders(axis: Any, results: Results) -> None:
    """Dashed lines where NLNL goes on to its next stage, the stages named above."""
    nlnl, start = results.first("nlnl", SYMM60), 0
    for name, epochs in nlnl.borders() if nlnl is not None else []:
        if start:
            axis.axvline(start + 0.5, color=style.MUTED, linewidth=0.9, linestyle="--", zorder=1)
        shown = STAGES.get(name, name)
        axis.text(
            start + epochs / 2,
            0.985,
            shown,
            transform=axis.get_xaxis_transform(),
            ha="center",
            va="top",
            fontsize=8.5,
            color=style.MUTED,
        )
        start += epochs


def figure5(results: Results) -> Figure:
    """AP of NLNL and JNPL over the rates, by both definitions; four panels."""
    figure = style.new(7.4, 5.8)
    panels = style.panels(figure, 2, 2)
    kinds = [(part, noise) for part in ("cifar10", "cifar100") for noise in ("symm", "asymm")]
    shown: dict[str, Any] = {}
    for axis, tag, (part, noise) in zip(panels, ("(a)", "(b)", "(c)", "(d)"), kinds, strict=True):
        title = f"{_data_name(results, part)}, {noise}"
        if not _precision(axis, results, part, noise, shown):
            style.absent(axis, f"Not run: {results.missing.get(part, 'no results')}", tag, title)
            continue
        style.tidy(axis, r"noise rate $\eta$ (%)", "average precision", title, tag)
    if shown:
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return figure


def _data_name(results: Results, part: str) -> str:
    return "digits" if results.scale.stands_for.get(part) == "digits" else DATA_NAMES[part]


def _precision(axis: Any, results: Results, part: str, noise: str, shown: dict[str, Any]) -> bool:
    settings: list[Setting] = [each for each in results.scale.settings if each[0] == noise]
    shared = {each: results.shared(("nlnl", "jnpl"), each, part) for each in settings}
    lines = (("nlnl", "NLNL", style.NOISY, "s"), ("jnpl", "JNPL", style.CLEAN, "o"))
    for variant, name, color, mark in lines:
        for figure, told, dash in (("ap", "wrong labels positive", "-"), ("ap_clean", "right labels positive", "--")):
            found = [(percent(each[1]), shared[each].get(variant, [])) for each in settings]
            known = [
                (float(rate), [value for one in own if (value := one.get(figure)) is not None]) for rate, own in found
            ]
            known = [(rate, values) for rate, values in known if values]
            if not known:
                continue
            x, y = [rate for rate, _ in known], [statistics.fmean(values) for _, values in known]
            (line,) = axis.plot(
                x,
                y,
                color=color,
                linestyle=dash,
                marker=mark,
                markersize=5,
                linewidth=1.6,
                markerfacecolor=color if dash == "-" else "white",
            )
            shown.setdefault(f"{name}, {told}", line)
            for rate, values in known:
                if len(values) > 1:
                    axis.vlines(rate, min(values), max(values), color=color, linewidth=1)
            axis.set_xticks(x)
    return bool(axis.lines)
