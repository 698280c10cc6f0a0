"""How good the suspects are, and how many wrong labels are left, from the decisions so far.

The decided suspects are not a random sample: the worst come first. So the probability that a label is wrong is modelled
by its quality q, as the run (or the last round) printed it when the sample was decided:

    P(wrong)  =  sigmoid(a + b x),   x = log((1 - q) / q),

where x below 0, of labels that look right, has a slope b of its own: decisions about suspects say little of it. The
prior mean of both is 1, and a is that at which the sum over all samples is the number of wrong labels that the run
estimates; its deviation follows the run's interval. So the page begins with the numbers of `jnpl find`, and the
decisions correct them. The posterior is approximated by a normal distribution at its maximum (Laplace). The number of
wrong labels among the undecided is the sum at that maximum, with the interval over draws, the chance of every single
label included. An interval is as honest as the model: it knows nothing of wrong labels which the network takes for
certainly right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl.judging.audit import fit_logistic, intercept, logits, sigmoid
from jnpl.judging.noise_model import Interval

_PRIOR_DEVIATION = np.array([0.7, 0.5, 0.25])  # of a and the slopes above and below 0, where the run has no interval
_MIN_DEVIATION = 0.05  # of a
_MAX_LOGIT = 7.0  # a quality of 0.001 or 0.999: the printed number claims no more
_BINS = 400
_DRAWS = 1000
_LEVEL = 0.9
_NORMAL_90 = 1.6449  # standard deviations to either side that hold 90 % of a normal distribution


def precision(wrong: int, decided: int) -> Interval | None:
    """Return the share of wrong labels among decided suspects, with Wilson's interval; None before the first.

    >>> [round(value, 2) for value in precision(9, 10)]
    [0.9, 0.65, 0.98]
    """
    if not decided:
        return None
    z, share = _NORMAL_90, wrong / decided
    middle = (share + z**2 / (2 * decided)) / (1 + z**2 / decided)
    half = z / (1 + z**2 / decided) * math.sqrt(share * (1 - share) / decided + z**2 / (4 * decided**2))
    return Interval(share, max(middle - half, 0.0), min(middle + half, 1.0))


class Prior(NamedTuple):
    """The prior: mean and standard deviation of a; the deviations of the slopes, of mean 1, are in proportion."""

    intercept: float = 0.0
    deviation: float = float(_PRIOR_DEVIATION[0])


def prior(qualities: npt.NDArray[np.floating], total: float, most: float | None = None) -> Prior:
    """Return the prior by which `total` labels of samples with qualities (N,) are wrong; nan is left out. `most` is the
    upper end of its 90 % interval, None where the run has none."""
    doubt = logits(qualities[~np.isnan(qualities)], _MAX_LOGIT)
    middle = intercept(doubt, total)
    if most is None:
        return Prior(middle)
    above = (intercept(doubt, most) - middle) / _NORMAL_90
    return Prior(middle, min(max(above, _MIN_DEVIATION), float(_PRIOR_DEVIATION[0])))


@dataclass(frozen=True)
class Corrected:
    """The posterior of a and both slopes, by which decisions correct label quality: mean (3,), covariance (3, 3)."""

    mean: npt.NDArray[np.float64]
    covariance: npt.NDArray[np.float64]

    @classmethod
    def by_decisions(cls, qualities: npt.NDArray[np.float64], wrong: npt.NDArray[np.bool_], start: Prior) -> Corrected:
        """Return the posterior by the qualities (M,) that decided samples had, and whether each was wrong (M,)."""
        deviation = _PRIOR_DEVIATION * (start.deviation / _PRIOR_DEVIATION[0])
        middle = np.array([start.intercept, 1.0, 1.0])
        return cls(*fit_logistic(_design(logits(qualities, _MAX_LOGIT)), wrong.astype(np.float64), middle, deviation))

    def chances(self, qualities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """Return the probability that labels of these qualities (U,) are wrong; nan where the quality is."""
        wrong = sigmoid(_design(logits(qualities, _MAX_LOGIT)) @ _not_falling(self.mean[None])[0])
        return np.where(np.isnan(qualities), np.nan, wrong)

    def left(self, undecided: npt.NDArray[np.floating]) -> Interval:
        """Return how many labels of these qualities (U,) are wrong; nan is left out."""
        scored = undecided[~np.isnan(undecided)]
        if not len(scored):
            return Interval(0.0, 0.0, 0.0)
        counts, edges = np.histogram(logits(scored, _MAX_LOGIT), bins=_BINS, range=(-_MAX_LOGIT, _MAX_LOGIT))
        middle, counts = ((edges[:-1] + edges[1:]) / 2)[counts > 0], counts[counts > 0]
        random = np.random.default_rng(0)
        draws = _not_falling(random.multivariate_normal(self.mean, self.covariance, _DRAWS))
        p = sigmoid(draws @ _design(middle).T)  # (draws, bins)
        totals = p @ counts + random.normal(size=_DRAWS) * np.sqrt((p * (1 - p)) @ counts)
        low, high = np.quantile(totals, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        value = float(self.chances(scored).sum())
        return Interval(value, float(min(max(low, 0.0), value)), float(max(min(high, len(scored)), value)))


def _design(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what a and the slopes above and below 0 are multiplied by: (N,) -> (N, 3)."""
    return np.stack([np.ones_like(x), np.maximum(x, 0.0), np.minimum(x, 0.0)], axis=1)


def _not_falling(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return weights (D, 3) with slopes of at least 0: a better quality never makes a label more doubtful."""
    return np.concatenate([weights[:, :1], np.maximum(weights[:, 1:], 0.0)], axis=1)
