"""The paper's mathematics: unreduced terms in `functional`, `nn.Module` shells here, complementary labels."""

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
