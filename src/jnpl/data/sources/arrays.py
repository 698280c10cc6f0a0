"""Arrays, tensors and lists of images or vectors with their labels, in memory or in an .npz."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jnpl.data.options import ModelInputs
from jnpl.data.source import Array, InMemory, Inputs, Labels, Source, Texts, number
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.files import require_file
from jnpl.internal.tables import is_missing

NEEDED = ("x", "y")
OPTIONAL = ("y_true", "x_test", "y_test", "x_val", "y_val", "class_names", "ids", "backbone")
WHOLE_NUMBER = re.compile(r"[+-]?\d{1,18}(\.0*)?")  # a text that is a class number
_CHUNK = 1024  # samples checked at a time: a check must not double the memory of a large array


def from_arrays(
    x: Any,
    y: Any,
    *,
    y_true: Any = None,
    x_test: Any = None,
    y_test: Any = None,
    x_val: Any = None,
    y_val: Any = None,
    class_names: Sequence[str] | Sequence[int] | None = None,
    name: str = "arrays",
) -> Source:
    """Make a source from arrays, tensors or lists.

    Labels are names or whole numbers.

    Args:
        x: vectors (N, F), also sparse, or images, as `as_inputs` reads them, or N texts or paths of images.
        y_true: true labels (N,).
        x_test: test samples (M, ...), with `y_test`.
        y_test: test labels (M,).
        x_val: validation samples (M, ...), with `y_val`, for methods that choose between networks.
        y_val: validation labels (M,).
        class_names: names of the classes; labels are then names from it, or positions in it. By default the classes
            are all labels that occur, in sorted order.

    Example:
        >>> source = from_arrays([[0.5, 1], [2, 3], [4, 5]], ["dog", "cat", "dog"])
        >>> source.labels, source.class_names, source.kind
        (array([1, 0, 1]), ('cat', 'dog'), 'vector')
    """
    samples = as_samples(x, "x")
    inputs = samples["inputs"]
    label_lists = {"y": _matching(y, "y", inputs, "x")}
    if y_true is not None:
        label_lists["y_true"] = _matching(y_true, "y_true", inputs, "x")
    others: dict[str, dict[str, Any]] = {}
    for part, x_part, y_part in (("test", x_test, y_test), ("val", x_val, y_val)):
        if (x_part is None) != (y_part is None):
            raise InputError(f"x_{part} and y_{part} need each other: one of them is missing")
        if x_part is None:
            continue
        if is_sparse(x_part):
            raise InputError(f"x_{part} is sparse, which only x can be: give both as dense arrays of the same columns")
        others[part] = as_samples(x_part, f"x_{part}")
        held_out = others[part]["inputs"]
        if held_out.kind != inputs.kind:
            raise InputError(f"x_{part} holds {held_out.kind}s, but x {inputs.kind}s")
        if isinstance(inputs, InMemory) and held_out.values.shape[1:] != inputs.values.shape[1:]:
            shapes = f"{held_out.values.shape[1:]}, but x of {inputs.values.shape[1:]}"
            raise InputError(f"x_{part} has samples of shape {shapes}")
        label_lists[f"y_{part}"] = _matching(y_part, f"y_{part}", held_out, f"x_{part}")
    labels, classes = number_together(label_lists, class_names)
    held = {
        part: Source(f"{name}/{part}", labels=labels[f"y_{part}"], class_names=classes, **fields)
        for part, fields in others.items()
    }
    true, test, validation = labels.get("y_true"), held.get("test"), held.get("val")
    return Source(
        name, labels=labels["y"], class_names=classes, true_labels=true, test=test, validation=validation, **samples
    )


def as_samples(x: Any, name: str) -> dict[str, Any]:
    """Return vectors, images, texts or paths of images as fields of a `Source`: inputs, ids and what is unreadable.

    >>> as_samples(["a text", " "], "x")["unreadable"]
    {1: 'the text is empty'}
    """
    if (listed := as_listed(x, name)) is not None:
        return listed
    if is_sparse(x):
        if x.dtype.kind not in "biuf" or x.ndim != 2:
            raise InputError(f"{name} must be a sparse matrix of numbers, not {x.dtype} of shape {x.shape}")
        x = x @ sparse_basis(x)
    values = as_inputs(x, name)
    return {"inputs": InMemory(values), "ids": np.arange(len(values))}


def as_listed(x: Any, name: str) -> dict[str, Any] | None:
    """Return a list, array or series of texts or of paths of images, as `as_samples` does; None if it is neither."""
    if (paths := as_image_paths(x, name)) is not None:
        from jnpl.data.sources.images import file_samples  # noqa: PLC0415 - the others do without Pillow

        return file_samples(paths, Path())
    if (texts := as_texts(x)) is None:
        return None
    empty = {at: "the text is empty" for at, text in enumerate(texts) if not text.strip()} or None
    return {"inputs": Texts(texts), "ids": np.arange(len(texts)), "unreadable": empty}


def as_image_paths(x: Any, name: str) -> list[str] | None:
    """Return a list, array or series of paths of images as texts; None if it is something else.

    Paths are `Path`s, texts that all end like the name of an image, or texts of which the first 20 are all files.
    """
    if isinstance(x, str | bytes) or not hasattr(x, "__len__") or getattr(x, "ndim", 1) != 1:
        return None
    cells = list(x)
    if not cells or not isinstance(cells[0], str | os.PathLike):
        return None
    from jnpl.data.sources.images import any_exists, are_image_paths  # noqa: PLC0415

    are_files = all(isinstance(cell, str) for cell in cells) and all(map(os.path.isfile, cells[:20]))
    if not are_files and not are_image_paths(cells):
        return None
    paths = [str(os.fspath(cell)) for cell in cells]
    if not any_exists(paths, Path()):
        raise InputError(f"{name} names images that are not there, first {paths[0]!r}")
    return paths


def from_pair(pair: tuple[Any, Any]) -> Source:
    """Make a source from a pair (x, y), as `from_arrays` reads them."""
    return from_arrays(*pair)


def load(path: str | Path) -> Source:
    """Make a source from an .npz with x and y, and optionally y_true, x_test, y_test, x_val, y_val and class_names.

    `jnpl embed` also writes `ids`, the positions or paths of the samples, and `backbone`, the name of what made x.
    """
    arrays = read_npz(path, NEEDED, OPTIONAL)
    names, ids, backbone = (arrays.pop(key, None) for key in ("class_names", "ids", "backbone"))
    x, y = arrays.pop("x"), arrays.pop("y")
    class_names = None if names is None else as_labels(names, "class_names")
    try:
        source = from_arrays(x, y, **arrays, class_names=class_names, name=Path(path).stem)
        if ids is not None:
            source = replace(source, ids=_checked_ids(ids, len(source)))
    except InputError as error:
        raise InputError(f"{str(path)!r}: {error}") from error
    vectors = source.inputs.array() if source.kind == "vector" else None
    return source if backbone is None or vectors is None else replace(source, inputs=InMemory(vectors, embedded=True))


def load_new(file: str | Path, model: ModelInputs) -> dict[str, Any]:
    """Return a part of an .npz, with or without its labels, as `open_new` takes them."""
    path, ending = Path(file), {"test": "_test", "validation": "_val"}.get(model.part or "", "")
    arrays = read_npz(path, [f"x{ending}"], [f"y{ending}", "class_names"])
    values = as_inputs(arrays[f"x{ending}"], f"x{ending} of {str(path)!r}")
    if f"y{ending}" not in arrays:
        return {"inputs": InMemory(values), "name": path.stem}
    labels: list[Any] = [*as_labels(arrays[f"y{ending}"], f"y{ending} of {str(path)!r}")]
    if len(labels) != len(values):
        raise InputError(f"{str(path)!r} holds {len(values)} samples, but {len(labels)} labels")
    if "class_names" in arrays and all(isinstance(label, int) for label in labels):
        names = as_labels(arrays["class_names"], "class_names")  # labels are names from it, or positions in it
        if not set(labels) <= set(names):
            labels = [names[label] if 0 <= label < len(names) else label for label in labels]
    return {"inputs": InMemory(values), "name": path.stem, "labels": labels}


def new_samples(x: Any, model: ModelInputs) -> dict[str, Any] | None:
    """Return samples in memory as `open_new` takes them; None if they are items with labels, or no samples."""
    if model.kind == "text" and (texts := as_texts(x)) is not None:
        model.refuse_part("texts")
        return {"inputs": Texts(texts), "name": "texts"}
    if model.kind == "image" and (paths := as_image_paths(x, "x")) is not None:
        from jnpl.data.sources.images import file_samples  # noqa: PLC0415 - the others do without Pillow

        model.refuse_part("paths")
        files = file_samples(paths, Path())
        return {"inputs": files["inputs"], "name": "images", "ids": files["ids"]}
    if not hasattr(x, "shape") and (not isinstance(x, list) or _is_pair(next(iter(x), None))):
        return None
    model.refuse_part("an array")
    return {"inputs": InMemory(as_inputs(x, "x")), "name": "x"}


def _is_pair(item: Any) -> bool:
    """Whether an item of a list is an (input, label) pair, not a sample."""
    return isinstance(item, tuple) and len(item) == 2 and not np.isscalar(item[0])


def _checked_ids(ids: Array, samples: int) -> Array:
    if ids.shape != (samples,) or ids.dtype.kind not in "iuU":
        shown = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"ids must be {samples} positions or paths, one per sample, not {shown}")
    if len(np.unique(ids)) != samples:
        raise InputError("ids must differ from each other")
    return ids.astype(object) if ids.dtype.kind == "U" else ids.astype(np.int64)


def read_npz(path: str | Path, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Array]:
    """Return the named arrays of an .npz; a missing needed one, and a file that cannot be read, is an InputError."""
    try:
        with open_arrays(path) as archive:
            files = [] if isinstance(archive, np.ndarray) else archive.files  # an .npy holds one array without a name
            arrays = {key: archive[key] for key in (*needed, *optional) if key in files}
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {str(path)!r}: {_reason(error)}") from error
    for key in needed:
        if key not in arrays:
            shown = ", ".join(files) or "without names"
            raise InputError(f"{str(path)!r} has no array {key!r}; its arrays are {shown}")
    return arrays


@contextmanager
def open_arrays(path: str | Path) -> Iterator[Any]:
    """Yield the array of an .npy, or the archive of an .npz: whatever is wrong with it is an OSError or ValueError."""
    try:
        with require_file(path).open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            yield loaded
    except (OSError, ValueError):
        raise
    except MemoryError:
        raise ValueError("it says to hold more than fits into memory") from None
    except Exception as error:  # NumPy and zipfile raise many kinds: encrypted, damaged, unknown compression, no header
        raise ValueError(f"it is damaged: {one_line(error)}") from error


def downsample(source: Source, pixels: int | None) -> Source:
    """Return the source with images of `pixels` x `pixels`, by means of 2 x 2; unchanged if they have that size.

    None, and a source without images in memory, also return the source unchanged.
    """
    values = source.inputs.array()
    if pixels is None or values is None or values.ndim != 4 or values.shape[1:3] == (pixels, pixels):
        return source
    if values.shape[1:3] != (2 * pixels, 2 * pixels):
        raise InputError(f"{source.name} has images of {values.shape[1:3]} pixels; {pixels} needs {2 * pixels}")
    means = values.reshape(len(values), pixels, 2, pixels, 2, -1).mean((2, 4), dtype=np.float32)
    return replace(source, inputs=InMemory(means.round().astype(np.uint8)))


def as_texts(x: Any) -> Array | None:
    """Return a list, array or series of texts as (N,) objects; None if it is something else.

    >>> as_texts(["a", "b"]), as_texts([[1.0, 2.0]])
    (array(['a', 'b'], dtype=object), None)
    """
    if isinstance(x, str | bytes) or not hasattr(x, "__len__") or getattr(x, "ndim", 1) != 1:
        return None
    texts = [str(value) if isinstance(value, np.str_) else value for value in x]
    return np.array(texts, object) if texts and all(isinstance(value, str) for value in texts) else None


def as_inputs(x: Any, name: str = "x") -> Array:
    """Return x as uint8 images (N, H, W, 1 or 3) or float32 vectors (N, F).

    Two axes are vectors, of any numbers. Three axes are grey images (N, H, W); four are images (N, H, W, C) or
    (N, C, H, W) with one or three channels; if both fit, the last axis is the channels. Images hold uint8, other whole
    numbers in 0..255, floats in 0..1, which are rounded to the nearest of 256 steps, or booleans.

    >>> as_inputs([[[0.0, 1.0], [0.5, 0.25]]])[..., 0].tolist()
    [[[0, 255], [128, 64]]]
    """
    if is_sparse(x):
        raise InputError(f"{name} is a sparse matrix: find_label_issues and JNPLClassifier take it, nothing else does")
    values = to_numpy(x, name)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, not {values.dtype}")
    if values.ndim not in (2, 3, 4) or 0 in values.shape[1:]:
        raise InputError(f"{name} must be vectors (N, F) or images (N, H, W[, C]), not of shape {values.shape}")
    if values.ndim == 2:
        return _vectors(values, name)
    if values.ndim == 3:
        values = values[..., None]
    elif values.shape[3] not in (1, 3):
        if values.shape[1] not in (1, 3):
            raise InputError(f"images in {name} must have 1 or 3 channels, first or last, not shape {values.shape}")
        values = values.transpose(0, 2, 3, 1)
    return _eight_bits(values, name)


def as_labels(y: Any, name: str = "y") -> list[str] | list[int]:
    """Return N labels, in an array, a tensor, a series or a list, as N names or N whole numbers.

    >>> as_labels(np.array([2.0, 0.0])), as_labels([b"cat", "dog"])
    ([2, 0], ['cat', 'dog'])
    """
    values = list(y) if isinstance(y, list | tuple) else to_numpy(y, name)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise InputError(f"{name} must hold one label per sample, shape (N,), not {values.shape}")
        try:
            values = values.tolist()
        except SystemError:  # of numpy, for numbers that are no characters
            raise InputError(f"{name} holds texts with characters that are not Unicode") from None
    plain = [_label(value, position, name) for position, value in enumerate(values)]
    if all(isinstance(label, int) for label in plain):
        return [int(label) for label in plain]
    return [str(label) for label in plain]


def number_together(
    label_lists: dict[str, list[str] | list[int]], class_names: Sequence[str] | Sequence[int] | None = None
) -> tuple[dict[str, Labels], tuple[str, ...] | tuple[int, ...]]:
    """Number several lists of labels with the same classes: {name: N labels} -> {name: (N,)}, class names."""
    if class_names is None:
        together: list[Any] = [label for labels in label_lists.values() for label in labels]
        numbers, classes = number(together)
        ends = np.cumsum([len(labels) for labels in label_lists.values()])[:-1]
        return dict(zip(label_lists, np.split(numbers, ends), strict=True)), classes
    whole = all(isinstance(name, int) and not isinstance(name, bool) for name in class_names)
    classes_in_order = tuple(int(name) for name in class_names) if whole else tuple(str(name) for name in class_names)
    if len(set(classes_in_order)) != len(classes_in_order):
        twice = next(name for name in classes_in_order if classes_in_order.count(name) > 1)
        raise InputError(f"class_names holds {twice!r} twice")
    positions: dict[Any, int] = {label: position for position, label in enumerate(classes_in_order)}
    different = {label for labels in label_lists.values() for label in labels}
    if not different <= positions.keys() and not any(isinstance(label, str) for label in different):
        positions = {position: position for position in range(len(classes_in_order))}  # not names: class numbers
    for name, labels in label_lists.items():
        for position, label in enumerate(labels):
            if label not in positions:
                shown = ", ".join(str(label) for label in classes_in_order[:20])
                raise InputError(f"{name} has {label!r} at sample {position}, which is not a class: {shown}")
    return {
        name: np.array([positions[label] for label in labels], np.int64) for name, labels in label_lists.items()
    }, classes_in_order


def to_numpy(values: Any, name: str) -> Array:
    """Return an array, a tensor on any device, a data frame or nested lists as a NumPy array."""
    if type(values).__module__.partition(".")[0] == "torch" or hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if "bfloat16" in str(values.dtype) else values
    if np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise InputError(f"{name} is a masked array with {count:,} masked values: fill them or leave them out")
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be a regular array: its samples differ in shape") from error


def _vectors(values: Array, name: str) -> Array:
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(values, np.float32)
    _refuse_not_finite(result, name)
    return result


def _eight_bits(values: Array, name: str) -> Array:
    """Images (N, H, W, C) of any numbers -> uint8."""
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    if len(values) == 0:
        return values.astype(np.uint8)
    if values.dtype == np.bool_:
        return values.astype(np.uint8) * np.uint8(255)
    real = values.dtype.kind == "f"
    if real:
        _refuse_not_finite(values, name)
    low, high = values.min(), values.max()
    if low < 0 or high > (1 if real else 255):
        right = "0..1 (or be uint8)" if real else "0..255"
        raise InputError(f"images in {name} are {values.dtype} and must lie in {right}, not in {low:g}..{high:g}")
    result = np.empty(values.shape, np.uint8)
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        result[start : start + _CHUNK] = np.rint(part.astype(np.float32) * 255) if real else part
    return result


def _refuse_not_finite(values: Array, name: str) -> None:
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        bad = ~np.isfinite(part.reshape(len(part), -1)).all(1)
        if bad.any():
            raise InputError(f"{name} holds values that are not finite, first in sample {start + int(bad.argmax())}")


def _matching(y: Any, name: str, inputs: Inputs, of: str) -> list[str] | list[int]:
    labels = as_labels(y, name)
    if len(labels) != len(inputs):
        raise InputError(f"{of} holds {len(inputs)} samples, but {name} {len(labels)} labels")
    return labels


def _label(value: Any, position: int, name: str) -> str | int:
    if isinstance(value, np.generic) or type(value).__module__.partition(".")[0] == "torch":
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_missing(value):
        raise InputError(f"{name} has no label at sample {position}")
    raise InputError(f"labels are names or whole numbers, but {name} has {repr(value)[:60]} at sample {position}")


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if "allow_pickle" in str(error):
        return "it holds Python objects, which are not loaded; save plain arrays of numbers or text"
    return "not a valid .npz file"


# As of the backbone tfidf. On 3,000 texts of AG News the AP is 0.555, with all 10,387 columns of words 0.521.
WIDTH = 256


def is_sparse(x: Any) -> bool:
    """Return whether x is a sparse matrix or array of SciPy, without importing SciPy for what it is not."""
    return type(x).__module__.startswith("scipy.sparse")


def sparse_basis(x: Any) -> Array:
    """Return the directions (F, 256) onto which a sparse matrix (N, F) is projected; few columns stay as they are."""
    rows, columns = x.shape
    if columns <= WIDTH:
        return np.eye(columns, dtype=np.float32)
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - slow to import

    _, _, right = randomized_svd(x.astype(np.float32), min(WIDTH, rows), n_iter=4, random_state=0)
    return np.ascontiguousarray(right.T, np.float32)
