"""Methods by name, and the settings that each refuses."""

import math

import pytest
from pydantic import ValidationError

from jnpl.internal.errors import InputError
from jnpl.methods import registry
from jnpl.methods.registry import METHODS


def test_an_unknown_name_is_told_the_names_there_are():
    with pytest.raises(InputError, match=r"setting method.name: there are .*ce.*jnpl.*, got 'jnlp'"):
        registry.settings_class("jnlp")


REFUSED = {
    "forward": {
        "matrix": ("guess", ((0.5, 0.5),), ((0.9, 0.2), (0.1, 0.8)), ((1.5, -0.5), (0.0, 1.0)), ((1.0,),)),
        "percentile": (0,),
    },
    "gce": {"q": (0.0, 1.1), "k": (1.0,), "prune_every": (0,), "prune_from": (-1,)},
    "joint-optim": {"alpha": (-1,), "beta": (-0.1,), "update_from": (-1,), "prior": ("true",)},
    "limit": {"kind": ("ce",), "beta": (-0.1,), "gradient": ("median",), "lamb": (1.0,)},
    "m-correction": {
        "variant": ("M-DYR-S",),
        "mixup_alpha": (0,),
        "bootstrap_from": (-1,),
        "temperature_epochs": (0,),
        "temperature_end": (0,),
        "reg_weight": (-1,),
        "noise_rate": (0.2,),
    },
    "nce-rce": {"beta": (-0.1,)},
    "nfl-rce": {"gamma": (-1.0,), "alpha": (math.inf,)},
    "nlnl": {"cut": (0, 1), "num_complements": (0,)},
    "pencil": {
        "alpha": (-1,),
        "beta": (-1,),
        "label_lr": (-1,),
        "label_lr_end": (-1,),
        "label_lr_change": ("halfway",),
    },
    "sce": {"alpha": (-1.0,)},
}


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [(name, key, value) for name, settings in REFUSED.items() for key, values in settings.items() for value in values],
)
def test_settings_out_of_bounds_are_refused(name, setting, value):
    with pytest.raises(ValidationError):
        METHODS[name].Settings(**{setting: value})
