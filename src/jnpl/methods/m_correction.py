"""M-correction: mixup with targets corrected by a Beta mixture of the losses."""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods import beta_mixture
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, TrainingSetView, draw_mixup


def class_balance(log_probs: Tensor) -> Tensor:
    """KL from the uniform prior to the batch's mean prediction, sum_k 1/C log((1/C) / mean_b p_bk): (B, C) -> ().

    Computed with logarithms: the loss is finite for a class that is never predicted.

    >>> class_balance(torch.zeros(4, 10).log_softmax(1)).abs() < 1e-6
    tensor(True)
    """
    size, classes = log_probs.shape
    return math.log(size) - math.log(classes) - log_probs.logsumexp(0).mean()


def mixing_weights(suspicion: Tensor, partner: Tensor) -> Tensor:
    """Mixup weight of a sample with its partner, (1 - B_a) / (2 - B_a - B_b): (B,), (B,) -> (B,)."""
    trust = 1 - suspicion
    return trust / (trust + trust[partner])


class MCorrection(Method):
    """Mixup, then mixup with targets (1 - B) y + B z: given label y, prediction z, P(y is wrong) B (the suspicion)."""

    paper = "Arazo et al., ICML 2019"
    score = "posterior of the low-loss curve, 1 - B, mean of the last 10 epochs"

    suspicion: Tensor
    bounds: Tensor
    table: Tensor
    labels: Tensor

    class Settings(MethodSettings):
        """Settings of mixup and of the bootstrapping."""

        name: str = "m-correction"
        variant: Literal["M-DYR-H", "MD-DYR-SH"] = Field(
            "M-DYR-H",
            description="M-DYR-H: mixup with hard targets; MD-DYR-SH: mixup by suspicion, targets from soft to hard",
        )
        mixup_alpha: float = Field(
            32.0, gt=0, description="the mixup weight of a batch is drawn from Beta(alpha, alpha)"
        )
        bootstrap_from: int | None = Field(
            None,
            ge=0,
            description="first epoch of bootstrapping, counted from 0; None: 0.35 of all epochs (105 of 300)",
        )
        dynamic_epochs: int = Field(
            5, ge=0, description="MD-DYR-SH: epochs of dynamic mixup with the given labels, before bootstrapping"
        )
        temperature_epochs: int = Field(89, ge=1, description="MD-DYR-SH: epochs in which the temperature falls from 1")
        temperature_end: float = Field(0.001, gt=0, le=1, description="MD-DYR-SH: final temperature")
        reg_weight: float = Field(1.0, ge=0, description="weight of the class balance term while bootstrapping")
        suspicion: Literal["epoch", "batch"] = Field(
            "epoch",
            description="epoch: from all samples before the epoch; batch: anew in each step (one more forward pass)",
        )

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings, self.num_classes = settings, task.num_classes
        self.register_buffer("suspicion", torch.full((len(task.labels),), beta_mixture.NEUTRAL))  # B_i
        self.register_buffer("bounds", torch.tensor([0.0, 1.0]))  # the mixture's scale
        self.register_buffer("table", torch.full((beta_mixture.POINTS,), beta_mixture.NEUTRAL))  # its posterior
        self.register_buffer("labels", task.labels.clone(), persistent=False)  # a buffer, to be on the device

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Fit the mixture to the losses of all samples, and store their suspicion.

        Departure: the authors use losses of augmented images. In the first epoch the suspicion is 0.5, as there.
        """
        if self.epoch == 0:
            return
        logits = training_set.logits(self.model)
        losses = _losses(logits, self.labels).cpu().numpy()
        mixture = beta_mixture.fit(losses)
        self.suspicion.copy_(torch.from_numpy(mixture.posterior(losses)).float())
        self.bounds.copy_(torch.tensor([mixture.low, mixture.high]))
        self.table.copy_(torch.from_numpy(mixture.table).float())

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        settings, since = self.settings, self.epoch - self.bootstrap_from()
        dynamic = settings.variant == "MD-DYR-SH" and since >= 0  # mixup weights depend on the suspicion
        bootstrap = since >= (settings.dynamic_epochs if dynamic else 0)
        delta, partner = draw_mixup(batch, settings.mixup_alpha, len(batch.labels))

        plain = self._plain(batch.inputs, moving=bootstrap)
        suspicion = self._suspicion(batch)
        share = mixing_weights(suspicion, partner) if dynamic else torch.full_like(suspicion, delta)
        share = share.view(-1, *[1] * (batch.inputs.ndim - 1))
        log_probs = self.model(share * batch.inputs + (1 - share) * batch.inputs[partner]).float().log_softmax(1)

        targets = F.one_hot(batch.labels, self.num_classes).float()
        scalars = {"suspicion": suspicion.mean()}
        if bootstrap:
            targets = torch.lerp(targets, self._predicted_targets(plain, since), suspicion.unsqueeze(1))
        # Dynamic mixup weights the two losses by delta, and by 1/2 while bootstrapping, not by the inputs' shares.
        half = 0.5 if dynamic and bootstrap else delta
        loss = -((half * targets + (1 - half) * targets[partner]) * log_probs).sum(1).mean()
        if bootstrap:
            balance = self._balance(log_probs, batch)
            loss, scalars["balance"] = loss + settings.reg_weight * balance, balance
        return StepOutput(loss, plain, scalars, 1 - suspicion)

    def bootstrap_from(self) -> int:
        """Return the first epoch of bootstrapping, counted from 0."""
        epoch = self.settings.bootstrap_from
        return round(0.35 * self.epochs) if epoch is None else epoch

    def temperature(self, since: int) -> float:
        """Return the temperature of MD-DYR-SH, linear in the epochs since `bootstrap_from`."""
        settings = self.settings
        last = settings.temperature_epochs - 1
        done = min(max(since - settings.dynamic_epochs, 0), last)
        return 1 - (1 - settings.temperature_end) * done / max(last, 1)

    def _predicted_targets(self, plain: Tensor, since: int) -> Tensor:
        """The predictions as targets, hard or softened: (B, C) logits -> (B, C)."""
        if self.settings.variant == "M-DYR-H":
            return F.one_hot(plain.argmax(1), self.num_classes).float()
        return (plain.float() / self.temperature(since)).softmax(1)

    @torch.no_grad()
    def _plain(self, inputs: Tensor, *, moving: bool) -> Tensor:
        """Logits of the unmixed samples, for targets and ledger, without gradient: (B, ...) -> (B, C).

        While bootstrapping this pass updates the running statistics of batch norm (`moving`), as in the authors' code.
        Before that the authors' code has no such pass; it is made on a copy of the statistics, for the ledger only.
        """
        buffers = {} if moving else {name: value.clone() for name, value in self.model.named_buffers()}
        logits: Tensor = functional_call(self.model, buffers, (inputs,))
        torch.clear_autocast_cache()  # older torch would reuse casts without gradient
        return logits

    @torch.no_grad()
    def _evaluated(self, inputs: Tensor) -> Tensor:
        """Logits in evaluation mode: (B, ...) -> (B, C)."""
        was = self.model.training
        logits: Tensor = self.model.eval()(inputs)
        self.model.train(was)
        torch.clear_autocast_cache()
        return logits

    def _suspicion(self, batch: Batch) -> Tensor:
        """P(the given label is wrong) of each sample: (B,)."""
        if self.settings.suspicion == "epoch":
            return self.suspicion[batch.index.to(self.suspicion.device)]
        losses = _losses(self._evaluated(batch.inputs), batch.labels)
        return beta_mixture.look_up(losses, self.bounds[0], self.bounds[1], self.table)

    def _balance(self, log_probs: Tensor, batch: Batch) -> Tensor:
        """`class_balance` of the whole batch, over all processes: (B, C) -> ()."""
        if batch.rows.all_here:
            return class_balance(log_probs)
        # The value is that of the whole batch; the gradient is a mean over the own samples, as the loop expects.
        sums = self.sum_over_processes(log_probs.detach().exp().sum(0)).clamp_min(torch.finfo(log_probs.dtype).tiny)
        log_mean = sums.log() - self.global_batch_size(batch).log()
        share = (log_probs.exp().mean(0) / log_mean.exp()).mean()
        return share.detach() - share - (log_mean + math.log(self.num_classes)).mean()


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy in double precision, nan where a row of logits is not finite: (N, C), (N,) -> (N,)."""
    readable = logits.isfinite().all(1)
    losses = JF.pl(torch.where(readable.unsqueeze(1), logits, 0.0), labels)
    precise = torch.float32 if losses.device.type == "mps" else torch.float64  # which MPS does not have
    return torch.where(readable, losses, math.nan).to(precise)
