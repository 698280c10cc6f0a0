"""Scripts that are no part of the package, such as those in benchmarks/ and docs/, as modules."""

import importlib.util
import sys
from functools import cache
from typing import Any

from tests.helpers.paths import ROOT


@cache
def load_script(path: str) -> Any:
    """Import the script at this path of the checkout, once."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # pydantic looks there for the names in annotations
    sys.path.insert(0, str((ROOT / path).parent))  # as for `python path`: scripts import those beside them
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str((ROOT / path).parent))
    return module
