"""Train one run as a process: `python -m jnpl.experiments.runner SETTINGS.json` writes result.json."""

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from jnpl.data.source import Source
from jnpl.experiments import cross_validation, run_data
from jnpl.experiments.confidence_figures import ConfidenceFigures
from jnpl.experiments.observer import Observer
from jnpl.experiments.paper import CAT
from jnpl.experiments.process import RESULT
from jnpl.experiments.ranking_figures import RankingFigures
from jnpl.experiments.scales import SCALES
from jnpl.experiments.spec import RunSpec
from jnpl.experiments.variants import BASE
from jnpl.internal import provenance
from jnpl.internal.devices import available_device
from jnpl.internal.errors import InputError, Interrupted, LearningError
from jnpl.internal.files import make_folder, write_text
from jnpl.judging import metrics
from jnpl.outputs.saved_model import SavedModel
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import Recipe
from jnpl.run_folder import RunFolder
from jnpl.training import checkpoint
from jnpl.training.reporting import Reporter

_PAUSE = 20.0  # seconds without a checkpoint, where an epoch takes less than it takes to write one


def train_run(spec: RunSpec, work: Path, root: Path | None, every: CheckpointInterval | None = None) -> dict[str, Any]:
    """Train a run and return its line of a file of results; what a killed process of it left in `work` is used."""
    torch.set_num_threads(1)
    import_module("lightning_fabric")  # slow, and not part of what is timed
    recipe, source = _placed(spec.recipe()), run_data.load(spec, root)
    if spec.method.true_labels:
        source = replace(source, labels=run_data.true_labels(source))
    if source.test is None:
        raise InputError(f"{source.name} has no test set")
    count = spec.test_each_epoch
    few = None if count == 0 else run_data.first(source.test, min(count or len(source.test), len(source.test)))
    settings = recipe.model_dump(mode="json")
    same = {"name": spec.name, "settings": settings, "data": source.fingerprint(), "versions": provenance.versions()}
    commits = _open_work(work, same)
    if spec.method.folds:
        results = cross_validation.run(replace(source, test=None), source.test, recipe, work, spec.seed)
        facts: dict[str, Any] = {"results": results}
    else:
        facts = _train(spec, recipe, source, few, work, every)
    line: dict[str, Any] = provenance.plain(
        {
            "name": spec.name,
            "cell": spec.model_dump(mode="json"),
            "recipe": {key: value for key, value in settings.items() if key != "engine"},
            "engine": recipe.engine.model_dump(mode="json", include={"accelerator", "precision"}),
            "device": available_device(recipe.engine.accelerator).type,  # times of different devices do not compare
            "versions": provenance.versions(),
            "commit": ", ".join(commits),
            "noise_sha256": hashlib.sha256(source.labels.astype("<i8").tobytes()).hexdigest(),
            "data": {
                "samples": len(source),
                "classes": len(source.class_names),
                "test_samples": len(source.test),
                "curve_test_samples": len(few or ()),  # tested after every epoch
                "realised_rate": None if source.true_labels is None else float(run_data.is_wrong(source).mean()),
            },
            **facts,
        }
    )
    return line


def _train(
    spec: RunSpec, recipe: Recipe, source: Source, few: Source | None, work: Path, every: CheckpointInterval | None
) -> dict[str, dict[str, Any]]:
    """Train in one run, tested on `few` after every epoch; returns `results`, and for runs of the paper `stages`."""
    folder, test = work / "train", source.test or source
    scale = None if spec.scale is None else SCALES[spec.scale]
    figures: RankingFigures | ConfidenceFigures
    if scale is None:
        figures = RankingFigures(source, test, recipe.verdict.score, margins=spec.variant == BASE)
    else:
        cat = CAT if spec.data in ("cifar10", "digits") else None
        figures = ConfidenceFigures(source, test, spec.seed, cat=cat)
    on_features = scale is not None and scale.features is not None
    observer = Observer(figures, work / "notes", pause=_PAUSE if on_features else 0.0)
    if not observer.resume(_epochs_done(folder)):
        for left in (folder, work / "notes"):
            shutil.rmtree(left, ignore_errors=True)
    failure, result = None, None
    try:
        result = run_recipe(
            replace(source, test=few),
            recipe,
            folder,
            seed=spec.seed,
            every=every or CheckpointInterval(seconds=None if scale is None else scale.checkpoint_seconds),
            strict=scale is None,
            report=Reporter(),
            classify=spec.with_classifier,
            observe=observer,
        )
    except Interrupted:
        observer.save()  # the steps since the last epoch are in the run's checkpoint, and their time here
        raise
    except LearningError as error:  # no label is kept, say: the ranking stands all the same
        if not observer.filtered:
            raise
        failure = str(error)
    total, quality = observer.watch.read(), RunFolder(folder).findings.label_quality
    if isinstance(figures, ConfidenceFigures):
        results = figures.results(quality, total, None if result is None else result.results)
        return {"results": {**results, "second_part": failure}, "stages": figures.stages}
    results = {**figures.results(quality, total), "test_accuracy": None}
    if result is not None and "notes" in result.results:  # what the method did on its own, such as a guard
        results["notes"] = result.results["notes"]
    if failure is not None:
        return {"results": {**results, "second_part": failure}}
    accuracy = metrics.accuracy(SavedModel.load(folder).probabilities(test).argmax(1), test.labels)
    ranked = results["filter_test_accuracy"]  # of the network that ranked the labels, often the same one
    ranked = accuracy if ranked is None else ranked
    return {"results": {**results, "test_accuracy": accuracy, "filter_test_accuracy": ranked}}


def _epochs_done(folder: Path) -> int | None:
    """The number of epochs after which a run in `folder` resumes: 0 if it is new, None if it is finished."""
    try:
        status = RunFolder(folder).run_facts.status
    except InputError:
        status = None
    if status in (None, "finished"):
        return 0 if status is None else None
    state, _ = checkpoint.load(RunFolder(folder).checkpoints)
    return 0 if state is None else int(state.facts["before"]) + int(state.facts["epoch"])


def _open_work(work: Path, same: dict[str, Any]) -> list[str]:
    """Keep what a killed process left in `work` if `same` has not changed, else begin anew; its commits so far."""
    file = work / "same.json"
    before = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if before.get("same") != json.loads(json.dumps(same)):
        shutil.rmtree(work, ignore_errors=True)
        before = {}
    make_folder(work)
    commits = list(dict.fromkeys([*before.get("commits", []), provenance.commit()]))
    write_text(file, json.dumps({"same": same, "commits": commits}, indent=1) + "\n")
    return commits


def _placed(recipe: Recipe) -> Recipe:
    """The recipe on the accelerator that it names, unless the experiment has reserved a share of a GPU for the run."""
    place = os.environ.get("JNPL_BENCH_ACCELERATOR")
    engine = recipe.engine.model_copy(update={"accelerator": place})
    return recipe if place is None else recipe.model_copy(update={"engine": engine})


def main(arguments: Sequence[str] | None = None) -> int:
    """Train one run, write result.json, remove the folder that it trained in; return 0, 2 or 128 + signal."""
    parser = argparse.ArgumentParser(prog="python -m jnpl.experiments.runner", description=__doc__)
    parser.add_argument("settings", type=Path, help="JSON of a run")
    parser.add_argument("--data-root", type=Path)
    args = parser.parse_args(arguments)
    work = args.settings.parent / "run"
    try:
        spec = RunSpec.model_validate_json(args.settings.read_text("utf-8"))
        line = train_run(spec, work, args.data_root)
    except InputError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    except Interrupted as stop:
        return stop.code
    write_text(args.settings.parent / RESULT, json.dumps(line, separators=(",", ":")) + "\n")
    shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(5)  # others on this machine go first; not in `main`, which tests call
    sys.exit(main())
