"""What a judge answers, and what it takes for chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jnpl.experiments.reproduce.paper import DATA_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jnpl.experiments.reproduce.results import Results

Status = Literal["agrees", "disagrees", "no difference", "not enough data"]
Answer = tuple[Status, str]

ACCURACY = 0.005  # differences that chance makes, and of AP
AP = 0.005
REACHES = 0.01  # an accuracy so far below another still reaches it
NOT_ALL: Answer = ("not enough data", "Not all runs that the rule speaks of are there.")


def answer(agrees: bool, figures: str) -> Answer:
    """One or the other."""
    return ("agrees" if agrees else "disagrees"), figures


def unless_even(differences: Iterable[float], margin: float, agrees: bool, figures: str) -> Answer:
    """No verdict where all differences are smaller than what chance makes of them."""
    if all(abs(each) < margin for each in differences):
        return "no difference", f"{figures} All of it is below what is taken for chance."
    return answer(agrees, figures)


def parts_of(results: Results) -> dict[str, str]:
    """CIFAR-10, and CIFAR-100 if any of it was run -> how they are named beside each other."""
    there = {each.cell.data for each in results.every}
    both = [
        part for part in ("cifar10", "cifar100") if part == "cifar10" or results.scale.stands_for.get(part) in there
    ]
    return {part: f"{DATA_NAMES[part]}, " if len(both) > 1 else "" for part in both}
