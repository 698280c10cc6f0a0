"""Features of a pretrained network in place of images: embedded once, reduced to principal components, cached."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl.data.opening import open_source
from jnpl.data.source import Array, EmbeddedInputs, Source
from jnpl.data.sources import cifar
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.sources.cifarn import human_labels
from jnpl.data.sources.download import data_root
from jnpl.data.split import part
from jnpl.embedding.choice import default_cache, embed_for_training
from jnpl.embedding.compute import EmbeddingOptions
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, replacing
from jnpl.internal.tables import load_parquet

PART = "cifar-100-part.parquet"  # a part of CIFAR-100 in the layout of Hugging Face, where the whole is not there
_ARRAYS = ("x", "y", "x_test", "y_test")
SIZE = 128  # pixels a side, whatever `jnpl find` would take, so that stored results stay comparable


class Features(NamedTuple):
    """How images become vectors."""

    backbone: str = "efficientnet-lite0"
    views: int = 2  # the image, its mirror image, then random crops, every second one mirrored
    components: int = 256


def load(
    name: str,
    root: Path | None,
    images: int | None,
    features: Features,
    note: Callable[[str], None] = lambda _line: None,
) -> Source:
    """Return a named set as features with its true labels, human labels as given ones, and its test set.

    The inputs (N, V, components) are of the first `images`. The embeddings lie in jnpl's cache, as those of `jnpl find`
    do, and the reduced ones beside them: only the first call needs the images.
    """
    pictures = name.removesuffix("n")
    asked = [pictures, images, *features, _files(pictures, data_root(root))]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    file = default_cache() / "features" / f"{pictures}-{key}.npz"
    if not file.is_file():
        reduced = _reduced(pictures, root, images, features, note)
        make_folder(file.parent)
        with replacing(file) as draft, draft.open("wb") as stream:
            np.savez(stream, **reduced)
    try:
        with np.load(file) as stored:
            arrays = {array: stored[array] for array in _ARRAYS}
            names = tuple(stored["class_names"].tolist())
    except (OSError, ValueError, LookupError) as error:
        raise InputError(f"{str(file)!r} is broken, delete it: {error}") from error
    test = _source(f"{pictures} test", arrays["x_test"], arrays["y_test"], names, f"{key} test")
    source = replace(_source(pictures, arrays["x"], arrays["y"], names, key), test=test)
    if name == pictures:
        return source
    return replace(source, name=name, labels=human_labels(name, root, source.labels))


def is_there(name: str, root: Path | None) -> bool:
    """Whether the images of "cifar10" or "cifar100" are in the folder of named data sets."""
    return cifar.is_there(name, root) or (name == "cifar100" and (data_root(root) / PART).is_file())


def _files(name: str, root: Path) -> list[tuple[str, int, int]]:
    """Path, size and time of the files that may hold the images: other files give other features."""
    folder = root.parent if root.is_file() else root
    files = [root, folder / PART] if name == "cifar100" else [root]
    digits = name.removeprefix("cifar")
    files += sorted([*folder.glob(f"cifar-{digits}-b*"), *folder.glob(f"cifar-{digits}-b*/*.bin")])
    facts = [(file, file.stat()) for file in files if file.is_file()]
    return [(str(file.resolve()), stat.st_size, stat.st_mtime_ns) for file, stat in facts]


def _source(name: str, x: Array, y: Array, class_names: Any, key: str) -> Source:
    labels = y.astype(np.int64)
    return Source(name, EmbeddedInputs(x, key), labels, class_names, np.arange(len(y)), true_labels=labels.copy())


def _reduced(
    name: str, root: Path | None, images: int | None, features: Features, note: Callable[[str], None]
) -> dict[str, Any]:
    """Embed all images of a set, and project those that are asked for on their principal components."""
    only_a_part = name == "cifar100" and not cifar.is_there(name, root) and is_there(name, root)
    pictures = _part_of_cifar100(data_root(root) / PART) if only_a_part else open_source(name, root=root)
    options = EmbeddingOptions(views=features.views, note=note)
    whole, _ = embed_for_training(pictures, features.backbone, size=SIZE, options=options)
    if whole.test is None:
        raise InputError(f"{name} has no test set")
    kept = whole if images is None else part(whole, np.arange(min(images, len(whole))))
    x, x_test = (_unit_length(images.inputs) for images in (kept, whole.test))
    mean, axes = principal_axes(x.reshape(-1, x.shape[-1]), features.components)
    return {
        "x": ((x - mean) @ axes).astype(np.float16),
        "y": kept.labels,
        "x_test": ((x_test - mean) @ axes).astype(np.float16),
        "y_test": whole.test.labels,
        "class_names": np.array(whole.class_names),
    }


def _unit_length(inputs: Any) -> npt.NDArray[np.float32]:
    values = np.array(inputs.values, np.float32)
    values /= np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-12)
    return values


def principal_axes(
    values: npt.NDArray[np.float32], components: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the mean (F,) of values (N, F) and their principal axes (F, components), by falling variance.

    The axes are scaled so that projections have a variance of 1 on average over the components.

    >>> mean, axes = principal_axes(np.array([[0, 0], [2, 2]], np.float32), 1)
    >>> mean, np.abs(axes).round(3).ravel()
    (array([1., 1.], dtype=float32), array([0.5, 0.5], dtype=float32))
    """
    if components > values.shape[1]:
        raise InputError(f"{components} principal components of {values.shape[1]} features")
    mean = values.mean(axis=0)
    centred = values - mean
    variances, axes = np.linalg.eigh((centred.T @ centred / len(values)).astype(np.float64))
    scale = np.sqrt(variances[-components:].mean())
    return mean, (axes[:, ::-1][:, :components] / scale).astype(np.float32)


def _part_of_cifar100(path: Path) -> Source:
    """A part of CIFAR-100: PNG images, fine labels and the column `split`, in the official order."""
    from PIL import Image  # noqa: PLC0415 - the official files need no decoder

    table = load_parquet(path, columns=["image", "fine_label", "split"]).to_pandas()
    train = (table["split"] == "train").to_numpy()
    x = np.stack([np.asarray(Image.open(io.BytesIO(image["bytes"])).convert("RGB")) for image in table["image"]])
    y = table["fine_label"].to_numpy()
    parts = {"x_test": x[~train], "y_test": y[~train]}
    return from_arrays(x[train], y[train], **parts, class_names=list(range(100)), name="cifar100")
