"""Every example runs as its first lines say, where its library is installed, and finds the wrong labels."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT

FOLDER = ROOT / "examples"
# What an example needs beyond the package, and the least AP that it must reach.
EXAMPLES = {
    "plain_torch": (None, 0.97),
    "own_loss": (None, 0.97),
    "sklearn_pipeline": (None, 0.97),
    "lightning_callback": ("lightning", 0.97),
    "huggingface_trainer": ("transformers", 0.9),
}


def test_no_example_is_forgotten():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(EXAMPLES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "sklearn_pipeline" else name for name in EXAMPLES]
)
def test_an_example_runs(name, tmp_path):
    library, least = EXAMPLES[name]
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "transformers" and importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate, which the Trainer of transformers needs, is not installed")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []  # nothing is left behind
    found = re.search(r"(\d+) of (\d+) labels look wrong; AP of the ranking ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[3]) >= least
    assert 0.15 < int(found[1]) / int(found[2]) < 0.45
