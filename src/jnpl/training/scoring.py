"""The end of a run: findings from its books, and what it writes and tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.torch import save_file

from jnpl.findings import metrics
from jnpl.findings.findings import Findings
from jnpl.findings.posterior import posterior
from jnpl.internal.files import replacing, write_text
from jnpl.training.phases import same_network

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Verdict
    from jnpl.training.evaluation import TrainingSet
    from jnpl.training.loop import Books
    from jnpl.training.session import Session


def final_probs(settings: Verdict, method: Method, look: TrainingSet) -> npt.NDArray[np.float64] | None:
    """(N, C) what the network says at the end, in the light of the given labels if asked; None if history decides."""
    if settings.score == "history":
        return None
    probs = look.probabilities(method.classifier).astype(np.float64)
    if settings.score == "network":
        return probs
    if look.ledger.keep == "full":  # the network at the end is surer than it was on the way: the mean of both is taken
        history = look.ledger.mean_probs()
        probs = np.where(np.isnan(history), probs, (probs + history) / 2)
    return posterior(probs, look.feed.labels).probs


def judge(
    source: Source,
    books: Books,
    settings: Verdict,
    unreadable: dict[int, str],
    probs: npt.NDArray[np.float64] | None = None,
) -> Findings:
    """Findings on all given labels, by the books or by `probs` (N, C)."""
    paths = source.ids.tolist() if source.ids.dtype == object else None
    broken = np.zeros(len(source), bool)
    broken[list(unreadable)] = True
    told: dict[str, Any] = {
        "class_names": source.class_names,
        "threshold": settings.threshold,
        "paths": paths,
        "ids": None if paths else source.ids,
        "unreadable": broken if broken.any() else None,
    }
    if probs is not None:
        return Findings.from_probs(probs, source.labels, **told)
    return Findings.from_ledger(books.ledger, source.labels, quality=books.quality(), **told)


def results(session: Session) -> dict[str, Any]:
    """What `--json` prints."""
    source, findings = session.source, session.judge()
    told: dict[str, Any] = {
        "run": str(session.folder.path),
        "samples": len(source),
        "classes": len(source.class_names),
        "issues": int(findings.is_label_issue.sum()),
        "noise_rate": findings.noise_rate,
        "epochs": sum(phase.plan.epochs for phase in session.phases),
        "seconds": session.elapsed(),
        "noise_interval": list(findings.noise_interval),
    }
    if notes := session.notes:
        told["notes"] = notes
    if session.prepared.unreadable:
        told["unreadable"] = len(session.prepared.unreadable)
    if source.true_labels is not None and (source.true_labels != source.labels).any():
        scores = metrics.evaluate(findings, source.true_labels)
        known = {name: scores[name] for name in ("ap", "ap_clean", "relabel_accuracy")}
        # With all labels wrong AP is nan, which is no JSON.
        told |= {name: value for name, value in known.items() if not np.isnan(value)}
    return told | accuracies(session)


def accuracies(session: Session) -> dict[str, float]:
    """Test accuracy of the network that is left, of each where there are several, and of the best epoch.

    It is the last epoch's, unless validation data chose another (`last_test_accuracy` is then the last epoch's).
    """
    if session.feeds.test is None:
        return {}
    lines, phases = session.lines, session.phases
    last = {name: value for name, value in lines[-1].items() if name.startswith("test_accuracy")}
    if session.phase.select and session.chosen:
        last = {**session.chosen, "last_test_accuracy": last["test_accuracy"]}
    start = sum(phase.plan.epochs for phase in phases[: same_network(phases, len(phases) - 1)])
    last["best_test_accuracy"] = max(line["test_accuracy"] for line in lines[start:])
    if session.phase.pseudo:
        filtered = [line for line in lines if not str(line["stage"]).startswith("pseudo")]
        last["filter_test_accuracy"] = filtered[-1]["test_accuracy"]
    return last


def write_model(session: Session, told: dict[str, Any]) -> None:
    """model.safetensors and model.json."""
    folder = session.folder.path
    state = session.method.classifier.state_dict()  # a clone each: safetensors refuses tensors that share memory
    weights = {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}
    with replacing(folder / "model.safetensors") as draft:
        mode = draft.stat().st_mode  # safetensors makes its files readable by their owner alone
        save_file(weights, draft)
        draft.chmod(mode)
    facts = {**session.model_facts(), "classes": list(session.source.class_names), "results": told}
    write_text(folder / "model.json", json.dumps(facts, indent=1) + "\n")
