"""A method in the hands of the engine: on its device, in its processes, with its optimiser."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from jnpl.training.average import Average
from jnpl.training.loop import gather

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lightning_fabric import Fabric

    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Training


class Learner:
    """`method` as it is, `wrapped` as the loop calls it, optimiser and, if there is one, mean weights of the plan."""

    def __init__(self, method: Method, plan: Training, fabric: Fabric) -> None:
        self.method, self.fabric = method, fabric
        self.wrapped: Any = fabric.setup_module(method)
        self._take(plan)
        if fabric.world_size > 1:
            method.sum_over_processes = lambda tensor: torch.as_tensor(fabric.all_reduce(tensor, reduce_op="sum"))
            method.gather_over_processes = lambda batch, rows: gather(batch, rows, fabric)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser itself."""
        bare: torch.optim.Optimizer = self.wrapped_optimizer.optimizer
        return bare

    def replan(self, plan: Training, *, fresh: bool) -> None:
        """An optimiser for the next plan; unless it is fresh, momentum and the like go on if it is of the same kind."""
        old = self.optimizer
        self._take(plan)
        new = self.optimizer
        if not fresh and type(old) is type(new):
            new.load_state_dict({"state": old.state_dict()["state"], "param_groups": new.state_dict()["param_groups"]})

    def evaluated(self) -> AbstractContextManager[None]:
        """Meanwhile the networks have the weights that they are tested with."""
        return nullcontext() if self.average is None else self.average.in_place()

    def _take(self, plan: Training) -> None:
        self.wrapped_optimizer: Any = self.fabric.setup_optimizers(make_optimizer(self.method, plan))
        self.average = Average(self.method, plan.average) if plan.average else None


def make_optimizer(method: torch.nn.Module, plan: Training) -> torch.optim.Optimizer:
    """SGD, Adam or AdamW over all parameters."""
    if plan.optimizer == "sgd":
        return torch.optim.SGD(method.parameters(), plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.AdamW
    return kind(method.parameters(), plan.lr, betas=(plan.momentum, 0.999), weight_decay=plan.weight_decay)
