"""Figure 2: gradients of NL and NL+, and where the training data lie."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from jnpl.experiments import style
from jnpl.experiments.paper import Setting, percent
from jnpl.experiments.reproduce import drawing
from jnpl.experiments.reproduce.experiment import AP, NOT_ALL, Claim, Experiment, Verdict, unless_even
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns
from jnpl.experiments.scales import Scale

SETTINGS: tuple[Setting, ...] = (("symm", 0.2), ("symm", 0.4), ("symm", 0.6))
_APART = 0.01  # of p_y: less is none


def nl_of(scale: Scale) -> tuple[str, str]:
    """The variant and stage that are NL beside NL+: NLNL's first stage, where it is long enough, else NL alone."""
    return ("nlnl", "nl") if scale.paper_schedule else ("nl", "train")


def draw(runs: PaperRuns) -> Figure:
    """Draw the gradients of NL and NL+, and the training data at 20, 40 and 60 %."""
    figure = style.new(10.4, 5.5)
    drawing.key(figure, points_too=True)
    axes = style.panels(figure, 2, 4, sharex=True, sharey=True)
    rows = (("NL", drawing.nl, *nl_of(runs.scale), "abcd"), ("NL+", drawing.nl_plus, "nl-plus", "train", "efgh"))
    drawn = {setting: runs.beside([row[2] for row in rows], setting) for setting in SETTINGS}
    for row, (name, size, _, stage, tags) in enumerate(rows):
        first = axes[4 * row]
        image = drawing.gradient_map(first, size)
        drawing.label_map(first, drawing.OWN, drawing.OTHER, rf"$|\nabla L_{{{name}}}|$", f"({tags[0]})")
        for column, setting in enumerate(SETTINGS, 1):
            axis, run = axes[4 * row + column], drawn[setting][row]
            title, tag = rf"{name}, $\eta$ = {percent(setting[1])} %", f"({tags[column]})"
            if run is None:
                style.absent(axis, "Not run", tag, title)
                continue
            drawing.gradient_map(axis, size, faint=True)
            drawing.points(axis, run.stage(stage))
            drawing.label_map(axis, drawing.OWN, drawing.OTHER_MOST, title, tag)
    drawing.colour_bar(figure, image, axes)
    return figure


def converges(runs: PaperRuns) -> Verdict:
    """Check how far apart right and wrong labels lie after NL and after NL+, and how well they are ranked."""
    variant, stage = nl_of(runs.scale)
    gaps, aps, texts = [], [], []
    for setting in SETTINGS:
        nl, plus = runs.together((variant, "nl-plus"), setting)
        if not nl:
            return NOT_ALL
        one, other = nl[0].stage(stage), plus[0].stage()
        gaps.append(drawing.distance(other) - drawing.distance(one))
        aps.append(other["ap"] - one["ap"])
        apart = [drawing.distance(facts) for facts in (one, other)]
        texts.append(
            f"symm {percent(setting[1])}: p_y of right less that of wrong labels {apart[0]:.2f} with NL "
            f"({one['epoch']} epochs), {apart[1]:.2f} with NL+ ({other['epoch']}); AP {one['ap']:.3f} and "
            f"{other['ap']:.3f}"
        )
    ahead = min(gaps) >= _APART and min(aps) >= AP
    # Both margins in one: what is below its margin is below 1.
    differences = [gap / _APART for gap in gaps] + [ap / AP for ap in aps]
    further, higher = sum(gap >= _APART for gap in gaps), sum(ap >= AP for ap in aps)
    shown = f"Further apart in {further} of {len(gaps)}, a higher AP in {higher}."
    return unless_even(differences, 1.0, ahead, f"{'; '.join(texts)}. {shown}")


def notes(runs: PaperRuns, used: Sequence[PaperRun]) -> list[str]:
    """How points are drawn, and the epochs of NL and NL+."""
    late = "Runs of NL that becomes NL+ go with it and are in no picture of it."
    return [drawing.POINTS_NOTE, *([] if runs.scale.paper_schedule else [late]), *_budget(runs, used)]


def _budget(runs: PaperRuns, used: Sequence[PaperRun]) -> list[str]:
    """The epochs of NL and NL+ in Figure 2, where they are known."""
    variant, stage = nl_of(runs.scale)
    epochs = [
        {run.stage(name)["epoch"] for run in used if run.spec.variant == which}
        for which, name in ((variant, stage), ("nl-plus", None))
    ]
    if any(len(counts) != 1 for counts in epochs):
        return []
    kind = "NLNL's first stage" if variant == "nlnl" else "NL alone"
    return [f"NL is {kind}, {epochs[0].pop()} epochs; NL+ has {epochs[1].pop()}."]


EXPERIMENT = Experiment(
    name="fig2",
    title="Figure 2: gradients of NL and NL+, and where the training data lie",
    claim="NL pushes where the true class of a wrong label is sure (upper left) and so underfits, more so "
    "with more noise; NL+ does not, and gathers wrong labels there.",
    variants=lambda scale: (nl_of(scale)[0], "nl-plus", *(() if scale.paper_schedule else ("nl-plus-late",))),
    settings=lambda _scale: SETTINGS,
    draw=draw,
    one_seed=True,
    notes=notes,
    not_shown=("nl-plus-late",),
    claims=(
        Claim(
            "converges",
            "NL+ converges better than NL.",
            "After NL+, right and wrong labels lie further apart in p_y (by 0.01 or more) and have a higher AP (by "
            "0.005 or more) than after NL, at 20, 40 and 60 % symmetric noise, with the first seed. NL is NLNL's "
            "first stage where schedules are the paper's (720 epochs to 1,000, or an eighth of both); elsewhere NL "
            "alone with the epochs of NL+.",
            converges,
        ),
    ),
)
