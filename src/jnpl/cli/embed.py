"""`jnpl embed`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from jnpl.cli import options
from jnpl.internal.terminal import visible


def embed(
    data: Annotated[str, typer.Argument(help="Images or texts, in any form that jnpl find takes.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File for the embeddings: .npz or .parquet. Default: the cache alone."),
    ] = None,
    backbone: options.Backbone = "auto",
    quality: options.Quality = "auto",
    views: options.Views = 2,
    size: Annotated[
        int | None,
        typer.Option(min=8, max=4096, help="Side in pixels at which the network sees images. Default: by the data."),
    ] = None,
    cache: options.Cache = None,
    image_column: options.ImageColumn = None,
    label_column: Annotated[str | None, typer.Option(help="A table's column of given labels. Default: label.")] = None,
    text_column: options.TextColumn = None,
    image_root: options.ImageRoot = None,
    data_root: options.DataRoot = None,
    noise: Annotated[str | None, typer.Option(help="cifar10n and cifar100n: which of the human labels.")] = None,
    workers: options.Workers = None,
    threads: options.Threads = None,
    engine: Annotated[str, typer.Option(help="Where the network runs: local (this process) or ray.")] = "local",
    address: options.Address = None,
    gpus: Annotated[float | None, typer.Option(help="Ray: GPUs per worker; 0.25 runs four on each GPU.")] = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn images or texts into vectors (embeddings) with a pretrained network.

    They are cached: jnpl find with the same data then starts with training. After an interruption the same command
    continues; with torchrun, processes share the work.
    --engine ray needs jnpl[ray].
    """
    from jnpl.api.embeddings import SUFFIXES
    from jnpl.api.embeddings import embed as run
    from jnpl.embedding.compute import process_rank
    from jnpl.internal.errors import InputError
    from jnpl.internal.importing import find_user_modules
    from jnpl.training.reporting import Reporter

    is_first = process_rank()[0] == 0  # of several processes, one prints and writes
    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise InputError(f"embeddings are written as {' or '.join(SUFFIXES)}, not {str(out)!r}")
    if is_first and out is not None and out.exists() and not overwrite:
        raise InputError(f"{str(out)!r} exists; --overwrite replaces it")
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    find_user_modules(backbone)
    columns: dict[str, Any] = {
        "image_column": image_column,
        "label_column": label_column,
        "text_column": text_column,
        "image_root": image_root,
        "root": data_root,
        "noise": noise,
    }
    begin, reporter = time.monotonic(), Reporter()
    reporter.quiet(not is_first)
    with reporter.embedding() as progress:
        embeddings = run(
            data,
            backbone=backbone,
            quality=quality,
            views=views,
            size=size,
            cache=cache,
            workers=workers,
            engine=engine,
            address=address,
            gpus=gpus,
            progress=progress,
            note=reporter.note,
            **{name: value for name, value in columns.items() if value is not None},
        )
    if not is_first:
        return
    if out is not None:
        embeddings.save(out)
    facts = {
        "data": data,
        "backbone": embeddings.backbone,
        "samples": len(embeddings),
        "views": embeddings.views.shape[1],
        "width": embeddings.views.shape[2],
        "unreadable": len(embeddings.source.unreadable or ()),
        "out": None if out is None else str(out),
        "seconds": time.monotonic() - begin,
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    shape = f"{facts['samples']:,} samples, {facts['views']} views of {facts['width']:,} numbers"
    where = "in the cache" if out is None else f"in {visible(out)}"
    typer.echo(f"{shape}, by {facts['backbone']}, {where}; {facts['seconds']:.0f} s")
