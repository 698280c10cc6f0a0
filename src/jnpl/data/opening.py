"""From what the user calls DATA to a source: a folder, a table, an .npz, a known name, or a data set of the hub."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.source import InMemory, Source
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.data.sources.text_column import Embed

TABLES = (".csv", ".tsv", ".parquet")
HUB = "hf:"
DIGITS_TEST = 397


@dataclass(frozen=True)
class Known:
    """A data set with a name."""

    name: str
    classes: int
    samples: int  # to train on
    test_samples: int
    what: str
    origin: str
    licence: str


_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CIFARN_URL = "https://github.com/UCSC-REAL/cifar-10-100n"
_CIFAR_TERMS = "no licence stated; cite Krizhevsky (2009)"
_CIFARN_TERMS = "labels CC BY-NC 4.0: fetch them yourself"
DATASETS = (
    Known(
        "digits", 10, 1400, DIGITS_TEST, "8x8 handwritten digits, as vectors", "ships with scikit-learn", "CC BY 4.0"
    ),
    Known("cifar10", 10, 50_000, 10_000, "32x32 colour photographs", _CIFAR_URL, _CIFAR_TERMS),
    Known("cifar100", 100, 50_000, 10_000, "32x32 colour photographs", _CIFAR_URL, _CIFAR_TERMS),
    Known("cifar10n", 10, 50_000, 10_000, "CIFAR-10 with labels of human annotators", _CIFARN_URL, _CIFARN_TERMS),
    Known("cifar100n", 100, 50_000, 10_000, "CIFAR-100 with labels of human annotators", _CIFARN_URL, _CIFARN_TERMS),
    Known(
        "clothing1m",
        14,
        1_000_000,
        10_526,
        "clothes from web shops, labelled by their surrounding text",
        "https://github.com/Cysu/noisy_label",
        "research only; ask its authors for it",
    ),
)


_OPTIONS_OF = {
    "cifar10": {"val_size"},
    "cifar100": {"val_size", "coarse"},
    "cifar10n": {"val_size", "noise"},
    "cifar100n": {"val_size", "noise"},
    "clothing1m": {"balanced"},
}


def open_source(
    data: Any,
    *,
    root: str | os.PathLike[str] | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    true_label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    embedding_column: str | None = None,
    text_column: str | None = None,
    embed: str | Embed | None = None,
    encoding: dict[str, Any] | None = None,
    image_root: str | os.PathLike[str] | None = None,
    noise: str | None = None,
    config: str | None = None,
    val_size: int = 0,
    coarse: bool = False,
    balanced: bool = False,
    seed: int = 0,
) -> Source:
    """Open whatever `data` names or is.

    Text is a name from `DATASETS`, `hf:NAME`, or a path: a folder of class folders, a .csv, .tsv or .parquet table,
    or an .npz. A name goes before a path: write `./cifar10` for a folder called so. A Path is always a path.
    Otherwise `data` is a Source, a data frame, a pair (x, y), a Hugging Face data set, or any data set of
    (input, label) items.

    `root` is where named data sets lie. Columns are for tables and the hub; `text_column` with `embed`, `encoding` and
    `image_root` for tables (`table.load`), `config` for the hub, `noise` for the choice of human labels in
    cifar10n and cifar100n, `val_size` for images of CIFAR to leave out, `coarse` for the 20 super-classes of cifar100,
    `balanced` for as many of each class in clothing1m, `seed` for that choice and the split of digits; an option that
    has no meaning for `data` is refused.
    """
    columns = {
        "image_column": image_column,
        "label_column": label_column,
        "true_label_column": true_label_column,
        "feature_columns": feature_columns,
        "embedding_column": embedding_column,
    }
    tabular = {"text_column": text_column, "embed": embed, "encoding": encoding, "image_root": image_root}
    special = {
        "noise": noise,
        "config": config,
        "val_size": val_size or None,
        "coarse": coarse or None,
        "balanced": balanced or None,
    }
    given: dict[str, Any] = {
        name: value for name, value in {**columns, **tabular, **special}.items() if value is not None
    }

    if _is_table(data):
        from jnpl.data.sources import table  # noqa: PLC0415 - every kind of data loads its own libraries only

        _refuse(given, {*columns, *tabular}, "a table")
        return table.load(data, **given)
    if _is_hub(data):
        from jnpl.data.sources import huggingface  # noqa: PLC0415

        _refuse(given, {*columns, "config"}, "a Hugging Face data set")
        return huggingface.load(data.removeprefix(HUB) if isinstance(data, str) else data, **given)
    if isinstance(data, str) and data in names():
        _refuse(given, _OPTIONS_OF.get(data, set()), data)
        return _named(data, root, seed, given)
    if isinstance(data, str | os.PathLike):
        return _at(data, given)
    _refuse(given, set(), f"data of type {type(data).__name__}")
    return _object(data)


def names() -> tuple[str, ...]:
    """Return the names in `DATASETS`."""
    return tuple(known.name for known in DATASETS)


def _at(data: str | os.PathLike[str], given: dict[str, Any]) -> Source:
    """Open a folder or an .npz, for which none of the given options has a meaning."""
    path = Path(data)
    if path.is_dir():
        _refuse(given, set(), f"the folder {str(data)!r}")
        from jnpl.data.sources import folder  # noqa: PLC0415

        return folder.load(path)
    if not path.exists():
        near = difflib.get_close_matches(str(data), names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"no such file or folder: {str(data)!r}, and no data set is called so ({', '.join(names())}, hf:NAME){hint}"
        )
    if path.suffix.lower() == ".npz":
        _refuse(given, set(), f"the .npz {str(data)!r}")
        from jnpl.data.sources import arrays  # noqa: PLC0415

        return arrays.load(path)
    raise InputError(f"data is a folder of class folders, one of {', '.join(TABLES)}, or an .npz, not {str(data)!r}")


def _object(data: Any) -> Source:
    if isinstance(data, Source):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        from jnpl.data.sources import arrays  # noqa: PLC0415

        return arrays.from_arrays(*data)
    if isinstance(data, np.ndarray) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise InputError(f"data must be a path, a name, a data frame, (x, y) or a data set, not {type(data).__name__}")
    from jnpl.data.sources import torch_dataset  # noqa: PLC0415

    return torch_dataset.from_dataset(data)


def _named(name: str, root: str | os.PathLike[str] | None, seed: int, given: dict[str, Any]) -> Source:
    if name == "digits":
        return _digits(seed)
    if name in ("cifar10", "cifar100"):
        from jnpl.data.sources import cifar  # noqa: PLC0415

        return cifar.load(
            name, root, labels="coarse" if given.get("coarse") else "fine", val_size=given.get("val_size", 0)
        )
    if name in ("cifar10n", "cifar100n"):
        from jnpl.data.sources import cifarn  # noqa: PLC0415

        return cifarn.load(name, root, noise=given.get("noise"), val_size=given.get("val_size", 0))
    from jnpl.data.sources import clothing1m  # noqa: PLC0415
    from jnpl.data.sources.download import data_root  # noqa: PLC0415

    inside = clothing1m.folder_in(data_root(root))
    return clothing1m.load(inside, balanced=bool(given.get("balanced")), seed=seed)


def _digits(seed: int) -> Source:
    """Scikit-learn's digits: 1,400 vectors (64,) in 0..1 and 397 for the test, split by class with `seed`."""
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    bunch = load_digits()
    values, target = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    train, test, labels, test_labels = train_test_split(
        values, target, test_size=DIGITS_TEST, random_state=seed, stratify=target
    )
    classes = tuple(range(10))
    held_out = Source("digits/test", InMemory(test), test_labels, classes, np.arange(len(test)))
    ids = np.arange(len(train))
    return Source("digits", InMemory(train), labels, classes, ids, true_labels=labels.copy(), test=held_out)


def _is_table(data: Any) -> bool:
    if isinstance(data, str | os.PathLike):
        text = os.fspath(data)
        return not text.startswith(HUB) and Path(text).suffix.lower() in TABLES and not Path(text).is_dir()
    return _comes_from(data, "pandas") and hasattr(data, "columns")


def _is_hub(data: Any) -> bool:
    return data.startswith(HUB) if isinstance(data, str) else _comes_from(data, "datasets")


def _comes_from(data: Any, library: str) -> bool:
    """Whether the class of `data`, or one that it is derived from, is of a library; without importing it."""
    return any(kind.__module__.partition(".")[0] == library for kind in type(data).__mro__)


def _refuse(given: dict[str, Any], allowed: set[str], what: str) -> None:
    strange = [name for name in given if name not in allowed]
    if strange:
        raise InputError(f"{', '.join(strange)} has no meaning for {what}")
