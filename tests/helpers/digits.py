"""Digits with 40 % wrong labels, and settings with which every method finds them: vectors, an MLP, 60 epochs."""

from dataclasses import replace
from typing import Any

from jnpl import noise
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.recipes.schema import Recipe, parse_recipe

HIGH = {"lr": 0.05, "schedule": "constant"}  # label-correcting methods hold the rate high
CORES = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "step"}  # the authors'
PLAN = {"epochs": 60, "lr": 0.05, "schedule": "cosine"}
ADAM = {"epochs": 60, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "co-teaching": {"train": ADAM, "method": {"noise_rate": "oracle"}},
    "jocor": {"train": ADAM, "method": {"noise_rate": "oracle"}},
    "nlnl": {"method": {"complements": "exhaustive"}},
    "jnpl": {"method": {"complements": "exhaustive"}},
    "jnpl-stable": {"method": {"complements": "exhaustive", "pl_weight": 0.09}},  # the paper's 0.01 beside one of nine
    "refined-nl": {"train": {**PLAN, "epochs": 40}, "stages": {"refine": {"epochs": 20}}},
    "forward": {"stages": {"ce": {"epochs": 10}}},
    "limit": {"train": ADAM, "method": {"beta": 10.0}},
    "joint-optim": {"stages": {"labels": {"epochs": 40, **HIGH}}},
    "mlnt": {
        "method": {"iterations": 2, "label_sets": 3, "inner_lr": 0.2, "warm_up_steps": 22, "ramp_steps": 110},
        "stages": {"ce": {"epochs": 10}, "mlnt-1": {"epochs": 20}, "mlnt-2": {"epochs": 20}},
    },
    "pencil": {
        "method": {"label_lr": 3000.0},
        "stages": {"ce": {"epochs": 10, **HIGH}, "labels": {"epochs": 40, **HIGH}, "classify": {"epochs": 20}},
    },
    "co-teaching-plus": {"train": ADAM, "method": {"noise_rate": "oracle"}},
    "cores2": {"train": {"epochs": 60, **CORES, "milestones": [30]}},
    "elr-plus": {"method": {"average_steps": 330}},  # half of the training
    "sop": {"method": {"lr_u": 40.0, "lr_v": 40.0}},  # u and v have 60 steps in place of 300
    "sop-plus": {"method": {"lr_u": 40.0, "lr_v": 40.0}},
}


def recipe_of(method: str) -> Recipe:
    """All settings of a method."""
    own = SETTINGS.get(method, {})
    engine = {"accelerator": "cpu", "workers": 0}
    named = {"name": method, **own.get("method", {})}
    return parse_recipe({"model": "mlp", "train": PLAN, "engine": engine, **own, "method": named})


def source(seed: int) -> Source:
    """One split for all seeds of the noise."""
    whole = open_source("digits")
    return replace(whole, labels=noise.symmetric(whole.labels, 0.4, 10, seed=seed))
