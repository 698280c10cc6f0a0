"""Where a figure comes from, as its JSON tells: versions and commit."""

from __future__ import annotations

import math
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from jnpl import __version__


def versions() -> dict[str, str]:
    """Of all that the figures may hang on, as far as it is installed."""
    found = {"jnpl": __version__, "python": platform.python_version()}
    for name in ("torch", "numpy", "scikit-learn", "cleanlab"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # noqa: PERF203 - each may be missing alone
            continue
    return found


def commit() -> str:
    """Of the working copy that the package is in, if it is in one."""
    top = Path(__file__).parents[2]
    if not (top / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(top), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"  # noqa: S603
    except OSError:
        return "unknown"


def plain(facts: Any) -> Any:
    """As JSON has it: nan, where a figure does not exist, is null."""
    if isinstance(facts, dict):
        return {key: plain(value) for key, value in facts.items()}
    if isinstance(facts, list):
        return [plain(value) for value in facts]
    return None if isinstance(facts, float) and math.isnan(facts) else facts
