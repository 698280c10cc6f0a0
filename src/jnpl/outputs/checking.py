"""New labelled samples, judged by a finished run that never saw them, and compared with the samples of the run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jnpl.analysis.leaks import new_column_lines
from jnpl.analysis.reference import Comparison, Reference, class_mix_test, compare
from jnpl.data.join import with_classes_of
from jnpl.data.split import part
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.judging.excerpts import excerpts
from jnpl.judging.findings import Findings
from jnpl.judging.groups import FALSE_SHARE, step_up
from jnpl.judging.groups import sentences as group_sentences
from jnpl.judging.label_tests import label_p_values, margins, regression_support
from jnpl.judging.out_of_fold import FOLDS, deal_folds, expected_scale
from jnpl.judging.posterior import posterior
from jnpl.judging.scoring import MIN_CALIBRATED, with_trees
from jnpl.judging.trees import TreePredictions, share_agreeing, tree_predictions
from jnpl.outputs.saved_model import SavedModel, embedded_as_run
from jnpl.pipeline import EmbeddedData, Origin, write_data
from jnpl.training.reporting import Reporter

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.embedding.compute import EmbeddingOptions
    from jnpl.run_folder import RunFolder

Floats: TypeAlias = "npt.NDArray[np.float64]"
Mask: TypeAlias = "npt.NDArray[np.bool_]"

SIGNALS = ("new-issues", "leaks", "unknown-classes", "shift")  # what a gate can fail on
_MOST = 1000  # samples of each kind to list
_SIGNIFICANT = 0.05  # p-value, corrected for the number of tests
_SCALE = 1.2  # of a finished head, relative to one that is trained out of fold: 0.97 to 1.53 on five sets
_NORMAL_90 = 1.645  # standard deviations to either side that hold 90 % of a normal distribution


@dataclass(frozen=True, eq=False)
class CheckedBatch:
    """New samples and what a run says of them.

    Attributes:
        findings: on every label. A label that names no class of the run has no quality.
        facts: how the samples compare with those of the run, for check.json.
        data: the samples as they are and embedded.
    """

    findings: Findings
    facts: dict[str, Any]
    data: EmbeddedData

    @property
    def signals(self) -> dict[str, str]:
        """What a gate can fail on, with the sentence that tells it."""
        signals: dict[str, str] = self.facts["signals"]
        return signals

    def write(self, folder: RunFolder, origin: Origin, report: Reporter | None = None) -> None:
        """Write a run folder that `jnpl report`, `review`, `apply` and `export` take."""
        source, results = self.data.source, {"run": str(folder.path), **summary(self)}
        identity = {"seed": 0, "data": source.name, "fingerprint": source.fingerprint()}
        folder.open(identity)
        with folder.lock():
            folder.begin(identity)
            folder.save_findings(self.findings)
            write_data(folder, self.data, [], None, origin, report or Reporter())
            write_text(folder.path / "check.json", json.dumps(self.facts, indent=1) + "\n")
            folder.__dict__.pop("comparison", None)
            folder.write(identity, "finished", results)


def summary(batch: CheckedBatch) -> dict[str, Any]:
    """Return the counts that `--json` prints and run.json has."""
    findings = batch.findings
    interval = findings.noise_interval
    return {
        "samples": len(findings.given_labels),
        "classes": findings.num_classes,
        "issues": int(findings.is_label_issue.sum()),
        "noise_rate": findings.noise_facts["noise_rate"],
        **({} if interval is None else {"noise_interval": list(interval)}),
    }


def check_samples(
    run: RunFolder, source: Source, options: EmbeddingOptions, *, trust_code: bool = False, seed: int = 0
) -> CheckedBatch:
    """Judge new samples with the model of a run, and compare them with its samples.

    Args:
        run: a finished run.
        source: the new samples with given labels, of any classes.
        options: how to embed them; the backbone and the views are those of the run.
        trust_code: allow a model that is code of the user's own.
        seed: of the tests.
    """
    model = SavedModel.load(run.path, trust_code=trust_code, head_only=True)
    source = replace(with_classes_of(model.classes, source), decided=None)
    embedded = embedded_as_run(run, source, options)
    file = run.reference_vectors
    reference = Reference.load(file) if file.exists() and embedded.kind == "vector" else None
    findings, unlikely = _judged(run, model, embedded, reference, seed)
    comparison = None if reference is None else compare(reference, embedded, seed)
    columns = new_column_lines(source, run.data_facts.choices) if len(source) >= MIN_CALIBRATED else []
    facts = _facts(run, findings, unlikely, comparison, len(model.classes), columns)
    return CheckedBatch(findings, facts, EmbeddedData(source, embedded, [], {}, []))


def _judged(
    run: RunFolder, model: SavedModel, source: Source, reference: Reference | None, seed: int
) -> tuple[Findings, Mask | None]:
    """Return the findings on all samples, and which labels are very unlikely to be right, where that can be told.

    A label of no class of the run has no quality.
    """
    size = len(model.classes)
    rows = np.flatnonzero(source.labels < size)
    if not len(rows):
        shown = ", ".join(map(str, model.classes[:10]))
        raise InputError(f"{source.name} has no label of the run's classes ({shown})")
    probs = model.probabilities(source).astype(np.float64)
    usable, labels = rows[~np.isnan(probs[rows, 0])], source.labels
    scored, p_values = _scored(run, probs[usable], labels[usable], part(source, usable), reference, seed)
    unlikely = None if p_values is None else np.zeros(len(source), bool)
    if unlikely is not None and p_values is not None:
        unlikely[usable] = step_up(p_values, FALSE_SHARE) & scored.is_label_issue
    quality, confidence = np.full(len(source), np.nan), np.full(len(source), np.nan)
    suggested = labels.copy()
    quality[usable], confidence[usable] = scored.label_quality, scored.suggested_confidence
    suggested[usable] = scored.suggested_labels
    other, other_confidence = np.full(len(source), -1), np.full(len(source), np.nan)
    other[usable], other_confidence[usable] = scored.others
    strange = np.setdiff1d(np.flatnonzero(~np.isnan(probs[:, 0])), rows)
    suggested[strange], confidence[strange] = probs[strange].argmax(axis=1), probs[strange].max(axis=1)
    broken = np.isnan(probs[:, 0])
    findings = replace(
        scored,
        other_labels=other,
        other_confidence=other_confidence,
        given_labels=labels,
        suggested_labels=suggested,
        label_quality=quality,
        suggested_confidence=confidence,
        num_classes=len(source.class_names),
        class_names=source.class_names,
        ids=source.ids,
        paths=source.paths,
        unreadable=broken if broken.any() else None,
        groups=source.groups,
    )
    return replace(findings, excerpts=excerpts(source, findings)), unlikely


def _scored(
    run: RunFolder, probs: Floats, labels: npt.NDArray[np.int64], source: Source, reference: Reference | None, seed: int
) -> tuple[Findings, Floats | None]:
    """Return the findings on samples of the run's classes, by (N, C) probabilities of its model, and the p-values (N,)
    of their labels if they are right; None without vectors of the run."""
    verdict, size = (run.run_facts.recipe or {}).get("verdict", {}), probs.shape[1]
    unseen, p_values = probs, None  # `unseen` calibrate, and have the scale if they are as sure as expected
    scale: float | None = expected_scale(size) * _SCALE
    if reference is not None:
        old, right = run.findings.given_labels[reference.rows], run.findings.label_quality[reference.rows]
        right = np.nan_to_num(right)  # unreadable samples count for nothing
        if verdict.get("trees") and len(reference.mean):
            seen, trees = _tree_predictions(reference, old, labels, source, seed)
            probs, unseen, scale = with_trees(probs, trees, labels)[0], trees.probs.astype(np.float64), None
            support = margins(seen, old), margins(trees.probs, labels)
        else:
            vectors = reference.vectors, reference.project(source)[1]
            support = regression_support(vectors[0], old, right, vectors[1], labels, size)
        p_values = label_p_values(support[0], right, support[1])
    transition = 0.99 * run.findings.transition_matrix + 0.01 / size  # a small share of every mistake
    known_noise = probs * transition[:, labels].T  # Bayes' rule with the noise of the run
    known_noise /= known_noise.sum(axis=1, keepdims=True)
    if len(labels) < MIN_CALIBRATED:  # too few to estimate their noise anew
        return Findings.from_probs(known_noise, labels), p_values
    mixed = (probs + known_noise + posterior(probs, labels).probs) / 3
    threshold = verdict.get("threshold", "auto")
    return Findings.from_probs(mixed, labels, threshold=threshold, unseen_probs=unseen, unseen_scale=scale), p_values


def _tree_predictions(
    reference: Reference, old: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], source: Source, seed: int
) -> tuple[npt.NDArray[np.float32], TreePredictions]:
    """Return what trees that are grown on the samples of the run predict for them (N, C), unseen, and for new ones."""
    _, new = reference.project(source)
    vectors, given = np.concatenate([reference.vectors, new]), np.concatenate([old, labels])
    is_old = (np.arange(len(given)) < len(old)).astype(np.float32)
    classes = int(max(given.max() + 1, 2))
    trees = tree_predictions(vectors, given, deal_folds(given, FOLDS, seed), classes, weights=is_old, seed=seed)
    probs = trees.probs[len(old) :]
    return trees.probs[: len(old)], TreePredictions(probs, share_agreeing(probs, labels), trees.description)


def _facts(
    run: RunFolder,
    findings: Findings,
    unlikely: Mask | None,
    comparison: Comparison | None,
    classes: int,
    leaks: list[str],
) -> dict[str, Any]:
    """Return what check.json says; `leaks` are lines on columns that predict the label."""
    signals = {}
    facts: dict[str, Any] = {"run": str(run.path), "run_noise_rate": run.findings.noise_facts["noise_rate"]}
    facts["compared"] = comparison is not None
    facts["unknown_classes"] = strange = _unknown_classes(findings, classes)
    sentences = [_about(unknown) for unknown in strange]
    if comparison is not None:
        facts |= {
            "far": [{"id": _plain(findings.ids[at]), "p_value": comparison.far[at]} for at in _farthest(comparison)],
            "extra_far": comparison.extra_far,
            "extra_far_p": comparison.extra_far_p,
            **_copies(run, findings, comparison),
        }
        if comparison.is_far.any() or comparison.extra_far_p < _SIGNIFICANT:
            count = max(int(comparison.is_far.sum()), comparison.extra_far)
            they = "sample looks" if count == 1 else "samples look"
            sentences.append(f"about {count:,} {they} like nothing in the run: a class that it does not know?")
    if sentences:
        signals["unknown-classes"] = "; ".join(sentences)
    if facts.get("copy_samples"):
        differ = facts["conflicting_copies"]
        labelled = f", {differ:,} of them with another label" if differ else ""
        count = facts["copy_samples"]
        they = "sample is" if count == 1 else "samples are"
        leaks = [f"{count:,} {they} the same or nearly the same as samples of the run{labelled}", *leaks]
    if leaks:
        signals["leaks"] = "; ".join(leaks)
        sentences += leaks
    shift, shifts = _shift(run, findings, comparison, classes)
    if shifts:
        signals["shift"] = "; ".join(shifts)
    alarming = findings.is_label_issue if unlikely is None else unlikely
    facts["alarming"] = [_plain(findings.ids[at]) for at in np.flatnonzero(alarming).tolist()]
    if issues := int(alarming.sum()):
        signals["new-issues"] = f"{issues:,} label{'s are' if issues > 1 else ' is'} very unlikely to be right"
    return {**facts, "shift": shift, "sentences": [*sentences, *shifts, *group_sentences(findings)], "signals": signals}


def _unknown_classes(findings: Findings, classes: int) -> list[dict[str, Any]]:
    """Return the classes that the run does not have, and which of its classes their samples look like."""
    names, listed = findings.class_names or (), []
    for label in range(classes, findings.num_classes):
        members = findings.given_labels == label
        counts = np.bincount(findings.suggested_labels[members & ~np.isnan(findings.suggested_confidence)])
        like = int(counts[:classes].argmax()) if len(counts) else 0
        share = float(counts[like] / max(counts.sum(), 1)) if len(counts) else 0.0
        listed.append({"class": names[label], "count": int(members.sum()), "looks_like": names[like], "share": share})
    return listed


def _about(strange: dict[str, Any]) -> str:
    count = f"{strange['count']:,} sample{'s' if strange['count'] > 1 else ''}"
    most = f"; {strange['share']:.0%} of them look like {strange['looks_like']}" if strange["share"] > 0.5 else ""
    return f"the run does not know the class {strange['class']} ({count}{most})"


def _farthest(comparison: Comparison) -> list[int]:
    """Return the positions of the samples that are among the farthest 5 %, the farthest first."""
    order: list[int] = np.argsort(comparison.far, kind="stable").tolist()  # nan last
    most = max(int(comparison.is_far.sum()), comparison.extra_far if comparison.extra_far_p < _SIGNIFICANT else 0)
    return order[: min(most, _MOST)]


def _copies(run: RunFolder, findings: Findings, comparison: Comparison) -> dict[str, Any]:
    old, names = run.findings, findings.class_names or ()
    listed = [
        {
            "id": _plain(findings.ids[copy.new]),
            "label": names[findings.given_labels[copy.new]],
            "run_id": _plain(old.ids[copy.old]),
            "run_label": names[old.given_labels[copy.old]],
        }
        for copy in comparison.copies
    ]
    listed.sort(key=lambda row: row["label"] == row["run_label"])
    differ = sum(row["label"] != row["run_label"] for row in listed)
    return {"copies": listed[:_MOST], "copy_samples": len(listed), "conflicting_copies": differ}


def _shift(
    run: RunFolder, findings: Findings, comparison: Comparison | None, classes: int
) -> tuple[dict[str, Any], list[str]]:
    """Return the p-values of three shifts, and a sentence for each that is significant, by the rule of Holm (1979)."""
    old, names = run.findings, findings.class_names or ()
    counts = [np.bincount(result.given_labels, minlength=findings.num_classes)[:classes] for result in (findings, old)]
    shares = [count / max(count.sum(), 1) for count in counts]
    most = int(np.abs(shares[0] - shares[1]).argmax())
    tests = {
        "classes": (
            class_mix_test(counts[0], counts[1]),
            f"the mix of the classes differs: {shares[0][most]:.0%} {names[most]}, in the run {shares[1][most]:.0%}",
        )
    }
    recipe = run.run_facts.recipe or {}  # only rates by predictions that did not see the labels can be compared
    unseen = recipe.get("model") == "linear" or recipe.get("verdict", {}).get("trees")
    if (
        findings.noise is not None
        and old.noise is not None
        and unseen
        and not math.isnan(findings.noise_rate - old.noise_rate)
    ):
        spread = [(estimate.high - estimate.low) / (2 * _NORMAL_90) for estimate in (findings.noise, old.noise)]
        tests["noise_rate"] = (
            _two_sided(findings.noise_rate - old.noise_rate, sum(spread)),
            f"the share of wrong labels differs: {findings.noise_rate:.1%}, in the run {old.noise_rate:.1%}",
        )
    if comparison is not None and comparison.p_value == comparison.p_value:
        tests["features"] = (
            comparison.p_value,
            f"the samples differ: a classifier tells the new of two samples in {comparison.separability:.0%} of pairs",
        )
    significant = []
    for rank, name in enumerate(sorted(tests, key=lambda name: tests[name][0])):
        if tests[name][0] * (len(tests) - rank) >= _SIGNIFICANT:
            break
        significant.append(f"{tests[name][1]} (p = {tests[name][0]:.2g})")
    facts: dict[str, Any] = {name: p_value for name, (p_value, _) in tests.items()}
    if "features" in tests and comparison is not None:
        facts["separability"] = comparison.separability
    return facts, significant


def _two_sided(difference: float, spread: float) -> float:
    """Return the p-value of a difference that is normal with this standard deviation if it is 0 on average."""
    from math import erfc  # noqa: PLC0415 - the one use

    return erfc(abs(difference) / max(spread, 1e-9) / 2**0.5)


def _plain(name: Any) -> int | str:
    return name if isinstance(name, str) else int(name)
