"""The program `jnpl`: thin commands around the package."""

from jnpl.cli.app import main

__all__ = ["main"]
