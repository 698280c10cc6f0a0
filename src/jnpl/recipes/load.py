"""Recipes by name or from a TOML file, with changes."""

from __future__ import annotations

import sys
from copy import deepcopy
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnpl.internal.errors import InputError
from jnpl.recipes.schema import DEFAULT_METHOD, Recipe, parse_recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT, DEFAULT_OF_OTHERS = "fast", "small"  # fast is made for the method jnpl alone
FINETUNE_RECIPE = "finetune"  # of backbone and head
EMBEDDINGS = "fast-embeddings"  # the default on embeddings of a pretrained network, for every method


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package."""
    return sorted(path.name[:-5] for path in resources.files("jnpl.recipes").iterdir() if path.name.endswith(".toml"))


def load_recipe(name: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe and change some of its settings.

    Another `method.name` than the recipe's drops the settings of the recipe's own method, its stages, its score and its
    pseudo-labels.

    Args:
        name: a name of `recipe_names`, or the path of a .toml file.
        changes: new values by dotted name.

    Returns:
        The validated recipe.

    Example:
        >>> load_recipe("paper-cifar10", {"train.epochs": 20, "train.milestones": [16]}).train.epochs
        20
    """
    settings = _read(name)
    for key, value in sorted((changes or {}).items(), key=lambda change: change[0] != "method.name"):
        _change(settings, key, deepcopy(value))
    return parse_recipe(settings)


def load_default_recipe(name: str | None, method: str | None, changes: Mapping[str, Any]) -> Recipe:
    """Read a recipe, by default the one for `method`, with changes. `method` replaces the recipe's own.

    >>> load_default_recipe(None, "gce", {"train.epochs": 5}).method.name
    'gce'
    """
    name = name or (DEFAULT if method in (None, DEFAULT_METHOD) else DEFAULT_OF_OTHERS)
    return load_recipe(name, {**changes, **({} if method is None else {"method.name": method})})


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Parse changes of settings, as `--set` takes them: values are TOML, `none`, or plain words.

    >>> parse_changes(["train.epochs=20", "train.milestones=[16]", "train.schedule=step", "engine.workers=none"])
    {'train.epochs': 20, 'train.milestones': [16], 'train.schedule': 'step', 'engine.workers': None}
    """
    changes: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        key = key.strip()
        if not sign or not key:
            raise InputError(f"a setting is changed by key=value, such as train.epochs=20, not {text!r}")
        changes.pop(key, None)  # the last one counts, in its place
        try:
            changes[key] = tomllib.loads(f"value = {value}")["value"]
        except RecursionError:
            raise InputError(f"the value of {key} is nested too deeply") from None
        except tomllib.TOMLDecodeError:
            changes[key] = None if value.strip().lower() == "none" else value.strip()
    return changes


def _read(name: str) -> dict[str, Any]:
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise InputError(f"no such recipe file: {name!r}")
        text = path.read_text("utf-8", errors="surrogateescape")  # other bytes are an error of the TOML parser below
    elif name in recipe_names():
        text = (resources.files("jnpl.recipes") / f"{name}.toml").read_text("utf-8")
    else:
        raise InputError(f"no recipe {name!r}; there are {', '.join(recipe_names())}, or a .toml file")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"the recipe {name!r} is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the recipe {name!r} is not valid TOML: {error}") from None


def _change(settings: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    group = settings
    for part in path:
        group = group.setdefault(part, {})
        if not isinstance(group, dict):
            raise InputError(f"setting {key!r}: {part!r} is a value, not a group")
    if key == "method.name" and value != group.get(last, DEFAULT_METHOD):
        # The recipe's settings of its own method, its stages, its score and its pseudo-labels do not fit another one.
        group.clear()
        settings["verdict"] = {name: each for name, each in settings.get("verdict", {}).items() if name != "score"}
        settings.pop("stages", None)
        settings.pop("pseudo", None)
    group[last] = value
