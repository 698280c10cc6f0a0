"""Import what is optional, or what the user names."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from jnpl.internal.errors import InputError, MissingExtraError, UntrustedCodeError, one_line


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency; if it is missing, the error names the extra that installs it.

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
            raise  # the module is installed, but one of its own dependencies is not: keep that message
        message = f'this needs {error.name}, which is not installed: pip install "jnpl[{extra}]"'
        raise MissingExtraError(message) from None


def is_own_code(name: str, *, network: bool = False) -> bool:
    """Return whether the name of a network or backbone is MODULE:NAME, code of the user's own that loading would run.

    A network, unlike a backbone, has no kinds `hf:` and `timm:`: there these name modules.

    >>> is_own_code("finetune:nets:factory"), is_own_code("hf:google/vit"), is_own_code("resnet8")
    (True, False, False)
    >>> is_own_code("hf:factory", network=True), is_own_code("finetune:hf:google/vit", network=True)
    (True, False)
    """
    plain = name.removeprefix("finetune:")
    kinds = ("hf:", "timm:") if plain != name or not network else ()
    return ":" in plain and not plain.startswith(kinds)


def find_user_modules(*names: str | None) -> None:
    """Allow imports from the working directory if one of the names is MODULE:NAME, code of the user's own.

    The directory is last in sys.path, so that its files hide no installed package.
    """
    if any(name is not None and is_own_code(name) for name in names):
        sys.path.append(str(Path.cwd()))


def refuse_code(network: str | None, backbone: str | None = None, *, embed: str | None = None) -> None:
    """Raise an UntrustedCodeError if a network or backbone of a run is the user's own code, or a function embeds.

    >>> refuse_code("nets:factory")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.UntrustedCodeError: the model of this run is code of its own, 'nets:factory', which loading \
would run: if you trust it, allow it with --trust-code (in Python: trust_code=True)
    """
    named = [("model", network)] if network and is_own_code(network, network=True) else []
    named += [("model", backbone)] if backbone and is_own_code(backbone) else []
    for what, name in [*named, *([("embedding function", embed)] if embed else [])]:
        raise UntrustedCodeError(
            f"the {what} of this run is code of its own, {name!r}, which loading would run: if you trust it, allow it "
            "with --trust-code (in Python: trust_code=True)"
        )


def import_by_name(place: str, role: str, form: str = "package.module:name") -> object:
    """Return the object at "package.module:name"; `role` and `form` are the words for it in error messages.

    >>> import_by_name("math:sqrt", "the function")(4.0)
    2.0
    >>> import_by_name("math.sqrt", "the function")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: the function must be named as package.module:name, got 'math.sqrt'
    """
    module_name, _, attribute = place.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise InputError(f"{role} must be named as {form}, got {place!r}")
    try:
        value: object = importlib.import_module(module_name)
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise InputError(f"cannot import {module_name!r} of {role} {place!r}: {one_line(error)}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise InputError(f"{module_name!r} has no {attribute!r}, of {role} {place!r}")
        value = getattr(value, part)
    return value
