"""A run: names that stay, settings that belong together."""

import pytest
from pydantic import ValidationError

from jnpl.experiments import paper_variants
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "seed": 1}
CIFAR = {**IRIS, "data": "cifar10", "pixels": 16, "images": 40, "net": "resnet8"}
SYMM60 = {"data": "cifar10", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "small"}


def test_a_key_is_that_of_the_settings_alone_and_stays():
    spec = RunSpec(**IRIS)
    assert spec.name == "ce-iris-symm40-1-2fec650a55f2"  # results on disk are found by it: never change it lightly
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
    assert RunSpec(**dict(reversed(IRIS.items()))).key == spec.key


def test_every_setting_makes_another_key():
    others = [
        {"row": "gce"},
        {"images": 50},
        {"test_images": 5},
        {"pixels": 32},
        {"noise": "asymm"},
        {"rate": 0.41},
        {"net": "auto"},
        {"epochs": 3},
        {"batch_size": 32},
        {"padding": 2},
        {"seed": 2},
        {"data": "cifar10n", "noise": "human", "rate": 0},
    ]
    keys = {RunSpec(**CIFAR).key, *(RunSpec(**{**CIFAR, **other}).key for other in others)}
    assert len(keys) == 1 + len(others)
    changed = {name for other in others for name in other}
    assert changed == set(RunSpec(**CIFAR).model_dump())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate": 0}, "a rate above 0"),
        ({"noise": "none"}, "a rate above 0"),
        ({"noise": "human", "rate": 0}, "cifar10n"),
        ({"data": "cifar10"}, "needs pixels"),
        ({"pixels": 16}, "are for cifar10"),
        ({"data": "mnist"}, "data"),
        ({"row": "../ce"}, "row"),
    ],
)
def test_what_does_not_belong_together_is_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        RunSpec(**{**IRIS, **wrong})


def test_an_unknown_variant_is_refused():
    with pytest.raises(InputError, match="there is no variant 'cee'; there are ce, fast"):
        RunSpec(**{**IRIS, "row": "cee"}).recipe()


def test_a_name_depends_on_the_whole_recipe(monkeypatch):
    spec = RunSpec(variant="jnpl", **SYMM60)
    before = spec.name
    assert before.startswith("jnpl-filter-cifar10-symm60-1-")
    others = [{"seed": 2}, {"rate": 0.4}, {"classify": True}, {"noise": "asymm"}, {"variant": "nl-plus"}]
    names = {spec.model_copy(update=change).name for change in others}
    assert before not in names
    assert len(names) == len(others)
    monkeypatch.setattr(paper_variants, "SMALL", paper_variants.SMALL._replace(filter_lr=0.123))
    assert spec.name != before
    monkeypatch.undo()
    assert RunSpec.model_validate_json(spec.model_dump_json()).name == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"variant": "jnpl-n7"}, "there is no variant 'jnpl-n7'"),
        ({"rate": 0.0}, "a rate above 0 goes with symm, asymm"),
        ({"data": "digits"}, "scale small has cifar10, cifar100, got 'digits'"),
        ({"scale": "huge"}, "paper"),
    ],
)
def test_wrong_runs_are_refused(change, told):
    with pytest.raises(ValidationError, match=told):
        RunSpec(**{"variant": "jnpl", **SYMM60, **change})
