"""Settings of a recipe: schedules, stages, and that they are frozen."""

import math

import pytest
from pydantic import ValidationError

from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.recipes.schema import Judging, Training, parse_recipe


def test_a_cosine_may_end_above_zero_and_restart():
    plan = Training(epochs=20, lr=0.02, schedule="cosine", lr_end=0.001, cycle=10)
    falling = [0.001 + 0.019 * (1 + math.cos(math.pi * epoch / 10)) / 2 for epoch in range(10)]
    assert [plan.lr_at(epoch) for epoch in range(20)] == pytest.approx(falling * 2)
    with pytest.raises(ValidationError, match="lr_end and cycle go with schedule 'cosine'"):
        Training(epochs=20, lr=0.02, cycle=10)
    with pytest.raises(ValidationError, match="lr_end must not be above lr"):
        Training(epochs=20, lr=0.02, schedule="cosine", lr_end=0.1)
    stage = {"train": {"epochs": 20, "lr": 0.1, "schedule": "cosine", "lr_end": 0.01}, "method": {"name": "forward"}}
    changed = parse_recipe({**stage, "stages": {"ce": {"schedule": "constant"}}})
    assert changed.plan("ce").lr_end == 0  # a new schedule drops the settings of the old one


def test_other_schedules():
    constant = Training(epochs=4, lr=0.2)
    assert [constant.lr_at(epoch) for epoch in range(4)] == [0.2] * 4
    linear = Training(epochs=4, lr=0.2, schedule="linear")
    assert [linear.lr_at(epoch) for epoch in range(4)] == pytest.approx([0.2, 0.15, 0.1, 0.05])
    halves = [Training(epochs=6, lr=0.2, schedule="hold-linear", milestones=at) for at in ((), (3,))]
    assert [halves[0].lr_at(epoch) for epoch in range(6)] == [halves[1].lr_at(epoch) for epoch in range(6)]
    assert Training(epochs=1, lr=0.2, schedule="hold-linear").lr_at(0) == 0.2
    held = Training(epochs=6, lr=0.2, schedule="hold-linear", milestones=(2,))
    assert [held.lr_at(epoch) for epoch in range(6)] == pytest.approx([0.2, 0.2, 0.2, 0.15, 0.1, 0.05])
    cosine = Training(epochs=4, lr=0.2, schedule="cosine")
    wanted = [0.2, 0.1 * (1 + math.sqrt(0.5)), 0.1, 0.1 * (1 - math.sqrt(0.5))]
    assert [cosine.lr_at(epoch) for epoch in range(4)] == pytest.approx(wanted)


def test_settings_are_frozen_and_survive_json():
    recipe = load_recipe("paper-clothing1m")
    with pytest.raises(ValueError, match="frozen"):
        recipe.train.epochs = 3
    assert parse_recipe(recipe.model_dump(mode="json")) == recipe
    assert Judging(threshold="auto").threshold == "auto"


def test_a_stage_changes_the_plan():
    changes = [
        "method.name=nlnl",
        "train.epochs=5",
        "stages.selpl.epochs=3",
        "stages.selpl.lr=0.5",
        "stages.selnl.schedule=step",
        "stages.selnl.milestones=[2]",
    ]
    recipe = load_recipe("small", parse_changes(changes))
    assert [recipe.plan(name).epochs for name in ("nl", "selnl", "selpl")] == [5, 5, 3]
    assert (recipe.plan("nl"), recipe.plan("selpl").lr) == (recipe.train, 0.5)
    assert (recipe.plan("selnl").schedule, recipe.plan("selnl").milestones) == ("step", (2,))
    steps = load_recipe("paper-cifar10", {"stages.train.schedule": "cosine"})
    assert steps.plan("train").milestones == ()  # they belonged to the other schedule
