"""What went wrong because of the user's input, told in one line; the command line turns it into exit code 2."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


class InputError(ValueError):
    """The input is wrong: the message says what came, where, and what would be right."""


class LearningError(InputError):
    """Nothing can be learnt, or no more: no label is left to teach, or the loss is not a number."""


class MissingExtraError(InputError, ImportError):
    """An optional dependency is not installed: the message names the extra that brings it."""


class UnwritableError(InputError, OSError):
    """A file cannot be written where the user wants it: the message names the path and the system's reason."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say which extra installs it.

    >>> require("json", extra="bench").__name__
    'json'
    >>> require("no_such_module", extra="bench")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.MissingExtraError: this needs no_such_module, which is not installed: pip install "jnpl[bench]"
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".", maxsplit=1)[0]:
            raise  # the module is there, but something it needs itself is not: that message is the useful one
        message = f'this needs {error.name}, which is not installed: pip install "jnpl[{extra}]"'
        raise MissingExtraError(message) from None
