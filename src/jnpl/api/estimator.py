"""JNPLClassifier: `jnpl train` as a scikit-learn estimator."""

# ruff: noqa: N803, N806 - X is scikit-learn's name
from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, is_multilabel
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from jnpl.api.label_issues import make_source, with_index
from jnpl.data.new_data import open_new
from jnpl.data.opening import refuse_identifiers
from jnpl.data.source import InMemory, Inputs, Source
from jnpl.data.sources.arrays import as_image_paths, as_inputs, as_listed, is_sparse, sparse_basis
from jnpl.data.sources.columns import with_text_names
from jnpl.data.sources.encoding import lone_text
from jnpl.data.tags import Tags, as_tags, checked_tags
from jnpl.embedding.choice import AUTO, NONE
from jnpl.internal.devices import available_device
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings
from jnpl.judging.tag_findings import TagFindings
from jnpl.methods.registry import METHODS
from jnpl.methods.two_networks import TwoNetworks
from jnpl.models.build import Factory
from jnpl.outputs.saved_model import SavedModel
from jnpl.pipeline import OpenedData, RunOptions, run, run_tags
from jnpl.recipes.load import load_default_recipe, parse_changes
from jnpl.training.reporting import Reporter
from jnpl.training.run_results import RunResult, TagRunResult, TrainedModel

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]

# First weights come from PyTorch's global generator, seeded and put back: two threads must not do so at once.
_ONE_AT_A_TIME = Lock()


class JNPLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A classifier that is robust to wrong labels, and that reports which labels are probably wrong.

    `fit` finds the wrong labels of `y`, as `jnpl.find_label_issues` does, then trains a classifier on corrected
    targets. X are vectors (N, F), also sparse, images (N, H, W), (N, H, W, C) or (N, C, H, W), as uint8 or floats in
    0..1, a list of N texts or of paths of images, or a data frame, whose columns become features as in
    `find_label_issues`. Images and texts are embedded by a pretrained network first. Vectors are standardised; images
    for a network that is trained from scratch are normalised, cropped and flipped as the recipe says.

    y are labels (N,), or an indicator matrix (N, T) of 0 and 1 where samples may have several tags
    (`find_label_issues(..., multi_label=True)`). `predict` then returns such a matrix, by a threshold for each tag, and
    `predict_proba` the probability of each tag (N, T). There is no second part, and no recipe or network to choose.

    Args:
        recipe: a name (`jnpl recipes`) or a .toml file. By default `fast-embeddings` on images, texts and wide vectors,
            else `fast`, adapted to the data.
        module: the network: a name of `jnpl.models.build.MODELS`, a factory (called with `num_classes` and, if it takes
            it, `input_shape`), or a module, which is copied and whose weights training starts from. None: by the data.
        epochs: of the search for wrong labels; those of the classifier follow from it.
        batch_size: samples a step.
        lr: the learning rate.
        method: another method than the recipe's (`jnpl methods`).
        backbone: the pretrained network that embeds images or texts (`jnpl backbones`): "auto", a name, or "none" to
            train from scratch.
        quality: what "auto" embeds with: "fast" (photos at 128 pixels, texts by TF-IDF), "auto", or "best".
        cache: the folder of cached embeddings; by default $JNPL_CACHE, or a cache folder of the user.
        pseudo_label: train a classifier after the search; False: the network of the search is the classifier.
        threshold: label quality below which a label is an issue: 0.5, "auto", "per-class" or "1/c".
        settings: changes of the recipe as the command line's `--set` takes them, such as ("data.flip=false",).
        device: "auto", "cpu", "gpu" or "mps".
        random_state: the same number gives the same result, bit for bit.
        verbose: print a line an epoch on stderr.

    Attributes:
        classes_: the classes, sorted; the numbers of the tags, or the names of a data frame's columns.
        findings_: `jnpl.Findings`, of tags `TagFindings`; `id` is the row of X, and the table of a data frame keeps its
            index.
        label_quality_: (N,), in 0..1 and LOWER for worse labels, or sets of tags.
        history_: what was logged, a line an epoch; empty for tags.
        n_iter_: number of epochs.
        module_: the trained network; on embeddings, the head.
        n_features_in_, feature_names_in_: as scikit-learn has them.

    A sample of weight 0 is left out, and its `label_quality_` is nan. Other weights scale a sample's loss; their mean
    does not matter.

    Example:
        >>> x = [[i / 40, (i % 2) * 2 + (i % 5) / 9] for i in range(40)]
        >>> y = ["odd" if i % 2 else "even" for i in range(40)]
        >>> y[7] = "even"  # wrong
        >>> model = JNPLClassifier(batch_size=8, epochs=12, random_state=0).fit(x, y)
        >>> model.findings_.worst(1)[["id", "given_label", "suggested_label"]].values.tolist()
        [[7, 'even', 'odd']]
        >>> model.predict([[0.3, 2.0], [0.3, 0.1]]).tolist()
        ['odd', 'even']
    """

    def __init__(
        self,
        recipe: str | None = None,
        *,
        module: str | nn.Module | Factory | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        method: str | None = None,
        backbone: str = AUTO,
        quality: str = AUTO,
        cache: str | os.PathLike[str] | None = None,
        pseudo_label: bool = True,
        threshold: float | str | None = None,
        settings: Sequence[str] = (),
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.recipe = recipe
        self.module = module
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.method = method
        self.backbone = backbone
        self.quality = quality
        self.cache = cache
        self.pseudo_label = pseudo_label
        self.threshold = threshold
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> JNPLClassifier:
        """Train on (N, F) or images, labels (N,) or tags (N, T), some of them wrong; sample weights are (N,)."""
        X = _lone_column(X)
        listed, frame = as_listed(X, "X"), X if _is_frame(X) else None
        tags = as_tags(y) if is_multilabel(y) else None
        tag_names = y.columns.to_numpy() if tags is not None and _is_frame(y) else None
        if frame is None and listed is None:
            X, y = validate_data(self, X, y, allow_nd=True, accept_sparse="csr", multi_output=tags is not None)
            self.sparse_basis_ = sparse_basis(X) if is_sparse(X) else None
            X = X if self.sparse_basis_ is None else X @ self.sparse_basis_
        else:
            if frame is not None:
                validate_data(self, X, skip_check_array=True)
            y = column_or_1d(y) if tags is None else tags.given
            check_consistent_length(X, y)
        check_classification_targets(y)
        weights = None if sample_weight is None else _weights(sample_weight, X)
        kept = np.arange(len(X)) if weights is None else np.flatnonzero(weights)
        classes, facts = _labels(np.asarray(y)[kept]) if tags is None else _tags(tags.part(kept), tag_names)
        equal = weights is None or len(np.unique(weights[kept])) == 1
        facts |= {"ids": kept, "weights": None if equal or weights is None else weights[kept]}
        if frame is not None:
            labels = np.asarray(y)[kept] if tags is None else np.arange(len(kept)) % 2  # any; `facts` has the tags
            source = _frame_source(frame.iloc[kept], labels)
            cells = None if source.cells is None else with_text_names(frame)[list(source.cells.columns)]
            source = replace(source, **facts, cells=cells)  # the cells of all rows, which the ids number
            self.input_shape_ = source.inputs.read(0).shape
        else:
            if listed is None:
                values = as_inputs(X, "X")
                inputs: Inputs = InMemory(values if len(kept) == len(X) else values[kept])
            else:
                inputs = listed["inputs"].select(kept)
            source = Source("X", inputs, **facts)
            self.input_shape_ = () if listed is not None else values.shape[1:]
        if tags is None:
            refuse_identifiers(source)
        result, model = self._train(source if tags is None else checked_tags(source))
        self.classes_ = classes
        self.label_quality_ = np.full(len(X), np.nan)
        self.findings_: Findings | TagFindings
        if isinstance(result, TagRunResult):
            self.findings_ = with_index(result.findings, frame)
            self.label_quality_[kept] = result.findings.sample_quality
            self.history_, self.n_iter_ = [], int(result.results["epochs"])
        else:
            self.findings_ = with_index(result.findings, frame)
            self.label_quality_[kept] = result.findings.label_quality
            self.history_, self.n_iter_ = result.history, len(result.history)
        self.module_ = deepcopy(model.network).cpu().eval()
        self.description_, self.backbone_state_ = model.description, model.backbone_state
        return self

    def predict(self, X: Any) -> Array:
        """Return the predicted labels (N,), or tags (N, T) of 0 and 1, of vectors (N, F) or images."""
        probs = self.predict_proba(X)
        if (thresholds := self.description_.get("thresholds")) is not None:
            return (probs >= np.array(thresholds, np.float32)).astype(np.int64)
        labels: Array = self.classes_[probs.argmax(axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities (N, C) or, of tags, (N, T), in the order of `classes_`."""
        check_is_fitted(self, "module_")
        device = available_device(self.device)  # a model fitted on a GPU may predict on a machine without
        network = self.module_ if device.type == "cpu" else deepcopy(self.module_)
        model = SavedModel.assemble(network, self.description_, self.backbone_state_, device)
        return model.probabilities(self._source_to_predict(X, model))

    def _source_to_predict(self, X: Any, model: SavedModel) -> Source:
        if model.encoding is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            frame = X if _is_frame(X) else pd.DataFrame(X, columns=getattr(self, "feature_names_in_", None))
            return open_new(frame, model.classes, kind=model.kind, encoding=model.encoding).source
        X = _lone_column(X)
        listed = as_listed(X, "X") if model.kind != "vector" else None
        if listed is not None and listed["inputs"].kind == model.kind:
            inputs: Inputs = listed["inputs"]
        elif listed is not None or model.kind == "text":
            raise InputError(f"X must be a list of {model.kind}s, as it was fitted with")
        else:
            X = validate_data(self, X, reset=False, allow_nd=True, accept_sparse="csr")
            if (basis := getattr(self, "sparse_basis_", None)) is not None:
                X = X @ basis
            elif is_sparse(X):
                X = X.toarray()
            values = as_inputs(X, "X")
            if self.input_shape_ and values.shape[1:] != self.input_shape_:
                raise InputError(f"X has samples of shape {values.shape[1:]}, but was fitted with {self.input_shape_}")
            inputs = InMemory(values)
        none = np.zeros(len(inputs), np.int64)
        return Source("X", inputs, none, tuple(self.description_["classes"]), np.arange(len(inputs)))

    def _changes(self) -> dict[str, Any]:
        arguments = {
            "model": self.module if isinstance(self.module, str) else None,
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "train.lr": self.lr,
            "verdict.threshold": self.threshold,
            "engine.accelerator": self.device,
        }
        return parse_changes(self.settings) | {key: value for key, value in arguments.items() if value is not None}

    def _train(self, source: Source) -> tuple[RunResult | TagRunResult, TrainedModel]:
        report = Reporter()
        report.quiet(not self.verbose)
        changes = self._changes()
        if isinstance(self.module, nn.Module):
            method = load_default_recipe(self.recipe, self.method, changes).method.name
            if issubclass(METHODS[method], TwoNetworks):
                raise InputError(f"{method} needs two networks that differ: give a factory as module")
        seed, draws = self.random_state, check_random_state(self.random_state)
        options = RunOptions(
            recipe=self.recipe,
            method=self.method,
            changes=changes,
            backbone=self.backbone if self.module is None or source.kind == "text" else NONE,
            quality=self.quality,
            cache=self.cache,
            classify=self.pseudo_label,
            seed=int(seed if isinstance(seed, int | np.integer) else draws.randint(np.iinfo(np.int32).max)),
            strict=True,
            network=self._network(),
        )
        with _ONE_AT_A_TIME:
            judge = run if source.tags is None else run_tags
            result = judge(OpenedData(source), options, report=report)
        if result is None or result.model is None:
            raise RuntimeError("a run in memory returned no model")
        return result, result.model

    def _network(self) -> Factory | None:
        module = self.module
        if not isinstance(module, nn.Module):
            return None if isinstance(module, str) else module

        def copied(num_classes: int) -> nn.Module:  # noqa: ARG001 (its outputs are what they are, and are checked)
            return deepcopy(module)

        return copied

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def _lone_column(X: Any) -> Any:
    """Return the column of a data frame that has no other, if it holds texts or paths of images; else X."""
    if not _is_frame(X) or X.shape[1] != 1:
        return X
    cells = X.iloc[:, 0]
    return cells if as_image_paths(cells, "X") is not None or lone_text(X) is not None else X


def _frame_source(frame: Any, y: Array) -> Source:
    """Return a data frame as `find_label_issues` reads it; other things than columns of features are an InputError."""
    source = make_source(frame, y, None, {})
    if source.encoding is None or len(source) != len(frame):
        what = "images, embeddings or a column split" if source.encoding is None else "a column split"
        raise InputError(f"X is a data frame with {what}; find_label_issues takes it, fit takes columns of features")
    return source


def _weights(sample_weight: Any, X: Array) -> Floats:
    """(N,) finite weights of at least 0, some above."""
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if weights.min() < 0:
        raise ValueError(f"sample_weight must not be negative, got {weights.min():g}")
    if not weights.any():
        raise ValueError("sample_weight is 0 for all samples; at least one must be above 0")
    scaled: Floats = (weights / weights.max()).astype(np.float32)
    return scaled


def _labels(y: Array) -> tuple[Array, dict[str, Any]]:
    """Return the classes, and what a source has of labels (N,)."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has 1 class, {classes[0]!r}, where at least 2 classes are needed")
    named = int if classes.dtype.kind in "iuf" else str  # whole numbers stay numbers, also as floats
    return classes, {"labels": labels.astype(np.int64), "class_names": tuple(map(named, classes.tolist()))}


def _tags(tags: Tags, names: Array | None) -> tuple[Array, dict[str, Any]]:
    """Return the names or numbers of the tags, and what a source has of tags."""
    classes = np.arange(len(tags.names)) if names is None else names
    facts = {"labels": np.zeros(len(tags.given), np.int64), "class_names": tags.names, "tags": tags.given}
    return classes, facts
