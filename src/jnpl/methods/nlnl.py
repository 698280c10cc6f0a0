"""NLNL: negative learning of all samples, then of probably clean ones, then positive learning of confident ones."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.internal.errors import InputError
from jnpl.losses import complement
from jnpl.losses import functional as JF
from jnpl.losses.class_balance import class_weights
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, TrainingSetView

_NL, _SELNL, _SELPL = range(3)
_FLOOR = 1e-5  # smallest 1 - p in the released code


def nl_clamped(logits: Tensor, complements: Tensor) -> Tensor:
    """NL as the released code has it, -log max(1 - p_ybar, 1e-5), summed: (B, C), (B, K) -> (B,).

    At most 11.51 per complement, and no gradient where p_ybar > 0.99999.

    >>> nl_clamped(torch.tensor([[1000.0, 0.0]]), torch.tensor([[0]]))
    tensor([11.5129])
    """
    keep = (1 - logits.float().softmax(1)).clamp(_FLOOR, 1)
    return -keep.log().gather(1, complements).sum(1)


class NLNL(Method):
    """One network, three stages: NL of all samples, then SelNL and SelPL of samples selected by label quality.

    The pseudo-labelling that follows is not part of the method: `pseudo.mode = "nlnl"` does it for any method.
    """

    paper = "Kim et al., ICCV 2019"
    pseudo_mode = "nlnl"
    stages = (Stage("nl"), Stage("selnl"), Stage("selpl"))

    class Settings(MethodSettings):
        """Settings of the three stages."""

        name: str = "nlnl"
        cut: float = Field(0.5, gt=0, lt=1, description="SelPL uses samples of at least this label quality")
        complements: Literal["sampled", "exhaustive"] = Field(
            "sampled", description="sampled: drawn anew in each step; exhaustive: all C - 1"
        )
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
        class_weight: Literal["nlnl", "none"] = Field("nlnl", description="nlnl: largest count / count of given labels")
        clamp: Literal["none", "nlnl"] = Field("none", description="none: exact log(1 - p); nlnl: 1 - p at least 1e-5")

        @model_validator(mode="after")
        def _check_num_complements(self) -> NLNL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

    keep: Tensor  # (N,) bool: samples used in this epoch
    class_weight: Tensor  # (C,)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        classes = task.num_classes
        self.num_classes, self.cut, self.clamp = classes, settings.cut, settings.clamp
        self.exhaustive = settings.complements == "exhaustive"
        self.num_complements = settings.num_complements or complement.default_count(classes)
        too_many = self.num_complements > complement.MAX_DEFAULT_COUNT
        if not self.exhaustive and settings.num_complements is None and too_many:
            raise InputError(
                f"for {classes} classes the rule of NLNL gives {self.num_complements:,} complements per sample: "
                "--set method.complements=exhaustive, or choose a number with --set method.num_complements=1000"
            )
        weights = class_weights(task.labels, classes) if settings.class_weight == "nlnl" else torch.ones(classes)
        self.register_buffer("class_weight", weights)
        self.register_buffer("keep", torch.ones(len(task.labels), dtype=torch.bool))

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Select samples. The released code does so before each batch; nothing changes within an epoch."""
        if self.stage == _NL:
            self.keep.fill_(True)
        else:
            threshold = 1 / self.num_classes if self.stage == _SELNL else self.cut
            self.keep.copy_(training_set.quality() >= threshold)  # nan, an unreadable sample, is not kept

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        weight = self.class_weight[batch.labels]
        keep = self.keep[batch.index].to(weight.device)
        if self.stage == _SELPL:
            losses, parts = JF.pl(logits, batch.labels), weight  # a weighted mean, as in nn.CrossEntropyLoss(weight)
        else:
            losses, parts = self._negative(logits, batch), torch.ones_like(weight)  # a mean over samples
        # Masked sums: without selected samples the released code computes 0 / 0; this gives 0 and zero gradients.
        total = torch.where(keep, weight * losses, 0.0).sum()
        # The mean is over the whole batch, over all processes. Weights of classes that occur are >= 1.
        divisor = self.sum_over_processes(torch.where(keep, parts, 0.0).sum()).clamp_min(1)
        size = len(batch.labels)
        loss = total / divisor * (self.global_batch_size(batch) / size)
        return StepOutput(loss, logits, {"selected": keep.sum() / size})

    def _negative(self, logits: Tensor, batch: Batch) -> Tensor:
        """NL, summed over complements: (B, C) -> (B,)."""
        if self.exhaustive and self.clamp == "none":
            return JF.nl_exhaustive(logits, batch.labels)
        if self.exhaustive:
            others = torch.arange(1, self.num_classes, device=batch.labels.device)
            complements = (batch.labels.unsqueeze(1) + others) % self.num_classes
        else:
            complements = complement.sample(
                batch.labels, self.num_classes, self.num_complements, batch.generator, batch.rows
            )
        return JF.nl(logits, complements) if self.clamp == "none" else nl_clamped(logits, complements)
