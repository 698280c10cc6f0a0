"""Figure 6: samples labelled cat, asymmetric noise of 40 %: gradient maps above, histograms beneath."""

import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure

from jnpl.experiments import style
from jnpl.experiments.reproduce import drawing
from jnpl.experiments.reproduce.experiment import ASYMM40, NOT_ALL, Claim, Experiment, Verdict, agrees_if, seeds_of
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns

_PARTS_BY = 0.05  # AUC: so much more is a difference that one sees in the histograms
_PARTED = 0.6  # AUC: 0.5 is chance


def draw(runs: PaperRuns) -> Figure:
    """Draw samples labelled cat at 40 % asymmetric noise: maps above, histograms beneath."""
    figure = style.new(8.4, 5.7)
    drawing.key(figure, points_too=True)
    axes = style.panels(figure, 2, 3)
    nlnl, plus = runs.beside(("nlnl", "nl-plus"), ASYMM40)
    columns = (
        ("NL", drawing.nl, nlnl, "nl", "ad"),
        (r"NL $\rightarrow$ SelNL", drawing.selnl(10), nlnl, "selnl", "be"),
        ("NL+", drawing.nl_plus, plus, "train", "cf"),
    )
    image, drawn = None, []
    for column, (name, size, run, stage, tags) in enumerate(columns):
        facts = None if run is None else run.stage(stage).get("cat")
        drawn.append(facts)
        above, beneath = axes[column], axes[3 + column]
        drawing.histogram_panel(
            beneath, facts, name, f"samples labelled {_cat(runs)}" if column == 0 else "", f"({tags[1]})"
        )
        if facts is None:
            style.absent(above, "Not run", f"({tags[0]})", name)
            continue
        image = drawing.gradient_map(above, size, faint=True)
        drawing.points(above, facts)
        drawing.label_map(above, drawing.OWN, drawing.OTHER_MOST, name, f"({tags[0]})")
    if image is not None:
        drawing.colour_bar(figure, image, axes[:3])
    drawing.even(axes[3:], drawn)
    return figure


def _cat(runs: PaperRuns) -> str:
    return "3" if runs.scale.stands_for["cifar10"] == "digits" else "cat"


def cats_part(runs: PaperRuns) -> Verdict:
    """Check how well right and wrong labels separate among samples labelled cat."""
    nlnl, plus = runs.together(("nlnl", "nl-plus"), ASYMM40)
    kinds = ([run.stage("nl") for run in nlnl], [run.stage("selnl") for run in nlnl], [run.stage() for run in plus])
    cats = [[facts["cat"] for facts in stages if facts.get("cat")] for stages in kinds]
    if not cats[0] or any(len(group) < len(nlnl) or None in [cat["auc"] for cat in group] for group in cats):
        return NOT_ALL
    nl, selnl, ours = (statistics.fmean(cat["auc"] for cat in group) for group in cats)
    apart = [statistics.fmean(map(drawing.distance, group)) for group in cats]
    right = [statistics.fmean(cat["clean"]["mean"] for cat in group) for group in cats]
    lost = sum(cat["clean"]["mean"] < 1 / plus[0].classes for cat in cats[2])
    figures = (
        f"asymm 40, labelled cat, {seeds_of(nlnl)}: a wrong label lies below a right "
        f"one with probability {nl:.2f} (NL), {selnl:.2f} (SelNL), {ours:.2f} (NL+); mean p_y of right ones "
        f"{right[0]:.2f}, {right[1]:.2f}, {right[2]:.2f}, less that of wrong ones {apart[0]:+.2f}, {apart[1]:+.2f}, "
        f"{apart[2]:+.2f}."
    )
    if lost:
        figures += f" In {lost} of these seeds NL+ loses the class: mean p_y of right labels below 1/{plus[0].classes}."
    parts = ours >= max(selnl + _PARTS_BY, _PARTED) and apart[2] > apart[1]
    return agrees_if(parts and selnl < nl + _PARTS_BY, figures)


def notes(runs: PaperRuns, _used: Sequence[PaperRun]) -> list[str]:
    """How points are drawn, and where SelNL has no gradient."""
    selnl = "SelNL has no gradient below p_y = 1/10: it does not learn from those samples."
    late = "A run of NL that becomes NL+ goes with it and is in no picture of it."
    return [drawing.POINTS_NOTE, selnl, *([] if runs.scale.paper_schedule else [late])]


EXPERIMENT = Experiment(
    name="fig6",
    title="Figure 6: asymmetric noise of 40 %, samples labelled cat",
    claim="SelNL does not part cats from dogs that are labelled cat; NL+ does.",
    variants=lambda scale: ("nlnl", "nl-plus", *(() if scale.paper_schedule else ("nl-plus-late",))),
    settings=lambda _scale: (ASYMM40,),
    draw=draw,
    one_seed=True,
    notes=notes,
    not_shown=("nl-plus-late",),
    claims=(
        Claim(
            "cats-part",
            "With cats and dogs mixed up, NL+ separates right from wrong labels and SelNL does not.",
            "Among samples labelled cat at 40 % asymmetric noise, NL+'s area under the ROC curve is 0.05 or more above "
            "SelNL's and at least 0.6 (chance: 0.5), and right and wrong labels lie further apart; SelNL's is less "
            "than 0.05 above that of NL. Means over the seeds that both have.",
            cats_part,
        ),
    ),
)
