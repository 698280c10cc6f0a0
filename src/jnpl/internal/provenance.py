"""Versions and commit that a result was computed with, stored beside it."""

import math
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from jnpl._version import __version__


def versions() -> dict[str, str]:
    """Return the versions of Python, jnpl and the installed libraries that results depend on."""
    installed = {"jnpl": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "cleanlab"):
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def commit() -> str:
    """Return `git describe` of the working copy that contains the package, or "unknown"."""
    top = Path(__file__).parents[3]
    if not (top / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(top), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"  # noqa: S603
    except OSError:
        return "unknown"


def plain(facts: Any) -> Any:
    """Return nested dicts and lists with None in place of nan, which JSON does not have."""
    if isinstance(facts, dict):
        return {key: plain(value) for key, value in facts.items()}
    if isinstance(facts, list):
        return [plain(value) for value in facts]
    return None if isinstance(facts, float) and math.isnan(facts) else facts
