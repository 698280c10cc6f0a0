"""The whole in one call: `find_label_issues` for data, `score_labels` for who has probabilities already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jnpl.data.opening import open_source
from jnpl.data.sources.arrays import as_labels, from_arrays, number_together
from jnpl.findings.findings import Findings
from jnpl.findings.posterior import posterior
from jnpl.internal.errors import InputError
from jnpl.outputs import data_report as dossier
from jnpl.recipes.automatic import adapt_recipe
from jnpl.recipes.load import parse_changes
from jnpl.training.reporting import Reporter
from jnpl.training.run import find

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy.typing as npt

    from jnpl.data.source import Source


def find_label_issues(
    data: Any,
    labels: Any = None,
    *,
    recipe: str | None = None,
    method: str | None = None,
    settings: Sequence[str] = (),
    class_names: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    verbose: bool = False,
    **options: Any,
) -> Findings:
    """Train once on the given labels and say which are wrong.

    `data` with `labels` (N,): an array, a tensor or lists, vectors (N, F) or images (N, H, W[, C]), or a data frame.
    `data` alone: whatever `jnpl find` takes, with its `options` (`label_column`, `text_column`, `noise`, ...): a
    folder, a table, an .npz, a data frame with a label column, a data set of (input, label) items, a name.

    `recipe` is a name or a .toml file, by default `fast`, fitted to the data; `settings` change it ("train.epochs=50").
    With `out` the run stays there, with its model, and resumes if it was killed; otherwise nothing is left on disk.

    >>> x = [[i / 40, (i % 2) * 2 + (i % 5) / 9] for i in range(40)]
    >>> y = ["odd" if i % 2 else "even" for i in range(40)]
    >>> y[7] = "even"  # wrong
    >>> findings = find_label_issues(x, y, settings=["train.epochs=20"])
    >>> findings.worst(1)[["id", "given_label", "suggested_label"]].values.tolist()
    [[7, 'even', 'odd']]
    """
    if isinstance(settings, str):
        raise InputError(f"settings are a list of changes, such as [{settings!r}], not one text")
    source = _source(data, labels, class_names, options)
    adapted = adapt_recipe(source, recipe, method, parse_changes(settings))
    report = Reporter()
    report.quiet(not verbose)
    folder = None if out is None else Path(out)
    result = find(source, adapted.recipe, folder, seed=seed, report=report)
    if folder is not None and result is not None:
        dossier.write(folder, source, choices=adapted.choices, report=False)
    if folder is not None:
        return Findings.load(folder)  # also in those of several processes that have no result
    if result is None:
        raise RuntimeError("a run in memory returned no result")
    return result.findings


def _source(data: Any, labels: Any, class_names: Sequence[str] | None, options: dict[str, Any]) -> Source:
    if labels is None:
        if class_names is not None:
            raise InputError("class_names go with labels; data alone have names of their own")
        return open_source(data, **options)
    if hasattr(data, "columns"):  # a data frame
        column = "given label"
        if "label_column" in options:
            raise InputError("labels are given twice: as labels, and by label_column")
        if len(labels) != len(data):
            raise InputError(f"{len(labels)} labels do not fit the {len(data)} rows of the data frame")
        if column in data.columns:
            raise InputError(f"labels are given twice: the data frame has a column {column!r} too")
        source = open_source(data.assign(**{column: as_labels(labels)}), label_column=column, **options)
        if class_names is None:
            return source
        named = {"labels": source.labels} | ({} if source.true_labels is None else {"true": source.true_labels})
        by_name = {key: [source.class_names[label] for label in values.tolist()] for key, values in named.items()}
        numbered, known = number_together(by_name, class_names)
        return replace(source, labels=numbered["labels"], true_labels=numbered.get("true"), class_names=known)
    if options:
        raise InputError(f"{', '.join(options)} has no meaning for arrays")
    return from_arrays(data, labels, class_names=class_names)


def score_labels(
    labels: Any, pred_probs: npt.ArrayLike, *, score: Literal["posterior", "probability"] = "posterior"
) -> npt.NDArray[np.float64]:
    """(N,) quality of (N,) labels in 0..1, LOWER = worse, from (N, C) probabilities of any model.

    Labels are class numbers. "posterior" heeds who is taken for whom (`posterior`), "probability" is p_y itself.
    The probabilities should be of a model that has not learnt these labels by heart: cross-validated, or of `jnpl`.

    >>> score_labels([0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], score="probability")
    array([0.9, 0.2, 0.7])
    """
    if score not in ("posterior", "probability"):
        raise InputError(f"score must be 'posterior' or 'probability', not {score!r}")
    told = Findings.from_probs(pred_probs, labels)  # checks both
    if score == "probability":
        return told.label_quality
    probs = posterior(pred_probs, told.given_labels).probs
    quality: npt.NDArray[np.float64] = probs[np.arange(len(probs)), told.given_labels]
    return quality
