"""The paper's mathematics, and the losses it is compared with.

- `functional`: every loss term as a stateless function, (B, C) logits -> (B,) losses.
- `modules`: the same as `nn.Module`s with the mean over the batch (`JNPLLoss`, ...), exported here.
- `robust`: `RobustLoss`, a drop-in for cross-entropy that turns into NL+ and PL+, and its formulas.
- `complement`: drawing complementary labels.
- `class_balance`: weights of classes.
- `short_training`: our departures from the paper for short trainings: what the network predicted in an epoch, the
  start with NL or cross-entropy, the guard against lost classes.
- `_negative`: numerical core of NL and NL+ (exact log(1 - p), gradients in closed form).
- `argument_checks`: shapes, dtypes and ranges of arguments.
"""

from jnpl.losses.class_balance import class_weights
from jnpl.losses.modules import (
    CollapseWarning,
    Draws,
    FocalLoss,
    GCELoss,
    JNPLLoss,
    JNPLTerms,
    MAELoss,
    NCERCELoss,
    NFLRCELoss,
    NLLoss,
    NLPlusLoss,
    PLPlusLoss,
    SCELoss,
)
from jnpl.losses.robust import RobustLoss

__all__ = [
    "CollapseWarning",
    "Draws",
    "FocalLoss",
    "GCELoss",
    "JNPLLoss",
    "JNPLTerms",
    "MAELoss",
    "NCERCELoss",
    "NFLRCELoss",
    "NLLoss",
    "NLPlusLoss",
    "PLPlusLoss",
    "RobustLoss",
    "SCELoss",
    "class_weights",
]
