"""Figures of `jnpl demo`: confidence histograms, accuracy over epochs, a sheet of suspects."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.experiments import style
from jnpl.internal.terminal import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import pandas as pd
    from matplotlib.figure import Figure


def confidence_histograms(
    path: Path, qualities: Mapping[str, npt.NDArray[np.float64]], is_noisy: npt.NDArray[np.bool_], threshold: float
) -> None:
    """The paper's Figure 1: p_y of right and wrong labels, one panel per method."""
    figure = style.new(4.6 * len(qualities), 3.4)
    axes = figure.subplots(1, len(qualities), sharey=True, squeeze=False)[0]
    for axis, (name, quality) in zip(axes, qualities.items(), strict=True):
        sides = [quality[~is_noisy], quality[is_noisy]]
        names = [f"right label ({len(sides[0]):,})", f"wrong label ({len(sides[1]):,})"]
        bins = np.linspace(0, 1, 21).tolist()
        axis.hist(sides, bins=bins, stacked=True, color=[style.CLEAN, style.NOISY], label=names)
        axis.axvline(threshold, color=style.INK, linewidth=1, linestyle="--")
        axis.set_title(name, fontsize=11)
        axis.set_xlabel("label quality: mean $p_y$ of the last epochs", fontsize=9)
    axes[0].set_ylabel("samples", fontsize=9)
    axes[-1].legend(fontsize=8, framealpha=1, edgecolor="white", loc="upper center")
    _save(figure, path)


def accuracy_curves(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    """Test accuracy over epochs, one line per method; the last epoch is written beside its end."""
    figure = style.new(6.4, 3.6)
    axis = figure.subplots()
    colors = cycle([style.NOISY, style.CLEAN, "#3a923a", "#8c564b"])
    for (name, curve), color in zip(curves.items(), colors, strict=False):
        axis.plot(range(1, len(curve) + 1), curve, color=color, label=name, linewidth=1.6)
        axis.annotate(f" {curve[-1]:.1%}", (len(curve), curve[-1]), color=color, fontsize=9, va="center")
    axis.set_xlabel("epoch", fontsize=9)
    axis.set_ylabel("test accuracy", fontsize=9)
    axis.set_ylim(0, 1.02)
    longest = max(len(curve) for curve in curves.values())
    axis.set_xlim(1, 1.1 * longest)
    axis.set_xticks([tick for tick in axis.get_xticks() if 1 <= tick <= longest])
    axis.legend(fontsize=9, frameon=False, loc="lower right")
    _save(figure, path)


def suspect_sheet(path: Path, worst: pd.DataFrame, images: npt.NDArray[Any], columns: int = 8) -> None:
    """The worst suspects as images, each with its given label -> suggested label and the quality of the given one."""
    rows = -(-len(worst) // columns)
    figure = style.new(1.25 * columns, 1.75 * rows + 0.1)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, position, row in zip(axes, worst.index, worst.itertuples(), strict=False):
        axis.imshow(images[position], cmap="gray_r", interpolation="nearest")
        axis.set_title(f"{row.given_label} \N{RIGHTWARDS ARROW} {row.suggested_label}", fontsize=11, pad=3)
        axis.text(0.5, -0.04, rounded(row.label_quality), transform=axis.transAxes, ha="center", va="top", fontsize=7)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    style.save(figure, path)
