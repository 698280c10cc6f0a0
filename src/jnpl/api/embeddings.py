"""`embed`: images or texts -> the embeddings of a pretrained network, cached and resumable."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.api.label_issues import make_source
from jnpl.data.loading.prepare import default_workers
from jnpl.data.source import Source
from jnpl.embedding.choice import AUTO, embed_for_training
from jnpl.embedding.compute import DEFAULT_VIEWS, EmbeddingOptions, compute_blocks, process_device, process_rank
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.ray_cluster import check_engine
from jnpl.internal.tables import save_parquet

SUFFIXES = (".npz", ".parquet")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of a data set, with its ids and labels.

    `jnpl.find_label_issues(embeddings)` takes them as data; pictures and texts are not lost on the way.

    Attributes:
        source: the embedded data.
    """

    source: Source

    @property
    def views(self) -> npt.NDArray[np.float16]:
        """(N, V, F) embeddings of every view, float16; a memory map where they are cached."""
        views = self.source.inputs.array()
        if views is None or views.ndim != 3:
            raise InputError(f"{self.source.name} is not embedded")
        return views

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """(N, F) mean embeddings of the views, float32; zeros where a sample cannot be read."""
        mean: npt.NDArray[np.float32] = self.views.mean(axis=1, dtype=np.float32)
        return mean

    @property
    def ids(self) -> npt.NDArray[Any]:
        """(N,) positions, or paths for files."""
        return self.source.ids

    @property
    def labels(self) -> npt.NDArray[Any]:
        """(N,) given labels, by name."""
        named: npt.NDArray[Any] = np.array(self.source.class_names, object)[self.source.labels]
        return named

    @property
    def backbone(self) -> str:
        """Name of the backbone."""
        return "" if self.source.backbone is None else str(self.source.backbone.facts["name"])

    def __len__(self) -> int:
        return len(self.source)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the embeddings, which `jnpl find` reads again.

        Args:
            path: `.npz` with x (N, F), y, class_names, ids, backbone and, where known, y_true, x_test, y_test, x_val,
                y_val; or `.parquet` with the
                columns embedding, label, where known true_label, and path or text: the report then shows pictures and
                texts. With test data, a column split says which rows they are.
        """
        target = Path(path)
        if target.suffix.lower() not in SUFFIXES:
            raise InputError(f"embeddings are written as {' or '.join(SUFFIXES)}, not {str(path)!r}")
        with replacing(target) as draft:
            if target.suffix.lower() == ".npz":
                with draft.open("wb") as file:
                    np.savez(file, **self._arrays())
            else:
                save_parquet(draft, self._table())

    def _arrays(self) -> dict[str, Any]:
        source, readable = self.source, self._readable()
        arrays: dict[str, Any] = {"x": self.values[readable], "y": source.labels[readable]}
        arrays["class_names"] = np.array([str(name) for name in source.class_names])
        if source.true_labels is not None:
            arrays["y_true"] = source.true_labels[readable]
        ids = source.ids[readable]
        arrays |= {"ids": ids.astype(str) if ids.dtype == object else ids, "backbone": np.array(self.backbone)}
        for name, part in (("test", source.test), ("val", source.validation)):
            if part is not None:
                others = Embeddings(part)
                kept = others._readable()
                arrays |= {f"x_{name}": others.values[kept], f"y_{name}": part.labels[kept]}
        return arrays

    def _table(self) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - .npz does without

        parts = {"train": self.source, "test": self.source.test, "validation": self.source.validation}
        present = {name: part for name, part in parts.items() if part is not None}
        tables = [Embeddings(part)._columns(self.source.true_labels is not None) for part in present.values()]
        if len(present) > 1:  # without test data, a table needs no column that says so
            tables = [
                table.append_column("split", pa.array([name] * len(table)))
                for name, table in zip(present, tables, strict=True)
            ]
        return pa.concat_tables(tables)

    def _columns(self, truth: bool) -> Any:
        """Return the samples that can be read as a table, with a column of true labels on request."""
        import pyarrow as pa  # noqa: PLC0415

        source, readable = self.source, self._readable()
        columns: dict[str, Any] = {"embedding": pa.array(list(self.values[readable]), pa.list_(pa.float32()))}
        columns["label"] = pa.array(self.labels[readable].tolist())
        if truth:  # the labels of test data are true
            true = source.labels if source.true_labels is None else source.true_labels
            columns["true_label"] = pa.array([source.class_names[label] for label in true[readable]])
        if source.ids.dtype == object:
            root = Path(source.root or "")
            columns["path"] = pa.array([str(root / str(name)) for name in source.ids[readable]])
        if source.texts is not None:
            columns["text"] = pa.array(source.texts[readable].tolist())
        return pa.table(columns)

    def _readable(self) -> npt.NDArray[np.int64]:
        return np.setdiff1d(np.arange(len(self.source)), list(self.source.unreadable or ()))


def embed(
    data: Any,
    labels: Any = None,
    *,
    backbone: str = AUTO,
    quality: str = AUTO,
    views: int = DEFAULT_VIEWS,
    size: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    class_names: Sequence[str] | None = None,
    engine: str = "local",
    address: str | None = None,
    gpus: float | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    note: Callable[[str], None] = lambda _line: None,
    **options: Any,
) -> Embeddings:
    """Embed images or texts with a pretrained network.

    Embeddings are computed once: they are cached by the weights of the backbone, its preprocessing and the data. After
    a kill the same call continues at the last written block.

    Args:
        data: with `labels`, images (N, H, W[, C]) or a list of texts; alone, whatever `jnpl find` takes: a folder, a
            table with `image_column` or `text_column`, the name of a data set.
        labels: the given labels (N,).
        backbone: "auto" (efficientnet-lite0 for images; for texts minilm, or tfidf if `jnpl[text]` is not installed),
            or a name of `jnpl backbones`.
        quality: what "auto" embeds with: "fast", "auto" or "best".
        views: embeddings per image: 1 the image, 2 and its mirror image, more: random crops.
        size: pixels a side of the images that the backbone sees.
        cache: the folder of cached embeddings; by default $JNPL_CACHE, or a cache folder of the user.
        workers: processes that decode images; by default one per core.
        class_names: names of the classes; only with `labels`.
        engine: where the network runs: "local", this process, or "ray", a Ray cluster; image files must then be on
            storage that all its machines see.
        address: of the Ray cluster, such as "HOST:6379"; by default, one is started on this machine.
        gpus: GPUs per worker of the Ray cluster.
        progress: called with the number of samples that are done, and their total.
        note: called with lines for the user.
        **options: for data alone, how to read them, as `jnpl find` has it: `label_column`, `text_column`, ...

    Returns:
        The embeddings.

    Example:
        >>> texts = ["a good film", "a bad film", "good music", "bad music"] * 5
        >>> embeddings = embed(texts, ["good", "bad"] * 10, backbone="tfidf")
        >>> embeddings.backbone, len(embeddings), embeddings.labels[:2].tolist()
        ('tfidf', 20, ['good', 'bad'])
    """
    source = make_source(data, labels, class_names, options)
    rank, world = process_rank()
    with _computing(engine, address, gpus) as compute:
        how = EmbeddingOptions(
            views,
            None if cache is None else Path(cache),
            default_workers() if workers is None else workers,
            process_device("auto" if engine == "local" else "cpu"),  # workers of Ray have devices of their own
            rank,
            world,
            progress,
            note,
            compute,
        )
        embedded, lines = embed_for_training(source, backbone, size=size, quality=quality, options=how)
    if embedded.backbone is None:
        if not lines:
            raise InputError(f"nothing to embed: {source.name} holds vectors already")
        raise InputError(f"nothing to embed: {lines[0].partition(', ')[2]}; --backbone names one")
    return Embeddings(embedded)


def _computing(engine: str, address: str | None, gpus: float | None) -> AbstractContextManager[Any]:
    """Return what computes blocks of embeddings, as a context manager."""
    check_engine(engine, address, gpus)
    if engine == "local":
        return nullcontext(compute_blocks)
    from jnpl.embedding.ray_embedding import ray_blocks  # noqa: PLC0415 - an extra

    return ray_blocks(address, gpus)
