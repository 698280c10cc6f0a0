"""How likely is a loss to be one of the high ones: two Beta curves fitted to losses (Arazo et al., ICML 2019).

Correct labels are learnt first, so early in training the losses of wrong labels form a second, higher group. EM by
weighted moments finds both groups on losses scaled to 0..1; the posterior of the higher one is read from a table, as in
the authors' code. What departs from that code is marked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

POINTS = 100  # of the table
NEUTRAL = 0.5  # the suspicion where nothing is known
ITERATIONS = 10
_OUTLIERS = (5.0, 95.0)  # percentiles that bound the losses to fit
_EDGE = 1e-3  # scaled losses stay this far from 0 and 1, where a Beta may be infinite (the code's "10e-4")
_TINY = 1e-12  # least density: far from both curves there is no 0 / 0
_CLIP = 1e-4  # a suspicion is never nearer than this to 0 or 1
# Guards; the authors' code has none, and divides by zero.
_MIN_LOSSES = 10
_MIN_RANGE = 1e-4  # of the losses: narrower than this they count as equal
_MIN_VARIANCE = 1e-6  # of the scaled losses of one curve
_MIN_WEIGHT = 1e-6  # a curve with a smaller share of the losses keeps its shape


@dataclass(frozen=True)
class BetaMixture:
    """Two Beta curves, that of low losses first: shapes (2,), (2,), weights (2,), the scale, and the table (100,)."""

    alpha: Floats = field(default_factory=lambda: np.array([1.0, 2.0]))
    beta: Floats = field(default_factory=lambda: np.array([2.0, 1.0]))
    weight: Floats = field(default_factory=lambda: np.array([0.5, 0.5]))
    low: float = 0.0
    high: float = 1.0
    table: Floats = field(default_factory=lambda: np.full(POINTS, NEUTRAL))
    fitted: bool = False

    @property
    def means(self) -> Floats:
        """Of the two curves, on the scaled losses: (2,)."""
        means: Floats = self.alpha / (self.alpha + self.beta)
        return means

    def posterior(self, losses: npt.ArrayLike) -> Floats:
        """(N,) losses -> (N,) how likely each is of the high curve, in [1e-4, 1 - 1e-4]; nan -> 0.5."""
        return look_up(losses, self.low, self.high, self.table)


def fit(losses: npt.ArrayLike) -> BetaMixture:
    """(N,) losses (what is not finite is left out) -> the mixture; not `fitted`, and 0.5 for all, if they are no use.

    >>> rng = np.random.default_rng(0)
    >>> mixture = fit(np.concatenate([rng.beta(2, 18, 700), 4 + rng.beta(8, 4, 300)]))  # 30 % high losses
    >>> mixture.fitted, round(float(mixture.weight[1]), 1)
    (True, 0.3)
    >>> mixture.posterior([0.1, 4.7, float("nan")]).round(2)
    array([0. , 1. , 0.5])
    >>> fit([0.7] * 1000).posterior([0.1, 4.7])
    array([0.5, 0.5])
    """
    values = np.asarray(losses, np.float64).ravel()
    values = values[np.isfinite(values)]
    if len(values) < _MIN_LOSSES:
        return BetaMixture()
    low, high = np.percentile(values, _OUTLIERS)
    if high - low < _MIN_RANGE:
        return BetaMixture()
    values, low = values[(values >= low) & (values <= high)], low + 1e-5
    alpha, beta, weight = _em(scale(values, low, high))
    return BetaMixture(alpha, beta, weight, float(low), float(high), _table(alpha, beta, weight), True)


def look_up(losses: npt.ArrayLike, low: float, high: float, table: npt.NDArray[np.floating]) -> Floats:
    """(N,) losses, their scale, a table (100,) -> (N,) its entries; nan -> 0.5."""
    scaled = scale(np.asarray(losses, np.float64), low, high)
    unknown = np.isnan(scaled)
    at = np.minimum((np.where(unknown, 0.0, scaled) * len(table)).astype(np.int64), len(table) - 1)
    return np.where(unknown, NEUTRAL, np.clip(table[at], _CLIP, 1 - _CLIP)).astype(np.float64)


def scale(losses: Floats, low: float, high: float) -> Floats:
    """(N,) losses -> (N,) from `low`..`high` to 0..1, held in [1e-3, 1 - 1e-3].

    Departure: the authors' code moves values <= 0 to 1e-3 and leaves those between 0 and 1e-3, which thereby come to
    lie below smaller ones.
    """
    scaled: Floats = np.clip((losses - low) / (high - low + 1e-6), _EDGE, 1 - _EDGE)
    return scaled


def moments(x: Floats, members: Floats) -> tuple[float, float]:
    """(N,) in 0..1, (N,) memberships -> alpha and beta of the curve with their weighted mean and variance."""
    total = members.sum()
    mean = float((members * x).sum() / total)
    variance = max(float((members * (x - mean) ** 2).sum() / total), _MIN_VARIANCE)
    alpha = mean * (mean * (1 - mean) / variance - 1)
    return alpha, alpha * (1 - mean) / mean


def densities(x: Floats, alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """(N,) in (0, 1) -> (2, N) weighted density of each curve."""
    log_x, log_rest = np.log(x), np.log1p(-x)
    rows = [
        np.log(w) + (a - 1) * log_x + (b - 1) * log_rest - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))
        for a, b, w in zip(alpha, beta, weight, strict=True)
    ]
    density: Floats = np.exp(np.stack(rows))
    return density


def _em(x: Floats) -> tuple[Floats, Floats, Floats]:
    """(N,) scaled losses -> alpha, beta, weight of two curves, each (2,), the low one first."""
    start = BetaMixture()
    alpha, beta, weight = start.alpha, start.beta, start.weight
    for _ in range(ITERATIONS):
        members = np.maximum(densities(x, alpha, beta, weight), _TINY)
        members /= members.sum(axis=0)
        for curve in range(2):
            if members[curve].mean() > _MIN_WEIGHT:
                alpha[curve], beta[curve] = moments(x, members[curve])
        weight = np.maximum(members.mean(axis=1), _MIN_WEIGHT)
        weight /= weight.sum()
    # Departure: should the curves have changed places, the high one is still the suspicious one.
    order = np.argsort(alpha / (alpha + beta), kind="stable")
    return alpha[order], beta[order], weight[order]


def _table(alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """Posterior of the high curve on an even grid from 0 to 1, never falling to the right of its maximum: (100,)."""
    grid = np.linspace(_TINY, 1 - _TINY, POINTS)
    density = densities(grid, alpha, beta, weight)
    table: Floats = density[1] / (density.sum(axis=0) + _TINY)
    # Departure: a wide high curve can rise above a narrow low one at the left end, too. There the authors' table has
    # its maximum, and everything to the right of it, that is everything, becomes suspicious. A loss below the centre
    # of the low curve is no more suspicious than the centre.
    centre = int(alpha[0] / (alpha[0] + beta[0]) * (POINTS - 1))
    table[:centre] = np.minimum(table[:centre], table[centre])
    table[table.argmax() :] = table.max()
    return table
