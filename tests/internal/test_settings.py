"""The base class of all settings."""

from typing import Literal

import pytest
from pydantic import ValidationError

from jnpl.internal.settings import Settings


class Toy(Settings):
    rate: float = 0.1
    weight: Literal["none", "balanced"] = "none"
    limit: int | None = None


def test_none_is_a_word_where_it_is_a_choice():
    assert Toy(weight=None).weight == "none"
    assert Toy(limit=None).limit is None


@pytest.mark.parametrize("wrong", [{"rat": 1.0}, {"rate": float("inf")}, {"rate": float("nan")}, {"weight": "some"}])
def test_settings_are_checked_when_they_are_made(wrong):
    with pytest.raises(ValidationError):
        Toy(**wrong)


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Toy().rate = 0.2
