"""Every loss term as a stateless function: logits (B, C) in, losses (B,) out, not reduced.

First the paper (*Joint Negative and Positive Learning for Noisy Labels*, CVPR 2021), equation by equation; then the
losses it is compared with. Notation:

    f       logits (B, C)                   C       number of classes
    p       softmax(f)                      y       given label
    y-bar   complementary label             y-hat   predicted label, argmax of p

"Constant" means that no gradient flows through the factor. Logits must be finite; float16 and bfloat16 are computed,
and their losses returned, in float32. The negative losses can take the mean over the batch themselves
(`reduction="mean"`): one node less in a small graph.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from jnpl.losses import _negative
from jnpl.losses.argument_checks import check_complements, check_gamma, check_labels, check_logits, check_n

__all__ = [
    "focal",
    "gce",
    "gce_truncated",
    "log_one_minus_softmax",
    "mae",
    "nce",
    "nce_rce",
    "nfl",
    "nfl_rce",
    "nl",
    "nl_exhaustive",
    "nl_plus",
    "nl_plus_exhaustive",
    "nl_plus_exhaustive_gradient",
    "nl_plus_exhaustive_gradient_of_probs",
    "nl_plus_tags",
    "nl_plus_tags_gradient_of_probs",
    "pl",
    "pl_plus",
    "pl_plus_candidates",
    "pl_plus_select",
    "rce",
    "sce",
    "soft_pl",
]

Reduction = Literal["none", "mean"]


# --- The paper -------------------------------------------------------------------------------------------------------


def pl(logits: Tensor, labels: Tensor) -> Tensor:
    """Positive learning, -log p_y (Eq. 1): (B, C), (B,) -> (B,).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).

    Returns:
        Cross-entropy of each sample, (B,).

    Example:
        >>> pl(torch.zeros(1, 10), torch.tensor([3]))  # log 10
        tensor([2.3026])
    """
    logits = check_logits(logits)
    return F.cross_entropy(logits, check_labels(labels, logits), reduction="none")


def log_one_minus_softmax(logits: Tensor) -> Tensor:
    """log(1 - p), exact to the precision of the dtype, with bounded gradients: (B, C) -> (B, C).

    Args:
        logits: network output, (B, C).

    Returns:
        log(1 - p_k) of every class, (B, C).

    Example:
        >>> log_one_minus_softmax(torch.tensor([[1000.0, 0.0]]))  # taken literally, the first would be -inf
        tensor([[-1000.,    -0.]])
    """
    return _negative.log_one_minus_softmax(check_logits(logits))


def nl(logits: Tensor, complements: Tensor, *, reduction: Reduction = "none") -> Tensor:
    """Negative learning, -log(1 - p_ybar), summed over complements (Eq. 2): (B, C), (B,) or (B, K) -> (B,).

    The gradient is Eq. 3: p_ybar on the logit of y-bar, -p_ybar p_i / (1 - p_ybar) on the others.

    Args:
        logits: network output, (B, C).
        complements: complementary labels, (B,) or (B, K).
        reduction: "none", or "mean" over the batch.

    Returns:
        Losses (B,), or a scalar with "mean".

    Example:
        >>> nl(torch.zeros(1, 10), torch.tensor([3]))  # -log(9/10)
        tensor([0.1054])
    """
    return nl_plus(logits, complements, gamma=0.0, reduction=reduction)


def nl_plus(logits: Tensor, complements: Tensor, gamma: float = 1.0, *, reduction: Reduction = "none") -> Tensor:
    """NL+, -(1 - p_ybar)^gamma log(1 - p_ybar), the weight constant (Eq. 5): (B, C), (B,) or (B, K) -> (B,).

    With gamma = 1 the gradient is Eq. 6: p_ybar (1 - p_ybar) on the logit of y-bar and -p_ybar p_i on the others, which
    is the gradient of p_ybar itself.

    Args:
        logits: network output, (B, C).
        complements: complementary labels, (B,) or (B, K). The K losses are summed, each with its own weight; a label
            that occurs twice counts twice.
        gamma: exponent of the constant weight. 1 is the paper's NL+, 0 is NL.
        reduction: "none", or "mean" over the batch.

    Returns:
        Losses (B,), or a scalar with "mean".

    Example:
        >>> nl_plus(torch.zeros(1, 10), torch.tensor([[3, 4]]))  # 2 * -(9/10) log(9/10)
        tensor([0.1896])
    """
    logits = check_logits(logits)
    complements = check_complements(complements, logits)
    ones = logits.new_ones(1, 1).expand(complements.shape)  # no (B, K) memory
    counts = torch.zeros_like(logits).scatter_add(1, complements, ones)  # (B, C): how often class k is a complement
    return _negative.negative(logits, counts, check_gamma(gamma), mean=_is_mean(reduction))


def nl_exhaustive(logits: Tensor, labels: Tensor, *, reduction: Reduction = "none") -> Tensor:
    """NL (Eq. 2) summed over all C - 1 complements of the label, in O(B C): (B, C), (B,) -> (B,).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        reduction: "none", or "mean" over the batch.

    Returns:
        Losses (B,), or a scalar with "mean".

    Example:
        >>> nl_exhaustive(torch.zeros(1, 10), torch.tensor([3]))  # 9 * -log(9/10)
        tensor([0.9482])
    """
    return nl_plus_exhaustive(logits, labels, gamma=0.0, reduction=reduction)


def nl_plus_exhaustive(logits: Tensor, labels: Tensor, gamma: float = 1.0, *, reduction: Reduction = "none") -> Tensor:
    """NL+ (Eq. 5) summed over all C - 1 complements of the label, in O(B C): (B, C), (B,) -> (B,).

    This is C - 1 times the expectation of `nl_plus` with one sampled complement, without its variance. With gamma = 1
    the gradient is p_y (p_i - [i = y]), the gradient of 1 - p_y: half of that of `mae`.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        gamma: exponent of the constant weight. 1 is the paper's NL+, 0 is NL.
        reduction: "none", or "mean" over the batch.

    Returns:
        Losses (B,), or a scalar with "mean".

    Example:
        >>> nl_plus_exhaustive(torch.zeros(1, 10), torch.tensor([3]))  # 9 * -(9/10) log(9/10)
        tensor([0.8534])
    """
    logits = check_logits(logits)
    labels = check_labels(labels, logits)
    return _negative.negative_exhaustive(logits, labels, check_gamma(gamma), mean=_is_mean(reduction))


def nl_plus_exhaustive_gradient(logits: Tensor, labels: Tensor, cross_entropy: float = 0.0) -> Tensor:
    """Gradient of `nl_plus_exhaustive` (gamma 1) on the logits, p_y (p_i - [i = y]): (B, C), (B,) -> (B, C).

    For training without autograd. Cross-entropy pulls in the same direction, by 1 in place of p_y.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        cross_entropy: weight of `pl`, whose gradient is added.

    Returns:
        The gradient of each sample's loss, (B, C).

    Example:
        >>> nl_plus_exhaustive_gradient(torch.zeros(1, 2), torch.tensor([1]))
        tensor([[ 0.2500, -0.2500]])
    """
    logits = check_logits(logits)
    probs = logits.softmax(1).unsqueeze(1)
    return nl_plus_exhaustive_gradient_of_probs(probs, check_labels(labels, logits), cross_entropy).squeeze(1)


def nl_plus_exhaustive_gradient_of_probs(probs: Tensor, labels: Tensor, cross_entropy: float = 0.0) -> Tensor:
    """`nl_plus_exhaustive_gradient` from K times predictions (B, C): (B, K, C), (B,) -> (B, K, C).

    Args:
        probs: predictions of the K networks, (B, K, C).
        labels: given labels, (B,).
        cross_entropy: weight of `pl`, whose gradient is added.

    Returns:
        The gradient of each network's losses on its logits, (B, K, C).

    Example:
        >>> nl_plus_exhaustive_gradient_of_probs(torch.tensor([[[0.5, 0.5], [0.0, 1.0]]]), torch.tensor([1]))
        tensor([[[ 0.2500, -0.2500],
                 [ 0.0000,  0.0000]]])
    """
    label = labels.view(-1, 1, 1).expand(-1, probs.shape[1], 1)
    weight = probs.gather(2, label) + cross_entropy
    return (probs * weight).scatter_add_(2, label, -weight)


def nl_plus_tags(logits: Tensor, tags: Tensor, gamma: float = 1.0) -> Tensor:
    """NL+ (Eq. 5) of every tag as two classes, "has it" and "has it not": (B, C), (B, C) -> (B, C).

    The only complement of the given state is the other state, so that 1 - p_ybar is p_y, the probability of the given
    state: NL is binary cross-entropy, and NL+ is -p_y^gamma log(p_y) with a constant weight. With gamma = 1 the
    gradient is p_y (p - y), the gradient of 1 - p_y: a state that the network holds for impossible pulls at nothing.

    Args:
        logits: of having each of C tags, (B, C).
        tags: whether a sample has each tag, (B, C) of booleans or 0 and 1.
        gamma: exponent of the constant weight. 1 is NL+, 0 is binary cross-entropy.

    Returns:
        Losses (B, C).

    Example:
        >>> nl_plus_tags(torch.zeros(1, 2), torch.tensor([[True, False]]))  # -(1/2) log(1/2)
        tensor([[0.3466, 0.3466]])
    """
    check_gamma(gamma)
    if logits.shape != tags.shape or logits.ndim != 2:
        raise ValueError(f"logits and tags must be (B, C), not {tuple(logits.shape)} and {tuple(tags.shape)}")
    given = torch.where(tags.bool(), logits, -logits)
    loss = -torch.nn.functional.logsigmoid(given)  # -log p_y
    return loss * (-gamma * loss.detach()).exp()


def nl_plus_tags_gradient_of_probs(probs: Tensor, tags: Tensor, cross_entropy: float = 0.0) -> Tensor:
    """Gradient of `nl_plus_tags` (gamma 1) on the logits, p_y (p - y), from K times probabilities (B, C).

    Args:
        probs: probabilities of each tag by the K networks, (B, K, C).
        tags: 1.0 where a sample has the tag, else 0.0, (B, C).
        cross_entropy: weight of binary cross-entropy, whose gradient p - y is added.

    Returns:
        The gradient of each network's losses on its logits, (B, K, C).

    Example:
        >>> nl_plus_tags_gradient_of_probs(torch.tensor([[[0.5, 0.25]]]), torch.tensor([[1.0, 0.0]]))
        tensor([[[-0.2500,  0.1875]]])
    """
    error = probs - tags.unsqueeze(1)
    return error * (1 + cross_entropy - error.abs())  # |p - y| is 1 - p_y


def pl_plus(logits: Tensor, targets: Tensor, n: int = 3) -> Tensor:
    """PL+, -prod_{i=0..n} (1 + p_t^(2^i)) log p_t, the product constant (Eq. 7): (B, C), (B,) -> (B,).

    The gradient on the target's logit is -(1 - p_t^(2^(n+1))) (Eq. 8): nearly constant until p_t is close to 1.

    Args:
        logits: network output, (B, C).
        targets: class t of each sample, (B,); y-hat in Algorithm 1.
        n: the paper's N. -1, the empty product, is cross-entropy.

    Returns:
        Losses (B,).

    Example:
        >>> pl_plus(torch.zeros(1, 2), torch.tensor([0]), n=1)  # (1 + 1/2) (1 + 1/4) log 2
        tensor([1.2997])
    """
    loss = pl(logits, targets)  # -log p_t
    power = (-loss.detach()).exp()  # p_t^(2^i), constant
    weight = torch.ones_like(power)
    for _ in range(check_n(n) + 1):
        weight = weight * (1 + power)
        power = power * power
    return weight * loss


def pl_plus_candidates(logits: Tensor) -> Tensor:
    """Whether every class but y-hat has p < 1/C (Algorithm 1): (B, C) -> (B,) bool.

    This is the same as: the second largest probability is below 1/C. A tie for the largest is no candidate.

    Args:
        logits: network output, (B, C).

    Returns:
        True for the candidates of PL+, (B,).

    Example:
        >>> pl_plus_candidates(torch.tensor([[5.0, 0.0, 0.0], [5.0, 5.0, 0.0]]))
        tensor([ True, False])
    """
    logits = check_logits(logits)
    second_largest = logits.detach().softmax(1).topk(2, dim=1).values[:, 1]
    return second_largest < 1 / logits.shape[1]


def pl_plus_select(logits: Tensor, uniforms: Tensor, mean: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Select candidates with probability p_yhat (Algorithm 1): (B, C), (B,) -> (B,) bool, (B,) y-hat.

    With `mean`, a departure from the paper, p is divided by it and renormalised first: y-hat is the class that the
    network believes more than usual, not the class that it believes most. A class that leads for all samples is then
    never selected for all of them (docs/results/pl-plus.md).

    Args:
        logits: network output, (B, C).
        uniforms: draws from U(0, 1), (B,), for instance `torch.rand(B, generator=g)`.
        mean: mean prediction of each class, (C,).

    Returns:
        Which samples PL+ learns from, (B,), and y-hat of every sample, (B,).

    Example:
        >>> pl_plus_select(torch.tensor([[5.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), torch.tensor([0.5, 0.5]))
        (tensor([ True, False]), tensor([0, 0]))
        >>> logits = torch.tensor([[2.0, 0.0, 0.0], [2.0, 1.9, -1.0]])  # the first class leads in both
        >>> pl_plus_select(logits, torch.tensor([0.1, 0.1]), logits.softmax(1).mean(0))[1]
        tensor([2, 1])
    """
    logits = check_logits(logits)
    if uniforms.shape != logits.shape[:1] or not uniforms.is_floating_point():
        expected = f"a floating point tensor of shape ({logits.shape[0]},)"
        raise ValueError(f"uniforms must be {expected}, got {uniforms.dtype} {tuple(uniforms.shape)}")
    if mean is not None:
        if mean.shape != logits.shape[1:] or not mean.is_floating_point():
            expected = f"a floating point tensor of shape ({logits.shape[1]},)"
            raise ValueError(f"mean must be {expected}, got {mean.dtype} {tuple(mean.shape)}")
        logits = logits - mean.clamp_min(torch.finfo(mean.dtype).tiny).log()  # softmax: p / mean, renormalised
    p_hat, y_hat = logits.detach().softmax(1).max(1)
    return pl_plus_candidates(logits) & (uniforms < p_hat), y_hat


def soft_pl(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy with soft labels, -sum_k t_k log p_k: (B, C), (B, C) -> (B,).

    Args:
        logits: network output, (B, C).
        targets: weight of each class, (B, C), usually rows that sum to 1.

    Returns:
        Losses (B,).

    Example:
        >>> soft_pl(torch.zeros(1, 2), torch.tensor([[0.3, 0.7]]))
        tensor([0.6931])
    """
    logits = check_logits(logits)
    if targets.shape != logits.shape:
        raise ValueError(f"targets must have shape {tuple(logits.shape)}, got {tuple(targets.shape)}")
    return -(targets * torch.log_softmax(logits, 1)).sum(1)


# --- The losses it is compared with ----------------------------------------------------------------------------------


def mae(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean absolute error, sum_k |p_k - [k = y]| = 2 (1 - p_y): (B, C), (B,) -> (B,).

    Ghosh et al., AAAI 2017. Some implementations return half of it.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).

    Returns:
        Losses (B,).

    Example:
        >>> mae(torch.zeros(1, 10), torch.tensor([3]))
        tensor([1.8000])
    """
    return -2 * torch.expm1(-pl(logits, labels))


def gce(logits: Tensor, labels: Tensor, q: float = 0.7) -> Tensor:
    """Generalized cross-entropy, (1 - p_y^q) / q: (B, C), (B,) -> (B,).

    Zhang and Sabuncu, NeurIPS 2018.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        q: in (0, 1]. Towards 0 the loss is cross-entropy, at 1 it is half of `mae`.

    Returns:
        Losses (B,).

    Example:
        >>> gce(torch.zeros(1, 10), torch.tensor([3]), q=1.0)
        tensor([0.9000])
    """
    if not 0 < q <= 1:
        raise ValueError(f"q must lie in (0, 1], got {q}")
    return -torch.expm1(-q * pl(logits, labels)) / q


def gce_truncated(logits: Tensor, labels: Tensor, q: float = 0.7, k: float = 0.5) -> Tensor:
    """GCE, constant and without gradient where p_y <= k: (B, C), (B,) -> (B,).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        q: exponent of `gce`.
        k: probability, in (0, 1), at or below which the loss is that of p_y = k.

    Returns:
        Losses (B,).

    Example:
        >>> gce_truncated(torch.zeros(1, 10), torch.tensor([3]), q=1.0, k=0.5)
        tensor([0.5000])
    """
    if not 0 < k < 1:
        raise ValueError(f"k must lie in (0, 1), got {k}")
    loss, limit = gce(logits, labels, q), (1 - k**q) / q
    return torch.where(loss < limit, loss, limit)  # a clamp would pass the gradient at p_y = k


def rce(logits: Tensor, labels: Tensor, log_zero: float = -9.210340371976182) -> Tensor:
    """Reverse cross-entropy, -log_zero (1 - p_y): (B, C), (B,) -> (B,).

    Wang et al., ICCV 2019.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        log_zero: value used for log 0; the default is log 1e-4.

    Returns:
        Losses (B,).

    Example:
        >>> rce(torch.zeros(1, 10), torch.tensor([3]))
        tensor([8.2893])
    """
    return log_zero * torch.expm1(-pl(logits, labels))


def sce(logits: Tensor, labels: Tensor, alpha: float = 0.1, beta: float = 1.0) -> Tensor:
    """Symmetric cross-entropy, alpha CE + beta RCE: (B, C), (B,) -> (B,).

    Wang et al., ICCV 2019. Departure, here and in the APL losses below: the authors' code clips p at 1e-7, which exact
    logarithms do not need.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        alpha: weight of cross-entropy (CIFAR-10: 0.1, CIFAR-100: 6).
        beta: weight of reverse cross-entropy (CIFAR-10: 1, CIFAR-100: 0.1).

    Returns:
        Losses (B,).

    Example:
        >>> sce(torch.zeros(1, 10), torch.tensor([3]))
        tensor([8.5196])
    """
    return alpha * pl(logits, labels) + beta * rce(logits, labels)


def focal(logits: Tensor, labels: Tensor, gamma: float = 0.5) -> Tensor:
    """Focal loss, -(1 - p_y)^gamma log p_y, the factor constant as in APL's code: (B, C), (B,) -> (B,).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        gamma: exponent of the factor; 0 is cross-entropy.

    Returns:
        Losses (B,).

    Example:
        >>> focal(torch.zeros(1, 10), torch.tensor([3]), gamma=1.0)  # 9/10 log 10
        tensor([2.0723])
    """
    logits = check_logits(logits)
    return _gather_labels(_focal_terms(logits, gamma), check_labels(labels, logits))


def nce(logits: Tensor, labels: Tensor) -> Tensor:
    """Normalized cross-entropy, log p_y / sum_k log p_k: (B, C), (B,) -> (B,).

    Ma et al., ICML 2020 (APL).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).

    Returns:
        Losses (B,).

    Example:
        >>> nce(torch.zeros(1, 10), torch.tensor([3]))
        tensor([0.1000])
    """
    return nfl(logits, labels, gamma=0.0)


def nfl(logits: Tensor, labels: Tensor, gamma: float = 0.5) -> Tensor:
    """Normalized focal loss, `focal` of y divided by its sum over all classes: (B, C), (B,) -> (B,).

    Ma et al., ICML 2020 (APL).

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        gamma: exponent of the focal factor; 0 is `nce`.

    Returns:
        Losses (B,).

    Example:
        >>> nfl(torch.zeros(1, 10), torch.tensor([3]))
        tensor([0.1000])
    """
    logits = check_logits(logits)
    terms = _focal_terms(logits, gamma)
    return _gather_labels(terms, check_labels(labels, logits)) / terms.sum(1)


def nce_rce(logits: Tensor, labels: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    """APL's alpha NCE + beta RCE: (B, C), (B,) -> (B,).

    Ma et al., ICML 2020.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        alpha: weight of `nce` (CIFAR-10: 1, CIFAR-100: 10).
        beta: weight of `rce` (CIFAR-10: 1, CIFAR-100: 0.1).

    Returns:
        Losses (B,).

    Example:
        >>> nce_rce(torch.zeros(1, 10), torch.tensor([3]))
        tensor([8.3893])
    """
    return alpha * nce(logits, labels) + beta * rce(logits, labels)


def nfl_rce(logits: Tensor, labels: Tensor, alpha: float = 1.0, beta: float = 1.0, gamma: float = 0.5) -> Tensor:
    """APL's alpha NFL + beta RCE: (B, C), (B,) -> (B,).

    Ma et al., ICML 2020.

    Args:
        logits: network output, (B, C).
        labels: given labels, (B,).
        alpha: weight of `nfl` (CIFAR-10: 1, CIFAR-100: 10).
        beta: weight of `rce` (CIFAR-10: 1, CIFAR-100: 0.1).
        gamma: exponent of the focal factor.

    Returns:
        Losses (B,).

    Example:
        >>> nfl_rce(torch.zeros(1, 10), torch.tensor([3]))
        tensor([8.3893])
    """
    return alpha * nfl(logits, labels, gamma) + beta * rce(logits, labels)


def _focal_terms(logits: Tensor, gamma: float) -> Tensor:
    """-(1 - p_k)^gamma log p_k for every class, the factor constant: (B, C) -> (B, C)."""
    log_p = logits.log_softmax(1)
    if check_gamma(gamma) == 0:
        return -log_p
    return -(gamma * _negative.log_one_minus_softmax(logits.detach())).exp() * log_p


def _gather_labels(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)


def _is_mean(reduction: Reduction) -> bool:
    if reduction not in ("none", "mean"):
        raise ValueError(f'reduction must be "none" or "mean", got {reduction!r}')
    return reduction == "mean"
