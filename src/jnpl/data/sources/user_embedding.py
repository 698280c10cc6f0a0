"""The user's own function that turns texts or images into vectors (`--embed MODULE:FUNCTION`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jnpl.data.source import Array, InMemory, Inputs, Labels, Source, UnreadableError
from jnpl.data.sources.arrays import as_inputs
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import import_by_name

if TYPE_CHECKING:
    from PIL import Image

BATCH = 256  # texts per call of the function
IMAGE_BATCH = 32  # images per call: they are decoded at their full size
Embed: TypeAlias = Callable[[list[Any]], Any]  # n texts or PIL images -> (n, F): an array, a tensor or lists
_Read: TypeAlias = Callable[[int], Any]  # the row of a sample -> what the function gets; raises UnreadableError


def embed_with(source: Source, embed: str | Embed) -> Source:
    """Return the source with vectors in place of its images or texts, its test and validation data too.

    Nothing is cached: the weights behind the function are not known. Images and texts stay beside the vectors
    (`Source.pictures`, `Source.texts`), for reports.

    Args:
        embed: the function, or its place as "module:function". It takes a list of n texts or n PIL images (RGB) and
            returns (n, F).
    """
    inputs = source.inputs
    values, unreadable = embed_inputs(inputs, embed, source.name, source.unreadable)
    test, validation = (
        None if other is None else embed_with(other, embed) for other in (source.test, source.validation)
    )
    return replace(
        source,
        inputs=InMemory(values),
        unreadable=unreadable,
        pictures=inputs if source.kind == "image" else None,
        texts=source.texts if (texts := inputs.texts()) is None else texts,
        test=test,
        validation=validation,
    )


def embed_inputs(
    inputs: Inputs, embed: str | Embed, name: str, unreadable: dict[int, str] | None = None
) -> tuple[Array, dict[int, str] | None]:
    """Return float32 (N, F) of N texts or images, zeros where unreadable, and {position: reason} of these, or None."""
    if (texts := inputs.texts()) is not None:
        return embed_texts(texts, embed, unreadable), unreadable
    if inputs.kind != "image":
        raise InputError(f"embed (--embed) takes texts or images, but {name} holds {inputs.kind}s")
    values, broken = _embedded(len(inputs), lambda row: _picture(inputs, row), embed, "image", IMAGE_BATCH, unreadable)
    return values, broken or None


def embed_texts(texts: Array, embed: str | Embed, unreadable: dict[int, str] | None = None) -> Array:
    """Embed texts (N,) -> float32 (N, F) with a function, or the one at "module:function"; unreadable rows are zeros.

    >>> embed_texts(np.array(["a", "bb"], object), lambda texts: [[len(text), 1] for text in texts]).tolist()
    [[1.0, 1.0], [2.0, 1.0]]
    """
    return _embedded(len(texts), lambda row: texts[row], embed, "text", BATCH, unreadable)[0]


def _picture(inputs: Inputs, row: int) -> Image.Image:
    from PIL import Image  # noqa: PLC0415 - texts do without

    pixels = inputs.read(row)
    return Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels).convert("RGB")


def _embedded(
    count: int, read: _Read, embed: str | Embed, what: str, size: int, unreadable: dict[int, str] | None
) -> tuple[Array, dict[int, str]]:
    """Return float32 (N, F), zeros where a sample cannot be read, and {row: reason} of these."""
    function: Any = import_by_name(embed, "embed", "MODULE:FUNCTION") if isinstance(embed, str) else embed
    called = f"embed {embed!r}" if isinstance(embed, str) else f"embed {getattr(embed, '__name__', embed)!r}"
    if not callable(function):
        raise InputError(f"{called} must be a function, not {type(function).__name__}")
    broken = dict(unreadable or {})
    rows = np.setdiff1d(np.arange(count), list(broken))
    values: Array | None = None
    for start in range(0, len(rows), size):
        batch, items = _read_batch(read, rows[start : start + size], broken)
        if not items:
            continue
        part = _called(function, items, called, f"rows {batch[0]} to {batch[-1]}", what)
        if values is None:
            values = np.zeros((count, part.shape[1]), np.float32)
        if part.shape[1] != values.shape[1]:
            raise InputError(f"{called} gave {values.shape[1]} numbers a {what}, then {part.shape[1]}")
        values[batch] = part
    if values is None:
        reason = f": none of {count} can be read, the first: {next(iter(broken.values()))}" if what == "image" else ""
        raise InputError(f"there is no {what} for {called}{reason}")
    return values, dict(sorted(broken.items()))


def _read_batch(read: _Read, rows: Labels, broken: dict[int, str]) -> tuple[list[int], list[Any]]:
    """Return the rows that can be read, and their items; the reasons of the others go to `broken`."""
    kept, items = list[int](), list[Any]()
    for row in rows.tolist():
        try:
            items.append(read(row))
        except UnreadableError as error:
            broken[row] = str(error)
        else:
            kept.append(row)
    return kept, items


def _called(function: Embed, batch: list[Any], called: str, which: str, what: str) -> Array:
    try:
        result = function(batch)
    except Exception as error:  # the user's function may raise anything
        raise InputError(f"{called} failed on {which}: {one_line(error)}") from error
    try:
        values = as_inputs(result, "its result")
    except InputError as error:
        raise InputError(f"{called} must return finite numbers (n, F), but on {which} {error}") from error
    if values.ndim != 2 or len(values) != len(batch):
        shape = f"({len(batch)}, F)"
        raise InputError(f"{called} must return {shape} for {len(batch)} {what}s, not {np.shape(result)}")
    return values
