"""Refined NL: NL+ over all complements, without PL+, then a second network on the posterior of the labels.

The method of `jnpl find` on embeddings. It is not the paper's: PL+ hardly changes how it ranks wrong labels
(docs/results/pl-plus.md), and a second stage that learns soft targets judges labels better than the first.
"""

from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.losses.short_training import EpochCounts, WarmUp
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, TrainingSetView, gather_labels
from jnpl.methods.extended_jnpl import CrossEntropyFade
from jnpl.methods.refinement import REFINE, Refinement
from jnpl.methods.varied_jnpl import ClassWeight, nl_plus_loss

_TINY = 1e-30  # against the logarithm of 0


class RefinedNL(Method):
    """One network with exhaustive NL+, after cross-entropy if there are many classes; then a second one (`refine`)."""

    paper = "this package, after Kim et al., CVPR 2021"
    networks = "1, then 1 new"
    supports_sample_weights = True
    supports_decided_labels = True
    optional_stages = (REFINE,)

    class Settings(MethodSettings):
        """Settings of both stages."""

        name: str = "refined-nl"
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL")
        ce_start: bool = Field(
            True,
            description="with more than ten classes, add cross-entropy until the network predicts half of the given "
            "labels, but not beyond ce_end",
        )
        ce_fade: CrossEntropyFade = "agreement"
        ce_end: float = Field(0.5, ge=0, le=1, description="share of the epochs after which cross-entropy has ended")
        class_weight: ClassWeight = "mean"
        refine: bool = Field(
            True,
            description="the stage `refine`: a new network learns the mean of the first one's predictions and their "
            "posterior, as soft targets, and judges the labels",
        )

        @property
        def needs_full_history(self) -> bool:
            """The targets of the second stage are made of it."""
            return self.refine

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.nl_plus = nl_plus_loss(task, settings.class_weight, "exhaustive", gamma=settings.gamma)
        self.warm_up = WarmUp(
            task.num_classes, cross_entropy=settings.ce_start, fade=settings.ce_fade, end=settings.ce_end
        )
        self.counts = EpochCounts(task.num_classes, confusion=self.warm_up.needs_confusion)
        self.per_process_buffers = tuple(f"counts.{name}" for name, _ in self.counts.named_buffers())
        if settings.refine:
            self.stages = (*self.stages, REFINE)
            self.refinement = Refinement(len(task.labels), task.num_classes)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Make the targets of the second stage."""
        self.refinement.prepare(training_set, self.decided)

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Set the weight of cross-entropy by what the last epoch predicted."""
        self.warm_up.observe(self.counts.take(self.sum_over_processes))

    @property
    def has_logit_gradient(self) -> bool:
        """With the paper's gamma, the gradients of both stages have a closed form."""
        return self.nl_plus.negative.gamma == 1

    def logit_gradient(self, probs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses of the first head and the gradient of all: (B, K, C) -> (B,), (B, K, C).

        The loss of NL+ is given as 1 - p_y, which has its gradient.
        """
        weights, first = self.sample_weights(batch), probs[:, 0]
        if self.stage == 1:
            targets = self.refinement.targets[batch.index.to(probs.device)]
            losses, gradient = -(targets * first.clamp_min(_TINY).log()).sum(1), probs - targets.unsqueeze(1)
        else:
            labels = self.trusted_labels(batch)
            if self.warm_up.share:
                self.counts.add(first, labels, weights)
            share = self.warm_up.cross_entropy_weight(self.epoch, self.epochs)
            p_y = gather_labels(first, labels)
            losses = 1 - p_y - share * p_y.clamp_min(_TINY).log()
            gradient = JF.nl_plus_exhaustive_gradient_of_probs(probs, labels, share)
            if (balance := self.nl_plus.negative.class_weight) is not None:
                weights = balance[labels] if weights is None else balance[labels] * weights
        if weights is None:
            return losses, gradient
        return weights * losses, weights.view(-1, 1, 1) * gradient

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        weights = self.sample_weights(batch)
        if self.stage == 1:
            return StepOutput(self.refinement.loss(logits, batch.index, weights), logits, {})
        labels = self.trusted_labels(batch)
        self.counts.add(logits, labels, weights)
        nl_plus = self.nl_plus.negative(logits, labels, None, weights)  # Eq. 5, all C - 1 complements
        loss = nl_plus
        if share := self.warm_up.cross_entropy_weight(self.epoch, self.epochs):
            loss = loss + share * self.nl_plus.negative.weighted_mean(JF.pl(logits, labels), labels, weights)
        return StepOutput(loss, logits, {"nl_plus": nl_plus})
