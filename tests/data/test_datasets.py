"""The tables of named data sets and of forms of data fit the functions that they name."""

from __future__ import annotations

import importlib
import inspect

import pytest

from jnpl.data.datasets import DATASETS
from jnpl.data.opening import FORMS, open_source

ENTRIES = {**DATASETS, **{form.title: form for form in FORMS}}


@pytest.mark.parametrize("title", list(ENTRIES))
def test_a_loader_takes_its_options(title):
    entry = ENTRIES[title]
    module, _, function = entry.loader.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(f"jnpl.data.sources.{module}"), function)).parameters
    assert set(entry.options) <= set(parameters)
    assert set(entry.options) <= set(inspect.signature(open_source).parameters)


def test_a_description_has_what_the_command_prints():
    assert list(DATASETS["cifar10"].to_dict()) == [
        *("name", "classes", "samples", "test_samples", "what", "origin", "licence")
    ]
