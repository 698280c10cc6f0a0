"""The registry of export targets: every line has a module with `export`, and options that a request has."""

import importlib
import subprocess
import sys
from dataclasses import fields

import pytest

from jnpl.outputs.export.targets import OPTIONS, TARGETS, ExportRequest


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_has_a_module_and_known_options(name):
    target = TARGETS[name]
    assert callable(importlib.import_module(f"jnpl.outputs.export.{target.module}").export)
    assert set(target.options) <= set(OPTIONS) <= {field.name for field in fields(ExportRequest)}


def test_the_names_of_the_targets():
    pinned = ["csv", "parquet", "json", "label-studio", "cleanlab", "hf", "onnx"]
    assert [name for name in TARGETS if name in pinned] == pinned


def test_the_registry_is_light():
    code = "import sys, jnpl.outputs.export.targets; print({'torch', 'pandas', 'pyarrow'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
