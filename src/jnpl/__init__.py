"""jnpl: find mislabelled photos, texts and table rows, fix them, and get a classifier robust to the ones you miss.

Names are loaded on first use: `import jnpl` and `jnpl --help` do not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__

if TYPE_CHECKING:
    from jnpl import losses, noise
    from jnpl.api.check import check
    from jnpl.api.embeddings import Embeddings, embed
    from jnpl.api.estimator import JNPLClassifier
    from jnpl.api.label_issues import find_label_issues, score_labels
    from jnpl.api.monitor import Monitor
    from jnpl.judging import metrics
    from jnpl.judging.findings import Findings
    from jnpl.judging.ledger import Ledger
    from jnpl.judging.tag_findings import TagFindings
    from jnpl.losses import complement, functional
    from jnpl.losses.modules import JNPLLoss
    from jnpl.losses.robust import RobustLoss
    from jnpl.outputs.hub import push_to_hub
    from jnpl.outputs.saved_model import load

__all__ = [
    "Embeddings",
    "Findings",
    "JNPLClassifier",
    "JNPLLoss",
    "Ledger",
    "Monitor",
    "RobustLoss",
    "TagFindings",
    "__version__",
    "check",
    "complement",
    "embed",
    "find_label_issues",
    "functional",
    "load",
    "losses",
    "metrics",
    "noise",
    "push_to_hub",
    "score_labels",
]

_DEFINED_IN = {  # public class or function -> module
    "Embeddings": "jnpl.api.embeddings",
    "Findings": "jnpl.judging.findings",
    "JNPLClassifier": "jnpl.api.estimator",
    "JNPLLoss": "jnpl.losses.modules",
    "Ledger": "jnpl.judging.ledger",
    "Monitor": "jnpl.api.monitor",
    "RobustLoss": "jnpl.losses.robust",
    "TagFindings": "jnpl.judging.tag_findings",
    "check": "jnpl.api.check",
    "embed": "jnpl.api.embeddings",
    "find_label_issues": "jnpl.api.label_issues",
    "load": "jnpl.outputs.saved_model",
    "push_to_hub": "jnpl.outputs.hub",
    "score_labels": "jnpl.api.label_issues",
}


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(importlib.import_module(_DEFINED_IN[name]), name)
    if name in __all__:
        return importlib.import_module(f"jnpl.{name}")
    raise AttributeError(f"module 'jnpl' has no attribute {name!r}; it exports {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__
