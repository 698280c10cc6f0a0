"""The paper's mathematics, and the losses it is compared with.

- `functional`: every loss term as a stateless function, (B, C) logits -> (B,) losses.
- `modules`: the same as `nn.Module`s with the mean over the batch (`JNPLLoss`, ...), exported here.
- `complement`: drawing complementary labels.
- `_negative`: numerical core of NL and NL+ (exact log(1 - p), gradients in closed form).
- `argument_checks`: shapes, dtypes and ranges of arguments.
"""

from jnpl.losses.modules import (
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
    class_weights,
)

__all__ = [
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
    "SCELoss",
    "class_weights",
]
