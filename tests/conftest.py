"""For all tests: one thread a process, and processes that they start can import `tests.helpers`."""

from __future__ import annotations

import os

from tests.helpers.paths import python_path

os.environ["PYTHONPATH"] = python_path()
