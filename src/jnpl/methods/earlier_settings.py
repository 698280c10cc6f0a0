"""Settings of methods as earlier versions stored them in run folders. No torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFINED_NL = {  # in earlier versions: `jnpl` with these settings
    "name": "jnpl",
    "pl_weight": 0.0,
    "n": 3,
    "complements": "exhaustive",
    "num_complements": None,
    "gamma_rise": None,
    "pl_target": "predicted",
    "pl_mean": "selected",
    "guard": 0.0,
    "refine": True,
}


def with_present_method(method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method as they are now: in earlier versions `refined-nl` was `jnpl` with settings.

    >>> with_present_method({"name": "ce"})
    {'name': 'ce'}
    """
    if any(method.get(name, ...) != value for name, value in _REFINED_NL.items()):
        return dict(method)
    settings = {name: value for name, value in method.items() if name not in _REFINED_NL}
    ce_end = settings.pop("pl_start")
    return {"name": "refined-nl", **settings, "ce_end": ce_end, "refine": True}
