"""Recipes: all settings of a run, and the choices made for a data set. The recipes themselves are .toml files here.

- `schema`: the settings as frozen classes, and their validation (`Recipe`, `parse_recipe`)
- `load`: recipes by name or file, with changes (`load_recipe`, `parse_changes`, `recipe_names`)
- `automatic`: network, resolution, batch size and learning rate that suit a data set (`adapt_recipe`)
"""
