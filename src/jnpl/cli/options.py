"""Options that several commands share, and commands whose options are the fields of one class.

The modules of commands have no `from __future__ import annotations`: typer reads annotations at run time. They import
the rest of the package inside their functions, to keep `jnpl --help` quick.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

# Input
RunArgument = Annotated[Path, typer.Argument(help="The run folder of jnpl find or jnpl train.")]
DataRoot = Annotated[
    Path | None, typer.Option(help="Folder of the named data sets. Default: JNPL_DATA, or a cache folder.")
]

# Columns of a table
ImageColumn = Annotated[str | None, typer.Option(help="A table's column of image paths, or of the images themselves.")]
EmbeddingColumn = Annotated[str | None, typer.Option(help="A table's column of vectors (embeddings of your own).")]
TextColumn = Annotated[str | None, typer.Option(help="A table's column of texts.")]
GroupColumn = Annotated[
    list[str] | None,
    typer.Option(help="A table's column that groups the samples, such as annotator or date (may be repeated)."),
]
EmbedFunction = Annotated[
    str | None,
    typer.Option(
        help="Your own function that embeds texts or images, as MODULE:FUNCTION: a list of n texts or n PIL images -> "
        "(n, F) numbers."
    ),
]

# Embedding
Backbone = Annotated[
    str,
    typer.Option(
        help="Pretrained network that turns images or texts into vectors (jnpl backbones): auto (efficientnet-lite0 "
        "for images; for texts minilm, or tfidf if jnpl[text] is not installed), hf:NAME, timm:NAME, MODULE:FACTORY, "
        "or none to train from scratch."
    ),
]
Quality = Annotated[
    str,
    typer.Option(
        help="What auto embeds with: fast (photos at 128 pixels, texts by TF-IDF), auto, or best, which may take long."
    ),
]
Views = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="Vectors per image: 1 for the image, 2 also for its mirror image, 3 or more also for random crops (for "
        "findings; jnpl predict uses the first two).",
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        help="Folder of cached embeddings (with --backbone none: of decoded images, and there is no default). Default: "
        "JNPL_CACHE, or a cache folder of the user."
    ),
]
ImageRoot = Annotated[
    Path | None,
    typer.Option(help="Folder that the image paths of a table or COCO file start from. Default: the file's folder."),
]

# Output
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object to standard output.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file of -o if it exists; files of a run are never replaced.")
]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Allow a model of your own (MODULE:NAME): loading it runs that code. Only for run folders that you trust.",
    ),
]

# Processes
Workers = Annotated[
    int | None, typer.Option(min=0, max=1024, help="Processes that decode images. Default: one per core.")
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads per process.")]

# Where the runs of an experiment are trained
EngineName = Annotated[str, typer.Option("--engine", help="Where to train: local (processes on this machine) or ray.")]
Address = Annotated[
    str | None, typer.Option(help="Ray: address of the cluster, such as HOST:6379. Default: start one on this machine.")
]
Gpus = Annotated[float | None, typer.Option(help="Ray: GPUs per run; 0.25 puts four runs on each GPU.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=10_000,
        help="Runs at a time, with one thread each. Default: 2; with Ray, all that fit.",
    ),
]

FLOAT_FORMATS = ("32", "bf16-mixed", "16-mixed")

_Options = TypeVar("_Options")


def show_line(line: str) -> None:
    """Print a line about the progress of a command to stderr."""
    typer.echo(f"jnpl: {visible(line)}", err=True)


def threshold(value: str | None, precision: str | None, budget: int | None) -> str | None:
    """Return the setting verdict.threshold of --threshold, --precision and --budget, of which one may be given."""
    options = {"--threshold": value, "--precision": precision, "--budget": budget}
    named = [name for name, option in options.items() if option is not None]
    if len(named) > 1:
        raise InputError(f"{' and '.join(named)} exclude each other")
    if precision is not None:
        return f"precision={_share_of_issues(precision):.12g}"
    return value if budget is None else f"budget={budget}"


def _share_of_issues(text: str) -> float:
    """Return the value of --precision."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        other = f"; --float-format {text} chooses the numbers to train with" if text in FLOAT_FORMATS else ""
        raise InputError(f"--precision takes a share above 0 and up to 1, got {text}{other}")
    return share


def takes(options: type[_Options]) -> Callable[[Callable[[_Options], None]], Callable[..., None]]:
    """Turn a function of one frozen dataclass into a command: every field of the class is an argument or option."""

    def decorate(function: Callable[[_Options], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(options(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__module__, command.__annotations__ = function.__module__, {}
        command.__signature__ = inspect.signature(options).replace(return_annotation=None)  # type: ignore[attr-defined]
        return command

    return decorate


@contextmanager
def collected_log() -> Iterator[list[str]]:
    """Yield a list that receives the lines that the package logs in the block, such as what columns became."""
    log, lines = logging.getLogger("jnpl"), list[str]()
    level, handler = log.level, logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
