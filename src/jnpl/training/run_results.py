"""What a finished run returns, prints with --json and leaves as model files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from jnpl.data.loading.augment import Transform
from jnpl.data.source import Source
from jnpl.internal.files import replacing, write_text
from jnpl.internal.json_files import digest_of
from jnpl.judging import metrics
from jnpl.judging.findings import Findings
from jnpl.judging.tag_findings import TagFindings
from jnpl.training.phases import Phase, same_network

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder


@dataclass(frozen=True)
class TrainedModel:
    """The classifier of a run, what its inputs pass through, and what model.json says of both.

    `backbone_state` are the arrays of a backbone that was fitted to the data.
    """

    network: nn.Module
    transform: Transform
    description: dict[str, Any]
    backbone_state: dict[str, Any] | None = None

    def write(self, folder: RunFolder, results: dict[str, Any]) -> None:
        """Write model.safetensors and model.json, and backbone.safetensors if the backbone was fitted to the data."""
        files = [folder.model_weights]
        if self.backbone_state is not None:
            state = self.backbone_state.items()
            tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in state}
            files.append(folder.backbone_weights)
            _write_tensors(files[1], tensors)
        # A clone each: safetensors refuses tensors that share memory.
        state = self.network.state_dict().items()
        weights = {name: value.detach().cpu().clone().contiguous() for name, value in state}
        _write_tensors(files[0], weights)
        facts = {**self.description, "sha256": digest_of(self.description, *files), "results": results}
        write_text(folder.model_facts, json.dumps(facts, indent=1) + "\n")


def _write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    with replacing(path) as draft:
        mode = draft.stat().st_mode  # safetensors makes its files readable by their owner alone
        save_file(tensors, draft)
        draft.chmod(mode)


@dataclass(frozen=True)
class RunResult:
    """What a run returns."""

    results: dict[str, Any]  # what `jnpl find --json` prints
    findings: Findings  # the findings on all given labels
    history: list[dict[str, Any]]  # what was logged, a line an epoch
    # the classifier; None for a run folder that was finished before, where it is in files
    model: TrainedModel | None = None


@dataclass(frozen=True)
class TagRunResult:
    """What a run on several tags per sample returns; see `RunResult`."""

    results: dict[str, Any]
    findings: TagFindings
    model: TrainedModel | None = None


class RunNotes(NamedTuple):
    """Lines for the user: what the method did on its own, and a fact: which models judged the labels."""

    method: tuple[str, ...] = ()
    judged_by: str | None = None

    @property
    def lines(self) -> list[str]:
        """All lines."""
        return [*self.method, *([] if self.judged_by is None else [self.judged_by])]


class TrainedRun(NamedTuple):
    """What is left of a run that is trained; `accuracies` are {} without test data, `lines` what was logged."""

    epochs: int
    seconds: float
    unreadable: int  # samples
    accuracies: dict[str, float]
    lines: list[dict[str, Any]]
    model: TrainedModel


def summarise(source: Source, findings: Findings, trained: TrainedRun, notes: RunNotes, run: Path | None) -> RunResult:
    """Return the result of a run, whose `results` are what `--json` prints."""
    results: dict[str, Any] = {
        "run": None if run is None else str(run),
        "samples": len(source),
        "classes": len(source.class_names),
        "issues": int(findings.is_label_issue.sum()),
        **findings.noise_facts,
        "epochs": trained.epochs,
        "seconds": trained.seconds,
    }
    if notes.lines:
        results["notes"] = notes.lines
    if notes.judged_by is not None:
        results["judged_by"] = notes.judged_by
    if trained.unreadable:
        results["unreadable"] = trained.unreadable
    if source.true_labels is not None and (source.true_labels != source.labels).any():
        scores = metrics.evaluate(findings, source.true_labels)
        figures = {name: scores[name] for name in ("ap", "ap_clean", "relabel_accuracy")}
        # With all labels wrong AP is nan, which is no JSON.
        results |= {name: value for name, value in figures.items() if not np.isnan(value)}
    return RunResult(results | trained.accuracies, findings, trained.lines, trained.model)


def accuracies(lines: list[dict[str, Any]], phases: list[Phase], chosen: dict[str, float]) -> dict[str, float]:
    """Return the test accuracy of the network that is left, of each where there are several, and of the best epoch.

    It is the last epoch's, unless validation data chose other weights: then it is `chosen`, that of those weights, and
    `last_test_accuracy` is the last epoch's.
    """
    last = {name: value for name, value in lines[-1].items() if name.startswith("test_accuracy")}
    if phases[-1].select and chosen:
        last = {**chosen, "last_test_accuracy": last["test_accuracy"]}
    start = sum(phase.plan.epochs for phase in phases[: same_network(phases, len(phases) - 1)])
    last["best_test_accuracy"] = max(line["test_accuracy"] for line in lines[start:])
    if phases[-1].pseudo:
        filtered = [line for line in lines if not str(line["stage"]).startswith("pseudo")]
        last["filter_test_accuracy"] = filtered[-1]["test_accuracy"]
    return last
