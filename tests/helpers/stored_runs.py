"""Results that nobody trained: every figure is said by the test that needs it."""

import numpy as np
import pytest

from jnpl.experiments.confidence_figures import BINS
from jnpl.experiments.paper import METHODS, SETTINGS
from jnpl.experiments.reproduce.catalogue import verdicts
from jnpl.experiments.reproduce.paper_runs import load
from jnpl.experiments.results import add, read
from jnpl.experiments.spec import RunSpec


def group(ap=0.8, ap_clean=0.7, auc=0.75, right=0.7, wrong=0.2, points=30):
    """Facts of a stage: right labels around p_y = `right`, wrong ones around `wrong`."""
    generator = np.random.default_rng(0)
    facts = {"samples": 2 * points, "ap": ap, "ap_clean": ap_clean, "auc": auc}
    for name, mean in (("clean", right), ("noisy", wrong)):
        p_y = np.clip(generator.normal(mean, 0.05, points), 0, 1)
        facts[name] = {
            "histogram": np.histogram(p_y, BINS, (0, 1))[0].tolist(),
            "mean": mean,
            "p_y": np.rint(1000 * p_y).astype(int).tolist(),
            "p_other": np.rint(1000 * (1 - p_y) * 0.7).astype(int).tolist(),
        }
    return facts


class StoredRuns:
    """Writes the results of runs to a file; `results()` loads them."""

    facts = staticmethod(group)

    def __init__(self, path):
        self._path, self._lines = path, {}  # not yet written, for each writing reads the whole file
        self._in_use = False  # somebody has asked for the file

    @property
    def file(self):
        lines, self._in_use = self._lines, True
        if lines:
            self._lines = {}
            add(self._path, *lines.values())
            assert read(self._path).items() >= lines.items()
        return self._path

    def run(
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
        """Store a run and return its settings."""
        data = data or ("digits" if scale == "tiny" else "cifar10")
        weights = "any" if data == "clothing1m" else None
        setting = {"data": data, "noise": noise, "rate": rate, "seed": seed}
        spec = RunSpec(variant=variant, **setting, scale=scale, classify=classify, weights=weights)
        names = ("nl", "selnl", "selpl") if variant == "nlnl" else ("train",)
        same = {"epoch": 1, "seconds": 20.0, "test_accuracy": accuracy, "cat": group(), **group()}
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
        line = {
            "name": name or spec.name,
            "cell": spec.model_dump(mode="json"),
            "recipe": spec.content()["recipe"],
            "data": {"classes": 10},
            "noise_sha256": "0" * 64,
            "versions": {},
            "commit": "abc1234",
            "device": "cpu",
            "results": results,
            "stages": {stage: {**same, **(stages or {}).get(stage, {})} for stage in names},
        }
        self._lines[line["name"]] = line
        if self._in_use:
            assert self.file.exists()
        return spec

    def results(self, scale="small", missing=None):
        """The runs of a scale."""
        return load(self.file, scale, missing)

    def verdict(self, name):
        """The verdict on a claim of the paper."""
        return next(each for each in verdicts(self.results()) if each.name == name)

    def both_filters(self, lead, data="cifar10"):
        """AP of JNPL is NLNL's and `lead` of the number of the rate, from 0 to 3."""
        for noise, rates in (("symm", (0.2, 0.4, 0.6, 0.8)), ("asymm", (0.1, 0.2, 0.3, 0.4))):
            for number, rate in enumerate(rates):
                self.run("nlnl", noise, rate, ap=0.5, ap_clean=0.6, data=data)
                ap, ap_clean = lead(number)
                self.run("jnpl", noise, rate, ap=0.5 + ap, ap_clean=0.6 + ap_clean, data=data)

    def whole_table(self, accuracy):
        """All runs of Table 1: variant, number of the rate -> accuracy."""
        for number, (noise, rate) in enumerate(SETTINGS):
            for variant in METHODS:
                self.run(variant, noise, rate, classify=True, accuracy=accuracy(variant, number % 4))


@pytest.fixture
def made(tmp_path):
    """Runs to be stored in a file."""
    return StoredRuns(tmp_path / "results.jsonl")
