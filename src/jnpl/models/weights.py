"""Load weights from a file or an address: tensors only, no code, and every name and shape must fit."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import torch
from torch import Tensor, nn

from jnpl.data.sources.download import data_root, fetch, file_digest, parse_digest, reading
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.files import require_file

SUFFIXES = (".pth", ".pt", ".safetensors")
HEAD = "fc."
PREFIX = "module."  # what torch.nn.DataParallel and DistributedDataParallel put before every name
COUNTER = ".num_batches_tracked"  # the files of PyTorch before 0.4.1 lack it, torchvision's among them


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """Names that were loaded, and names of the head that were not, because the file has another number of classes."""

    loaded: tuple[str, ...]
    skipped_head: tuple[str, ...]


def load_weights(model: nn.Module, where: str | os.PathLike[str], *, digest: str | None = None) -> LoadedWeights:
    """Load weights into a model, all of them or none.

    A `fc.` head for another number of classes is not loaded. Files that hold more than tensors are refused, and nothing
    in them is run.

    Args:
        model: its parameters are overwritten.
        where: a .pth, .pt or .safetensors file, or its http(s) address.
        digest: "sha256:..." or "md5:...", checked before the file is read. An address needs one, here or after a `#` at
            its end.

    Returns:
        The names that were loaded, and those of the head that were not.

    Example:
        >>> import tempfile
        >>> from jnpl.models.small import resnet8
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save(resnet8(10).state_dict(), Path(folder, "ten.pth"))
        ...     load_weights(resnet8(3), Path(folder, "ten.pth")).skipped_head
        ('fc.weight', 'fc.bias')
    """
    source = os.fspath(where)
    _, stored = _bare(_read(_local(where, digest), source))
    state = model.state_dict()
    prefix, expected = _bare({name: value for name, value in state.items() if isinstance(value, Tensor)})
    skipped = _other_head(stored, expected)
    _fit(stored, expected, skipped, source)
    loaded = [name for name in expected if name in stored and name not in skipped]
    state.update({prefix + name: stored[name] for name in loaded})
    model.load_state_dict(state)
    return LoadedWeights(tuple(prefix + name for name in loaded), tuple(prefix + name for name in skipped))


def _local(where: str | os.PathLike[str], digest: str | None) -> Path:
    """Return the file, downloaded if `where` is an address, after a check of its digest."""
    name = os.fspath(where)
    if name.lower().startswith(("http://", "https://")):
        return _fetched(name, digest)
    path = Path(name)
    _check_suffix(path.suffix, name)
    if not path.is_file():
        raise InputError(f"no weights file {name!r}")
    if digest is not None:
        _check_digest(path, digest)
    return path


def _fetched(address: str, digest: str | None) -> Path:
    url, fragment = urldefrag(address)
    file = PurePosixPath(unquote(urlsplit(url).path).replace("\\", "/"))
    _check_suffix(file.suffix, address)
    expected = digest or fragment
    if not expected:
        raise InputError(f"weights from the web need their digest: append #sha256:<64 digits> to {address!r}")
    key = hashlib.sha256(url.encode()).hexdigest()[:12]  # two addresses may end in the same file name
    return fetch(url, data_root(None) / "weights" / key / file.name, digest=expected)


def _check_suffix(suffix: str, name: str) -> None:
    if suffix.lower() not in SUFFIXES:
        raise InputError(f"weights must be a file ending in {', '.join(SUFFIXES)}, got {name!r}")


def _check_digest(path: Path, digest: str) -> None:
    algorithm, expected = parse_digest(digest)
    with reading(path):
        digest_of_file = file_digest(path, algorithm)
    if digest_of_file != expected:
        raise InputError(f"{str(path)!r} has the wrong {algorithm}: expected {expected}, got {digest_of_file}")


def _read(path: Path, source: str) -> dict[str, Tensor]:
    """Return the named tensors of a file; weights-only loading refuses a pickle that would run code."""
    state: Any
    try:
        if path.suffix.lower() == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415 - only for files of that kind

            state = load_file(require_file(path))
        else:
            state = torch.load(require_file(path), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file may raise anything
        raise InputError(
            f"{source!r} cannot be read as weights (damaged, or more than tensors): {_why(error)}"
        ) from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]  # a checkpoint of PyTorch's ImageNet example, and of many after it
    if not isinstance(state, Mapping):
        raise InputError(f"{source!r} must hold a state dict (name -> tensor), got {type(state).__name__}")
    strange = [str(name) for name, value in state.items() if not (isinstance(name, str) and _is_full(value))]
    if strange:
        raise InputError(f"{source!r} must hold named tensors only, got something else at {_first(strange)}")
    return dict(state)


def _is_full(value: object) -> bool:
    return isinstance(value, Tensor) and not value.is_meta  # a meta tensor has a shape and no values


def _why(error: Exception) -> str:
    """Return the reason only: PyTorch's message on a refused pickle goes on to recommend unsafe loading."""
    if "weights_only" not in str(error):
        return one_line(error)
    culprit = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f"weights-only loading refuses {culprit[1] if culprit else 'it'}"


def _bare(state: Mapping[str, Tensor]) -> tuple[str, dict[str, Tensor]]:
    """Return the prefix of a parallel wrapper, if all names have it, and the tensors by their names without it."""
    prefix = PREFIX if all(name.startswith(PREFIX) for name in state) else ""
    return prefix, {name.removeprefix(prefix): value for name, value in state.items()}


def _other_head(stored: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the `fc.` names whose tensors differ in the number of classes only."""
    shapes = {
        name: (stored[name].shape, expected[name].shape)
        for name in expected
        if name.startswith(HEAD) and name in stored
    }
    return tuple(name for name, (came, wanted) in shapes.items() if came[:1] != wanted[:1] and came[1:] == wanted[1:])


def _fit(stored: Mapping[str, Tensor], expected: Mapping[str, Tensor], skipped: tuple[str, ...], source: str) -> None:
    """Raise InputError unless names, shapes and number types agree."""
    complaints = []
    if missing := [name for name in expected if name not in stored and not name.endswith(COUNTER)]:
        complaints.append(f"missing {_first(missing)}")
    if unexpected := [name for name in stored if name not in expected]:
        complaints.append(f"unexpected {_first(unexpected)}")
    shared = [name for name in expected if name in stored and name not in skipped]
    shapes = [
        f"{name} is {tuple(stored[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in shared
        if stored[name].shape != expected[name].shape
    ]
    if shapes:
        complaints.append(_first(shapes))
    kinds = [
        f"{name} is {stored[name].dtype} ({stored[name].layout}) "
        f"instead of {expected[name].dtype} ({expected[name].layout})"
        for name in shared
        if stored[name].is_floating_point() != expected[name].is_floating_point()
        or stored[name].layout != expected[name].layout
    ]
    if kinds:
        complaints.append(_first(kinds))
    if complaints:
        raise InputError(f"{source!r} does not fit the model: {'; '.join(complaints)}")


def _first(items: list[str], count: int = 3) -> str:
    rest = len(items) - count
    return ", ".join(items[:count]) + (f" and {rest} more" if rest > 0 else "")
