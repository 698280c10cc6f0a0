"""A method with all that trains it: device, processes, optimiser, averaged weights, the best weights so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from jnpl.internal.errors import InputError
from jnpl.training.loop import OWN_PLAN
from jnpl.training.processes import OneProcess, gather

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.methods.base import Method, ParameterGroup
    from jnpl.recipes.schema import Training


class Learner:
    """The bare `method`, `wrapped` as the loop calls it, its optimiser and, if the plan has them, averaged weights."""

    def __init__(self, method: Method, plan: Training, fabric: Fabric) -> None:
        self.method, self.fabric = method, fabric
        self.wrapped: Any = fabric.setup_module(method)
        self.average: AveragedWeights | None = None
        self._take(plan)
        if fabric.world_size > 1:
            method.sum_over_processes = lambda tensor: torch.as_tensor(fabric.all_reduce(tensor, reduce_op="sum"))
            method.gather_over_processes = lambda batch, rows: gather(batch, rows, fabric)

    @cached_property
    def wrapped_optimizer(self) -> Any:
        """The optimiser as the loop calls it, made when it is first needed: for PyTorch's, its compiler is imported."""
        optimizer = make_optimizer(
            self.method, self.plan, self.method.parameter_groups(), plain=isinstance(self.fabric, OneProcess)
        )
        return self.fabric.setup_optimizers(optimizer)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The optimiser without Fabric's wrapper."""
        bare: torch.optim.Optimizer = getattr(self.wrapped_optimizer, "optimizer", self.wrapped_optimizer)
        return bare

    def replan(self, plan: Training, *, fresh: bool) -> None:
        """Make the optimiser of the next plan; unless `fresh`, it keeps the state of an old one of the same kind."""
        old = None if fresh else self.optimizer
        self._take(plan)
        if old is not None and type(old) is type(new := self.optimizer):
            new.load_state_dict({"state": old.state_dict()["state"], "param_groups": new.state_dict()["param_groups"]})

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside this context the networks have the weights that they are tested with."""
        return nullcontext() if self.average is None else self.average.in_place()

    def finish_average(self) -> None:
        """Give the networks the averaged weights for good, if there are any."""
        if self.average is not None:
            self.average.keep()
            self.average = None

    def _take(self, plan: Training) -> None:
        self.plan = plan
        vars(self).pop("wrapped_optimizer", None)
        self.average = AveragedWeights(self.method, plan.average) if plan.average else None


class AveragedWeights:
    """An exponential moving average of the networks' weights, batch norm's statistics included.

    w' <- w' + (1 - d) (w - w') after every step (Polyak & Juditsky 1992 in its exponential form), with d rising to its
    value as (1 + t) / (10 + t), so that the first, random weights are soon forgotten. Per-sample state and counters are
    not part of it.

    The arithmetic is `torch.optim.swa_utils`'. Its `AveragedModel` would copy the whole method, per-sample state and
    functions bound to the processes included, and would average or copy that state too.
    """

    def __init__(self, method: Method, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._current = {
            name: value for name, value in method.network_state().items() if value.is_floating_point()
        }  # references: they see every step
        self.values = {name: value.clone() for name, value in self._current.items()}

    def update(self) -> None:
        """Add the weights after a step."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        from torch.optim.swa_utils import get_ema_multi_avg_fn  # noqa: PLC0415 (slow to import)

        average = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        average(list(self.values.values()), list(self._current.values()), self.steps)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this context the networks have the averaged weights."""
        held = {name: value.clone() for name, value in self._current.items()}
        try:
            self._put(self.values)
            yield
        finally:
            self._put(held)

    def keep(self) -> None:
        """Give the networks the averaged weights for good."""
        self._put(self.values)

    def load(self, values: Mapping[str, Tensor], steps: int) -> None:
        """Continue from a checkpoint."""
        for name, value in self.values.items():
            value.copy_(values[name])
        self.steps = steps

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, value in self._current.items():
            value.copy_(values[name])


class BestWeights:
    """The networks' weights with the highest validation accuracy in a phase."""

    def __init__(self, weights: dict[str, Tensor] | None = None, accuracy: float = -1.0) -> None:
        self.weights, self.accuracy = weights or {}, accuracy

    def offer(self, method: Method, accuracy: float) -> None:
        """Keep a copy of the method's present weights if they are better than any before."""
        if accuracy > self.accuracy:
            self.weights = {name: value.clone() for name, value in method.network_state().items()}
            self.accuracy = accuracy


class PlainSGD:
    """`torch.optim.SGD`, bit by bit, without the import of PyTorch's compiler, which takes a second."""

    def __init__(self, groups: list[dict[str, Any]], lr: float, *, momentum: float, weight_decay: float) -> None:
        # `dampening`: without it torch's optimiser, on more processes or a GPU, cannot continue from the state.
        plan = {"lr": lr, "momentum": momentum, "dampening": 0, "weight_decay": weight_decay}
        self.param_groups = [plan | group for group in groups]
        self.speed: dict[int, Tensor] = {}  # of each parameter, by its number

    @property
    def _parameters(self) -> list[tuple[nn.Parameter, dict[str, Any]]]:
        return [(parameter, group) for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self) -> None:
        """Move all parameters that have a gradient."""
        for number, (parameter, group) in enumerate(self._parameters):
            if (gradient := parameter.grad) is None:
                continue
            if group["weight_decay"]:
                gradient = gradient.add(parameter, alpha=group["weight_decay"])
            if group["momentum"]:
                speed = self.speed.get(number)
                self.speed[number] = gradient = (
                    gradient.clone() if speed is None else speed.mul_(group["momentum"]).add_(gradient)
                )
            parameter.add_(gradient, alpha=-group["lr"])

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter, _ in self._parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state in the form of `torch.optim.SGD`."""
        numbers = iter(range(len(self._parameters)))
        groups = [{**group, "params": [next(numbers) for _ in group["params"]]} for group in self.param_groups]
        return {"state": {at: {"momentum_buffer": speed} for at, speed in self.speed.items()}, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`."""
        self.speed = {at: slots["momentum_buffer"].clone() for at, slots in state["state"].items()}
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group |= {name: value for name, value in saved.items() if name != "params"}


def make_optimizer(
    method: nn.Module, plan: Training, own_groups: tuple[ParameterGroup, ...] = (), *, plain: bool = False
) -> torch.optim.Optimizer:
    """Return SGD, Adam or AdamW over all parameters; groups with a plan of their own come last, for SGD alone.

    `plain`: one process without Fabric, where `PlainSGD` is enough.
    """
    if own_groups and plan.optimizer != "sgd":
        raise InputError(f"setting train.optimizer: this method has parameters that need sgd, got {plan.optimizer}")
    if own_groups and plan.clip_norm is not None:
        raise InputError("setting train.clip_norm: this method has parameters that must not be clipped; leave it out")
    taken = {id(parameter) for group in own_groups for parameter in group.parameters}
    shared = [parameter for parameter in method.parameters() if id(parameter) not in taken]
    groups: list[dict[str, Any]] = [{"params": shared}]
    groups += [
        {
            "params": list(group.parameters),
            "lr": group.lr,
            OWN_PLAN: True,
            "momentum": group.momentum,
            "weight_decay": group.weight_decay,
        }
        for group in own_groups
    ]
    if plan.optimizer == "sgd":
        kind = cast("type[torch.optim.SGD]", PlainSGD) if plain else torch.optim.SGD
        return kind(groups, plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay)
    adam = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.AdamW
    return adam(groups, plan.lr, betas=(plan.momentum, 0.999), weight_decay=plan.weight_decay)
