"""An audit in progress: which labels to check, the answers of a person, and the noise rate that follows."""

import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from jnpl.internal.errors import InputError
from jnpl.judging.audit import (
    OPEN,
    UNSURE_LABEL,
    AuditSample,
    answers_of,
    draw,
    estimate,
    more_to_halve,
    of_all,
    population,
)
from jnpl.judging.caveats import noise_sentence
from jnpl.outputs.report import page
from jnpl.run_folder import AuditAnswer, AuditFacts, RunFolder

DEFAULT_COUNT = 50


class AuditSession:
    """The audit of a run. Its methods may be called from any thread; each answer is on disk when `answer` returns.

    `count` labels are to check, at least; None: those that were drawn before, else 50.
    """

    def __init__(self, run: RunFolder, count: int | None = None) -> None:
        self.run, self._count = run, count
        self.names, self._lock = run.findings.names, threading.RLock()

    def facts(self) -> AuditFacts:
        """Return the audit; labels are drawn, and not yet stored, if there are none, or too few of them, yet."""
        with self._lock:
            stored = self.run.read_audit()
            wanted = self._count or DEFAULT_COUNT
            if stored is not None and (self._count is None or wanted <= len(stored.positions)):
                return stored
            sample = draw(self.run.model_findings.open_quality, wanted)
            before = [] if stored is None else stored.positions
            positions = sample.positions.tolist()
            if positions[: len(before)] != before[: len(positions)]:
                raise InputError(
                    f"the findings have changed since {str(self.run.audit_file)!r} was drawn; move it away"
                )
            return AuditFacts(
                fingerprint=self.run.findings.fingerprint,
                sizes=sample.sizes.tolist(),
                positions=positions,
                part=sample.part.tolist(),
                answers=[] if stored is None else stored.answers,
            )

    def keep(self) -> AuditFacts:
        """Store what is drawn, so that the next call continues with it."""
        with self._lock:
            facts = self.facts()
            self.run.write_audit(facts)
            return facts

    def answer(self, answers: Iterable[tuple[int, int]], by: str) -> AuditFacts:
        """Store answers, (position, right class number, or WRONG_LABEL or UNSURE_LABEL); the last one counts."""
        with self._lock:
            facts, now = self.facts(), datetime.now(UTC).isoformat(timespec="milliseconds")
            added = [AuditAnswer(position=position, label=label, by=by, at=now) for position, label in answers]
            for answer in added:
                if answer.position not in facts.positions:
                    raise InputError(f"sample {answer.position} is not one of the {len(facts.positions)} to check")
                if not UNSURE_LABEL <= answer.label < len(self.names):
                    raise InputError(f"a label is a class number, 0 to {len(self.names) - 1}, got {answer.label}")
            facts = facts.model_copy(update={"answers": [*facts.answers, *added]})
            self.run.write_audit(facts)
            return facts

    def undo(self) -> AuditFacts:
        """Take back the last answer."""
        with self._lock:
            facts = self.facts()
            facts = facts.model_copy(update={"answers": facts.answers[:-1]})
            self.run.write_audit(facts)
            return facts

    def extend(self, count: int) -> AuditFacts:
        """Draw more labels."""
        with self._lock:
            self._count = len(self.facts().positions) + count
            return self.keep()

    def apply(self) -> None:
        """Let the answers change the findings, and renew the report, if there is one."""
        with self._lock:
            self.run.apply_audit()
            if self.run.report_page.is_file():
                page.write(self.run)

    def result(self) -> dict[str, Any]:
        """Return counts, the noise rate overall and by given class, and how many more checks halve the interval."""
        facts, findings = self.facts(), self.run.findings
        sample, answers = facts.sample, answers_of(findings, facts.sample, facts.labels)
        counts: dict[str, Any] = {
            "run": str(self.run.path),
            "drawn": len(answers),
            "answered": int((answers != OPEN).sum()),
        }
        if not np.isin(answers, (0, 1)).any():
            return counts | {"checked": 0, "wrong": 0, "unsure": counts["answered"]}
        model, by_class = self.run.model_findings, []
        rate = of_all(estimate(sample, answers), sample, model)
        given = findings.given_labels[sample.positions]
        scored = findings.given_labels[population(model.open_quality)]
        for label, size in enumerate(np.bincount(scored, minlength=findings.num_classes).tolist()):
            of_class = given == label
            if np.isin(answers[of_class], (0, 1)).any():
                alone = AuditSample(sample.positions[of_class], np.zeros(of_class.sum(), np.int64), np.array([size]))
                share = estimate(alone, answers[of_class])
                by_class.append({"class": self.names[label], **_numbers(share._asdict())})
        return {
            **counts,
            **_numbers(rate._asdict()),
            "noise_sentence": noise_sentence(findings.noise, str(self.run.path)) if findings.noise else None,
            "by_class": by_class,
            "more_to_halve": more_to_halve(sample, answers),
        }


def _numbers(rate: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a rate as `--json` names them."""
    low, high, share = rate.pop("low"), rate.pop("high"), rate.pop("rate")
    return {"noise_rate": share, "noise_interval": [low, high], **rate}
