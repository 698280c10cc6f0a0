"""DivideMix: two networks divide the samples by their losses, and train each other in the manner of MixMatch."""

import math
import warnings

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, StepOutput, Task, TrainingSetView, draw_mixup
from jnpl.methods.joint_optim import entropy, log_mean
from jnpl.methods.two_networks import TwoNetworks, log_mean_prediction

_WARM_UP = 1 / 30  # share of the epochs: the paper's 10 of 300
_SEED = 0  # of the mixture's start by k-means


def sharpen(probs: Tensor, temperature: float) -> Tensor:
    """p^(1/T), divided by its sum: (B, C) -> (B, C)."""
    raised = probs ** (1 / temperature)
    return raised / raised.sum(1, keepdim=True).clamp_min(1e-12)


def scaled(losses: Tensor, readable: Tensor) -> Tensor:
    """Scale the losses of `readable` samples to 0..1 by smallest and largest; others are -1: (N,), (N,) -> (N,)."""
    low, high = losses[readable].min(), losses[readable].max()
    return torch.where(readable, (losses - low) / (high - low).clamp_min(1e-12), -1.0)


def clean_probability(losses: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Posterior of the component with the lower mean of a two-component Gaussian mixture: (N,) -> (N,).

    The settings of the fit are the authors'. Where all losses are equal it is 1, where a loss is nan 1/2.
    """
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415 (slow to import)
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    clean = np.full(len(losses), 0.5)
    readable = np.isfinite(losses)
    values = losses[readable].reshape(-1, 1)
    if len(values) < 2 or np.ptp(values) < 1e-6:
        clean[readable] = 1.0
        return clean
    mixture = GaussianMixture(n_components=2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after ten iterations
        mixture.fit(values)
    clean[readable] = mixture.predict_proba(values)[:, mixture.means_.argmin()]
    return clean


class DivideMix(TwoNetworks):
    """Cross-entropy first; then labels that a Gaussian mixture calls clean are refined, the others guessed.

    Departures: both networks learn from the same batches of all samples and guess in training mode; the authors train
    one for an epoch, on as many labelled as other samples, while the other guesses in evaluation mode.
    """

    paper = "Li et al., ICLR 2020"
    score = "posterior of the low-loss component, mean of both networks and the last 10 epochs"
    tests_ensemble = True
    views = ("weak",)

    class Settings(MethodSettings):
        """Settings of the division and of the semi-supervised step."""

        name: str = "dividemix"
        warm_up: int | None = Field(
            None, ge=1, description="epochs of cross-entropy (CIFAR-100: 30); None: a thirtieth of all (10 of 300)"
        )
        confidence_penalty: bool = Field(
            False, description="add sum p log p in the warm-up, as the authors do for asymmetric noise"
        )
        threshold: float = Field(0.5, gt=0, lt=1, description="a label counts as clean above this posterior")
        loss_epochs: int = Field(1, ge=1, description="epochs whose losses are averaged for the mixture (90 %: 5)")
        temperature: float = Field(0.5, gt=0, description="T of the sharpening")
        mixup_alpha: float = Field(4.0, gt=0, description="the mixup weight of a batch is drawn from Beta(a, a)")
        guess_weight: float = Field(
            25.0, ge=0, description="the paper's lambda_u, which the authors choose by the noise rate"
        )
        ramp_epochs: int = Field(16, ge=1, description="epochs in which that weight rises after the warm-up")

    clean: Tensor  # (2, N) posterior of the low-loss component, by each network
    losses: Tensor  # (2, loss_epochs, N) scaled losses of the last epochs, the newest last; -1: unknown
    labels: Tensor  # (N,)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings, self.num_classes = settings, task.num_classes
        self.register_buffer("clean", torch.ones(2, len(task.labels)))
        self.register_buffer("losses", -torch.ones(2, settings.loss_epochs, len(task.labels)))
        self.register_buffer("labels", task.labels.clone(), persistent=False)

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Divide the samples anew, by the losses of both networks in evaluation mode."""
        if self.epoch < self.warm_up():
            return
        for number, network in enumerate((self.model, self.second)):
            logits = training_set.logits(network)
            readable = logits.isfinite().all(1)
            losses = JF.pl(torch.where(readable.unsqueeze(1), logits, 0.0), self.labels)
            recent = self.losses[number].roll(-1, 0)
            recent[-1] = scaled(losses, readable)
            self.losses[number] = recent
            mean = torch.where(recent < 0, math.nan, recent).nanmean(0).double().cpu().numpy()
            self.clean[number] = torch.from_numpy(clean_probability(mean)).to(self.clean)

    def warm_up(self) -> int:
        """Return the number of epochs of cross-entropy."""
        warm_up = self.settings.warm_up
        return max(round(_WARM_UP * self.epochs), 1) if warm_up is None else warm_up

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        if self.epoch < self.warm_up():
            return self._warm_up_step(batch)
        inputs = torch.cat([batch.inputs, *batch.views])  # (2B, ...)
        with torch.no_grad():
            first, second = self._guess(self.model, inputs), self._guess(self.second, inputs)  # (B, C) each
        torch.clear_autocast_cache()  # older torch would reuse casts without gradient
        clean = self.clean[:, batch.index.to(self.clean.device)]
        guessed = sharpen((first + second) / 2, self.settings.temperature)
        loss_1, terms_1 = self._semi_supervised(batch, self.model, inputs, first, guessed, clean[1])
        loss_2, terms_2 = self._semi_supervised(batch, self.second, inputs, second, guessed, clean[0])
        scalars = {name: (terms_1[name] + terms_2[name]) / 2 for name in terms_1}
        scalars |= {"network_1": loss_1, "network_2": loss_2}
        mean = ((first + second) / 2).clamp_min(torch.finfo(first.dtype).tiny)
        return StepOutput(loss_1 + loss_2, mean.log(), scalars, clean.mean(0).clamp(0, 1))

    def _warm_up_step(self, batch: Batch) -> StepOutput:
        first, second = self.model(batch.inputs), self.second(batch.inputs)
        losses = [JF.pl(logits, batch.labels).mean() for logits in (first, second)]
        if self.settings.confidence_penalty:
            logs = [logits.float().log_softmax(1) for logits in (first, second)]
            losses = [loss - entropy(log_p).mean() for loss, log_p in zip(losses, logs, strict=True)]
        scalars = {"network_1": losses[0], "network_2": losses[1]}
        return StepOutput(losses[0] + losses[1], log_mean_prediction(first, second), scalars)

    @staticmethod
    def _guess(network: nn.Module, inputs: Tensor) -> Tensor:
        """Mean prediction of the two views, without gradient: (2B, ...) -> (B, C)."""
        probs: Tensor = network(inputs).float().softmax(1)
        one, other = probs.chunk(2)
        return (one + other) / 2

    def _semi_supervised(
        self, batch: Batch, network: nn.Module, inputs: Tensor, guess: Tensor, both_guess: Tensor, clean: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of one network, and its terms.

        `inputs` (2B, ...) are both views, `guess` (B, C) is its own, `both_guess` (B, C) that of both networks, `clean`
        (B,) the posterior by the other network.
        """
        settings, size = self.settings, len(batch.labels)
        given, share = F.one_hot(batch.labels, self.num_classes).float(), clean.unsqueeze(1)
        refined = sharpen(share * given + (1 - share) * guess, settings.temperature)
        labelled = clean > settings.threshold
        targets = torch.where(labelled.unsqueeze(1), refined, both_guess).repeat(2, 1)
        drawn, partner = draw_mixup(batch, settings.mixup_alpha, 2 * size)
        weight = max(drawn, 1 - drawn)
        log_p = network(weight * inputs + (1 - weight) * inputs[partner]).float().log_softmax(1)
        targets = weight * targets + (1 - weight) * targets[partner]
        # Means are over the labelled, and over the other samples of the whole batch, over all processes.
        counts = self.sum_over_processes(torch.stack([labelled.sum(), (~labelled).sum()]).float())
        scale = counts.sum() / size / (2 * counts.clamp_min(1))
        rows = labelled.repeat(2)
        supervised = torch.where(rows, -(targets * log_p).sum(1), 0.0).sum() * scale[0]
        squared = (log_p.exp() - targets).square().mean(1)
        unsupervised = torch.where(rows, 0.0, squared).sum() * scale[1]
        log_views = torch.logaddexp(*log_p.chunk(2)) - math.log(2)  # (B, C)
        _, whole = self.gather_over_processes(batch, log_views.detach())
        balance = -math.log(self.num_classes) - log_mean(log_views, whole).mean()  # KL(uniform || mean p)
        rise = min(max((self.epoch - self.warm_up()) / settings.ramp_epochs, 0.0), 1.0)
        loss = supervised + settings.guess_weight * rise * unsupervised + balance
        terms = {"supervised": supervised, "unsupervised": unsupervised, "balance": balance}
        return loss, {**terms, "labelled": labelled.float().mean()}
