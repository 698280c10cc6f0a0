"""What several figures share: histograms of p_y, and gradients on the triangle p_y + p_other <= 1."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.colors import PowerNorm

from jnpl.experiments import style
from jnpl.experiments.confidence_figures import BINS, MOST
from jnpl.experiments.reproduce.paper_runs import smooth

Floats: TypeAlias = npt.NDArray[np.float64]

_POINTS = 241  # a side of a map
_LEVELS = (0.05, 0.1, 0.2, 0.4, 0.8)
NORM = PowerNorm(0.5, 0, 1)  # one for NL and NL+: their sizes are what is compared
OWN, OTHER, OTHER_MOST = r"$p_y$", r"$p_{\overline{y}}$", r"$p_{\overline{y}_{max}}$"
POINTS_NOTE = f"Up to {MOST} points of each kind are drawn, whatever the rate, on the gradient made pale."


def nl(p_y: Floats, p_other: Floats) -> Floats:
    """Size of NL's gradient on the given label's logit (Eq. 3): p_y, p_ybar -> p_ybar p_y / (1 - p_ybar).

    >>> float(nl(np.array(0.5), np.array(0.5)))
    0.5
    """
    size: Floats = p_y * p_other / np.maximum(1 - p_other, 1e-9)
    return size


def nl_plus(p_y: Floats, p_other: Floats) -> Floats:
    """Size of NL+'s gradient on the given label's logit (Eq. 6): p_y, p_ybar -> p_ybar p_y.

    >>> float(nl_plus(np.array(0.5), np.array(0.5)))
    0.25
    """
    return p_y * p_other


def selnl(classes: int) -> Callable[[Floats, Floats], Floats]:
    """Size of SelNL's gradient: NL's, and 0 where p_y is below 1 / `classes`."""
    return lambda p_y, p_other: np.where(p_y < 1 / classes, 0.0, nl(p_y, p_other))


def gradient_map(axis: Any, size: Callable[[Floats, Floats], Floats], *, faint: bool = False) -> Any:
    """Draw the size of a gradient as colours on the triangle, with contours; `faint`: as a background for points."""
    side = np.linspace(0, 1, _POINTS)
    p_y, p_other = np.meshgrid(side, side)
    inside = p_y + p_other <= 1 + 1e-9
    values = np.where(inside, size(p_y, p_other), np.nan)
    image = axis.imshow(
        values,
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap=style.GRADIENT,
        norm=NORM,
        alpha=0.45 if faint else 1.0,
        interpolation="bilinear",
        aspect="equal",
        zorder=0,
    )
    axis.plot([0, 1, 0, 0], [0, 0, 1, 0], color=style.MUTED, linewidth=0.8, zorder=3)
    if not faint:
        drawn = axis.contour(p_y, p_other, values, levels=_LEVELS, colors=style.INK, linewidths=0.6, zorder=2)
        spots = [spot for level in _LEVELS if (spot := _on_diagonal(size, level)) is not None]
        axis.clabel(drawn, fmt="%g", fontsize=7, inline_spacing=2, manual=spots)
    axis.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    return image


def label_map(axis: Any, x: str, y: str, title: str, tag: str) -> None:
    """Set the labels of a map, without a frame around the triangle."""
    style.tidy(axis, x, y, title, tag)
    axis.grid(False)
    axis.spines[["left", "bottom"]].set_visible(False)


def _on_diagonal(size: Callable[[Floats, Floats], Floats], level: float) -> tuple[float, float] | None:
    """The point with p_y = p_other where the gradient has the size `level`; None if there is none."""
    side = np.linspace(0, 0.5, 501)
    at = int(np.searchsorted(size(side, side), level))
    return (float(side[at]), float(side[at])) if at < len(side) else None


def points(axis: Any, facts: dict[str, Any]) -> None:
    """Draw (p_y, the largest other p) of samples, wrong labels over right ones."""
    for name, color, mark in (("clean", style.CLEAN, "o"), ("noisy", style.NOISY, "^")):
        x, y = (np.array(facts[name][key]) / 1000 for key in ("p_y", "p_other"))
        axis.scatter(x, y, s=7, c=color, marker=mark, linewidths=0, alpha=0.6, zorder=4, rasterized=True)


def histogram(axis: Any, facts: dict[str, Any]) -> None:
    """Draw the histograms of p_y of right and wrong labels over each other."""
    edges = np.linspace(0, 1, BINS + 1)
    for name, color, hatch in (("clean", style.CLEAN, ""), ("noisy", style.NOISY, "////")):
        counts = facts[name]["histogram"]
        axis.stairs(counts, edges, fill=True, facecolor=f"{color}66", edgecolor=color, linewidth=0, hatch=hatch)
        axis.stairs(counts, edges, color=color, linewidth=1.4)
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1])
    axis.yaxis.set_major_locator(_whole())


def histogram_panel(axis: Any, facts: dict[str, Any] | None, title: str, y: str, tag: str = "") -> None:
    """A histogram with its labels, or a panel that says that it was not run."""
    if not facts:
        style.absent(axis, "Not run", tag, title)
        return
    histogram(axis, facts)
    style.tidy(axis, r"mean $p_y$, up to ten epochs", y, title, tag)


def line(number: int, width: float) -> dict[str, Any]:
    """Colour, dashes and width of the line of this number."""
    return {"color": style.LINES[number], "linestyle": style.DASHES[number], "linewidth": width}


def accuracy_curve(axis: Any, curve: Sequence[float], number: int, name: str, width: float) -> None:
    """Draw accuracy (E,) over epochs in percent: thin as it is, thick the mean of an epoch and up to four before it."""
    epochs = np.arange(1, len(curve) + 1)
    axis.plot(epochs, np.multiply(curve, 100), color=style.LINES[number], linewidth=0.5, alpha=0.35)
    axis.plot(epochs, 100 * smooth(curve), **line(number, width), label=name)


def colour_bar(figure: Any, image: Any, axes: list[Any]) -> None:
    """Draw the colour bar of gradient maps."""
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, pad=0.01, ticks=[0, 0.05, 0.1, 0.25, 0.5, 1])
    bar.set_label("size of the gradient", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)


def distance(facts: dict[str, Any]) -> float:
    """Mean p_y of right labels less that of wrong ones."""
    return float(facts["clean"]["mean"] - facts["noisy"]["mean"])


def even(axes: Sequence[Any], drawn: Sequence[dict[str, Any] | None]) -> None:
    """Give histograms beside each other one height."""
    most = [max(facts[name]["histogram"]) for facts in drawn if facts for name in ("clean", "noisy")]
    for axis, facts in zip(axes, drawn, strict=True):
        if facts:
            axis.set_ylim(0, 1.06 * max(most))


def key(figure: Any, *, points_too: bool = False) -> None:
    """Draw the legend above the panels: right labels blue, wrong ones orange."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 (one caller)
    from matplotlib.patches import Patch  # noqa: PLC0415

    kinds = ("right label", style.CLEAN, "o", ""), ("wrong label", style.NOISY, "^", "////")
    shown: list[Any] = [
        Line2D([], [], color=color, marker=mark, linestyle="", markersize=5)
        if points_too
        else Patch(facecolor=f"{color}66", edgecolor=color, hatch=hatch)
        for _, color, mark, hatch in kinds
    ]
    figure.legend(shown, [name for name, *_ in kinds], loc="outside upper right", ncols=2, fontsize=8, frameon=False)


def _whole() -> Any:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (one caller)

    return MaxNLocator(4, integer=True)
