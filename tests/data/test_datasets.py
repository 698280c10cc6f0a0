"""The tables of named data sets and of forms of data fit the functions that they name."""

import importlib
import inspect
from dataclasses import fields

import pytest

from jnpl.data.datasets import DATASETS, import_loader
from jnpl.data.opening import FORMS
from jnpl.data.options import OpenOptions

OPTIONS = {field.name for field in fields(OpenOptions)}


@pytest.mark.parametrize("name", DATASETS)
def test_a_loader_takes_its_options(name):
    entry = DATASETS[name]
    module, _, function = entry.loader.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(f"jnpl.data.sources.{module}"), function)).parameters
    assert set(entry.options) <= set(parameters)
    assert set(entry.options) <= OPTIONS


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.loader)
def test_a_form_of_data_has_a_loader_that_takes_options(form):
    parameters = inspect.signature(import_loader(form.loader)).parameters
    takes_all = "options" in parameters and parameters["options"].annotation == "OpenOptions | None"
    assert takes_all or set(form.options) <= set(parameters)
    assert set(form.options) <= OPTIONS


def test_a_description_has_what_the_command_prints():
    assert list(DATASETS["cifar10"].to_dict()) == [
        *("name", "classes", "samples", "test_samples", "what", "origin", "licence")
    ]
