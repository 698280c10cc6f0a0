"""Recipes by name or from a TOML file, with changes."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jnpl.internal.errors import InputError
from jnpl.internal.files import require_text_file
from jnpl.recipes.schema import DEFAULT_METHOD, Recipe, parse_recipe

DEFAULT = "fast"  # of the method jnpl, for which alone it is made
DEFAULT_OTHER_METHODS = "small"
FINETUNE_RECIPE = "finetune"  # of backbone and head
EMBEDDINGS = "fast-embeddings"  # the default on embeddings of a pretrained network, for every method


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package."""
    return sorted(_packaged())


@cache
def _packaged() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the file and the settings of each recipe of the package by name.

    A file holds one recipe, or one for each of its tables that is no group of settings, such as `[ce-cifar10]`. Such a
    table says what its recipe changes in the rest of the file.
    """
    recipes: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in resources.files("jnpl.recipes").iterdir():
        if not path.name.endswith(".toml"):
            continue
        settings = tomllib.loads(path.read_text("utf-8"))
        variants = {name: settings.pop(name) for name in [*settings] if name not in Recipe.model_fields}
        for name, changes in (variants or {path.name.removesuffix(".toml"): {}}).items():
            recipes[name] = path.name, _merged(settings, changes)
    return recipes


def recipe_file(name: str) -> str:
    """Return the name of the file in this folder that holds a recipe of the package.

    >>> recipe_file("co-teaching-cifar10")
    'co-teaching.toml'
    """
    return _packaged()[name][0]


def _merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = deepcopy(settings)
    for name, value in changes.items():
        merged[name] = _merged(merged.get(name, {}), value) if isinstance(value, dict) else value
    return merged


def load_recipe(name: str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe and change some of its settings.

    Another `method.name` than the recipe's drops the settings of the recipe's method, its stages, its score and its
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
    """Read a recipe, by default the one for `method`, with changes. `method` replaces the recipe's method.

    >>> load_default_recipe(None, "gce", {"train.epochs": 5}).method.name
    'gce'
    """
    name = name or (DEFAULT if method in (None, DEFAULT_METHOD) else DEFAULT_OTHER_METHODS)
    return load_recipe(name, {**changes, **({} if method is None else {"method.name": method})})


OPTION_SETTINGS = {  # options of the command line -> the settings that they change
    "weights": "weights",
    "threshold": "verdict.threshold",
    "devices": "engine.devices",
    "accelerator": "engine.accelerator",
    "num_nodes": "engine.num_nodes",
    "float_format": "engine.precision",
    "workers": "engine.workers",
    "cache": "engine.cache",
    "size": "data.size",
}


def changed_settings(changes: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed settings of a recipe by dotted name; options of the command line win over `--set`.

    >>> changed_settings(["train.epochs=20", "data.size=64"], {"size": 32, "weights": None, "seed": 1})
    {'train.epochs': 20, 'data.size': 32}
    """
    named = {OPTION_SETTINGS[name]: value for name, value in options.items() if name in OPTION_SETTINGS}
    return parse_changes(changes) | {key: value for key, value in named.items() if value is not None}


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Parse changes of settings, as `--set` takes them: values are TOML, `none`, or plain words.

    >>> parse_changes(["train.epochs=20", "train.milestones=[16]", "train.schedule=step", "engine.workers=none"])
    {'train.epochs': 20, 'train.milestones': [16], 'train.schedule': 'step', 'engine.workers': None}
    """
    changes: dict[str, Any] = {}
    texts = list(texts) if isinstance(texts, Iterable) else [texts]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(f"settings are changed by a list of texts, such as ['train.epochs=20'], not {texts!r}")
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


def _read(name: str | os.PathLike[str]) -> dict[str, Any]:
    if not isinstance(name, str | os.PathLike):
        raise InputError(f"a recipe is a name or the path of a .toml file, not {name!r}")
    name = os.fspath(name)
    if not name.endswith(".toml"):
        if name not in recipe_names():
            raise InputError(f"no recipe {name!r}; there are {', '.join(recipe_names())}, or a .toml file")
        return deepcopy(_packaged()[name][1])
    path = Path(name)
    if not path.is_file():
        raise InputError(f"no such recipe file: {name!r}")
    try:
        # Bytes that are not UTF-8 are an error of the TOML parser.
        return tomllib.loads(require_text_file(path).read_text("utf-8", errors="surrogateescape"))
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
        # The settings of the recipe's method, its stages, its score and its pseudo-labels do not fit another one.
        group.clear()
        settings["verdict"] = {name: item for name, item in settings.get("verdict", {}).items() if name != "score"}
        settings.pop("stages", None)
        settings.pop("pseudo", None)
    group[last] = value
