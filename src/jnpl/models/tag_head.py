"""A linear layer with one output per tag, whose probabilities are calibrated for the true tags."""

import torch
from torch import Tensor, nn

SOFT_SLOPE = 0.4  # of the second sigmoid (`jnpl.judging.tag_noise`)


class TagHead(nn.Module):
    """(B, F) -> (B, T) logits of the true tags: a linear layer, then the calibration that `calibrate` sets.

    >>> head = TagHead(4, 3)
    >>> head(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """

    scale: Tensor
    bias: Tensor
    soft_share: Tensor

    def __init__(self, in_features: int, tags: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, tags)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("bias", torch.zeros(tags))
        self.register_buffer("soft_share", torch.zeros(()))

    def calibrate(self, scale: float, bias: Tensor, soft_share: float) -> None:
        """Set the parameters of a `jnpl.judging.tag_noise.TagModel`."""
        self.scale.fill_(scale)
        self.bias.copy_(bias)
        self.soft_share.fill_(soft_share)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (B, T)."""
        scaled: Tensor = self.scale * self.linear(inputs)
        sharp, soft = scaled + self.bias, SOFT_SLOPE * scaled + self.bias
        probs = (1 - self.soft_share) * sharp.sigmoid() + self.soft_share * soft.sigmoid()
        return torch.logit(probs, eps=1e-7)
