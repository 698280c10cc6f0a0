"""Metrics of label quality, label issues and suggested labels, where the true labels are known.

Where a metric is undefined (no wrong label, or no right one) it is nan. The order of samples of equal quality does not
matter.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class IssueScores(NamedTuple):
    """Precision, recall and F1 of the label issues, with the wrong labels as positives."""

    precision: float
    recall: float
    f1: float


def average_precision(quality: npt.ArrayLike, is_noisy: npt.ArrayLike) -> float:
    """Return the average precision with the WRONG labels as positives and 1 - quality as score, not interpolated.

    Args:
        quality: (N,) label quality, LOWER is worse.
        is_noisy: (N,) true where the label is wrong.

    Returns:
        AP in 0..1; chance level is the noise rate.

    Example:
        >>> average_precision([0.1, 0.2, 0.8, 0.9], [True, False, True, False])  # (1/1 + 2/3) / 2
        0.8333333333333333
    """
    from sklearn.metrics import average_precision_score  # noqa: PLC0415 (light without it)

    scores, positives = _checked(quality, is_noisy)
    if positives.all() or not positives.any():
        return float("nan")
    return float(average_precision_score(positives, -scores))  # the order of 1 - quality, without its rounding


def average_precision_clean(quality: npt.ArrayLike, is_noisy: npt.ArrayLike) -> float:
    """Return the average precision with the RIGHT labels as positives and the quality as score, not interpolated.

    Args:
        quality: (N,) label quality, LOWER is worse.
        is_noisy: (N,) true where the label is wrong.

    Returns:
        AP in 0..1; chance level is 1 - noise rate.

    Example:
        >>> average_precision_clean([0.1, 0.2, 0.8, 0.9], [True, False, True, False])  # (1/1 + 2/3) / 2
        0.8333333333333333
    """
    scores, noisy = _checked(quality, is_noisy)
    return average_precision(-scores, ~noisy)


def roc_auc(quality: npt.ArrayLike, is_noisy: npt.ArrayLike) -> float:
    """Return the probability that a wrong label has a lower quality than a right one, ties counting half.

    Args:
        quality: (N,) label quality, LOWER is worse.
        is_noisy: (N,) true where the label is wrong.

    Returns:
        Area under the ROC curve in 0..1; chance level is 0.5.

    Example:
        >>> roc_auc([0.1, 0.2, 0.8, 0.9], [True, False, True, False])
        0.75
    """
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 (light without it)

    scores, noisy = _checked(quality, is_noisy)
    if noisy.all() or not noisy.any():
        return float("nan")
    return float(roc_auc_score(noisy, -scores))


def precision_at_k(quality: npt.ArrayLike, is_noisy: npt.ArrayLike, k: int | None = None) -> float:
    """Return the share of wrong labels among the `k` of lowest quality.

    Args:
        quality: (N,) label quality, LOWER is worse.
        is_noisy: (N,) true where the label is wrong.
        k: 1 to N; by default the number of wrong labels.

    Returns:
        Precision in 0..1; where the k-th sample has the same quality as others, the mean over their orders.

    Example:
        >>> precision_at_k([0.1, 0.2, 0.8, 0.9], [True, False, True, False])
        0.5
        >>> precision_at_k([0.5, 0.5, 0.5, 0.5], [True, False, False, False])
        0.25
    """
    scores, noisy = _checked(quality, is_noisy)
    if k is None:
        k = int(noisy.sum())
        if k in {0, len(noisy)}:
            return float("nan")
    if not 1 <= k <= len(noisy):
        raise InputError(f"k must lie in 1..{len(noisy)}, not {k!r}")
    last = np.partition(scores, k - 1)[k - 1]
    below, tied = scores < last, scores == last
    wrong = noisy[below].sum() + (k - below.sum()) * noisy[tied].mean()
    return float(wrong / k)


def issue_scores(is_label_issue: npt.ArrayLike, is_noisy: npt.ArrayLike) -> IssueScores:
    """Return precision, recall and F1 of the label issues.

    Args:
        is_label_issue: (N,) true where the run takes the label for wrong.
        is_noisy: (N,) true where the label is wrong.

    Returns:
        Three numbers in 0..1; 0 where one is undefined.

    Example:
        >>> issue_scores([True, True, False, False], [True, False, True, False])
        IssueScores(precision=0.5, recall=0.5, f1=0.5)
    """
    issue, noisy = _mask("is_label_issue", is_label_issue), _mask("is_noisy", is_noisy)
    _same_length(is_label_issue=issue, is_noisy=noisy)
    hits, issues, wanted = int((issue & noisy).sum()), int(issue.sum()), int(noisy.sum())
    return IssueScores(hits / max(issues, 1), hits / max(wanted, 1), 2 * hits / max(issues + wanted, 1))


def accuracy(predicted: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """Return the share of equal labels.

    Args:
        predicted: (N,) labels.
        true: (N,) labels.

    Returns:
        Accuracy in 0..1; nan without samples.

    Example:
        >>> accuracy([0, 1, 2, 2], [0, 1, 2, 0])
        0.75
    """
    one, other = np.asarray(predicted), np.asarray(true)
    _same_length(predicted=one, true=other)
    return float((one == other).mean()) if len(one) else float("nan")


def relabel_accuracy(
    suggested: npt.ArrayLike, given: npt.ArrayLike, true: npt.ArrayLike, is_label_issue: npt.ArrayLike
) -> float:
    """Return the share of right labels after every label issue gets its suggested label.

    Args:
        suggested: (N,) suggested labels.
        given: (N,) given labels.
        true: (N,) true labels.
        is_label_issue: (N,) true where the suggested label replaces the given one.

    Returns:
        Accuracy in 0..1; nan without samples.

    Example:
        >>> relabel_accuracy(suggested=[1, 1, 0], given=[0, 1, 1], true=[1, 1, 1], is_label_issue=[True, False, False])
        1.0
    """
    issue, new, old = _mask("is_label_issue", is_label_issue), np.asarray(suggested), np.asarray(given)
    _same_length(suggested=new, given=old, is_label_issue=issue)
    return accuracy(np.where(issue, new, old), true)


def evaluate(findings: Findings, true_labels: npt.ArrayLike) -> dict[str, float]:
    """Return the metrics of findings by name.

    Args:
        findings: of N samples; those without a quality are left out.
        true_labels: (N,) class numbers.

    Returns:
        ap, ap_clean, roc_auc, precision, recall, f1, precision_at_k, relabel_accuracy.

    Example:
        >>> from jnpl import Findings
        >>> findings = Findings.from_probs([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], labels=[0, 0, 1])
        >>> metrics = evaluate(findings, true_labels=[0, 1, 1])
        >>> metrics["ap"], metrics["f1"], metrics["relabel_accuracy"]
        (1.0, 1.0, 1.0)
    """
    true = np.asarray(true_labels)
    _same_length(given_labels=findings.given_labels, true_labels=true)
    if true.dtype.kind not in "iu":
        raise InputError(f"true_labels must be whole numbers like the given ones, not {true.dtype}")
    has_quality = ~np.isnan(findings.label_quality)
    quality, issue = findings.label_quality[has_quality], findings.is_label_issue[has_quality]
    given, suggested, true = (
        findings.given_labels[has_quality],
        findings.suggested_labels[has_quality],
        true[has_quality],
    )
    noisy = given != true
    return {
        "ap": average_precision(quality, noisy),
        "ap_clean": average_precision_clean(quality, noisy),
        "roc_auc": roc_auc(quality, noisy),
        **issue_scores(issue, noisy)._asdict(),
        "precision_at_k": precision_at_k(quality, noisy),
        "relabel_accuracy": relabel_accuracy(suggested, given, true, issue),
    }


def _checked(quality: npt.ArrayLike, is_noisy: npt.ArrayLike) -> tuple[Floats, Mask]:
    scores, noisy = np.asarray(quality, np.float64), _mask("is_noisy", is_noisy)
    _same_length(quality=scores, is_noisy=noisy)
    if np.isnan(scores).any():
        raise InputError(f"quality of sample {int(np.isnan(scores).argmax())} is nan: leave such samples out")
    return scores, noisy


def _mask(name: str, values: npt.ArrayLike) -> Mask:
    array = np.asarray(values)
    if array.size and array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise InputError(f"{name} must be booleans, not {array.dtype}")
    return array.astype(bool)


def _same_length(**arrays: npt.NDArray[np.generic]) -> None:
    if any(array.ndim != 1 for array in arrays.values()) or len({len(array) for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(f"shapes must be (N,) with the same N, not {shapes}")
