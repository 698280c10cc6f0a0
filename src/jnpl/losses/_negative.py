"""The numerical core of negative learning: log(1 - p) exactly, and losses that carry their gradient in closed form.

With p = softmax(f), a complementary class k and the constant weight w_k = (1 - p_k)^gamma, Eqs. 3 and 6 are

    d(-w_k log(1 - p_k)) / df_i  =  w_k p_k / (1 - p_k) * (delta_ik - p_i).

Two things go wrong in the literal code. For a class with p near 1, `1 - p` cancels: in float32 it is 0 once the
logit leads by 17, and a clamp there (as older code has it) kills the gradient too. And K complements cost K
passes over (B, C). Here the one class with p > 1/2, if there is one, is taken out of the sum:

    1 - p_big = the others' p added up,        so nothing cancels and nothing divides by zero;

and complements are counted, n_k times class k, so that any number of them, also all C - 1, costs one pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jnpl.losses._checks import transformed


def log_keep(logits: Tensor) -> Tensor:
    """log(1 - softmax(logits)), exact and with bounded gradients: (B, C) -> (B, C). Plain torch ops."""
    shifted = logits - logits.amax(1, keepdim=True).detach()
    probs = shifted.softmax(1)
    big = probs > 0.5  # at most one class a row, so the others are never empty
    rest = shifted.masked_fill(big, -torch.inf)
    lead = rest.amax(1, keepdim=True).detach()  # taken out and added last: logsumexp would round at its size
    log_rest = (rest - lead).logsumexp(1, keepdim=True) - shifted.logsumexp(1, keepdim=True) + lead
    return torch.where(big, log_rest, torch.log1p(-probs.masked_fill(big, 0)))


def negative(logits: Tensor, counts: Tensor, gamma: float, *, mean: bool) -> Tensor:
    """Sum over k of counts_k * -(1 - p_k)^gamma log(1 - p_k): (B, C), (B, C) -> (B,), or its mean over the batch."""
    if _plainly(logits, gamma):
        return _reduce(_negative_plain(logits, counts, gamma), mean=mean)
    result: Tensor = _Counted.apply(logits, counts, gamma, mean)  # type: ignore[no-untyped-call]
    return result


def negative_exhaustive(logits: Tensor, labels: Tensor, gamma: float, *, mean: bool) -> Tensor:
    """`negative` with every class but the label once: (B, C), (B,) -> (B,), or its mean over the batch."""
    if _plainly(logits, gamma):
        return _reduce(_negative_plain(logits, _all_but(labels, logits), gamma), mean=mean)
    result: Tensor = _Exhaustive.apply(logits, labels, gamma, mean)  # type: ignore[no-untyped-call]
    return result


def _plainly(logits: Tensor, gamma: float) -> bool:
    """Whether to use plain torch ops: under transforms, and where looking at `keep` would make a GPU wait."""
    return transformed() or (gamma < 1 and logits.device.type != "cpu")


def _all_but(labels: Tensor, logits: Tensor) -> Tensor:
    return torch.ones_like(logits).scatter(1, labels.unsqueeze(1), 0)


def _reduce(losses: Tensor, *, mean: bool) -> Tensor:
    return losses.mean() if mean else losses


def _negative_plain(logits: Tensor, counts: Tensor, gamma: float) -> Tensor:
    """The definition in plain torch ops: for torch.compile, torch.func, second derivatives and extreme logits."""
    log_one_minus = log_keep(logits)
    return -(counts * (gamma * log_one_minus).exp().detach() * log_one_minus).sum(1)


def _split(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Split (B, C) probabilities, which are used up, into big + rest: big holds what is > 1/2 and 0 elsewhere."""
    big = F.hardshrink(probs, 0.5)
    return big, probs.sub_(big)


def _keep(rest_sum: Tensor) -> Tensor:
    """1 - p_big, at most 1/2, from the sum of all other p: (B, 1) -> (B, 1). Rows with no big class get exactly 1."""
    return torch.threshold(rest_sum.neg_(), -0.75, -1.0).neg_()


_TINY = 1e-30  # below it, rest / keep would lose digits to float32's smallest numbers


class _Counted(torch.autograd.Function):
    # The mean is taken inside: at 10 classes a node more in the graph costs as much as half of cross-entropy.
    @staticmethod
    def forward(ctx: Any, logits: Tensor, counts: Tensor, gamma: float, mean: bool) -> Tensor:
        big, rest = _split(logits.softmax(1))
        keep = _keep(rest.sum(1, keepdim=True))
        if gamma < 1 and keep.min().item() < _TINY:
            loss, grad = _value_and_grad(logits, counts, gamma)
        else:
            counted_big = (counts * big).sum(1, keepdim=True)  # n_big p_big
            count_big = counted_big / (1 - keep).clamp_min_(0.5)
            terms, slope, weight, weight_over_keep = _terms(rest, keep, gamma)
            loss = terms.mul_(counts).sum(1, keepdim=True)
            loss = loss.addcmul_(count_big, torch.xlogy(weight, keep)).squeeze(1).neg_()
            slope = slope * counts
            total = slope.sum(1, keepdim=True)
            grad = slope.addcmul_(rest, counted_big * weight_over_keep + total, value=-1)
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
        big, rest = _split(probs.scatter(1, label, 0))  # without the label: its loss and slope are 0
        keep = _keep(rest.sum(1, keepdim=True).add_(probs.gather(1, label)))
        if gamma < 1 and keep.min().item() < _TINY:
            loss, grad = _value_and_grad(logits, _all_but(labels, logits), gamma)
        else:
            terms, slope, weight, weight_over_keep = _terms(rest, keep, gamma)
            loss = terms.sum(1, keepdim=True).add_(torch.xlogy(weight, keep)).squeeze(1).neg_()
            total = slope.sum(1, keepdim=True)
            pull = (1 - keep).mul_(weight_over_keep).add_(total)
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


def _terms(rest: Tensor, keep: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor, Tensor | float]:
    """Per class w log(1 - p) and the slope w p / (1 - p), both (B, C) and 0 at big; for big w and w / (1 - p)."""
    log_one_minus = torch.neg(rest).log1p_()
    if gamma == 1:
        return log_one_minus.addcmul_(rest, log_one_minus, value=-1), rest, keep, 1.0
    one_minus = 1 - rest
    if gamma == 0:
        return log_one_minus, one_minus.reciprocal_().mul_(rest), torch.ones_like(keep), keep.reciprocal()
    weights = one_minus.pow(gamma)
    slope = (rest * weights).div_(one_minus)
    return log_one_minus.mul_(weights), slope, keep.pow(gamma), keep.pow(gamma - 1)


def _value_and_grad(logits: Tensor, counts: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = logits.detach().requires_grad_()
        loss = _negative_plain(leaf, counts, gamma)
        return loss.detach(), _grad_of(loss, leaf, torch.ones_like(loss), create_graph=False)


def _grad_of(loss: Tensor, logits: Tensor, upstream: Tensor, *, create_graph: bool = True) -> Tensor:
    return torch.autograd.grad(loss, logits, upstream, create_graph=create_graph)[0]
