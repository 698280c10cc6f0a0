"""jnpl: find the wrong labels in a data set and train a classifier they do not fool.

Names are loaded on first use, so that `import jnpl` and `jnpl --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from jnpl._version import __version__

if TYPE_CHECKING:
    from types import ModuleType

    from jnpl import losses, noise
    from jnpl.api import JNPLClassifier, Monitor, find_label_issues, score_labels
    from jnpl.findings import Findings, metrics
    from jnpl.findings.ledger import Ledger
    from jnpl.losses import JNPLLoss, complement, functional
    from jnpl.outputs.saved_model import load

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

_MODULE_OF = {  # public class or function -> the module that defines it
    "Findings": "jnpl.findings",
    "JNPLClassifier": "jnpl.api",
    "JNPLLoss": "jnpl.losses",
    "Ledger": "jnpl.findings.ledger",
    "Monitor": "jnpl.api",
    "find_label_issues": "jnpl.api",
    "load": "jnpl.outputs.saved_model",
    "score_labels": "jnpl.api",
}
_PUBLIC_MODULES = {  # public module -> where it lives
    "complement": "jnpl.losses.complement",
    "functional": "jnpl.losses.functional",
    "losses": "jnpl.losses",
    "metrics": "jnpl.findings.metrics",
    "noise": "jnpl.noise",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    if name in _PUBLIC_MODULES:
        return importlib.import_module(_PUBLIC_MODULES[name])
    raise AttributeError(f"module 'jnpl' has no attribute {name!r}; it exports {', '.join(__all__)}")


def __dir__() -> list[str]:
    return __all__


class _PublicModules(MetaPathFinder, Loader):
    """Lets `import jnpl.functional` give the very module `jnpl.losses.functional`, not a copy of it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        package, _, name = fullname.rpartition(".")
        home = _PUBLIC_MODULES.get(name) if package == "jnpl" else None
        return None if home in (None, fullname) else ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_PUBLIC_MODULES[spec.name.rpartition(".")[2]])
        spec.loader_state = module.__spec__  # the import system is about to overwrite it
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_PublicModules())
