"""jnpl: find the wrong labels in a data set and train a classifier they do not fool.

Names are loaded on first use, so that `import jnpl` and `jnpl --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__

if TYPE_CHECKING:
    from jnpl import complement, functional, losses, metrics, noise
    from jnpl.findings import Findings
    from jnpl.ledger import Ledger
    from jnpl.losses import JNPLLoss

__all__ = [
    "Findings",
    "JNPLLoss",
    "Ledger",
    "__version__",
    "complement",
    "functional",
    "losses",
    "metrics",
    "noise",
]

_HOME_OF = {"Findings": "findings", "JNPLLoss": "losses", "Ledger": "ledger"}  # class -> module


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"jnpl.{_HOME_OF[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"jnpl.{name}")
    raise AttributeError(f"module 'jnpl' has no attribute {name!r}; it exports {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
