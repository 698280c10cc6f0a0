"""LIMIT: a classifier trained on gradients that a second network predicts, without access to the labels."""

from collections.abc import Callable
from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, gather_labels


def predicted_gradient(logits: Tensor, q_logits: Tensor) -> Tensor:
    """q's prediction of the gradient on the classifier's logits, p - softmax(q), p constant: (B, C), (B, C) -> (B, C).

    The true gradient is p - e_y; softmax(q) is the estimate of e_y.
    """
    return logits.detach().softmax(1) - q_logits.softmax(1)


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """Brier score, sum_k (p_k - [k = y])^2: (B, C), (B,) -> (B,)."""
    probs = logits.softmax(1)
    return ((probs - F.one_hot(labels, logits.shape[1])) ** 2).sum(1)


class LIMIT(Method):
    """A classifier, and a network q that predicts its gradients."""

    paper = "Harutyunyan et al., ICML 2020"
    networks = "2 (classifier and q)"
    has_unused_parameters = True  # the stage "init" trains q alone
    needs = "nothing, but beta is chosen on validation data (noisy will do)"
    score = "probability of the given label by q, mean of the last 10 epochs"
    # "train" is fresh for the optimiser only: see `reset_networks`.
    stages: tuple[Stage, ...] = (Stage("init", select=True), Stage("train", fresh=True, select=True))

    class Settings(MethodSettings):
        """Settings of q and of the predicted gradients."""

        name: str = "limit"
        kind: Literal["G", "L"] = Field("G", description="q's error is squared (Gaussian) or absolute (Laplace)")
        beta: float = Field(0.0, ge=0, description="weight of the squared norm of the predicted gradients")
        gradient: Literal["mean", "sum"] = Field(
            "mean", description="mean: the classifier's gradient is a mean over the batch; sum: as in the authors' code"
        )
        init_q: bool = Field(False, description="train q with cross-entropy in a first stage (the paper's + init.)")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.q = task.build(1)
        self.settings = settings
        if not settings.init_q:
            self.stages = (Stage("train", select=True),)

    @property
    def in_init(self) -> bool:
        """Whether q is being trained alone."""
        return self.settings.init_q and self.stage == 0

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        q_logits = self.q(batch.inputs).float()
        quality = gather_labels(q_logits.detach().softmax(1), batch.labels)
        if self.in_init:
            return StepOutput(JF.pl(q_logits, batch.labels).mean(), q_logits, {}, quality)

        logits = self.model(batch.inputs).float()
        gradient = predicted_gradient(logits, q_logits)
        # The derivative on the logits is the detached gradient itself; no gradient reaches q here, and the value has no
        # meaning. The authors' sum omits the 1/B of a mean: with Adam this hardly matters, with SGD the steps are B
        # times too large.
        path = (gradient.detach() * logits).sum(1).mean()
        if self.settings.gradient == "sum":
            path = path * self.global_batch_size(batch)
        error = squared_error if self.settings.kind == "G" else JF.mae
        q_loss = error(q_logits, batch.labels).mean()
        norm = (gradient**2).sum(1).mean()
        loss = path + q_loss + self.settings.beta * norm
        return StepOutput(loss, logits, {"q_loss": q_loss, "gradient_norm": norm.detach()}, quality)

    def reset_networks(self, build: Callable[[int], nn.Module]) -> None:
        """Keep the networks: q has been trained in the first stage, and the classifier not yet."""

    def network_logits(self, inputs: Tensor) -> dict[str, Tensor]:
        """Return logits (B, C) of the classifier, or of q while q is trained alone (to select the best q)."""
        return {"model": self.q(inputs) if self.in_init else self.predict(inputs)}
