"""Noise rates of groups of samples: of annotators, sources or weeks.

The quality q of a label is calibrated for all samples together. What it says of the sample itself is the ratio of its
odds to those of the overall rate R, e = (1 - q) / q * (1 - R) / R: how much likelier the sample is if its label is
wrong. A group with the rate r has the likelihood prod (r e + 1 - r). Rates of groups come from one beta distribution,
and each such distribution counts by how well it fits all groups (hierarchical Bayes), so that a small group is pulled
towards the mean and has a wide interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jnpl.judging.findings import Findings

Floats: TypeAlias = npt.NDArray[np.float64]

COLUMN = "group "  # and the name of the group: a column of the table of findings
FALSE_SHARE = 0.05  # of the groups that are said to differ
_RATES = (np.arange(1000) + 0.5) / 1000
_STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # of the beta distribution, in samples
_CENTRES = np.array([0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2])  # ... and means, times the overall rate
_SUREST = 1e-3  # probability


def rates_of_groups(findings: Findings, groups: npt.ArrayLike) -> pd.DataFrame:
    """Return a row for each group of N samples, the highest noise rate first; see `Findings.by_group`."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    names = np.asarray(groups, object)
    if names.shape != findings.given_labels.shape:
        raise InputError(f"groups must be {len(findings.given_labels)}, one per sample, not {names.shape}")
    missing = pd.isna(names)
    scored = ~np.isnan(findings.label_quality) & ~missing
    if not scored.any():
        raise InputError("no sample has a label quality and a group")
    codes, listed = pd.factorize(np.array([str(name) for name in names[scored]], object), sort=True)
    wrong = findings.chances[scored] if findings.noise is not None else findings.is_label_issue[scored].astype(float)
    clipped = np.clip(wrong, _SUREST, 1 - _SUREST)
    mean = float(clipped.mean())
    evidence = clipped / (1 - clipped) * (1 - mean) / mean
    likelihoods = np.stack([_log_likelihood(evidence[codes == group]) for group in range(len(listed))])
    posterior = _posterior(likelihoods, mean)
    cumulative = posterior.cumsum(axis=1)
    low, high = (_RATES[(cumulative >= level).argmax(axis=1)] for level in (0.05, 0.95))
    p_values = _p_values(likelihoods)
    positions = np.flatnonzero(scored)
    members = [positions[codes == group] for group in range(len(listed))]
    table = pd.DataFrame(
        {
            "group": listed,
            "samples": [len(rows) for rows in members],
            "issues": [int(findings.is_label_issue[rows].sum()) for rows in members],
            "noise_rate": posterior @ _RATES,
            "low": low,
            "high": high,
            "p_value": p_values,
            "differs": step_up(p_values, FALSE_SHARE),
            "most_common_mistake": pd.Series([_mistake(findings, rows) for rows in members], dtype=object),
        }
    )
    return table.sort_values("noise_rate", ascending=False, kind="stable", ignore_index=True)


def sentences(findings: Findings) -> list[str]:
    """Return a sentence for each group that differs from the others."""
    lines = []
    for column in findings.groups or {}:
        table = findings.by_group(column)
        rest = float(np.average(table["noise_rate"].to_numpy(), weights=table["samples"].to_numpy()))
        for row in table[table["differs"]].to_dict(orient="records"):
            interval = f"{row['low']:.0%} to {row['high']:.0%}"
            mostly = f"; most often {row['most_common_mistake']}" if row["most_common_mistake"] else ""
            which = f"{column} {row['group']}: {row['noise_rate']:.1%} of {row['samples']:,} labels wrong ({interval})"
            lines.append(f"{which}, {rest:.1%} in all{mostly}")
    return lines


def step_up(p_values: npt.ArrayLike, share: float) -> npt.NDArray[np.bool_]:
    """Return which hypotheses (N,) to reject so that at most a `share` of the rejected are true on average.

    The step-up rule of Benjamini and Hochberg (1995).

    >>> step_up([0.001, 0.03, 0.5, 0.02], 0.05).tolist()
    [True, True, False, True]
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    below = np.flatnonzero(values[order] <= share * np.arange(1, len(values) + 1) / max(len(values), 1))
    rejected = np.zeros(len(values), bool)
    rejected[order[: below[-1] + 1 if len(below) else 0]] = True
    return rejected


def _log_likelihood(evidence: Floats) -> Floats:
    """Return the log-likelihood (1000,) of each rate."""
    total = np.zeros(len(_RATES))
    for start in range(0, len(evidence), 4096):
        part = evidence[start : start + 4096, None]
        total += np.log(_RATES * part + (1 - _RATES)).sum(axis=0)
    return total


def _posterior(likelihoods: Floats, mean: float) -> Floats:
    """Return the probabilities (G, 1000) of the rates of G groups, over all beta distributions as they fit the data."""
    mixed, total, best = np.zeros_like(likelihoods), 0.0, -np.inf
    for strength in _STRENGTHS:
        for centre in np.clip(mean * _CENTRES, 0.002, 0.98):
            log_prior = (strength * centre - 1) * np.log(_RATES) + (strength * (1 - centre) - 1) * np.log1p(-_RATES)
            joint = likelihoods + log_prior - np.logaddexp.reduce(log_prior)
            of_group = np.logaddexp.reduce(joint, axis=1, keepdims=True)
            fits = float(of_group.sum())
            if fits > best:  # weights are relative to the best distribution so far
                mixed, total, best = mixed * np.exp(best - fits), total * np.exp(best - fits), fits
            mixed += np.exp(joint - of_group + fits - best)
            total += np.exp(fits - best)
    return mixed / total


def _p_values(likelihoods: Floats) -> Floats:
    """Return the p-value (G,) of each group's rate being that of the others: a likelihood ratio test."""
    from scipy.special import erfc  # noqa: PLC0415 - slow to import

    others = likelihoods.sum(axis=0) - likelihoods
    apart = likelihoods.max(axis=1) + others.max(axis=1)
    together = likelihoods.sum(axis=0).max()
    p_values: Floats = erfc(np.sqrt(np.maximum(apart - together, 0)))  # chi-squared with one degree of freedom
    return p_values


def _mistake(findings: Findings, members: npt.NDArray[np.int64]) -> str | None:
    """Return the most frequent mistake among some samples in words; None if no label is suggested instead."""
    given, better = findings.given_labels[members], findings.suggested_labels[members]
    moved = findings.is_label_issue[members] & (given != better)
    pairs, counts = np.unique(given[moved] * findings.num_classes + better[moved], return_counts=True)
    if not len(pairs):
        return None
    first, second = divmod(int(pairs[counts.argmax()]), findings.num_classes)
    return f"{findings.names[second]} labelled {findings.names[first]}"
