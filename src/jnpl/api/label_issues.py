"""Label issues in one call: from data (`find_label_issues`) or from the probabilities of any model (`score_labels`)."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from jnpl.analysis.leaks import warn_of_leaks
from jnpl.data.opening import open_source
from jnpl.data.options import OpenOptions
from jnpl.data.source import Source
from jnpl.data.sources.arrays import as_labels, from_arrays, number_together
from jnpl.data.sources.votes import most_frequent, number_votes, read_votes
from jnpl.data.tags import as_tags, checked_tags, with_tags
from jnpl.embedding.choice import AUTO
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings
from jnpl.judging.posterior import posterior
from jnpl.judging.tag_findings import TagFindings
from jnpl.outputs.run_source import RunDataOptions
from jnpl.pipeline import OpenedData, Origin, run, run_tags
from jnpl.recipes.load import load_default_recipe, parse_changes
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter


@overload
def find_label_issues(
    data: Any, labels: Any = None, *, multi_label: Literal[False] = False, **options: Any
) -> Findings: ...


@overload
def find_label_issues(data: Any, labels: Any = None, *, multi_label: Literal[True], **options: Any) -> TagFindings: ...


def find_label_issues(
    data: Any,
    labels: Any = None,
    *,
    recipe: str | None = None,
    method: str | None = None,
    settings: Sequence[str] = (),
    class_names: Sequence[str] | None = None,
    backbone: str = AUTO,
    quality: str = AUTO,
    cache: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    verbose: bool = False,
    multi_label: bool = False,
    **options: Any,
) -> Findings | TagFindings:
    """Train once on the given labels and return which of them are probably wrong.

    Args:
        data: with `labels`, an array, a tensor or lists: vectors (N, F), also sparse, images (N, H, W[, C]), texts or
            paths of images; or a data frame. Alone, or with the name of a label column, whatever `jnpl find` takes: a
            folder, a table, an .npz, a
            data frame, a data set of (input, label) items, `Embeddings`, or the name of a data set.
        labels: the given labels (N,), class names or numbers; or the name of a column of a table. With those (N, A) of
            A annotators, missing ones allowed, the findings are on their consensus.
        recipe: a name (`jnpl recipes`) or a .toml file. By default `fast-embeddings` on images, texts and wide vectors,
            else `fast`, adapted to the data.
        method: another method than the recipe's (`jnpl methods`).
        settings: changes of the recipe, such as ["train.epochs=50"].
        class_names: names of the classes; only with `labels`.
        backbone: the pretrained network that embeds images or texts first (`jnpl backbones`): "auto", a name, or
            "none" to train from scratch.
        quality: what "auto" embeds with: "fast" (photos at 128 pixels, texts by TF-IDF), "auto", or "best", whatever
            time it takes.
        cache: the folder of cached embeddings; by default $JNPL_CACHE, or a cache folder of the user.
        out: a run folder for findings, model and checkpoints; a run that was killed there resumes. By default nothing
            but the cache of embeddings is written to disk.
        seed: the same number gives the same findings, bit for bit.
        verbose: print a line an epoch on stderr.
        multi_label: a sample may have several tags: `labels` are an indicator matrix (N, T), dense or sparse, a data
            frame of 0 and 1, or N lists or texts of tags; in data alone, the label column holds lists.
        **options: for data alone, how to read them, as `jnpl find` has it: `label_column`, `text_column`, `noise`, ...

    Returns:
        Findings on every sample: label quality (LOWER is worse), label issues, suggested labels, noise rate. The table
        of a data frame keeps its index. Of several tags per sample `TagFindings`: missing and extra tags.

    Example:
        >>> x = [[i / 40, (i % 2) * 2 + (i % 5) / 9] for i in range(40)]
        >>> y = ["odd" if i % 2 else "even" for i in range(40)]
        >>> y[7] = "even"  # wrong
        >>> findings = find_label_issues(x, y, settings=["train.epochs=20"])
        >>> findings.worst(1)[["id", "given_label", "suggested_label"]].values.tolist()
        [[7, 'even', 'odd']]
        >>> tags = [["odd", "late"] if i % 2 and i > 20 else ["odd"] if i % 2 else [] for i in range(40)]
        >>> find_label_issues(x, tags, multi_label=True).tag_names
        ('late', 'odd')
    """
    if isinstance(settings, str):
        raise InputError(f"settings are a list of changes, such as [{settings!r}], not one text")
    changes = parse_changes(settings)
    if (labels is None or isinstance(labels, str)) and (
        val_size := load_default_recipe(recipe, method, changes).data.val_size
    ):
        options = {"val_size": val_size, **options}
    if multi_label:
        source, options = make_tagged(data, labels, class_names, options)
    else:
        source = make_source(data, labels, class_names, options)
    warn_of_leaks(source)
    folder = None if out is None else RunFolder(Path(out))
    if folder is not None and isinstance(data, str | os.PathLike):
        folder.check_outside(data)
    report = Reporter()
    report.quiet(not verbose)
    opening = _opened_by(data, labels, options)
    data_options = RunDataOptions(
        data="" if opening is None else data if isinstance(data, str) else str(Path(data).absolute()),
        recipe=recipe,
        method=method,
        change=list(settings),
        backbone=backbone,
        quality=quality,
        cache=None if cache is None else Path(cache),
        seed=seed,
        opening=opening or OpenOptions(),
    )
    run_options = data_options.run_options(changes)
    origin = Origin(options=None if opening is None else data_options.to_json())
    if source.tags is not None:
        of_tags = run_tags(OpenedData(source), run_options, folder, origin=origin, report=report)
        return with_index(of_tags.findings, data)
    result = run(OpenedData(source), run_options, folder, origin=origin, report=report)
    if folder is not None:
        return with_index(folder.findings, data)  # also in those of several processes that have no result
    if result is None:
        raise RuntimeError("a run in memory returned no result")
    return with_index(result.findings, data)


def _opened_by(data: Any, labels: Any, options: dict[str, Any]) -> OpenOptions | None:
    """Return the options by which the data can be opened again; None if they are objects in memory."""
    is_named = isinstance(data, str | os.PathLike) and (labels is None or isinstance(labels, str))
    if not is_named or callable(options.get("embed")):
        return None
    return OpenOptions(**(options if labels is None else {**options, "label_column": labels}))


_Indexed = TypeVar("_Indexed", Findings, TagFindings)


def with_index(findings: _Indexed, data: Any) -> _Indexed:
    """Return the findings with the index of a data frame; of other data, and where rows are unknown, as they are."""
    index = getattr(data, "index", None) if hasattr(data, "columns") else None
    if index is None or not hasattr(index, "take"):
        return findings
    if findings.ids.dtype.kind in "iu":  # positions of the rows
        return replace(findings, index=index.take(findings.ids))
    return replace(findings, index=index) if len(index) == len(findings.ids) else findings


def make_source(data: Any, labels: Any, class_names: Sequence[str] | None, options: dict[str, Any]) -> Source:
    """Return the source of data alone, as `jnpl find` takes them, or of data with labels."""
    inside = getattr(data, "source", None)  # of embeddings; a data frame may have a column of this name
    data = inside if isinstance(inside, Source) else data
    if isinstance(labels, str):
        if "label_column" in options:
            raise InputError(f"the label column is given twice: as {labels!r}, and by label_column")
        labels, options = None, {**options, "label_column": labels}
    if getattr(labels, "ndim", 1) == 2:
        return _with_votes(data, labels, class_names, options)
    if labels is None:
        if class_names is not None:
            raise InputError("class_names go with labels; data alone have names of their own")
        return open_source(data, **options)
    if hasattr(data, "columns"):
        return _labelled_frame(data, labels, class_names, options)
    if strange := [name for name in options if name not in ("embed", "merge_classes", "one_class")]:
        raise InputError(f"{', '.join(strange)} has no meaning for arrays")
    if not isinstance(data, Source):
        return open_source(from_arrays(data, labels, class_names=class_names), **options)
    return open_source(_relabelled(data, labels, class_names), **options)


def make_tagged(
    data: Any, labels: Any, class_names: Sequence[str] | None, options: dict[str, Any]
) -> tuple[Source, dict[str, Any]]:
    """Return the source of data with several tags per sample, and the options that say so.

    `labels` are tags, the name of a label column, or None, where the data hold them.
    """
    if labels is None or isinstance(labels, str):
        options = options if options.get("tag_columns") else {**options, "multi_label": True}
        return make_source(data, labels, class_names, options), options
    tags = as_tags(labels, class_names, "labels")
    merge = bool(options.pop("merge_classes", False))
    # Labels for now: that there are two classes is asked of them.
    none = np.arange(len(tags.given)) % 2
    source = make_source(data, none, None, options)
    return checked_tags(with_tags(source, tags), merge=merge), options


def _with_votes(data: Any, labels: Any, class_names: Sequence[str] | None, options: dict[str, Any]) -> Source:
    """Return the source of data with labels (N, A) by A annotators."""
    table = labels if hasattr(labels, "columns") else {str(at + 1): column for at, column in enumerate(labels.T)}
    votes = read_votes({str(name): table[name].tolist() for name in table})
    most = most_frequent(votes)
    if None in most:
        raise InputError(f"sample {most.index(None)} has no label by anybody")
    source = make_source(data, most, class_names, options)
    return replace(source, votes=number_votes(votes, source.class_names))


def _labelled_frame(data: Any, labels: Any, class_names: Sequence[str] | None, options: dict[str, Any]) -> Source:
    """Return the source of a data frame with labels from elsewhere."""
    column = "given label"
    if "label_column" in options:
        raise InputError("labels are given twice: as labels, and by label_column")
    if len(labels) != len(data):
        raise InputError(f"{len(labels)} labels do not fit the {len(data)} rows of the data frame")
    if column in data.columns:
        raise InputError(f"labels are given twice: the data frame has a column {column!r} too")
    plain = labels.tolist() if hasattr(labels, "tolist") else list(labels)  # without an index of their own
    source = open_source(data.assign(**{column: plain}), label_column=column, **options)
    if class_names is None:
        return source
    named = {"labels": source.labels} | ({} if source.true_labels is None else {"true": source.true_labels})
    by_name = {key: [source.class_names[label] for label in values.tolist()] for key, values in named.items()}
    numbered, names = number_together(by_name, class_names)
    return replace(source, labels=numbered["labels"], true_labels=numbered.get("true"), class_names=names)


def _relabelled(source: Source, labels: Any, class_names: Sequence[str] | None) -> Source:
    """Return a source with other labels. Test data of other classes are left out: their labels are other numbers."""
    numbered, names = number_together({"labels": as_labels(labels)}, class_names)
    made = replace(source, labels=numbered["labels"], class_names=names, true_labels=None)
    return made if names == source.class_names else replace(made, test=None, validation=None)


def score_labels(
    labels: Any, pred_probs: npt.ArrayLike, *, score: Literal["posterior", "probability"] = "posterior"
) -> npt.NDArray[np.float64]:
    """Return the quality (N,) of given labels, in 0..1 and LOWER for worse ones, from any model's probabilities.

    Args:
        labels: class numbers (N,).
        pred_probs: probabilities (N, C) of a model that has not memorised these labels: cross-validated, or of `jnpl`.
        score: "probability" is that of the given label; "posterior" corrects it by the estimated confusion between
            classes (transition matrix).

    Returns:
        The label quality (N,).

    Example:
        >>> score_labels([0, 0, 1], [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], score="probability")
        array([0.9, 0.2, 0.7])
    """
    if score not in ("posterior", "probability"):
        raise InputError(f"score must be 'posterior' or 'probability', not {score!r}")
    findings = Findings.from_probs(pred_probs, labels)  # checks both
    if score == "probability":
        return findings.label_quality
    probs = posterior(pred_probs, findings.given_labels).probs.astype(np.float64, copy=False)
    quality: npt.NDArray[np.float64] = probs[np.arange(len(probs)), findings.given_labels]
    return quality
