"""The table of the kinds of noise."""

import inspect
import subprocess
import sys

import pytest

from jnpl import noise


@pytest.mark.parametrize("kind", list(noise.KINDS))
def test_the_table_of_kinds_fits_the_functions(kind):
    entry = noise.KINDS[kind]
    parameters = inspect.signature(getattr(noise, entry.function)).parameters
    assert {"labels", "num_classes", "seed", *entry.arguments} == set(parameters)
    assert "count" not in entry.options or parameters["count"].default == entry.count


def test_the_table_of_kinds_does_not_import_numpy():
    code = "import sys, jnpl.noise.kinds, jnpl.noise.class_maps; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
