"""jnpl: find the wrong labels in a data set and train a classifier they do not fool.

Names are loaded on first use, so that `import jnpl` and `jnpl --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__

if TYPE_CHECKING:
    from jnpl import complement, functional, losses, metrics, noise
    from jnpl.api import find_label_issues, score_labels
    from jnpl.estimator import JNPLClassifier
    from jnpl.findings import Findings
    from jnpl.ledger import Ledger
    from jnpl.losses import JNPLLoss
    from jnpl.monitor import Monitor
    from jnpl.saved import load

__all__ = [
    "Findings",
    "JNPLClassifier",
    "JNPLLoss",
    "Ledger",
    "Monitor",
    "__version__",
    "complement",
    "find_label_issues",
    "functional",
    "load",
    "losses",
    "metrics",
    "noise",
    "score_labels",
]

_HOME_OF = {  # class or function -> module
    "Findings": "findings",
    "JNPLClassifier": "estimator",
    "JNPLLoss": "losses",
    "Ledger": "ledger",
    "Monitor": "monitor",
    "find_label_issues": "api",
    "load": "saved",
    "score_labels": "api",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"jnpl.{_HOME_OF[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"jnpl.{name}")
    raise AttributeError(f"module 'jnpl' has no attribute {name!r}; it exports {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
