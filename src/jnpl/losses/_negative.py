"""The numerical core of NL and NL+: exact log(1 - p), and losses with their gradient in closed form.

With p = softmax(f), a complementary class k and the constant weight w_k = (1 - p_k)^gamma, Eqs. 3 and 6 are

    d(-w_k log(1 - p_k)) / df_i  =  w_k p_k / (1 - p_k) * (delta_ik - p_i).

Two things go wrong in a literal implementation. For a class with p near 1, `1 - p` cancels: in float32 it is 0 once
the logit leads by 17, and a clamp there (as in NLNL's code) removes the gradient too. And K complements cost K passes
over (B, C). Here the one class with p > 1/2, if there is one, is treated apart:

    1 - p_big = sum of p over the other classes,        so nothing cancels and nothing divides by zero;

and complements are counted, n_k times class k, so that any number of them, also all C - 1, costs one pass.
Arguments have been checked by the callers in `functional`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jnpl.losses.argument_checks import is_transformed


def log_one_minus_softmax(logits: Tensor) -> Tensor:
    """log(1 - softmax(logits)), exact, with bounded gradients, in plain torch operations: (B, C) -> (B, C)."""
    shifted = logits - logits.amax(1, keepdim=True).detach()
    probs = shifted.softmax(1)
    big = probs > 0.5  # at most one class per row, so `rest` is never empty
    rest = shifted.masked_fill(big, -torch.inf)
    lead = rest.amax(1, keepdim=True).detach()  # subtracted first and added last: less rounding
    log_rest = (rest - lead).logsumexp(1, keepdim=True) - shifted.logsumexp(1, keepdim=True) + lead
    return torch.where(big, log_rest, torch.log1p(-probs.masked_fill(big, 0)))


def negative(logits: Tensor, counts: Tensor, gamma: float, *, mean: bool) -> Tensor:
    """Sum over k of counts_k * -(1 - p_k)^gamma log(1 - p_k): (B, C), (B, C) -> (B,), or its mean over the batch."""
    if _needs_plain_ops(logits, gamma):
        return _reduce(_negative_plain(logits, counts, gamma), mean=mean)
    result: Tensor = _Counted.apply(logits, counts, gamma, mean)  # type: ignore[no-untyped-call]
    return result


def negative_exhaustive(logits: Tensor, labels: Tensor, gamma: float, *, mean: bool) -> Tensor:
    """`negative` with every class but the label as complement: (B, C), (B,) -> (B,), or its mean over the batch."""
    if _needs_plain_ops(logits, gamma):
        return _reduce(_negative_plain(logits, _all_but(labels, logits), gamma), mean=mean)
    result: Tensor = _Exhaustive.apply(logits, labels, gamma, mean)  # type: ignore[no-untyped-call]
    return result


def _needs_plain_ops(logits: Tensor, gamma: float) -> bool:
    """Whether autograd.Function cannot be used (transforms), or reading `one_minus_big` would make a GPU wait."""
    return is_transformed() or (gamma < 1 and logits.device.type != "cpu")


def _all_but(labels: Tensor, logits: Tensor) -> Tensor:
    return torch.ones_like(logits).scatter(1, labels.unsqueeze(1), 0)


def _reduce(losses: Tensor, *, mean: bool) -> Tensor:
    return losses.mean() if mean else losses


def _negative_plain(logits: Tensor, counts: Tensor, gamma: float) -> Tensor:
    """The definition, for torch.compile, torch.func, second derivatives and extreme logits: (B, C) -> (B,)."""
    log_one_minus = log_one_minus_softmax(logits)
    return -(counts * (gamma * log_one_minus).exp().detach() * log_one_minus).sum(1)


def _split_big(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Split probabilities (B, C), in place, into big (entries > 1/2, else 0) and rest: (B, C), (B, C)."""
    big = F.hardshrink(probs, 0.5)
    return big, probs.sub_(big)


def _one_minus_big(rest_sum: Tensor) -> Tensor:
    """1 - p_big from the sum of all other p, in place; exactly 1 in rows without a big class: (B, 1) -> (B, 1)."""
    return torch.threshold(rest_sum.neg_(), -0.75, -1.0).neg_()


_TINY = 1e-30  # below this 1 - p_big, float32 quotients lose precision


class _Counted(torch.autograd.Function):
    # The mean is taken inside: with 10 classes one more graph node costs as much as half of cross-entropy.
    @staticmethod
    def forward(ctx: Any, logits: Tensor, counts: Tensor, gamma: float, mean: bool) -> Tensor:
        big, rest = _split_big(logits.softmax(1))
        one_minus_big = _one_minus_big(rest.sum(1, keepdim=True))
        if gamma < 1 and one_minus_big.min().item() < _TINY:
            loss, grad = _value_and_grad(logits, counts, gamma)
        else:
            counted_big = (counts * big).sum(1, keepdim=True)  # n_big p_big
            count_big = counted_big / (1 - one_minus_big).clamp_min_(0.5)
            terms, slope, weight, weight_over_rest = _terms(rest, one_minus_big, gamma)
            loss = terms.mul_(counts).sum(1, keepdim=True)
            loss = loss.addcmul_(count_big, torch.xlogy(weight, one_minus_big)).squeeze(1).neg_()
            slope = slope * counts
            total = slope.sum(1, keepdim=True)
            grad = slope.addcmul_(rest, counted_big * weight_over_rest + total, value=-1)
            grad = grad.addcmul_(big, count_big * weight - total)
        ctx.save_for_backward(logits, counts, grad)
        ctx.gamma, ctx.mean = gamma, mean
        return _reduce(loss, mean=mean)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        logits, counts, grad = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: second derivatives come from the definition
            loss = _reduce(_negative_plain(logits, counts, ctx.gamma), mean=ctx.mean)
            return _grad_of(loss, logits, upstream), None, None, None
        return grad * (upstream / len(logits) if ctx.mean else upstream.unsqueeze(1)), None, None, None


class _Exhaustive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, gamma: float, mean: bool) -> Tensor:
        label = labels.unsqueeze(1)
        probs = logits.softmax(1)
        big, rest = _split_big(probs.scatter(1, label, 0))  # without the label: its loss and slope are 0
        one_minus_big = _one_minus_big(rest.sum(1, keepdim=True).add_(probs.gather(1, label)))
        if gamma < 1 and one_minus_big.min().item() < _TINY:
            loss, grad = _value_and_grad(logits, _all_but(labels, logits), gamma)
        else:
            terms, slope, weight, weight_over_rest = _terms(rest, one_minus_big, gamma)
            loss = terms.sum(1, keepdim=True).add_(torch.xlogy(weight, one_minus_big)).squeeze(1).neg_()
            total = slope.sum(1, keepdim=True)
            pull = (1 - one_minus_big).mul_(weight_over_rest).add_(total)
            grad = slope.addcmul_(probs.sub_(big), pull, value=-1).addcmul_(big, weight - total)
        ctx.save_for_backward(logits, labels, grad)
        ctx.gamma, ctx.mean = gamma, mean
        return _reduce(loss, mean=mean)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        logits, labels, grad = ctx.saved_tensors
        if torch.is_grad_enabled():
            loss = _reduce(_negative_plain(logits, _all_but(labels, logits), ctx.gamma), mean=ctx.mean)
            return _grad_of(loss, logits, upstream), None, None, None
        return grad * (upstream / len(labels) if ctx.mean else upstream.unsqueeze(1)), None, None, None


def _terms(rest: Tensor, one_minus_big: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor, Tensor | float]:
    """w log(1 - p) and the slope w p / (1 - p) of each class, (B, C), 0 at big; w and w / (1 - p) of big, (B, 1)."""
    log_one_minus = torch.neg(rest).log1p_()
    if gamma == 1:
        return log_one_minus.addcmul_(rest, log_one_minus, value=-1), rest, one_minus_big, 1.0
    one_minus = 1 - rest
    if gamma == 0:
        return (
            log_one_minus,
            one_minus.reciprocal_().mul_(rest),
            torch.ones_like(one_minus_big),
            one_minus_big.reciprocal(),
        )
    weights = one_minus.pow(gamma)
    slope = (rest * weights).div_(one_minus)
    return log_one_minus.mul_(weights), slope, one_minus_big.pow(gamma), one_minus_big.pow(gamma - 1)


def _value_and_grad(logits: Tensor, counts: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        loss = _negative_plain(leaf, counts, gamma)
        return loss.detach(), _grad_of(loss, leaf, torch.ones_like(loss), create_graph=False)


def _grad_of(loss: Tensor, logits: Tensor, upstream: Tensor, *, create_graph: bool = True) -> Tensor:
    return torch.autograd.grad(loss, logits, upstream, create_graph=create_graph)[0]
