"""The trainings that a run is made of, one after another: the stages of its method, then pseudo-labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jnpl.config import Pseudo

if TYPE_CHECKING:
    from jnpl.config import Recipe, Training
    from jnpl.methods.base import Method


class Phase(NamedTuple):
    """One training: its plan, whose it is, and how it begins and ends."""

    name: str
    plan: Training
    number: int  # of the method's stages, or of the steps with pseudo-labels
    pseudo: bool = False
    fresh: bool = False  # begins with new weights
    select: bool = False  # ends with the weights that did best on validation data


def pseudo_settings(recipe: Recipe, method: type[Method]) -> Pseudo | None:
    """How `jnpl train` goes on after a method: as the recipe says, or else as the method's paper, with its plan."""
    if recipe.pseudo is not None:
        return recipe.pseudo
    if method.pseudo is None:
        return None
    weight = "nlnl" if method.pseudo == "nlnl" else "none"
    return Pseudo(mode=method.pseudo, class_weight=weight, train=recipe.train)


def make_phases(recipe: Recipe, method: Method, pseudo: Pseudo | None) -> list[Phase]:
    """The stages of the method, then one step with pseudo-labels, or two."""
    phases = [
        Phase(stage.name, recipe.plan(stage.name), number, fresh=stage.fresh and number > 0, select=stage.select)
        for number, stage in enumerate(method.stages)
    ]
    if pseudo is None:
        return phases
    names = ["pseudo"] if pseudo.mode == "paper" else ["pseudo-1", "pseudo-2"]
    steps = [Phase(name, pseudo.train, number, pseudo=True, fresh=True) for number, name in enumerate(names)]
    return phases + steps


def same_network(phases: list[Phase], at: int) -> int:
    """The first of the phases that train the same network as phase `at` without a break."""
    while at > 0 and not phases[at].fresh:
        at -= 1
    return at
