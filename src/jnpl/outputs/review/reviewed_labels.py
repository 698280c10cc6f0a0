"""What the decisions of a review, and of those before it, mean for the labels of the data."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.label_files import WithoutLabel
from jnpl.data.source import Source
from jnpl.data.split import part
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings
from jnpl.judging.noise_model import Interval
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.outputs.review import estimates
from jnpl.outputs.review.decisions import ACTIONS, CurrentDecisions, DecisionStore, open_store
from jnpl.outputs.review.ranking import Ranking, ranking_of
from jnpl.run_folder import DataFacts, RunFolder

Labels: TypeAlias = npt.NDArray[np.int64]
_WITHOUT = (WithoutLabel.DROP.value, WithoutLabel.UNSURE.value)  # of the actions "drop" and "unsure"


class ReviewedRun(NamedTuple):
    """What a run, Learn and all decisions say now: the one source of suspects and counts for page, report and apply."""

    ranking: Ranking  # the findings of the run, or of the last Learn, without the decisions of this review
    findings: Findings  # the same with all decisions: decided samples are no suspects, and the noise rate follows
    decisions: Labels  # (N,) of this review: class numbers, -1 for none, or the value of a `WithoutLabel`
    left: Interval  # how many labels are wrong among those that nobody decided about
    precision: Interval | None = None  # share of wrong labels among the decided suspects; None before the first

    @property
    def decided(self) -> int:
        """Number of samples that this review has a label for, or dropped."""
        return int(np.count_nonzero((self.decisions >= 0) | (self.decisions == WithoutLabel.DROP.value)))

    @property
    def has_decisions(self) -> bool:
        """Whether this review has any decision."""
        return bool((self.decisions != -1).any())

    @property
    def all_decisions(self) -> Labels:
        """(N,) decisions of this review and, where it has none, of those before it and of an audit."""
        return np.where(self.decisions == -1, self.ranking.findings.decided_labels, self.decisions)


def reviewed_run(run: RunFolder) -> ReviewedRun:
    """Return what a run, Learn and all decisions say now."""
    if not run.decisions.exists():
        return run_alone(run)
    with closing(open_store(run)) as store:
        return review_of(last_ranking(store, run)[0], store.current())


def run_alone(run: RunFolder) -> ReviewedRun:
    """Return what a run says without its review."""
    findings = run.sample_findings
    return review_of(ranking_of(findings), as_current(np.full(len(findings.ids), -1), findings))


def last_ranking(store: DecisionStore, run: RunFolder, *, with_audit: bool = True) -> tuple[Ranking, int]:
    """Return the ranking that was learnt last and the number of its decisions; that of the run's findings and 0.

    What an audit says of the noise rate, or a caveat, holds for the learnt ranking too.
    """
    stored = store.last_round()
    if stored is None:
        return ranking_of(run.sample_findings if with_audit or run.has_tags else run.model_findings), 0
    number, decisions, arrays = stored
    findings = run.model_findings
    learnt = Ranking.from_bytes(arrays, number, findings)
    if not with_audit:
        return learnt, decisions
    judged = run.with_audit(learnt.findings)
    if findings.noise is not None and judged.noise is not None and findings.noise.caveat and not judged.noise.checked:
        low, high = min(findings.noise.low, judged.noise.low), max(findings.noise.high, judged.noise.high)
        judged = replace(judged, noise=judged.noise._replace(low=low, high=high, caveat=findings.noise.caveat))
    return replace(learnt, findings=judged), decisions


def review_of(ranking: Ranking, current: CurrentDecisions) -> ReviewedRun:
    """Return what a ranking and decisions say together."""
    before = ranking.findings
    decisions = resolve(current, before.given_labels)
    findings = before.with_decisions(decisions) if len(current.positions) else before
    sure = current.actions != ACTIONS.index("unsure")
    wrong = np.isin(current.actions, [ACTIONS.index("relabel"), ACTIONS.index("drop")])
    suspects, scored = sure & current.suspects, sure & ~np.isnan(current.qualities)
    precision = estimates.precision(int((wrong & suspects).sum()), int(suspects.sum()))
    if before.wrong_left is not None and not len(current.positions):
        return ReviewedRun(ranking, findings, decisions, before.wrong_left, precision)
    quality, expected = np.where(before.is_certain, np.nan, before.label_quality), before.wrong_left
    unknown = before.expected_left if isinstance(before, TagSetFindings) else before.is_label_issue.sum()
    total = unknown if expected is None else expected.value
    start = estimates.prior(quality, total, None if expected is None else expected.high)
    corrected = estimates.Corrected.by_decisions(current.qualities[scored], wrong[scored], start)
    is_open = ~findings.is_certain
    left = corrected.left(findings.label_quality[is_open])
    chances = np.where(is_open, corrected.chances(findings.label_quality), 1 - findings.label_quality)
    findings = replace(findings, chance_wrong=chances).with_wrong_left(left)
    return ReviewedRun(ranking, findings, decisions, left, precision)


def as_current(decisions: Labels, findings: Findings) -> CurrentDecisions:
    """Return decisions (N,) of a table as if they had just been made in a review."""
    at = np.flatnonzero(decisions != -1)
    codes = decisions[at]
    actions = np.select(
        [codes == findings.given_labels[at], codes >= 0, codes == WithoutLabel.DROP.value],
        [ACTIONS.index(name) for name in ("keep", "relabel", "drop")],
        ACTIONS.index("unsure"),
    )
    return CurrentDecisions(
        positions=at,
        actions=actions.astype(np.int8),
        labels=np.where(actions == ACTIONS.index("relabel"), codes, -1),
        qualities=findings.label_quality[at],
        suspects=findings.is_label_issue[at],
    )


def with_review(source: Source, folder: str | os.PathLike[str]) -> Source:
    """Return the source with the decisions of the review of a run: decided labels beside the given ones, and without
    the dropped samples. Samples that the run does not have stay as they are.

    Decisions that the run was given itself (`jnpl find --review`) count as well, unless its own review says otherwise.
    """
    run = RunFolder(folder)
    findings, facts = run.findings, run.require_data_facts()
    if not run.decisions.exists() and not facts.dropped and not facts.decided and not findings.is_decided.any():
        raise InputError(
            f"{str(run.path)!r} has no decisions: there is no {run.decisions.name} (jnpl review {run.path})"
        )
    decisions = reviewed_run(run).all_decisions
    names = {str(name): number for number, name in enumerate(source.class_names)}
    classes = findings.names
    if strange := [str(name) for name in classes if str(name) not in names]:
        raise InputError(f"{str(run.path)!r} has a class {strange[0]!r} that {source.name} has not")
    rows = _rows_of(source.ids, findings.ids, run.path)
    numbers = np.array([names[str(name)] for name in classes], np.int64)
    labels, dropped = _earlier(facts, source, names, run.path)
    codes = np.where(rows >= 0, decisions[rows], -1)
    labels = np.where(codes >= 0, numbers[codes], np.where(codes == -1, labels, -1))
    dropped = np.where(codes == -1, dropped, codes == WithoutLabel.DROP.value)
    kept = replace(source, decided=labels)
    if not dropped.any():
        return kept
    some = part(kept, np.flatnonzero(~dropped))
    return replace(some, test=source.test, validation=source.validation)


def _earlier(
    facts: DataFacts, source: Source, names: dict[str, int], run: Path
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return labels (N,), or -1, and dropped samples (N,) by the decisions that a run was given itself."""
    decided = {str(sample.id): str(sample.label) for sample in facts.decided}
    if strange := [label for label in decided.values() if label not in names]:
        raise InputError(f"data.json of {str(run)!r} has a class {strange[0]!r} that {source.name} has not")
    ids, dropped = [str(name) for name in source.ids.tolist()], {str(name) for name in facts.dropped}
    labels = np.array([names[decided[name]] if name in decided else -1 for name in ids], np.int64)
    return labels, np.array([name in dropped for name in ids], bool)


def given_decisions(before: Source, after: Source) -> dict[str, Any]:
    """Return what `with_review` has changed, for data.json of the next run: decided labels and dropped ids."""
    decided = np.full(len(after), -1) if after.decided is None else after.decided
    rows = np.flatnonzero(decided >= 0)
    kept = {str(name) for name in after.ids.tolist()}
    return {
        "decided": [
            {"id": name, "label": after.class_names[label]}
            for name, label in zip(after.ids[rows].tolist(), decided[rows].tolist(), strict=True)
        ],
        "dropped": [name for name in before.ids.tolist() if str(name) not in kept],
    }


def _rows_of(ids: npt.NDArray[Any], ids_of_run: npt.NDArray[Any], run: Path) -> npt.NDArray[np.int64]:
    """Return the row of a run for each of N samples (N,), -1 where it has none."""
    names, names_of_run = [str(name) for name in ids.tolist()], [str(name) for name in ids_of_run.tolist()]
    if names == names_of_run:
        return np.arange(len(names))
    place = {name: row for row, name in enumerate(names_of_run)}
    if len(place) < len(names_of_run):
        raise InputError(f"several samples of {str(run)!r} share an id, and these are not exactly its data")
    rows = np.array([place.get(name, -1) for name in names], np.int64)
    if (rows < 0).all():
        raise InputError(f"none of the samples is in {str(run)!r}: an id there is one like {names_of_run[0]!r}")
    return rows


def resolve(current: CurrentDecisions, given_labels: Labels) -> Labels:
    """Return what current decisions mean for (N,) given labels: class numbers, -1, or the value of a `WithoutLabel`."""
    codes = np.full(len(given_labels), -1, np.int64)
    given = given_labels[current.positions]
    meanings = [given, current.labels, *(np.full_like(given, code) for code in _WITHOUT)]  # in the order of ACTIONS
    codes[current.positions] = np.choose(current.actions, meanings)
    return codes
