"""Losses as `nn.Module`s: parameters, random draws and the mean over the batch; the terms are in `functional`."""

import warnings
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from jnpl.losses import complement
from jnpl.losses import functional as JF
from jnpl.losses.argument_checks import check_gamma, check_labels, check_logits, check_n, is_transformed
from jnpl.losses.class_balance import class_weights

__all__ = [
    "CollapseWarning",
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
]

Complements = Literal["sampled", "exhaustive"]


class Draws(NamedTuple):
    """The random numbers of one JNPL step, drawn outside the graph (for `torch.compile`)."""

    complements: Tensor | None  # (B, K), or None if all C - 1 are used
    uniforms: Tensor  # (B,) for the Bernoulli selection of Algorithm 1


class JNPLTerms(NamedTuple):
    """The terms of one JNPL step, all scalars."""

    nl_plus: Tensor  # mean over the batch
    pl_plus_sum: Tensor  # sum over the selected samples
    selected: Tensor  # their number

    @property
    def pl_plus(self) -> Tensor:
        """Mean of PL+ over the selected samples; exactly 0 if there are none."""
        return _mean_of_selected(self.pl_plus_sum, self.selected)


def _mean_of_selected(total: Tensor, selected: Tensor) -> Tensor:
    return total / selected.where(selected > 0, 1)


class _Negative(nn.Module):
    """NL+ summed over complements, multiplied by the weight of the given class, averaged over the batch."""

    class_weight: Tensor | None

    def __init__(
        self,
        num_classes: int,
        complements: Complements,
        num_complements: int | None,
        gamma: float,
        class_weight: Tensor | Sequence[float] | Literal["none", "nlnl"],
        labels: Tensor | None,
    ) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}")
        if complements not in ("sampled", "exhaustive"):
            raise ValueError(f'complements must be "sampled" or "exhaustive", got {complements!r}')
        if num_complements is not None and (complements == "exhaustive" or num_complements < 1):
            raise ValueError(
                f"num_complements must be at least 1 and goes with sampled complements, "
                f"got {num_complements} with {complements!r}"
            )
        self.num_classes = num_classes
        self.complements = complements
        self.num_complements = num_complements or complement.default_count(num_classes)
        if complements == "sampled" and num_complements is None and self.num_complements > complement.MAX_DEFAULT_COUNT:
            raise ValueError(
                f"for {num_classes} classes the paper's rule gives {self.num_complements:,} complements per sample; "
                f'use complements="exhaustive", or set num_complements'
            )
        self.gamma = check_gamma(gamma)
        self.register_buffer("class_weight", _as_weight(class_weight, labels, num_classes))

    def draw(
        self, labels: Tensor, generator: torch.Generator | None = None, rows: tuple[int, int, int] | None = None
    ) -> Tensor | None:
        """Draw the complements of a batch: (B,) -> (B, K), or None if all are used."""
        if self.complements == "exhaustive":
            return None
        return complement.sample(labels, self.num_classes, self.num_complements, generator, rows)

    def forward(
        self, logits: Tensor, labels: Tensor, complements: Tensor | None, weights: Tensor | None = None
    ) -> Tensor:
        if logits.shape[-1] != self.num_classes:
            raise ValueError(f"logits must have {self.num_classes} classes, got shape {tuple(logits.shape)}")
        plain = self.class_weight is None and weights is None
        reduction: JF.Reduction = "mean" if plain else "none"
        if complements is None:
            losses = JF.nl_plus_exhaustive(logits, labels, self.gamma, reduction=reduction)
        else:
            losses = JF.nl_plus(logits, complements, self.gamma, reduction=reduction)
        return losses if plain else self.weighted_mean(losses, labels, weights)

    def weighted_mean(self, losses: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Multiply losses by the weights of their classes and samples, and average: (B,), (B,), (B,) -> ()."""
        if self.class_weight is not None:
            losses = self.class_weight[labels.long()] * losses
        return (losses if weights is None else weights * losses).mean()


class NLPlusLoss(nn.Module):
    """NL+ (Eq. 5), the mean over the batch: `criterion(logits, labels, generator=g)`, (B, C), (B,) -> ().

    Args:
        num_classes: C.
        complements: "sampled" draws complementary labels, "exhaustive" uses all C - 1.
        num_complements: how many to draw per sample. None: the paper's 1, or 110 for 100 classes.
        gamma: exponent of the constant weight. 1 is NL+, 0 is NL.
        class_weight: "none", "nlnl" (see `class_weights`; needs `labels`) or one number per class. It multiplies a
            sample's loss and does not enter the denominator, as in NLNL's code.
        labels: given labels of the whole training set, for `class_weight="nlnl"`.

    Example:
        >>> NLPlusLoss(10, complements="exhaustive")(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(0.8534)
    """

    def __init__(
        self,
        num_classes: int,
        complements: Complements = "sampled",
        num_complements: int | None = None,
        gamma: float = 1.0,
        class_weight: Tensor | Sequence[float] | Literal["none", "nlnl"] = "none",
        labels: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.negative = _Negative(num_classes, complements, num_complements, gamma, class_weight, labels)

    def forward(self, logits: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """(B, C), (B,) -> ()."""
        labels = check_labels(labels, check_logits(logits), values=False)
        loss: Tensor = self.negative(logits, labels, self.negative.draw(labels, generator))
        return loss


class NLLoss(NLPlusLoss):
    """NL (Eq. 2), the mean over the batch: `NLPlusLoss` with gamma = 0, and its other arguments.

    Example:
        >>> NLLoss(10, complements="exhaustive")(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(0.9482)
    """

    def __init__(
        self,
        num_classes: int,
        complements: Complements = "sampled",
        num_complements: int | None = None,
        class_weight: Tensor | Sequence[float] | Literal["none", "nlnl"] = "none",
        labels: Tensor | None = None,
    ) -> None:
        super().__init__(num_classes, complements, num_complements, 0.0, class_weight, labels)


class PLPlusLoss(nn.Module):
    """PL+ (Eq. 7), the mean over the samples selected by Algorithm 1, 0 if there are none: (B, C) -> ().

    Args:
        n: the paper's N.

    Example:
        >>> PLPlusLoss()(torch.zeros(4, 10), generator=torch.Generator().manual_seed(0))  # uniform p: no candidates
        tensor(0.)
    """

    def __init__(self, n: int = 3) -> None:
        super().__init__()
        self.n = check_n(n)

    def forward(
        self, logits: Tensor, generator: torch.Generator | None = None, uniforms: Tensor | None = None
    ) -> Tensor:
        """(B, C) -> ()."""
        loss, selected = self.total(logits, _uniforms(logits, generator) if uniforms is None else uniforms)
        return loss / selected.clamp_min(1)

    def total(self, logits: Tensor, uniforms: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sum of PL+ over the selected samples, and their number: (B, C), (B,) -> (), ().

        Args:
            logits: network output, (B, C).
            uniforms: draws from U(0, 1) for Algorithm 1, (B,).
            labels: if given, (B,), only samples whose y-hat is the given label are selected (Fig. 3a).
        """
        selected, y_hat = JF.pl_plus_select(logits, uniforms)
        if labels is not None:
            selected = selected & (y_hat == labels)
        # A masked sum: an empty selection gives exactly 0, with zero gradients.
        return torch.where(selected, JF.pl_plus(logits, y_hat, self.n), 0.0).sum(), selected.sum()


class CollapseWarning(UserWarning):
    """The network predicts one class for nearly all samples."""


class _CollapseWatch:
    """Warns once if one class, which is not that of most labels, is predicted for 98 % of the last 5,000 samples.

    Values are read only every 5,000 samples: a GPU need not wait in between.
    """

    samples, share, of_labels = 5_000, 0.98, 0.9

    def __init__(self) -> None:
        self.warned = False
        self._batches: list[tuple[Tensor, Tensor]] = []  # predicted and given labels
        self._seen = 0

    def add(self, logits: Tensor, labels: Tensor) -> None:
        if self.warned:
            return
        self._batches.append((logits.detach().argmax(1), labels))
        self._seen += len(labels)
        if self._seen < self.samples:
            return
        predicted, given = (torch.cat(part) for part in zip(*self._batches, strict=True))
        self._batches, self._seen = [], 0
        most = predicted.mode().values
        share, expected = torch.stack([(part == most).float().mean() for part in (predicted, given)]).tolist()
        if share >= self.share and expected < self.of_labels:
            self.warned = True
            warnings.warn(
                f"the network predicts one class, {int(most)}, for {share:.0%} of the last {len(given):,} samples: the "
                f"small value of JNPLLoss is no success. docs/results/pl-plus.md says why; use jnpl.RobustLoss",
                CollapseWarning,
                stacklevel=5,
            )


class JNPLLoss(nn.Module):
    """JNPL = NL+ + pl_weight * PL+ (Eq. 4): `criterion(logits, labels, generator=g)`, (B, C), (B,) -> ().

    NL+ is a mean over the batch, PL+ a mean over the samples that Algorithm 1 selects. The defaults are the paper's.
    Under `torch.compile(fullgraph=True)` draw outside the graph:
    `criterion(logits, labels, draws=criterion.draw(labels, generator))`. From random weights the predictions often
    collapse into one class: then it gives one `CollapseWarning` (not in a compiled graph). `RobustLoss` does not.

    Args:
        num_classes: C.
        pl_weight: the paper's lambda.
        n: the paper's N.
        complements: "sampled" draws complementary labels, "exhaustive" uses all C - 1.
        num_complements: how many to draw per sample. None: the paper's 1, or 110 for 100 classes.
        gamma: exponent of NL+'s constant weight. 1 is NL+, 0 is NL.
        class_weight: "none", "nlnl" (needs `labels`) or one number per class. It multiplies NL+ only: PL+ does not
            use the given label.
        labels: given labels of the whole training set, for `class_weight="nlnl"`.
        pl_target: "given" restricts PL+ to samples whose y-hat is the given label (an ablation).

    Example:
        >>> criterion = JNPLLoss(num_classes=10)
        >>> logits = torch.randn(8, 10, generator=torch.Generator().manual_seed(0), requires_grad=True)
        >>> criterion(logits, torch.arange(8), generator=torch.Generator().manual_seed(0)).backward()
    """

    def __init__(
        self,
        num_classes: int,
        pl_weight: float = 0.01,
        n: int = 3,
        complements: Complements = "sampled",
        num_complements: int | None = None,
        gamma: float = 1.0,
        class_weight: Tensor | Sequence[float] | Literal["none", "nlnl"] = "none",
        labels: Tensor | None = None,
        pl_target: Literal["predicted", "given"] = "predicted",
    ) -> None:
        super().__init__()
        if pl_target not in ("predicted", "given"):
            raise ValueError(f'pl_target must be "predicted" or "given", got {pl_target!r}')
        self.pl_target = pl_target
        if not 0 <= pl_weight < float("inf"):
            raise ValueError(f"pl_weight must be a finite number >= 0, got {pl_weight}")
        self.negative = _Negative(num_classes, complements, num_complements, gamma, class_weight, labels)
        self.positive = PLPlusLoss(n)
        self.pl_weight = pl_weight
        self._watch = _CollapseWatch()

    def draw(self, labels: Tensor, generator: torch.Generator | None = None) -> Draws:
        """Draw the random numbers of one step: complements first, then the uniforms of Algorithm 1.

        Args:
            labels: given labels, (B,).
            generator: source of randomness.
        """
        return Draws(self.negative.draw(labels, generator), _uniforms(labels, generator))

    def terms(self, logits: Tensor, labels: Tensor, draws: Draws) -> JNPLTerms:
        """Return NL+, the sum of PL+ over the selected samples, and their number: (B, C), (B,) -> (), (), ().

        Args:
            logits: network output, (B, C).
            labels: given labels, (B,).
            draws: random numbers from `draw`.
        """
        nl_plus = self.negative(logits, labels, draws.complements)
        given = labels if self.pl_target == "given" else None
        return JNPLTerms(nl_plus, *self.positive.total(logits, draws.uniforms, given))

    def forward(
        self,
        logits: Tensor,
        labels: Tensor,
        generator: torch.Generator | None = None,
        draws: Draws | None = None,
    ) -> Tensor:
        """(B, C), (B,) -> ()."""
        labels = check_labels(labels, check_logits(logits), values=False)  # before there are draws of another length
        draws = self.draw(labels, generator) if draws is None else draws
        if self.training and not is_transformed():
            self._watch.add(logits, labels)
        nl_plus, pl_plus_sum, selected = self.terms(logits, labels, draws)  # torch.compile of 2.4 takes no property
        return nl_plus + self.pl_weight * _mean_of_selected(pl_plus_sum, selected)


class _MeanOf(nn.Module):
    """The mean over the batch of a function of `functional`, with some settings."""

    def __init__(self, function: Callable[..., Tensor], **settings: float) -> None:
        super().__init__()
        self.function, self.settings = function, settings

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(B, C), (B,) -> ()."""
        return self.function(logits, labels, **self.settings).mean()


class MAELoss(_MeanOf):
    """The mean over the batch of `functional.mae`: `criterion(logits, labels)`, (B, C), (B,) -> ().

    Example:
        >>> MAELoss()(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(1.8000)
    """

    def __init__(self) -> None:
        super().__init__(JF.mae)


class GCELoss(_MeanOf):
    """The mean over the batch of `functional.gce`, or of `gce_truncated` if `k` is given: (B, C), (B,) -> ().

    Args:
        q: exponent, in (0, 1].
        k: probability at or below which the loss is constant; None: not truncated.

    Example:
        >>> GCELoss(q=1.0)(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(0.9000)
    """

    def __init__(self, q: float = 0.7, k: float | None = None) -> None:
        super().__init__(JF.gce, q=q) if k is None else super().__init__(JF.gce_truncated, q=q, k=k)


class SCELoss(_MeanOf):
    """The mean over the batch of `functional.sce`: (B, C), (B,) -> ().

    Args:
        alpha: weight of cross-entropy.
        beta: weight of reverse cross-entropy.

    Example:
        >>> SCELoss()(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(8.5196)
    """

    def __init__(self, alpha: float = 0.1, beta: float = 1.0) -> None:
        super().__init__(JF.sce, alpha=alpha, beta=beta)


class FocalLoss(_MeanOf):
    """The mean over the batch of `functional.focal`: (B, C), (B,) -> ().

    Args:
        gamma: exponent of the factor; 0 is cross-entropy.

    Example:
        >>> FocalLoss(gamma=1.0)(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(2.0723)
    """

    def __init__(self, gamma: float = 0.5) -> None:
        super().__init__(JF.focal, gamma=gamma)


class NCERCELoss(_MeanOf):
    """The mean over the batch of `functional.nce_rce`: (B, C), (B,) -> ().

    Args:
        alpha: weight of normalised cross-entropy.
        beta: weight of reverse cross-entropy.

    Example:
        >>> NCERCELoss()(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(8.3893)
    """

    def __init__(self, alpha: float = 1.0, beta: float = 1.0) -> None:
        super().__init__(JF.nce_rce, alpha=alpha, beta=beta)


class NFLRCELoss(_MeanOf):
    """The mean over the batch of `functional.nfl_rce`: (B, C), (B,) -> ().

    Args:
        alpha: weight of the normalised focal loss.
        beta: weight of reverse cross-entropy.
        gamma: exponent of the focal factor.

    Example:
        >>> NFLRCELoss()(torch.zeros(2, 10), torch.tensor([3, 4]))
        tensor(8.3893)
    """

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, gamma: float = 0.5) -> None:
        super().__init__(JF.nfl_rce, alpha=alpha, beta=beta, gamma=gamma)


def _uniforms(batch: Tensor, generator: torch.Generator | None) -> Tensor:
    device = batch.device if generator is None else generator.device
    return torch.rand(len(batch), generator=generator, device=device).to(batch.device)


def _as_weight(class_weight: Tensor | Sequence[float] | str, labels: Tensor | None, num_classes: int) -> Tensor | None:
    if isinstance(class_weight, str):
        if class_weight == "none":
            return None
        if class_weight != "nlnl":
            raise ValueError(f'class_weight must be "none", "nlnl" or one number per class, got {class_weight!r}')
        if labels is None:
            raise ValueError('class_weight="nlnl" needs labels=, the given labels of the whole training set')
        return class_weights(labels, num_classes)
    weight = torch.as_tensor(class_weight, dtype=torch.float32)
    if weight.shape != (num_classes,) or not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError(
            f"class_weight must hold {num_classes} finite numbers >= 0, got {tuple(weight.shape)} {weight.tolist()[:5]}"
        )
    return weight
