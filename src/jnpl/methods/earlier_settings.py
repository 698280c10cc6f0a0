"""Settings of methods as earlier versions stored them in run folders and files of results. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# In earlier versions `refined-nl` was `jnpl` with these settings, and its `ce_end` was `pl_start`.
_REFINED_NL: dict[str, Any] = {
    "name": "jnpl",
    "pl_weight": 0.0,
    "n": 3,
    "complements": "exhaustive",
    "num_complements": None,
    "gamma_rise": None,
    "pl_target": "predicted",
    "pl_mean": "selected",
    "guard": 0.0,
}


def with_present_method(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings as `refined-nl` has them now, if they are those of its two stages; else unchanged.

    >>> with_present_method({"name": "ce"})
    {'name': 'ce'}
    """
    needed = {**_REFINED_NL, "refine": True}
    if "pl_start" not in method or any(method.get(name, ...) != value for name, value in needed.items()):
        return dict(method)
    settings = {name: value for name, value in method.items() if name not in _REFINED_NL}
    ce_end = settings.pop("pl_start")
    return {"name": "refined-nl", **settings, "ce_end": ce_end}


def with_earlier_method(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they were stored when `refined-nl` was `jnpl`; those of other methods unchanged.

    >>> with_earlier_method({"name": "refined-nl", "ce_end": 0.5})["pl_start"]
    0.5
    """
    if method["name"] != "refined-nl":
        return dict(method)
    settings = {name: value for name, value in method.items() if name != "ce_end"}
    return {**settings, **_REFINED_NL, "pl_start": method["ce_end"]}
