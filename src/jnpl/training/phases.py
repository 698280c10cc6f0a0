"""The phases of a run, one after another: the stages of its method, then the steps with pseudo-labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Recipe, Training
    from jnpl.training.pseudo_labels import PseudoLabelSettings


class Phase(NamedTuple):
    """One training with a plan of its own."""

    name: str
    plan: Training
    number: int  # of the method's stages, or of the steps with pseudo-labels
    pseudo: bool = False  # trains on pseudo-labels
    fresh: bool = False  # begins with new weights
    select: bool = False  # ends with the weights that did best on validation data


def make_phases(recipe: Recipe, method: Method, pseudo: PseudoLabelSettings | None) -> list[Phase]:
    """Return the stages of the method, then one or two steps with pseudo-labels, if `pseudo` says how."""
    stage_names = [stage.name for stage in method.stages]
    unused = {stage.name for stage in method.optional_stages}
    for name in recipe.stages:
        if name not in stage_names and name not in unused:  # a stage of the method, but not with these settings
            raise InputError(
                f"setting stages.{name}: with these settings {recipe.method.name} has {', '.join(stage_names)}"
            )
    phases = [
        Phase(stage.name, recipe.plan(stage.name), number, fresh=stage.fresh and number > 0, select=stage.select)
        for number, stage in enumerate(method.stages)
    ]
    if pseudo is None:
        return phases
    names = ["pseudo-1", "pseudo-2"] if pseudo.mode == "nlnl" else ["pseudo"]
    steps = [Phase(name, pseudo.plan, number, pseudo=True, fresh=True) for number, name in enumerate(names)]
    return phases + steps


def same_network(phases: list[Phase], at: int) -> int:
    """Return the first of the phases that train the same network as phase `at` without a break."""
    while at > 0 and not phases[at].fresh:
        at -= 1
    return at
