"""Two networks of one architecture: the common part of Co-teaching(+), JoCoR, ELR+ and DivideMix."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from jnpl.methods.base import Method, Task


def log_mean_prediction(first: Tensor, second: Tensor) -> Tensor:
    """log of the mean prediction of two networks, without gradient: (B, C), (B, C) -> (B, C)."""
    dtype = torch.promote_types(first.dtype, torch.float32)  # float16 is too coarse for logarithms
    log_p, log_q = (logits.detach().log_softmax(1, dtype=dtype) for logits in (first, second))
    return torch.logaddexp(log_p, log_q) - math.log(2)


class TwoNetworks(Method):
    """The networks `model` and `second`, with different initial weights; a run saves the first."""

    networks = "2"
    tests_ensemble: ClassVar[bool] = False  # test accuracy is that of the mean logits, not the mean of the networks'

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.second = task.build(1)

    def reset_networks(self, build: Callable[[int], nn.Module]) -> None:
        """Load new initial weights into both networks, different ones."""
        self.model.load_state_dict(build(2 * self.stage).state_dict())
        self.second.load_state_dict(build(2 * self.stage + 1).state_dict())

    def network_logits(self, inputs: Tensor) -> dict[str, Tensor]:
        """Return logits of both networks, and their mean if that is tested: (B, ...) -> (B, C) each."""
        first, second = self.model(inputs), self.second(inputs)
        logits = {"network_1": first, "network_2": second}
        return {**logits, "ensemble": (first + second) / 2} if self.tests_ensemble else logits
