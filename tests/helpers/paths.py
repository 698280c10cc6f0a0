"""Where things lie: the checkout, and data sets beside it that tests use if they are there."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_DATA = Path(os.environ.get("JNPL_SHARED") or ROOT.parent / "shared") / "data"


def python_path() -> str:
    """PYTHONPATH for processes that import `tests.helpers`."""
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
