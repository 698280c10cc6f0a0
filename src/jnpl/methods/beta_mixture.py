"""A mixture of two Beta distributions fitted to losses (Arazo et al., ICML 2019).

Correct labels are learnt first, so early in training the losses of wrong labels form a second, higher group. EM by
weighted moments fits both components to losses scaled to 0..1; the posterior of the high one is read from a table, as
in the authors' code. Departures from that code are marked.
"""

import math
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats: TypeAlias = npt.NDArray[np.float64]
Losses = TypeVar("Losses", Floats, Tensor)

POINTS = 100  # of the table
NEUTRAL = 0.5  # posterior of an unknown loss
ITERATIONS = 10
_OUTLIERS = (5.0, 95.0)  # percentiles; losses outside are not fitted
_EDGE = 1e-3  # scaled losses stay this far from 0 and 1, where a Beta may be infinite (the code's "10e-4")
_TINY = 1e-12  # smallest density, against 0 / 0 far from both components
_CLIP = 1e-4  # a posterior is never nearer than this to 0 or 1
# Guards; the authors' code has none, and divides by zero.
_MIN_LOSSES = 10
_MIN_RANGE = 1e-4  # of the losses: narrower than this they count as equal
_MIN_VARIANCE = 1e-6  # of the scaled losses of one component
_MIN_WEIGHT = 1e-6  # a component with a smaller share of the losses keeps its shape


@dataclass(frozen=True)
class BetaMixture:
    """Two Beta components, low losses first: shapes (2,), (2,), weights (2,), the scale, and the table (100,)."""

    alpha: Floats = field(default_factory=lambda: np.array([1.0, 2.0]))
    beta: Floats = field(default_factory=lambda: np.array([2.0, 1.0]))
    weight: Floats = field(default_factory=lambda: np.array([0.5, 0.5]))
    low: float = 0.0
    high: float = 1.0
    table: Floats = field(default_factory=lambda: np.full(POINTS, NEUTRAL))
    fitted: bool = False

    @property
    def means(self) -> Floats:
        """Means of the two components on the scaled losses: (2,)."""
        means: Floats = self.alpha / (self.alpha + self.beta)
        return means

    def posterior(self, losses: npt.ArrayLike) -> Floats:
        """Return P(high component) of each loss, in [1e-4, 1 - 1e-4], 0.5 for nan: (N,) -> (N,)."""
        values = torch.from_numpy(np.asarray(losses, np.float64))
        posterior: Floats = look_up(values, self.low, self.high, torch.from_numpy(self.table)).numpy()
        return posterior


def fit(losses: npt.ArrayLike) -> BetaMixture:
    """Fit the mixture to losses (N,); values that are not finite are ignored.

    With fewer than 10 losses, or all alike, the mixture is not `fitted` and its posterior is 0.5 everywhere.

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


def look_up(losses: Tensor, low: float | Tensor, high: float | Tensor, table: Tensor) -> Tensor:
    """Return the table's posterior of each loss, 0.5 for nan: (N,), scale, (100,) -> (N,)."""
    scaled = scale(losses, low, high)
    unknown = scaled.isnan()
    at = (torch.where(unknown, 0.0, scaled) * len(table)).long().clamp_max(len(table) - 1)
    return torch.where(unknown, NEUTRAL, table[at].clamp(_CLIP, 1 - _CLIP))


def scale(losses: Losses, low: float | Tensor, high: float | Tensor) -> Losses:
    """Scale losses from `low`..`high` to 0..1, clipped to [1e-3, 1 - 1e-3]: (N,) -> (N,).

    Departure: the authors' code moves values <= 0 to 1e-3 and keeps those between 0 and 1e-3, out of order.
    """
    return ((losses - low) / (high - low + 1e-6)).clip(_EDGE, 1 - _EDGE)


def moments(x: Floats, members: Floats) -> tuple[float, float]:
    """Return alpha and beta of the Beta with the weighted mean and variance of x: (N,), (N,) -> (), ()."""
    total = members.sum()
    mean = float((members * x).sum() / total)
    variance = max(float((members * (x - mean) ** 2).sum() / total), _MIN_VARIANCE)
    alpha = mean * (mean * (1 - mean) / variance - 1)
    return alpha, alpha * (1 - mean) / mean


def densities(x: Floats, alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """Return the weighted density of each component at x in (0, 1): (N,) -> (2, N)."""
    log_x, log_rest = np.log(x), np.log1p(-x)
    rows = [
        np.log(w) + (a - 1) * log_x + (b - 1) * log_rest - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))
        for a, b, w in zip(alpha, beta, weight, strict=True)
    ]
    density: Floats = np.exp(np.stack(rows))
    return density


def _em(x: Floats) -> tuple[Floats, Floats, Floats]:
    """Fit alpha, beta and weight, each (2,), the low component first, to scaled losses (N,)."""
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
    # Departure: the component with the higher mean is the second one, also if EM has swapped them.
    order = np.argsort(alpha / (alpha + beta), kind="stable")
    return alpha[order], beta[order], weight[order]


def _table(alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """Posterior of the high component on an even grid from 0 to 1, constant to the right of its maximum: (100,)."""
    grid = np.linspace(_TINY, 1 - _TINY, POINTS)
    density = densities(grid, alpha, beta, weight)
    table: Floats = density[1] / (density.sum(axis=0) + _TINY)
    # Departure: a wide high component can exceed a narrow low one at the left end too. The authors' table then has its
    # maximum there, and all losses become suspicious. Here the posterior left of the low component's mean is at most
    # the posterior at that mean.
    centre = int(alpha[0] / (alpha[0] + beta[0]) * (POINTS - 1))
    table[:centre] = np.minimum(table[:centre], table[centre])
    table[table.argmax() :] = table.max()
    return table
