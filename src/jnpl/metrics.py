"""The public name of `jnpl.judging.metrics`: one module under two names."""

import sys

from jnpl.judging import metrics
from jnpl.judging.metrics import *  # noqa: F403 - for type checkers

sys.modules[__name__] = metrics
