"""Real processes that start at once, to be stopped and killed: forks of one that has imported everything."""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

# Imports of a training; each process would need two seconds for them.
PRELOAD = ["lightning_fabric", "jnpl.cli.app", "jnpl.cli.find", "jnpl.pipeline", "jnpl.experiments.runner"]


def start(log: Path, function: Callable[..., Any], *args: Any) -> BaseProcess:
    """Start `function(*args)` in a process of its own, which writes its output to `log`.

    What the function raises or returns is its exit code, as `sys.exit` has it; `os.kill(process.pid, ...)` signals it.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=_run, args=(str(log), function, args))
    process.start()
    return process


def _run(log: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    raise SystemExit(function(*args))


def has_written(path: Path) -> bool:
    """Whether there is something in the file."""
    return path.exists() and path.stat().st_size > 0
