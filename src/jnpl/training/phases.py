"""The trainings that a run is made of, one after another: the stages of its method, then pseudo-labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jnpl.internal.errors import InputError
from jnpl.recipes.schema import Pseudo

if TYPE_CHECKING:
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Recipe, Training


class Phase(NamedTuple):
    """One training: its plan, whose it is, and how it begins and ends."""

    name: str
    plan: Training
    number: int  # of the method's stages, or of the steps with pseudo-labels
    pseudo: bool = False
    fresh: bool = False  # begins with new weights
    select: bool = False  # ends with the weights that did best on validation data


class Second(NamedTuple):
    """How `jnpl train` goes on after the filter."""

    mode: Literal["paper", "nlnl", "predicted"]
    soft: bool
    by_class: bool
    warm: bool
    plan: Training

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**self._asdict(), "plan": self.plan.model_dump(mode="json")}


def second_part(recipe: Recipe, method: type[Method]) -> Second | None:
    """As the recipe says, and where it is silent as the method's paper; None if neither has such a part."""
    if recipe.pseudo is None and method.pseudo_mode is None:
        return None
    said = recipe.pseudo or Pseudo()
    mode = said.mode or method.pseudo_mode or "paper"
    weight = said.class_weight or ("nlnl" if mode == "nlnl" else "none")
    return Second(mode, said.soft, weight == "nlnl", said.warm, said.train or recipe.train)


def make_phases(recipe: Recipe, method: Method, second: Second | None) -> list[Phase]:
    """The stages of the method, then one step with pseudo-labels, or two."""
    known = [stage.name for stage in method.stages]
    for name in recipe.stages:
        if name not in known:  # a stage of the method, but not with these settings
            told = f"with these settings {recipe.method.name} has {', '.join(known)}"
            raise InputError(f"setting stages.{name}: {told}")
    phases = [
        Phase(stage.name, recipe.plan(stage.name), number, fresh=stage.fresh and number > 0, select=stage.select)
        for number, stage in enumerate(method.stages)
    ]
    if second is None:
        return phases
    names = ["pseudo-1", "pseudo-2"] if second.mode == "nlnl" else ["pseudo"]
    steps = [Phase(name, second.plan, number, pseudo=True, fresh=True) for number, name in enumerate(names)]
    return phases + steps


def same_network(phases: list[Phase], at: int) -> int:
    """The first of the phases that train the same network as phase `at` without a break."""
    while at > 0 and not phases[at].fresh:
        at -= 1
    return at
