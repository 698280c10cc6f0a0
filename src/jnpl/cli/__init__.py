"""The program `jnpl`: thin commands around the package.

- `app`: the table of commands, and the exit codes; `options`: options that several commands share.
- One module per command, named after it: `apply`, `audit`, `bench`, `check`, `corrupt`, `demo`, `doctor`, `embed`,
  `export`, `find` (and train), `lists` (methods, recipes, datasets, backbones), `mcp`, `predict`, `report`,
  `reproduce`, `review`.
- `summary`: what `jnpl find` and `jnpl train` print at the end.
"""

from jnpl.cli.app import main

__all__ = ["main"]
