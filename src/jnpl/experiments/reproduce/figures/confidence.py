"""Figures 1, 2 and 6: where right and wrong labels lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jnpl.experiments.reproduce import style
from jnpl.experiments.reproduce.figures import parts
from jnpl.experiments.reproduce.items import ASYMM40, FIGURE2, SYMM60, nl_of
from jnpl.experiments.reproduce.paper import STAGES, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.results import Results

_P_Y = r"mean $p_y$, up to ten epochs"
_OWN, _OTHER = r"$p_y$", r"$p_{\overline{y}}$"
_OTHER_MOST = r"$p_{\overline{y}_{max}}$"


def figure1(results: Results) -> Figure:
    """Histograms after the three stages of NLNL, and after JNPL."""
    figure = style.new(10.4, 3.1)
    parts.key(figure)
    halves: Any = figure.subfigures(1, 2, width_ratios=[3.05, 1.08])
    left, right = halves
    axes = style.panels(left, 1, 3)
    nlnl, jnpl = results.beside(("nlnl", "jnpl"), SYMM60)
    left.supxlabel("(a) NLNL: three stages", fontsize=10)
    right.supxlabel("(b) JNPL: one stage", fontsize=10)
    axes += style.panels(right, 1, 1)
    drawn = [None if nlnl is None else nlnl.stage(stage) for stage in STAGES]
    drawn.append(None if jnpl is None else jnpl.stage())
    titles = ["NL", r"$\rightarrow$ SelNL", r"$\rightarrow$ SelPL", "NL+ and PL+"]
    for axis, facts, title in zip(axes, drawn, titles, strict=True):
        _histogram(axis, facts, title, "samples" if "arrow" not in title else "")
    parts.even(axes, drawn)
    return figure


def _histogram(axis: Any, facts: dict[str, Any] | None, title: str, y: str, tag: str = "") -> None:
    if not facts:
        style.absent(axis, "Not run", tag, title)
        return
    parts.histogram(axis, facts)
    style.tidy(axis, _P_Y, y, title, tag)


def figure2(results: Results) -> Figure:
    """Gradients of NL and NL+, and the training data at 20, 40 and 60 %."""
    figure = style.new(10.4, 5.5)
    parts.key(figure, points_too=True)
    axes = style.panels(figure, 2, 4, sharex=True, sharey=True)
    rows = (("NL", parts.nl, *nl_of(results.scale), "abcd"), ("NL+", parts.nl_plus, "nl-plus", "train", "efgh"))
    found = {setting: results.beside([row[2] for row in rows], setting) for setting in FIGURE2}
    for row, (name, size, _, stage, tags) in enumerate(rows):
        first = axes[4 * row]
        image = parts.gradient_map(first, size)
        parts.label_map(first, _OWN, _OTHER, rf"$|\nabla L_{{{name}}}|$", f"({tags[0]})")
        for column, setting in enumerate(FIGURE2, 1):
            axis, run = axes[4 * row + column], found[setting][row]
            title, tag = rf"{name}, $\eta$ = {percent(setting[1])} %", f"({tags[column]})"
            if run is None:
                style.absent(axis, "Not run", tag, title)
                continue
            parts.gradient_map(axis, size, faint=True)
            parts.points(axis, run.stage(stage))
            parts.label_map(axis, _OWN, _OTHER_MOST, title, tag)
    _bar(figure, image, axes)
    return figure


def _bar(figure: Any, image: Any, axes: list[Any]) -> None:
    bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=30, pad=0.01, ticks=[0, 0.05, 0.1, 0.25, 0.5, 1])
    bar.set_label("size of the gradient", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)


def _cat(results: Results) -> str:
    return "3" if results.scale.stands_for["cifar10"] == "digits" else "cat"


def figure6(results: Results) -> Figure:
    """Samples given the label cat, asymmetric noise of 40 %: maps above, histograms beneath."""
    figure = style.new(8.4, 5.7)
    parts.key(figure, points_too=True)
    axes = style.panels(figure, 2, 3)
    nlnl, plus = results.beside(("nlnl", "nl-plus"), ASYMM40)
    columns = (
        ("NL", parts.nl, nlnl, "nl", "ad"),
        (r"NL $\rightarrow$ SelNL", parts.selnl(10), nlnl, "selnl", "be"),
        ("NL+", parts.nl_plus, plus, "train", "cf"),
    )
    image, drawn = None, []
    for column, (name, size, found, stage, tags) in enumerate(columns):
        facts = None if found is None else found.stage(stage).get("cat")
        drawn.append(facts)
        above, beneath = axes[column], axes[3 + column]
        _histogram(beneath, facts, name, f"samples labelled {_cat(results)}" if column == 0 else "", f"({tags[1]})")
        if facts is None:
            style.absent(above, "Not run", f"({tags[0]})", name)
            continue
        image = parts.gradient_map(above, size, faint=True)
        parts.points(above, facts)
        parts.label_map(above, _OWN, _OTHER_MOST, name, f"({tags[0]})")
    if image is not None:
        _bar(figure, image, axes[:3])
    parts.even(axes[3:], drawn)
    return figure
