"""Features of a network: the input of its last linear layer."""

from typing import Any

from torch import Tensor, nn

from jnpl.internal.errors import InputError


def head_of(network: nn.Module) -> nn.Linear:
    """Return the last `nn.Linear` of a network, in the order in which its modules were defined.

    >>> head_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    Linear(in_features=3, out_features=2, bias=True)
    >>> head_of(nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten()))
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: features are the input of a network's last nn.Linear, and Sequential has none
    """
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise InputError(f"features are the input of a network's last nn.Linear, and {type(network).__name__} has none")
    return linears[-1]


def with_features(network: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits and features of one forward pass: (B, ...) -> (B, C), (B, D). Gradients flow through both.

    The features are the input of `head_of(network)`. Its output must be the logits, up to operations that keep their
    shape; otherwise the network is refused.
    """
    head = head_of(network)
    seen: list[tuple[Tensor, Tensor]] = []

    def remember(_module: nn.Module, features: tuple[Any, ...], output: Tensor) -> None:
        seen[:] = [(features[0], output)]  # the last call counts

    hook = head.register_forward_hook(remember)
    try:
        logits: Tensor = network(inputs)
    finally:
        hook.remove()
    called = f"the last nn.Linear of {type(network).__name__}"
    if not seen:  # a compiled network does not run hooks that are added later
        raise InputError(f"{called} must be called in its forward pass (and with engine.compile=false): it was not")
    features, output = seen[0]
    if output.shape != logits.shape:
        raise InputError(f"{called} must give the logits {tuple(logits.shape)}, got {tuple(output.shape)}")
    return logits, features
