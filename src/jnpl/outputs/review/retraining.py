"""Learn from decisions: train the head again with the decided labels as trusted ones, and rank the suspects anew.

It runs in a thread of the server. On cached embeddings of some thousand samples it takes a second or two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.data.label_files import WithoutLabel
from jnpl.data.source import Source
from jnpl.data.split import part
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import refuse_code
from jnpl.judging.findings import Findings
from jnpl.judging.noise_model import Interval
from jnpl.outputs.review.decisions import CurrentDecisions
from jnpl.outputs.review.ranking import CANDIDATES, Ranking
from jnpl.outputs.review.reviewed_labels import resolve

if TYPE_CHECKING:
    from jnpl.outputs.review.samples import Samples
    from jnpl.recipes.schema import Recipe
    from jnpl.training.epoch_view import EpochView

_BATCH = 1024  # samples that are predicted together


class _StoppedError(Exception):
    """The server is shutting down."""


class Retraining:
    """At most one training at a time, in the background.

    `state` is {"state": "idle", "running", "done" or "failed", "progress": 0..1, ...}.

    Args:
        recipe: settings of the run, as run.json has them.
    """

    def __init__(self, samples: Samples, recipe: dict[str, Any] | None, seed: int) -> None:
        self._samples, self._recipe, self._seed = samples, recipe, seed
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self.state: dict[str, Any] = {"state": "idle", "progress": 0.0}

    def start(self, before: Ranking, current: CurrentDecisions, done: Callable[[Ranking, float], None]) -> None:
        """Start to train, unless a training runs already; `done` is called with the new ranking and the seconds."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self.state = {"state": "running", "progress": 0.0}
                self._thread = threading.Thread(
                    target=self._run, args=(before, current, done), name="jnpl-learn", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop a training that runs, and wait for it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self, before: Ranking, current: CurrentDecisions, done: Callable[[Ranking, float], None]) -> None:
        began, samples = time.monotonic(), self._samples
        try:
            source = samples.wait(600)
            if source is None:
                raise InputError(samples.problem or "the data of the run cannot be opened")  # noqa: TRY301
            trusts = samples.trust_code
            ranking = retrain(source, before, current, self._recipe, self._seed, self._progress, trust_code=trusts)
            seconds = time.monotonic() - began
            done(ranking, seconds)
            seconds = round(seconds, 1)
            self.state = {"state": "done", "progress": 1.0, "seconds": seconds, "decisions": len(current.positions)}
        except _StoppedError:
            self.state = {"state": "idle", "progress": 0.0}
        except Exception as error:  # noqa: BLE001 - the page says what went wrong, and the review goes on
            message = str(error) if isinstance(error, InputError) else one_line(error)
            self.state = {"state": "failed", "progress": 0.0, "message": message}

    def _progress(self, share: float) -> None:
        if self._stop.is_set():
            raise _StoppedError
        self.state = {"state": "running", "progress": share}


def retrain(
    source: Source,
    before: Ranking,
    current: CurrentDecisions,
    recipe: dict[str, Any] | None,
    seed: int,
    progress: Callable[[float], None],
    *,
    trust_code: bool = False,
) -> Ranking:
    """Return the ranking of a head that was trained with decisions: decided labels trusted, dropped samples left out.

    The undecided of all N samples are ranked anew; the decided keep the quality they had in the ranking `before`, by
    which they were decided, so that a decision can still be undone. A `recipe` of None is the default for embeddings.
    """
    from jnpl.pipeline import run_recipe  # noqa: PLC0415
    from jnpl.training.evaluation import source_probabilities  # noqa: PLC0415 - imports torch, which takes seconds
    from jnpl.training.reporting import Reporter  # noqa: PLC0415

    given, decisions = before.findings.given_labels, resolve(current, before.findings.given_labels)
    kept = np.flatnonzero(decisions != WithoutLabel.DROP.value)
    earlier = -1 if source.decided is None else source.decided  # of the review that the run itself was given
    decided = np.where(decisions >= 0, decisions, np.where(decisions == -1, earlier, -1))
    whole = replace(source, labels=given, decided=decided, true_labels=None, test=None, validation=None)
    remaining = whole if len(kept) == len(given) else part(whole, kept)
    report = Reporter()
    report.quiet(True)

    def observe(view: EpochView) -> None:
        progress((view.epoch + 1) / (sum(phase.plan.epochs for phase in view.phases) + 1))

    head = head_recipe(source, recipe, trust_code=trust_code)
    result = run_recipe(remaining, head, seed=seed, report=report, observe=observe)
    if result is None or result.model is None:
        raise InputError("the training gave no model")
    findings = result.findings
    labels = np.full((len(given), min(CANDIDATES, findings.num_classes)), -1, np.int32)
    probs = np.zeros(labels.shape, np.float32)
    for start in range(0, len(kept), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(kept)))
        predicted = source_probabilities(result.model.network, result.model.transform, part(remaining, rows))
        best = np.argsort(-predicted, axis=1, kind="stable")[:, : labels.shape[1]]
        labels[kept[rows]], probs[kept[rows]] = best, np.take_along_axis(predicted, best, axis=1)
        progress(0.97)

    return Ranking(ranked_anew(before.findings, decisions, findings), labels, probs)


def ranked_anew(before: Findings, decisions: npt.NDArray[np.int64], learnt: Findings) -> Findings:
    """Return findings on N samples in which those without a decision (N,), -1, have what was learnt of those not
    dropped."""
    is_kept = decisions != WithoutLabel.DROP.value
    is_new = decisions == -1

    def merged(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> npt.NDArray[Any]:
        values = old.copy()
        values[is_new] = new[is_new[is_kept]]
        return values

    ranked = replace(
        before,
        suggested_labels=merged(before.suggested_labels, learnt.suggested_labels),
        label_quality=merged(before.label_quality, learnt.label_quality),
        suggested_confidence=merged(before.suggested_confidence, learnt.suggested_confidence),
        other_labels=merged(before.others[0], learnt.others[0]),
        other_confidence=merged(before.others[1], learnt.others[1]),
        threshold_info=learnt.threshold_info,
        noise=learnt.noise,
    )
    if (left := learnt.wrong_left) is None:
        return ranked
    share = ranked.expected_left / max(left.value, 1e-12)  # with the decided as their quality says
    return ranked.with_wrong_left(Interval(*(end * share for end in left)))


def head_recipe(source: Source, settings: dict[str, Any] | None, *, trust_code: bool = False) -> Recipe:
    """Return the recipe of a head on the vectors of a source: that of the run, if it trained on the same vectors."""
    from jnpl.models.build import FINETUNE  # noqa: PLC0415 - imports torch, which takes seconds
    from jnpl.recipes.automatic import adapt_recipe  # noqa: PLC0415
    from jnpl.recipes.schema import parse_recipe  # noqa: PLC0415

    if source.kind != "vector":
        raise InputError("this run trained a network from scratch on the samples themselves: only embeddings are quick")
    if settings is not None and not str(settings.get("model", "")).startswith(FINETUNE):
        recipe = parse_recipe(settings)
        if not trust_code:
            refuse_code(recipe.model)
        return recipe
    return adapt_recipe(source, None, None, {}).recipe
