"""The data of a finished run, opened again by the options in its data.json."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from jnpl.data.datasets import DATASETS
from jnpl.data.options import OpenOptions
from jnpl.embedding.choice import AUTO
from jnpl.embedding.compute import DEFAULT_VIEWS
from jnpl.internal.errors import InputError
from jnpl.internal.importing import find_user_modules, refuse_code
from jnpl.outputs.review.reviewed_labels import with_review
from jnpl.pipeline import OpenedData, RunOptions, embed_data, open_data
from jnpl.recipes.load import changed_settings, load_default_recipe
from jnpl.training.reporting import Reporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jnpl.data.source import Source


@dataclass(frozen=True, kw_only=True)
class RunDataOptions:
    """How the data of a run are opened and embedded, beside `OpenOptions`.

    The fields have the names of the command line's options, all of which `jnpl find` stores.
    """

    data: str
    test: str | None = None
    holdout: float | None = None
    review: Path | None = None
    recipe: str | None = None
    method: str | None = None
    change: list[str] | None = None
    weights: str | None = None
    accelerator: str | None = None
    workers: int | None = None
    size: int | None = None
    backbone: str = AUTO
    views: int = DEFAULT_VIEWS
    cache: Path | None = None
    seed: int = 0

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RunDataOptions:
        """Return the options of data.json; a value of another type is an InputError."""
        names = {option.name for option in fields(cls)}
        try:
            return TypeAdapter(cls).validate_python({name: stored[name] for name in stored if name in names})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"]))
            raise InputError(f"the options in data.json cannot be used: {name}: {first['msg']}") from None

    def to_json(self, opening: OpenOptions) -> dict[str, Any]:
        """Return these options and those of opening for data.json, with absolute paths."""
        return {**opening.to_json(), **with_absolute_paths(asdict(self))}


def with_absolute_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of the command line for data.json: paths are absolute; names of data sets and recipes stay."""
    stored = dict(options)
    for name, value in stored.items():
        is_data = name in ("data", "test") and value and value not in DATASETS and Path(value).exists()
        is_recipe = name == "recipe" and value and value.endswith(".toml")
        if isinstance(value, Path) or is_data or is_recipe:
            stored[name] = os.path.abspath(value)  # noqa: PTH100 - keeps a symbolic link of the user
    return stored


def open_run_data(stored: dict[str, Any], *, trust_code: bool = False) -> Source:
    """Return the data of a run, embedded as in the run.

    Args:
        stored: the options in data.json.
        trust_code: allow options that name code to run; else they are refused.
    """
    options, opening = RunDataOptions.from_json(stored), OpenOptions.from_json(stored)
    changes = changed_settings(options.change or (), vars(options))
    recipe = load_default_recipe(options.recipe, options.method, changes)
    if not trust_code:
        refuse_code(recipe.model, options.backbone, embed=None if opening.embed is None else str(opening.embed))
    find_user_modules(recipe.model, options.backbone, None if opening.embed is None else str(opening.embed))
    report, review = Reporter(), options.review
    report.quiet(True)
    opened = open_data(
        options.data,
        replace(opening, val_size=recipe.data.val_size, seed=0),  # the seed that is stored is that of the training
        test=options.test,
        holdout=options.holdout,
        seed=options.seed,
        decide=OpenedData if review is None else lambda source: OpenedData(with_review(source, review)),
    )
    run_options = RunOptions(
        recipe=options.recipe,
        method=options.method,
        changes=changes,
        backbone=options.backbone,
        views=options.views,
        cache=options.cache,
    )
    return embed_data(opened, run_options, report).embedded
