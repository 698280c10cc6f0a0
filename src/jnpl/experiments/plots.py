"""AP against CPU seconds, from the results of `jnpl bench`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from jnpl.experiments import style
from jnpl.experiments.variants import BENCH

if TYPE_CHECKING:
    from jnpl.experiments.result_tables import Result

_COLORS = ("#e1812c", "#2f6db5", "#3a923a", "#c03d3e", "#9372b2", "#845b53", "#d684bd", "#7f7f7f", "#a9aa35", "#2eabb8")
_STYLES = ("-", ":", "-.")  # when colours come again
_ACROSS = 4  # panels


def ap_against_time(path: Path, results: Sequence[Result]) -> None:
    """Draw a panel for each setting and a line for each variant, the mean over seeds; dashed, the best epoch of ce."""
    ranked = [result for result in results if result.facts.get("ap") is not None]
    settings = list(dict.fromkeys(result.setting for result in ranked))
    if not settings:
        return
    across = min(_ACROSS, len(settings))
    down = -(-len(settings) // across)
    figure = style.new(3.6 * across, 2.9 * down + 0.5)
    panels = style.panels(figure, down, across)
    shown: dict[str, Any] = {}
    for panel, setting in zip(panels, settings, strict=False):
        _panel(panel, setting, [result for result in ranked if result.setting == setting], shown)
    for panel in panels[len(settings) :]:
        panel.set_visible(False)
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    style.save(figure, path)


def _panel(panel: Any, setting: str, results: Sequence[Result], shown: dict[str, Any]) -> None:
    for number, variant in enumerate(BENCH):
        runs = [result.facts for result in results if result.spec.variant == variant]
        if not runs:
            continue
        color, dash = _COLORS[number % len(_COLORS)], _STYLES[number // len(_COLORS) % len(_STYLES)]
        length = min(len(facts["ap_curve"]) for facts in runs)
        seconds, aps = (
            np.mean([facts[name][:length] for facts in runs], axis=0) for name in ("curve_seconds", "ap_curve")
        )
        (line,) = panel.plot(
            seconds, aps, color=color, linestyle=dash, linewidth=1.5, marker="o" if length == 1 else None
        )
        shown.setdefault(variant, line)
        if variant == "ce":
            peak = float(np.mean([facts["ap_peak"] for facts in runs]))
            shown.setdefault("ce, best epoch", panel.axhline(peak, color=color, linewidth=1, linestyle="--"))
    panel.set_xscale("log")  # a cross-validation takes five times as long
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_title(setting, fontsize=10)
    panel.set_xlabel("CPU seconds", fontsize=8)
    panel.set_ylabel("AP", fontsize=8)
    panel.tick_params(labelsize=8)
