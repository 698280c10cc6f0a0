"""Connect to a Ray cluster, or start one on this machine."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

# For clusters that we start; a user's own settings stand. By default Ray runs workers at nice 15 and kills one that has
# not registered after 60 seconds: where other processes keep the cores busy, that is every one.
CLUSTER_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent home
    "RAY_worker_niceness": "0",
    "RAY_worker_register_timeout_seconds": "180",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its C++ part writes to standard error, whatever `logging_level` says
}
ENGINES = ("local", "ray")
_ATTEMPTS = 5
_PATIENCE = 10.0  # seconds until an address counts as dead


def check_engine(name: str, address: str | None, gpus: float | None) -> None:
    """Refuse an engine that is neither "local" nor "ray", and options of a Ray cluster that do not fit it."""
    if name not in ENGINES:
        raise InputError(f"--engine must be {' or '.join(ENGINES)}, got {name!r}")
    if name == "local":
        for option, value in (("--address", address), ("--gpus", gpus)):
            if value is not None:
                raise InputError(f"{option} goes with --engine ray, got {option} {value} with --engine local")
        return
    if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and gpus.is_integer())):
        raise InputError(f"--gpus is a share of a GPU, such as 0.5, or a whole number of them, got {gpus:g}")
    require("ray", "ray")


@contextmanager
def ray_cluster(address: str | None = None) -> Iterator[Any]:
    """Yield the module `ray`, connected to a cluster while the block runs.

    Args:
        address: HOST:PORT, ray://HOST:PORT or "auto"; None starts a cluster on this machine, which ends with the block.
            A connection that exists already is used, and stays.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield ray
        return
    connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def connect(ray: Any, address: str | None, **of_own_cluster: Any) -> None:
    """Connect to a cluster, or start one with these options. The handler of SIGTERM stays the one of before."""
    for name, value in CLUSTER_SETTINGS.items():
        os.environ.setdefault(name, value)
    _check_address(address)
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        options |= {"address": "local", "include_dashboard": False, **of_own_cluster}
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if is_main else None
    try:
        _init(ray, options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        where = "cannot start Ray here" if address is None else f"there is no Ray cluster at {address!r}"
        raise InputError(f"{where}: {reason}") from error
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _init(ray: Any, options: dict[str, Any]) -> None:
    """Call `ray.init`, again if a node of ours does not start.

    Its agents have 15 seconds to start, and no setting gives them more (ray-project/ray#65983).
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(**options)
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt == _ATTEMPTS:
                raise TimeoutError(str(error)) from error
        else:
            return


def _check_address(address: str | None) -> None:
    """Refuse at once an address without a cluster: Ray would try for minutes."""
    if address in (None, "auto"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"--address is HOST:PORT, ray://HOST:PORT or auto, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"there is no Ray cluster at {address!r}: {error}") from error
