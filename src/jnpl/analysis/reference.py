"""What a run keeps of its samples, to compare new ones with: vectors of at most 256 numbers, or all while they are few.

Distances are squared Euclidean distances: of embeddings, which have length 1, twice the cosine distance. A new sample
is compared with the samples of the run, and so is each sample of the run with the others: how far a sample lies from
everything is told by the share of the run's samples that lie as far (a conformal p-value, Vovk et al. 2005).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.analysis.neighbours import NEAR, VERY_NEAR, embeddings, short_vectors
from jnpl.analysis.short_vectors import directions, is_long, mean_views, unit
from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file
from jnpl.judging.groups import step_up

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.analysis.short_vectors import ShortVectors
    from jnpl.data.source import Labels, Source

Floats: TypeAlias = npt.NDArray[np.floating]

NEIGHBOURS = 10
_MOST, _CALIBRATING, _FITTED = 100_000, 5_000, 5_000  # samples kept, compared with the others, and fitted to
_SAME = 1e-5  # squared distance of equal samples, relative to the width of a table
_BLOCK = 1 << 24  # distances that are worked on at once
FALSE_SHARE = 0.05  # of the samples that are called far from everything
_MIN_TESTED = 20  # samples on each side, for a test


class Copy(NamedTuple):
    """A new sample and the sample of the run, by position, that is the same or nearly the same."""

    new: int
    old: int


@dataclass(frozen=True, eq=False)
class Reference:
    """The samples of a run as short vectors.

    Attributes:
        vectors: (M, K), of length 1 if they are embeddings.
        rows: (M,) their positions in the run.
        mean, std: (F,) of a table's numbers; empty for embeddings.
        basis: (F, K) orthonormal columns; empty if K is F.
    """

    vectors: Floats
    rows: Labels
    mean: npt.NDArray[np.float32]
    std: npt.NDArray[np.float32]
    basis: npt.NDArray[np.float32]

    @classmethod
    def of(cls, source: Source, seed: int = 0, short: ShortVectors | None = None) -> Reference | None:
        """Return the reference of an embedded source, `short` its vectors, or a table of numbers; None for others."""
        random, rows = np.random.default_rng(seed), np.delete(np.arange(len(source)), list(source.unreadable or ()))
        if source.kind != "vector" or len(rows) <= NEIGHBOURS:
            return None
        rows = np.sort(random.choice(rows, min(len(rows), _MOST), replace=False))
        none, short = np.zeros(0, np.float32), short_vectors(source, seed) if short is None else short
        if short is not None:
            vectors = unit(short.values[rows, :-1].astype(np.float32))
            return cls(vectors.astype(np.float16), rows, none, none, short.basis)
        values, basis = _values(source, rows), np.zeros((0, 0), np.float32)
        if embeddings(source) is not None:
            return cls(unit(values).astype(np.float16), rows, none, none, basis)
        mean, std = values.mean(axis=0), values.std(axis=0)
        std = np.where(std > 0, std, 1).astype(np.float32)
        values = (values - mean) / std
        if is_long(*values.shape):
            drawn = values[random.choice(len(values), min(len(values), _FITTED), replace=False)]
            basis = directions(drawn, random)
            values = values @ basis
        return cls(values.astype(np.float32), rows, mean, std, basis)

    def save(self, file: Path) -> None:
        """Write the reference."""
        from safetensors.numpy import save_file  # noqa: PLC0415 - not needed to compare

        mode = file.stat().st_mode if file.exists() else 0o644  # safetensors lets only the owner read
        save_file(
            {name: np.ascontiguousarray(value) for name, value in vars(self).items()}, file, {"sha256": self._hash}
        )
        file.chmod(mode)

    @classmethod
    def load(cls, file: Path) -> Reference:
        """Read what `save` wrote."""
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415

        try:
            with safe_open(require_file(file), "numpy") as stored:
                made = cls(**{name: stored.get_tensor(name) for name in stored.keys()})  # noqa: SIM118 - no dictionary
                if (stored.metadata() or {}).get("sha256") != made._hash:
                    raise InputError(f"{str(file)!r} is damaged: it does not have the hash that was written with it")
                return made
        except (OSError, TypeError, ValueError, SafetensorError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {error}") from error

    @property
    def _hash(self) -> str:
        digest = hashlib.sha256()
        for name, value in vars(self).items():
            digest.update(f"{name} {value.dtype.str} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()

    def project(self, source: Source) -> tuple[Labels, npt.NDArray[np.float32]]:
        """Return the positions (N,) of new samples that can be compared and their vectors (N, K)."""
        rows = np.delete(np.arange(len(source)), list(source.unreadable or ()))
        values = _values(source, rows)
        if values.shape[1] != (width := len(self.basis) or self.vectors.shape[1]):
            raise InputError(f"{source.name} has {values.shape[1]} features, but the run was trained on {width}")
        values = (values - self.mean) / self.std if len(self.mean) else unit(values)
        short = values @ self.basis if len(self.basis) else values
        return rows, short if len(self.mean) else unit(short)


def _values(source: Source, rows: Labels) -> npt.NDArray[np.float32]:
    stored = source.inputs.array()
    if stored is None:
        return np.stack([source.inputs.read(at) for at in rows.tolist()])
    return mean_views(stored, rows)


class Comparison(NamedTuple):
    """New samples (N,) beside those of a run.

    Attributes:
        far: (N,) share of the run's samples that lie as far from all others, in 0..1; nan where it is not known.
        is_far: (N,) true for samples far from everything; a share of 5 % of them is expected to be ordinary.
        extra_far: how many samples more than expected are among the farthest 5 %, by the samples of the run.
        extra_far_p: p-value of this number if all samples are of the run's kind.
        copies: new samples that are the same or nearly the same as a sample of the run.
        separability: share of pairs of a new sample and one of the run that a classifier, trained on others, puts into
            the right order: 0.5 if it cannot tell them apart; nan with too few samples.
        p_value: of such a separability if new samples and those of the run are of one kind.
    """

    far: npt.NDArray[np.float64]
    is_far: npt.NDArray[np.bool_]
    extra_far: int
    extra_far_p: float
    copies: list[Copy]
    separability: float
    p_value: float


def compare(reference: Reference, source: Source, seed: int = 0) -> Comparison:
    """Compare new samples, embedded as those of the run, with the samples of the run.

    Example:
        >>> from jnpl.data.opening import open_source
        >>> x = np.random.default_rng(0).normal(size=(600, 128)).astype(np.float32)
        >>> run = Reference.of(open_source((x[:400], [0, 1] * 200)))
        >>> new = np.concatenate([x[400:], x[:1]])
        >>> compare(run, open_source((new, [0] + [1] * 200))).copies
        [Copy(new=200, old=0)]
    """
    rows, values = reference.project(source)
    random, old = np.random.default_rng(seed), reference.vectors.astype(np.float32)
    index, distances = _nearest(values, old)
    drawn = np.sort(random.choice(len(old), min(len(old), _CALIBRATING), replace=False))
    usual = np.sort(_nearest(old[drawn], old, drawn)[1].mean(axis=1))
    as_far = len(usual) - np.searchsorted(usual, distances.mean(axis=1), side="left")
    far, is_far = np.full(len(source), np.nan), np.zeros(len(source), bool)
    far[rows] = (1 + as_far) / (1 + len(usual))
    is_far[rows] = step_up(far[rows], FALSE_SHARE)
    extra = _more_than_expected(as_far, len(usual))
    copies = _copies(reference, source, rows, values, index, distances)
    separability, p_value = two_sample_test(values, old, seed)
    return Comparison(far, is_far, *extra, copies, separability, p_value)


def copies_of(reference: Reference, source: Source) -> list[Copy]:
    """Return the samples that are the same or nearly the same as one of the reference."""
    rows, values = reference.project(source)
    return _copies(reference, source, rows, values, *_nearest(values, reference.vectors.astype(np.float32)))


def _copies(
    reference: Reference,
    source: Source,
    rows: Labels,
    values: Floats,
    index: Labels,
    distances: npt.NDArray[np.float32],
) -> list[Copy]:
    """Return the copies among samples at `rows` (N,), by their vectors (N, K) and nearest neighbours (N, 10)."""
    old = reference.vectors.astype(np.float32)
    is_table, typical = bool(len(reference.mean)), float(np.median(distances[:, -1]))
    exact_only = is_table or source.texts is not None  # of few words or columns, many samples are near each other
    first, gap = index[:, 0], ((values - old[index[:, 0]]) ** 2).sum(axis=1)  # without the rounding of a product
    near = gap <= _SAME * (values.shape[1] if is_table else 1)
    if not exact_only:
        close = np.flatnonzero(gap <= np.maximum(NEAR * distances[:, -1], VERY_NEAR * typical))
        local = _nearest(old[first[close]], old, first[close])[1][:, -1]
        near[close[gap[close] <= np.maximum(NEAR * local, VERY_NEAR * typical)]] = True
    return [Copy(int(rows[at]), int(reference.rows[first[at]])) for at in np.flatnonzero(near).tolist()]


def _more_than_expected(as_far: Labels, calibrating: int) -> tuple[int, float]:
    """Return how many new samples (N,) more than expected lie beyond 95 % of the calibrating ones, and the p-value.

    If all are of one kind, their number is beta-binomial.
    """
    from scipy.stats import betabinom  # noqa: PLC0415 - slow to import

    beyond = max(int(FALSE_SHARE * (calibrating + 1)), 1)
    count = int((as_far < beyond).sum())
    expected = len(as_far) * beyond / (calibrating + 1)
    p_value = float(betabinom.sf(count - 1, len(as_far), beyond, calibrating + 1 - beyond))
    return max(round(count - expected), 0), p_value


def _nearest(new: Floats, old: Floats, itself: Labels | None = None) -> tuple[Labels, npt.NDArray[np.float32]]:
    """Return the ten nearest (N, 10) of M old vectors and their distances, nearest first, without `itself` (N,)."""
    lengths, count = (old**2).sum(axis=1), min(NEIGHBOURS, len(old) - (itself is not None))
    index, distances = np.empty((len(new), count), np.int64), np.empty((len(new), count), np.float32)
    step = max(_BLOCK // len(old), 1)
    for start in range(0, len(new), step):
        part = new[start : start + step]
        square = np.maximum((part**2).sum(axis=1)[:, None] + lengths - 2 * (part @ old.T), 0)
        if itself is not None:
            square[np.arange(len(part)), itself[start : start + step]] = np.inf
        top = np.argpartition(square, count - 1, axis=1)[:, :count]
        order = np.take_along_axis(top, np.argsort(np.take_along_axis(square, top, 1), axis=1), 1)
        index[start : start + step] = order
        distances[start : start + step] = np.take_along_axis(square, order, 1)
    return index, distances


def two_sample_test(new: Floats, old: Floats, seed: int = 0) -> tuple[float, float]:
    """Return how well a classifier tells new vectors (N, K) from old ones (M, K), and the p-value of that.

    A logistic regression learns on one half of the samples; on the other, which it has not seen, its scores of new and
    old samples are compared by the test of Mann and Whitney (a classifier two-sample test, Lopez-Paz and Oquab 2017).
    """
    if min(len(new), len(old)) < _MIN_TESTED:
        return float("nan"), float("nan")
    from scipy.stats import mannwhitneyu  # noqa: PLC0415 - slow to import
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import

    random = np.random.default_rng([seed, 2])
    halves = []
    for values in (new, old):
        drawn = values[random.permutation(len(values))[:_FITTED]].astype(np.float64)
        halves.append((drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]))
    fitted = np.concatenate([halves[0][0], halves[1][0]])
    is_new = np.arange(len(fitted)) < len(halves[0][0])
    std = fitted.std(axis=0)
    scale = np.where(std > 0, std, 1) * np.sqrt(fitted.shape[1])
    model = LogisticRegression(class_weight="balanced", max_iter=200).fit(fitted / scale, is_new)
    scores = [model.decision_function(half[1] / scale) for half in halves]
    test = mannwhitneyu(*scores, alternative="greater")
    return float(test.statistic / (len(scores[0]) * len(scores[1]))), float(test.pvalue)


def class_mix_test(new: npt.ArrayLike, old: npt.ArrayLike, seed: int = 0, draws: int = 2000) -> float:
    """Return the p-value of two counts (C,) of classes if both were drawn from one mix.

    The chi-squared statistic is compared with that of random divisions of the same samples, so that small counts need
    no approximation.

    >>> class_mix_test([10, 10], [100, 100]), class_mix_test([20, 0], [100, 100]) < 0.01
    (1.0, True)
    """
    first, second = np.asarray(new, np.int64), np.asarray(old, np.int64)
    both, random = first + second, np.random.default_rng(seed)
    first, both = first[both > 0], both[both > 0]
    share = first.sum() / max(both.sum(), 1)

    def statistic(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        squared: npt.NDArray[np.float64] = ((counts - both * share) ** 2 / both).sum(axis=-1)
        return squared

    if not 0 < share < 1 or len(both) < 2:
        return 1.0
    drawn = random.multivariate_hypergeometric(both, int(first.sum()), size=draws, method="marginals")
    return float((1 + (statistic(drawn) >= statistic(first) - 1e-9).sum()) / (1 + draws))
