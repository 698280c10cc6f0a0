"""`jnpl methods`, `jnpl recipes`, `jnpl datasets` and `jnpl backbones`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from typing import Annotated

import typer

from jnpl.cli.options import AsJson


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print all settings of this recipe.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the recipes, or all settings of one recipe (change any with --set key=value)."""
    from jnpl.internal.settings import flat_settings
    from jnpl.recipes.load import load_recipe, recipe_names

    shown = {recipe_name: load_recipe(recipe_name) for recipe_name in ([name] if name else recipe_names())}
    if as_json:
        typer.echo(json.dumps({recipe_name: recipe.model_dump(mode="json") for recipe_name, recipe in shown.items()}))
        return
    for recipe_name, recipe in shown.items():
        typer.echo(f"{recipe_name:24} {recipe.description}")
        if name:
            for key, value in flat_settings(recipe.model_dump(mode="json", exclude={"description"})).items():
                typer.echo(f"  {key} = {json.dumps(value)}")


def methods(*, as_json: AsJson = False) -> None:
    """List the methods: what each needs in advance, and how it scores labels."""
    from importlib.resources import files

    # As `jnpl.methods.registry.table` has them; its methods would load PyTorch.
    rows = json.loads((files("jnpl.methods") / "table.json").read_text("utf-8"))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        typer.echo(f"{row['name']:{width}} {row['paper']}; networks: {row['networks']}; needs: {row['needs']}")
        typer.echo(f"{'':{width}} stages: {', '.join(row['stages'])}; score: {row['score']}")


def datasets(*, as_json: AsJson = False) -> None:
    """List the named data sets."""
    from jnpl.data.datasets import DATASETS

    if as_json:
        typer.echo(json.dumps([entry.to_dict() for entry in DATASETS.values()]))
        return
    for entry in DATASETS.values():
        typer.echo(f"{entry.name:12} {entry.classes:>4} classes  {entry.samples:>9,} samples  {entry.what}")


def backbones(*, as_json: AsJson = False) -> None:
    """List the backbones: what each takes, where it comes from, and whether it can be used here."""
    from jnpl.embedding.backbones import BACKBONES

    rows = [entry.to_dict() for entry in BACKBONES.values()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        size = f"up to {row['size']} x {row['size']} pixels" if row["size"] else "the model's size"
        pixels = "" if row["takes"] == "text" else f"; {size}; mean and std: {row['mean_std']}"
        width = f"{row['width']} numbers" if row["width"] else "the model's width"
        typer.echo(f"{row['name']:22} {row['takes']} -> {width}{pixels}")
        typer.echo(f"{'':22} licence: {row['licence']}; source: {row['source']}")
        typer.echo(f"{'':22} {'usable here' if row['usable'] else row['why_not']}")
