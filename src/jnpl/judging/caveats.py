"""What the estimated noise rate is worth, and the one sentence that says so everywhere.

The estimate assumes that wrong labels are not what the features predict. Where labels come from a rule, they are: a
wrong label then looks like a right one, to every method that has only features and given labels. And with few samples
per class nothing can tell wrong labels from classes that the features do not part. Both can be seen without a true
label; the interval then says what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jnpl.judging.noise_model import NoiseEstimate

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Labels: TypeAlias = npt.NDArray[np.int64]

NO_SIGNAL = "the features predict the labels no better than chance"
_LEAST = 0.005  # share that is worth saying "at least"
_FEW, _BLURRED = 100, 0.35  # samples per class, overlap: with fewer and more, noise can hardly be told from overlap
_MAX_SAMPLES, _MAX_WORDS = 10_000, 5_000  # that a rule is searched in
_LEAVES = {"words": 40, "values": 2}  # of a tree, per class
# A tree that agrees with so many labels, and with so large a part of those that the whole features predict (both beyond
# the largest class), repeats a rule: labels of people, right ones as well as wrong ones, are told by more than that.
_AGREEMENT = {"words": 0.82, "values": 0.85}
_SHARE = {"words": 0.87, "values": 0.97}
_REPEATED = 0.05  # by which out-of-fold heads agree more often than they are sure


def noise_sentence(noise: NoiseEstimate, run: str = "RUN") -> str:
    """Return the noise rate in words, with its interval, or the reason why it cannot be told.

    >>> from jnpl.judging.noise_model import NoiseEstimate
    >>> noise_sentence(NoiseEstimate(0.18, 0.162, 0.198, 0.1))
    'estimated share of wrong labels 18.0% (16.2% to 19.8% with 90 % confidence)'
    >>> noise_sentence(NoiseEstimate(0.18, 0.1, 0.27, 0.1, checked=50))
    'share of wrong labels 18.0% (10.0% to 27.0% with 90 % confidence), from 50 labels checked at random'
    >>> noise_sentence(NoiseEstimate(0.02, 0.02, 1.0, 0.1, caveat="the labels seem to follow a rule"))
    'share of wrong labels at least 2.0%; the labels seem to follow a rule: check 50 at random (jnpl audit RUN)'
    """
    if noise.caveat is not None:
        return f"share of wrong labels {stated(noise)}; {noise.caveat}: check 50 at random (jnpl audit {run})"
    span = f"({noise.low:.1%} to {noise.high:.1%} with 90 % confidence)"
    if noise.checked:
        return f"share of wrong labels {stated(noise)} {span}, from {noise.checked:,} labels checked at random"
    return f"estimated share of wrong labels {stated(noise)} {span}"


def stated(noise: NoiseEstimate) -> str:
    """Return the noise rate as far as it is known: a number, a range, a lower end, or "unknown"."""
    if noise.caveat is None:
        return f"{noise.rate:.1%}"
    if not is_withheld(noise):
        return f"{noise.low:.1%} to {noise.high:.1%}"
    return f"at least {noise.low:.1%}" if noise.low >= _LEAST else "unknown"


def of_few_samples(noise: NoiseEstimate, unseen: Floats, labels: Labels) -> NoiseEstimate:
    """Return an estimate that reaches up to the share of labels which are not predicted, if there are too few samples
    per class to tell noise from overlap.
    """
    per_class = len(labels) / max(len(np.unique(labels)), 1)
    if per_class >= _FEW or noise.overlap < _BLURRED:
        return noise
    missed = float((unseen.argmax(1) != labels).mean())
    caveat = f"there are {per_class:.0f} samples per class, too few to tell wrong labels from overlapping classes"
    return noise._replace(high=min(max(noise.high, missed), 1.0), caveat=caveat)


def of_rules(
    noise: NoiseEstimate, unseen: Floats, labels: Labels, content: Sequence[str] | Floats | None, *, heads: bool
) -> NoiseEstimate:
    """Return an estimate without an upper end, if the labels seem to follow a rule: then wrong ones look right.

    `unseen` (N, C) are predictions of models that did not see the label; rows of nan do not count. `heads`: they are
    those of linear heads, whose confidence is that in the true label. `content`: texts, or the columns of a table.
    """
    rows = np.flatnonzero(~np.isnan(unseen[:, 0]))
    rows = np.random.default_rng(0).permutation(rows)[:_MAX_SAMPLES]
    if len(np.unique(labels[rows])) < 2:
        return noise
    caveat, agreement = None, float((unseen[rows].argmax(1) == labels[rows]).mean())
    if content is not None and (rule := _rule(content, labels, rows, agreement)) is not None:
        caveat = f"the labels seem to follow a rule ({rule})"
    elif heads and agreement > float(unseen[rows].max(1).mean()) + _REPEATED:
        caveat = "the labels seem to follow a rule (they are predicted more often than right labels would be)"
    return noise if caveat is None else noise._replace(high=1.0, caveat=caveat)


def _rule(content: Sequence[str] | Floats, labels: Labels, rows: Labels, agreement: float) -> str | None:
    """Return in words how a small tree repeats the labels, in halves that it has not seen; None if it does not."""
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415 - slow to import
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    kind, given = "values" if isinstance(content, np.ndarray) else "words", labels[rows]
    try:
        if isinstance(content, np.ndarray):
            features: Any = content[rows]
        else:
            words = CountVectorizer(binary=True, min_df=3, max_features=_MAX_WORDS, token_pattern=r"\w+")  # noqa: S106
            features = words.fit_transform([content[at] for at in rows])
    except ValueError:  # no text has a word
        return None
    repeated = 0
    leaves = _LEAVES[kind] * len(np.unique(given))
    for half in (0, 1):
        seen = np.arange(len(rows)) % 2 == half
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0).fit(features[seen], given[seen])
        repeated += int((tree.predict(features[~seen]) == given[~seen]).sum())
    share, largest = repeated / len(rows), np.bincount(given).max() / len(rows)
    if share < _AGREEMENT[kind] or share - largest < _SHARE[kind] * (agreement - largest):
        return None
    return f"a few {kind} predict {share:.0%} of them"


def is_withheld(noise: NoiseEstimate) -> bool:
    """Return whether there is no estimate: any larger share is possible."""
    return noise.caveat is not None and noise.high >= 1


_DEVIATIONS = 3.5  # of the mean probability, if the labels were shuffled; choosing among trees takes some of them


def above_chance(unseen_probs: npt.NDArray[np.floating[Any]], labels: Labels) -> bool:
    """Return whether predictions (N, C) without their labels (N,) tell the labels from shuffled ones.

    The mean probability of the given label is compared with its mean and variance over all orders of the labels
    (Hoeffding 1951), which are exact. Rows of nan do not count.

    >>> above_chance(np.eye(2)[[0, 1] * 10], np.array([0, 1] * 10))
    True
    >>> above_chance(np.full((20, 2), 0.5), np.array([0, 1] * 10))
    False
    """
    usable = ~np.isnan(unseen_probs[:, 0])
    probs, given = (unseen_probs, labels) if usable.all() else (unseen_probs[usable], labels[usable])
    count = len(given)
    if count < 2:
        return False
    share = np.bincount(given, minlength=probs.shape[1]) / count
    expected = np.einsum("nc,c->n", probs, share)  # of a random label; einsum makes no float64 copy of (N, C)
    spread = probs.mean(axis=0, dtype=np.float64) - expected.mean()
    squares = np.einsum("nc,nc,c->", probs, probs, share) - (expected**2).sum() - count * (share @ spread**2)
    deviation = float(max(squares, 0.0) / (count - 1)) ** 0.5 * count**0.5
    lead = float((probs[np.arange(count), given] - expected).sum())
    return bool(lead > max(_DEVIATIONS * deviation, 1e-6 * count))
