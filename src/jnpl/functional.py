"""The public name of `jnpl.losses.functional`: one module under two names."""

import sys

from jnpl.losses import functional
from jnpl.losses.functional import *  # noqa: F403 - for type checkers

sys.modules[__name__] = functional
