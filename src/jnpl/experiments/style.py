"""One style for all figures: colours that colour-blind readers can tell apart, sizes, panels, formats."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from jnpl.internal.files import replacing

CLEAN, NOISY, INK, MUTED, GRID = "#2f6db5", "#e1812c", "#222222", "#6b6b6b", "#e3e3e3"  # the paper's blue and orange
LINES = ("#000000", "#2f6db5", "#e1812c", "#009e73", "#cc79a7", "#56b4e9")  # after Okabe and Ito
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)))
GRADIENT = LinearSegmentedColormap.from_list("gradient", ["#ffffff", "#d9d4e7", "#a59ac9", "#6a51a3", "#3f007d"])
FORMATS = ("png", "svg")
_DPI = 150
_RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "path",
    "svg.hashsalt": "jnpl",
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def new(width: float, height: float) -> Figure:
    """An empty figure of so many inches, without pyplot's global state."""
    with rc_context(_RC):
        figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        return figure


def panels(figure: Any, rows: int, columns: int, **options: Any) -> list[Any]:
    """Axes in reading order."""
    with rc_context(_RC):
        return list(np.ravel(figure.subplots(rows, columns, squeeze=False, **options)))


def tidy(axis: Any, x: str, y: str, title: str = "", tag: str = "") -> None:
    """Set labels, a light experiment and no box; `tag` is the paper's (a), (b), ..."""
    axis.set_xlabel(x, fontsize=9)
    axis.set_ylabel(y, fontsize=9)
    axis.set_title(f"{tag} {title}".strip(), fontsize=9.5, pad=5)
    axis.tick_params(labelsize=8, length=3, width=0.8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)
    axis.grid(True, color=GRID, linewidth=0.6)


def absent(axis: Any, reason: str, tag: str = "", title: str = "") -> None:
    """Turn a panel into a note about what is missing."""
    axis.set_title(f"{tag} {title}".strip(), fontsize=9.5, pad=5)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for spine in axis.spines.values():
        spine.set(color=GRID, visible=True)
    words, lines = reason.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 34 and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    axis.text(0.5, 0.5, "\n".join(lines), transform=axis.transAxes, ha="center", va="center", fontsize=8, color=MUTED)


def foot(figure: Figure, text: str) -> None:
    """Add a small line at the bottom."""
    figure.supxlabel(text, fontsize=7, color=MUTED)


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG or SVG file, by its suffix, and return its path: the same bytes for the same numbers."""
    kind = path.suffix.removeprefix(".")
    unset = ("Software",) if kind == "png" else ("Date", "Creator")
    with rc_context(_RC), replacing(path) as draft:
        figure.savefig(draft, format=kind, metadata=dict.fromkeys(unset))
    return path
