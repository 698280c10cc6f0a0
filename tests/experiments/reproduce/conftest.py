"""Results that nobody trained: every figure is said by the test that needs it."""

from __future__ import annotations

import numpy as np
import pytest

from jnpl.experiments.cell import Cell
from jnpl.experiments.confidence_figures import BINS
from jnpl.experiments.reproduce.runs import load
from jnpl.experiments.results import add, read


def group(ap=0.8, ap_clean=0.7, auc=0.75, right=0.7, wrong=0.2, points=30):
    """Facts of a stage: right labels around p_y = `right`, wrong ones around `wrong`."""
    generator = np.random.default_rng(0)
    told = {"samples": 2 * points, "ap": ap, "ap_clean": ap_clean, "auc": auc}
    for name, mean in (("clean", right), ("noisy", wrong)):
        own = np.clip(generator.normal(mean, 0.05, points), 0, 1)
        told[name] = {
            "histogram": np.histogram(own, BINS, (0, 1))[0].tolist(),
            "mean": mean,
            "p_y": np.rint(1000 * own).astype(int).tolist(),
            "p_other": np.rint(1000 * (1 - own) * 0.7).astype(int).tolist(),
        }
    return told


@pytest.fixture
def made(tmp_path):
    """Write the results of cells to a file; `made.results()` loads them."""

    class Made:
        facts = staticmethod(group)

        def __init__(self):
            self._lines = {}  # not yet written, for each writing reads the whole file; until somebody asks for it
            self._in_use = False

        @property
        def file(self):
            path, lines, self._in_use = tmp_path / "results.jsonl", self._lines, True
            if lines:
                self._lines = {}
                add(path, *lines.values())
                assert read(path).items() >= lines.items()
            return path

        def cell(
            self,
            variant,
            noise="symm",
            rate=0.6,
            seed=1,
            *,
            scale="small",
            classify=False,
            data=None,
            stages=None,
            curve=(0.1, 0.2, 0.3),
            accuracy=0.3,
            ap=0.8,
            ap_clean=0.7,
            name=None,
            cpu_seconds=None,
        ):
            data = data or ("digits" if scale == "tiny" else "cifar10")
            cell = Cell(
                row=variant,
                data=data,
                noise=noise,
                rate=rate,
                seed=seed,
                scale=scale,
                classify=classify,
                weights="any" if data == "clothing1m" else None,
            )
            names = ("nl", "selnl", "selpl") if variant == "nlnl" else ("train",)
            given = stages or {}
            same = {"epoch": 1, "seconds": 20.0, "test_accuracy": accuracy, "cat": group(), **group()}
            each = {stage: {**same, **given.get(stage, {})} for stage in names}
            length = max(len(curve) // len(names), 1)
            spans = [[stage, length] for stage in names]
            spans[-1][1] = len(curve) - length * (len(names) - 1)
            results = {
                "curve": list(curve),
                "curve_stages": spans,
                "test_accuracy": accuracy,
                "filter_test_accuracy": accuracy,
                "ap": ap,
                "ap_clean": ap_clean,
                "seconds": 60.0,
                "second_part": None,
                "cpu_seconds": cpu_seconds,
            }
            told = {
                "name": name or cell.name,
                "cell": cell.model_dump(mode="json"),
                "recipe": cell.content()["recipe"],
                "data": {"classes": 10},
                "noise_sha256": "0" * 64,
                "versions": {},
                "commit": "abc1234",
                "device": "cpu",
                "results": results,
                "stages": each,
            }
            self._lines[told["name"]] = told
            if self._in_use:
                assert self.file.exists()
            return cell

        def results(self, scale="small", missing=None):
            return load(self.file, scale, missing)

    return Made()
