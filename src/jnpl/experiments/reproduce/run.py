"""One cell: `python -m jnpl.experiments.reproduce.run CELL.json [--data-root DIR]`; writes result.json."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.experiments.cell_process import device, lower_priority, open_work, placed, run_as_process
from jnpl.experiments.reproduce import data
from jnpl.experiments.reproduce.cell import Cell
from jnpl.experiments.reproduce.paper import CAT
from jnpl.experiments.reproduce.results import FORMAT
from jnpl.experiments.reproduce.stages import Stages, curves
from jnpl.findings import metrics
from jnpl.findings.findings import Findings
from jnpl.internal import provenance
from jnpl.internal.errors import InputError, LearningError
from jnpl.methods.registry import METHODS
from jnpl.training.pseudo_labels import pseudo_label_settings
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.data.source import Source

_SECONDS = {"paper": 300.0}  # between checkpoints: those of a million images are large
_PSEUDO = "pseudo"


def run_cell(cell: Cell, work: Path, root: Path | None, every: CheckpointInterval | None = None) -> dict[str, Any]:
    """Train a cell in `work`, from where a killed life of the same cell stood, and return what its JSON says."""
    source, recipe = data.load(cell, root), placed(cell.recipe())
    if source.test is None:
        raise InputError(f"{source.name} has no test set")
    same = {"name": cell.name, "versions": provenance.versions(), "data": source.fingerprint()}
    commits = open_work(work, same)
    few = data.first(source.test, cell.size.curve_images)
    cat = CAT if cell.data in ("cifar10", "digits") else None
    stages = Stages(work / "stages.json", source, source.test, cell.seed, cat=cat)
    stumbled, result = None, None
    try:
        result = find(
            replace(source, test=few),
            recipe,
            work / "train",
            seed=cell.seed,
            every=every or _by_clock(cell),
            strict=False,
            report=Reporter(),
            classify=cell.classify,
            observe=stages,
        )
    except LearningError as error:  # no label is kept, say: what the filter found stands all the same
        if not _filtered(cell, stages.read()):
            raise
        stumbled = str(error)
    told = None if result is None else result.results
    results = {**_results(work / "train", source, stages, told), "second_part": stumbled}
    facts: dict[str, Any] = provenance.plain(
        {
            "format": FORMAT,
            "name": cell.name,
            "cell": cell.model_dump(mode="json"),
            **cell.resolved(),
            "data": {**cell.resolved()["data"], **_data_facts(source, few)},
            "noise_sha256": hashlib.sha256(source.labels.astype("<i8").tobytes()).hexdigest(),
            "versions": provenance.versions(),
            "commit": ", ".join(commits),
            "device": device(recipe),
            "engine": recipe.engine.model_dump(mode="json", include={"accelerator", "precision"}),
            "results": results,
            "stages": stages.read(),
        }
    )
    return facts


def _by_clock(cell: Cell) -> CheckpointInterval:
    """Not by epochs: see `Stages`."""
    return CheckpointInterval(epochs=None, seconds=_SECONDS.get(cell.scale, 20.0))


def _filtered(cell: Cell, stages: dict[str, Any]) -> bool:
    """Whether a second part was to come, and all stages before it are done."""
    method = METHODS[cell.recipe().method.name]
    comes = cell.classify and pseudo_label_settings(cell.recipe(), method) is not None
    return comes and {stage.name for stage in method.stages} <= set(stages)


def _results(run: Path, source: Source, observer: Stages, told: dict[str, Any] | None) -> dict[str, Any]:
    """Accuracy after every epoch and after the last, AP of the filter by both definitions, notes of epochs, seconds."""
    stages, notes = observer.read(), observer.notes()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    # A run of one stage does not name it in its log.
    names = [str(line.get("stage") or next(iter(stages))) for line in lines]
    results: dict[str, Any] = {
        "curve": [round(line["test_accuracy"], 4) for line in lines],
        "curve_stages": [[name, len(list(same))] for name, same in groupby(names)],
        "test_accuracy": None,
        "filter_test_accuracy": None,
        "ap": None,
        "ap_clean": None,
        "seconds": round(next(reversed(stages.values()))["seconds"] if told is None else told["seconds"], 1),
        "cpu_seconds": round(sum(note["cpu_seconds"] or 0.0 for note in notes.values()), 1),
        **curves(notes, sum(not name.startswith(_PSEUDO) for name in names)),
    }
    filters = [name for name in stages if not name.startswith(_PSEUDO)]
    results["filter_test_accuracy"] = stages[filters[-1]]["test_accuracy"]
    if told is not None:
        chosen = "last_test_accuracy" in told  # by validation data: not the last epoch's
        results["test_accuracy"] = told["test_accuracy"] if chosen else stages[names[-1]]["test_accuracy"]
    if source.true_labels is not None and (source.true_labels != source.labels).any():
        quality = Findings.load(run).label_quality
        known = ~np.isnan(quality)
        wrong = (source.true_labels != source.labels)[known]
        results["ap"] = metrics.average_precision(quality[known], wrong)
        results["ap_clean"] = metrics.average_precision_clean(quality[known], wrong)
    return results


def _data_facts(source: Source, few: Source) -> dict[str, Any]:
    """What came of the data settings."""
    wrong = None if source.true_labels is None else float((source.labels != source.true_labels).mean())
    return {
        "samples": len(source),
        "classes": len(source.class_names),
        "realised_rate": wrong,
        "test_samples": len(source.test or few),
        "curve_test_samples": len(few),
    }


def main(args: Sequence[str] | None = None) -> int:
    """Exit code 0 done, 2 wrong input, 128 + signal interrupted."""
    return run_as_process("jnpl.experiments.reproduce.run", __doc__, _result, args)


def _result(text: str, work: Path, root: Path | None) -> dict[str, Any]:
    return run_cell(Cell.model_validate_json(text), work, root)


if __name__ == "__main__":
    lower_priority()
    sys.exit(main())
