"""The public name of `jnpl.losses.complement`: one module under two names."""

import sys

from jnpl.losses import complement
from jnpl.losses.complement import *  # noqa: F403 - for type checkers

sys.modules[__name__] = complement
