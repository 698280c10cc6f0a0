"""JSON that may be damaged or hostile: every failure to read it is an InputError or another ValueError."""

import hashlib
import json
import os
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from jnpl.internal.errors import InputError
from jnpl.internal.files import reason_of, require_file, require_text_file

_Facts = TypeVar("_Facts", bound="StoredFacts")


class StoredFacts(BaseModel):
    """Facts in a file of ours, checked when they are read; unknown entries are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; anything else, and one that is nested too deeply, is a ValueError.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """Return the value in a JSON file; an OSError or ValueError says why it cannot be read."""
    return parse_json(require_text_file(path).read_bytes())


def read_facts(path: str | os.PathLike[str], kind: type[_Facts]) -> _Facts:
    """Return the facts in a JSON file; one that is missing, damaged or of another kind is an InputError."""
    try:
        return check_facts(read_json(path), kind, repr(str(path)))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {reason_of(error)}") from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error


def digest_of(facts: Any, *paths: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of facts, as JSON holds them, and of the bytes of files."""
    digest = hashlib.sha256(json.dumps(parse_json(json.dumps(facts)), sort_keys=True).encode())
    for path in paths:
        with require_file(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def check_facts(facts: Any, kind: type[_Facts], where: str) -> _Facts:
    """Return checked facts; the InputError names the first entry that is wrong, in `where`."""
    try:
        return kind.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        entry = ".".join(map(str, first["loc"])) or "the whole"
        reason = "it must be an object" if first["type"] == "model_type" else first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where} cannot be used: {entry}: {reason}") from None
