"""The data of a finished run, opened again by the options in its data.json."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from jnpl.data.datasets import DATASETS
from jnpl.data.join import based, join
from jnpl.data.opening import open_source, open_test, options_taken, with_one_spelling
from jnpl.data.options import OpenOptions, read_options
from jnpl.data.source import Labels, Source
from jnpl.data.split import to_hold_out
from jnpl.embedding.choice import AUTO
from jnpl.embedding.compute import DEFAULT_VIEWS
from jnpl.internal.errors import InputError
from jnpl.internal.importing import find_user_modules, refuse_code
from jnpl.outputs.review.reviewed_labels import given_decisions, with_review
from jnpl.pipeline import OpenedData, RunOptions, embed_data, open_data
from jnpl.recipes.load import changed_settings, load_default_recipe
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter


@dataclass(frozen=True, kw_only=True)
class RunDataOptions:
    """How the data of a run are opened and embedded.

    The fields, and those of `opening` as data.json has them, have the names of the command line's options.
    """

    data: str
    test: str | None = None
    holdout: float | None = None
    review: Path | None = None
    extend: Path | None = None  # a run whose data and decisions come first
    recipe: str | None = None
    method: str | None = None
    change: list[str] | None = None
    weights: str | None = None
    accelerator: str | None = None
    workers: int | None = None
    size: int | None = None
    backbone: str = AUTO
    quality: str = AUTO
    views: int = DEFAULT_VIEWS
    cache: Path | None = None
    seed: int = 0
    opening: OpenOptions = field(default_factory=OpenOptions)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RunDataOptions:
        """Return the options of data.json, or of the command line; a value of another type is an InputError."""
        options = read_options(cls, {name: value for name, value in stored.items() if name != "opening"})
        return replace(options, opening=OpenOptions.from_json(stored))

    def to_json(self) -> dict[str, Any]:
        """Return the options for data.json; paths are absolute, names of data sets and recipes stay."""
        stored = {option.name: getattr(self, option.name) for option in fields(self) if option.name != "opening"}
        for name, value in stored.items():
            is_data = name in ("data", "test") and value and value not in DATASETS and Path(value).exists()
            is_recipe = name == "recipe" and value and value.endswith(".toml")
            if isinstance(value, Path) or is_data or is_recipe:
                stored[name] = os.path.abspath(value)  # noqa: PTH100 - keeps a symbolic link of the user
        return {**self.opening.to_json(), **stored}

    def open(self, val_size: int) -> OpenedData:
        """Open the data, and test data or a share to hold out; the recipe says how many validate (`val_size`)."""
        if self.extend is not None:
            return self._extended(val_size)
        return open_data(
            self.data,
            replace(self.opening, val_size=val_size, seed=0),  # the seed that is stored is that of the training
            test=self.test,
            holdout=self.holdout,
            seed=self.seed,
            decide=self._decided,
        )

    def _extended(self, val_size: int) -> OpenedData:
        """Return the data of the run to extend, with all decisions about them, and the new data after them."""
        run = RunFolder(str(self.extend))
        facts = run.require_data_facts()
        before = RunDataOptions.from_json({"data": "", **(facts.options or {})})
        if not before.data:
            raise InputError(f"{str(run.path)!r} does not say where its data are: it was run on data in memory")
        if before.opening.embed not in (None, self.opening.embed):
            raise InputError(f"{str(run.path)!r} was embedded by code, {before.opening.embed!r}: give --embed again")
        if run.decisions.exists() or facts.decided or facts.dropped:
            before = replace(before, review=run.path)
        old, reviewed, options = before.open(val_size), None, replace(self.opening, val_size=0, seed=0)
        shared = options_taken(self.data, options.for_test(old.source.encoding, self.data))
        of_run = before.opening.changed()  # what is asked for now, data of this form must take
        asked = {name: value for name, value in options.changed().items() if value != of_run.get(name)}
        both = join(old.source, open_source(self.data, **{**shared, **asked, "one_class": True}))
        both = with_one_spelling(both, merge=options.merge_classes)
        opened = self._decided(both)
        if old.reviewed is not None:
            gone = based(np.array(old.reviewed["dropped"], object), old.source.root, both.root).tolist()
            now = given_decisions(both, opened.source)
            reviewed = {**now, "dropped": [*gone, *now["dropped"]]}
        source = opened.source if self.test is None else open_test(opened.source, self.test, options)
        if self.holdout is not None:
            held_out: Labels | None = to_hold_out(source, self.holdout, self.seed)
        else:
            names = () if old.held_out is None else both.ids[old.held_out]
            held_out = np.flatnonzero(np.isin(source.ids, names)) if len(names) else None
        return OpenedData(source, held_out, reviewed or opened.reviewed)

    def run_options(self, changes: Mapping[str, Any]) -> RunOptions:
        """Return how to embed the data, and what to train; `changes` are changed settings of the recipe."""
        return RunOptions(
            recipe=self.recipe,
            method=self.method,
            changes=changes,
            backbone=self.backbone,
            quality=self.quality,
            views=self.views,
            cache=self.cache,
            seed=self.seed,
        )

    def _decided(self, source: Source) -> OpenedData:
        """Return the source with the decisions of a review."""
        if self.review is None:
            return OpenedData(source)
        decided = with_review(source, self.review)
        return OpenedData(decided, reviewed=given_decisions(source, decided))


def open_run_data(stored: dict[str, Any], *, trust_code: bool = False) -> Source:
    """Return the data of a run, embedded as in the run; options that name code to run need `trust_code`."""
    options = RunDataOptions.from_json(stored)
    embed = None if options.opening.embed is None else str(options.opening.embed)
    changes = changed_settings(options.change or (), vars(options))
    recipe = load_default_recipe(options.recipe, options.method, changes)
    if not trust_code:
        refuse_code(recipe.model, options.backbone, embed=embed)
    find_user_modules(recipe.model, options.backbone, embed)
    report = Reporter()
    report.quiet(True)
    return embed_data(options.open(recipe.data.val_size), options.run_options(changes), report).embedded
