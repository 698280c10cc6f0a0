"""Make files of results small enough for the repository: round lists, and drop what no page or figure reads.

    python benchmarks/slim.py benchmarks/results/reproduce-features.jsonl ...

Of `jnpl reproduce`: points of p_y stay where Figures 2 and 6 draw them, histograms where Figures 1 and 6 use them,
samples labelled cat where Figure 6 does, and curves other than accuracy with the first seed at 60 % symmetric noise,
not on features; descriptions of recipes go.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jnpl.experiments import results
from jnpl.experiments.reproduce.catalogue import EXPERIMENTS
from jnpl.experiments.reproduce.experiment import ASYMM40, SYMM60
from jnpl.experiments.scales import SCALES
from jnpl.experiments.spec import RunSpec

DIGITS = 5
_REPRODUCE = ("ap_curve", "right_curve", "wrong_curve", "selected_curve")


def slim(line: dict[str, Any]) -> dict[str, Any]:
    """A line of results with all that pages read."""
    spec, found = RunSpec.model_validate(line["cell"]), dict(line["results"])
    setting = (spec.noise, spec.rate)
    on_features = SCALES[str(spec.scale)].features is not None
    if on_features or (spec.seed, spec.data, setting) != (1, _main_data(spec), SYMM60):
        found = {name: value for name, value in found.items() if name not in _REPRODUCE}
    stages = {name: dict(facts) for name, facts in line["stages"].items()}
    for facts in stages.values():
        if setting != ASYMM40:
            facts.pop("cat", None)
        if not _has_points(spec):
            for place, is_drawn in (
                (facts, setting == SYMM60 and spec.data == _main_data(spec)),
                (facts.get("cat", {}), True),
            ):
                kept = ("histogram", "mean") if is_drawn else ("mean",)
                for kind in ("clean", "noisy"):
                    if kind in place:
                        place[kind] = {name: value for name, value in place[kind].items() if name in kept}
    recipe = {name: value for name, value in line["recipe"].items() if name != "description"}  # of the undivided recipe
    return {**line, "recipe": recipe, "results": _rounded(found), "stages": stages}


def _main_data(spec: RunSpec) -> str:
    return SCALES[str(spec.scale)].stands_for["cifar10"]


def _has_points(spec: RunSpec) -> bool:
    """Whether Figure 2 or 6 draws points of it."""
    scale = SCALES[str(spec.scale)]
    specs = [drawn for name in ("fig2", "fig6") for drawn in EXPERIMENTS[name].specs(scale, 1, ["cifar10"])]
    place = (spec.variant, spec.data, spec.noise, spec.rate, spec.seed)
    return place in {(drawn.variant, drawn.data, drawn.noise, drawn.rate, drawn.seed) for drawn in specs}


def _rounded(found: dict[str, Any]) -> dict[str, Any]:
    """Numbers of lists with few digits; single figures stay as they are.

    >>> _rounded({"ap": 1 / 3, "ap_curve": [1 / 3, 1, None]})
    {'ap': 0.3333333333333333, 'ap_curve': [0.33333, 1, None]}
    """
    return {
        name: [round(each, DIGITS) if isinstance(each, float) else each for each in value]
        if isinstance(value, list)
        else value
        for name, value in found.items()
    }


def main() -> None:
    """Rewrite the files that are named."""
    for path in map(Path, sys.argv[1:]):
        lines = [slim(line) for line in results.read(path).values()]
        results.add(path, *lines)  # of the same names, so all are replaced
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
