"""MLNT: meta-learning of weights that a gradient step on synthetic noisy labels hardly changes."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.internal.errors import InputError
from jnpl.losses import functional as JF
from jnpl.losses.argument_checks import check_logits
from jnpl.methods.base import (
    Method,
    MethodSettings,
    Stage,
    StepCount,
    StepOutput,
    Task,
    TrainingSetView,
    frozen_copy,
    gather_labels,
)
from jnpl.models.penultimate import head_of, with_features


class MLNT(Method):
    """A student, its moving average (the teacher), and the frozen networks of earlier stages.

    Stage `ce` trains the network whose features define nearest neighbours. Each later iteration trains a fresh student;
    from the second on, the network of the iteration before is the mentor: it provides a part of the target, and samples
    whose given label it finds very unlikely are dropped.
    """

    paper = "Li et al., CVPR 2019"
    supports_compile = False  # compiled networks have no second derivative
    networks = "1 (with an EMA teacher, a frozen feature network and a frozen mentor)"
    needs = "clean validation"
    score = "the teacher's probability of the given label, mean of the last 10 epochs"
    stages: tuple[Stage, ...] = (
        Stage("ce", select=True),
        Stage("mlnt-1", fresh=True, select=True),
        Stage("mlnt-2", fresh=True, select=True),
        Stage("mlnt-3", fresh=True, select=True),
    )
    keep: Tensor  # (N,) bool
    labels: Tensor  # (N,)

    class Settings(MethodSettings):
        """Settings of the meta term, teacher and mentor; steps are batches, counted from 0 in each iteration."""

        name: str = "mlnt"
        iterations: int = Field(3, ge=1, le=3, description="trainings after the one with cross-entropy")
        label_sets: int = Field(10, ge=1, description="the paper's M: synthetic label sets a step")
        neighbours: int = Field(
            10, ge=1, description="a synthetic label is that of one of this many nearest neighbours"
        )
        perturb_ratio: float = Field(0.5, ge=0, le=1, description="share of a batch with a synthetic label in each set")
        inner_lr: float = Field(
            0.02, gt=0, description="learning rate of the inner step; the paper's alpha (CIFAR: 0.2)"
        )
        second_order: bool = Field(True, description="differentiate through the inner step's gradient (the code does)")
        kl: Literal["element", "batch"] = Field(
            "element",
            description="element: mean of the KL over samples and classes (the authors' code); batch: over samples",
        )
        meta_weight: float = Field(1.0, ge=0, description="weight of the meta term after its ramp (CIFAR: 0.4)")
        warm_up_steps: int = Field(500, ge=0, description="steps of cross-entropy alone; the teacher is a copy")
        ramp_steps: int = Field(2000, ge=0, description="step at which the meta term has its full weight")
        ema_decay_early: float = Field(0.99, ge=0, lt=1, description="decay of the teacher's average before ramp_steps")
        ema_decay: float = Field(0.999, ge=0, lt=1, description="decay of the teacher's average from ramp_steps on")
        tau: float = Field(
            0.01,
            ge=0,
            lt=1,
            description="samples whose given label has a lower probability under the mentor are dropped",
        )
        teacher_share: float = Field(0.5, ge=0, le=1, description="lambda after its ramp; the mentor has the rest")

        @model_validator(mode="after")
        def _check_ramp_steps(self) -> MLNT.Settings:
            if self.ramp_steps < self.warm_up_steps:
                raise ValueError(
                    f"ramp_steps must be at least warm_up_steps {self.warm_up_steps}, got {self.ramp_steps}"
                )
            return self

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        head_of(self.model)  # refuse a network without features at once
        self.settings = settings
        self.stages = MLNT.stages[: 1 + settings.iterations]
        self.teacher = frozen_copy(self.model)
        self.feature_net = frozen_copy(self.model).eval()
        self.mentor = frozen_copy(self.model).eval() if settings.iterations > 1 else None
        self.register_buffer("keep", torch.ones(len(task.labels), dtype=torch.bool))
        self.register_buffer("labels", task.labels, persistent=False)  # part of the data, not of a checkpoint
        self.steps = StepCount()  # of the iteration

    def train(self, mode: bool = True) -> MLNT:
        """Set training or evaluation mode; the frozen networks stay in evaluation mode."""
        super().train(mode)
        self.feature_net.eval()
        if self.mentor is not None:
            self.mentor.eval()
        return self

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Freeze the feature network (second stage) or the mentor (later stages), and drop samples by the mentor."""
        if self.stage == 1:
            self.feature_net.load_state_dict(self.model.state_dict())
        elif self.mentor is not None:
            self.mentor.load_state_dict(self.classifier.state_dict())
            given_probs = gather_labels(check_logits(training_set.logits(self.mentor)).softmax(1), self.labels)
            keep = given_probs >= self.settings.tau  # false for nan, a sample that cannot be read
            if not keep.any():
                raise InputError(
                    f"mlnt: the mentor gives every label a probability below {self.settings.tau} and drops all "
                    "samples: --set method.tau=0 keeps them"
                )
            self.keep.copy_(keep)
        self.steps.number = 0

    @property
    def classifier(self) -> nn.Module:
        """The teacher; before the first step of an iteration, and in the first stage, the student."""
        return self.teacher if self.steps.number > 0 else self.model

    def network_logits(self, inputs: Tensor) -> dict[str, Tensor]:
        """Return logits (B, C) of student and teacher."""
        return {"student": self.model(inputs), "teacher": self.predict(inputs)}

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        kept = self.keep[batch.index.to(self.keep.device)]
        # Dropped samples stay in the batch, so means are over the kept samples of the whole batch, over all processes.
        size = len(batch.labels)
        counts = self.sum_over_processes(torch.stack([kept.sum(), kept.new_full((), size, dtype=torch.long)]).float())
        weights = kept * (counts[1] / (counts[0].clamp_min(1) * size))  # (B,)
        ce = (JF.pl(logits, batch.labels) * weights).sum()
        teacher_logits, meta, full = logits, ce.new_zeros(()), 0.0  # the student's, while there is no teacher
        if self.stage > 0:
            ramp = self._ramp(self.steps.number)
            self._update_teacher(self.steps.number)
            if ramp is not None:
                with torch.no_grad():
                    teacher_logits = self.teacher(batch.inputs)
                target = self._target(batch.inputs, teacher_logits, ramp)
                divergence = self._after_inner_steps(batch, logits, kept, target)
                meta, full = (divergence * weights).sum(), self.settings.meta_weight * ramp
            self.steps.number += 1
        # Departure: the paper takes a meta step, then one with cross-entropy; its code, like this, adds both gradients.
        loss = ce + full * meta
        scalars = {"ce": ce, "meta": meta, "meta_weight": ce.new_tensor(full), "kept": kept.float().mean()}
        quality = gather_labels(check_logits(teacher_logits.detach()).softmax(1), batch.labels)
        return StepOutput(loss, logits, scalars, quality)

    def _ramp(self, step: int) -> float | None:
        """exp(-5 (1 - u)^2), u from 0 to 1 between the two steps; None in the warm-up."""
        start, end = self.settings.warm_up_steps, self.settings.ramp_steps
        if step < start:
            return None
        return 1.0 if step >= end else math.exp(-5 * (1 - (step - start) / (end - start)) ** 2)

    @torch.no_grad()
    def _update_teacher(self, step: int) -> None:
        """Update the teacher, before the optimiser's step.

        Up to the end of the warm-up it is a copy of the student. Only parameters are averaged: batch norm starts with
        the student's statistics and continues with those of the teacher's own forward passes, in training mode.
        """
        if step <= self.settings.warm_up_steps:
            self.teacher.load_state_dict(self.model.state_dict())
            return
        decay = self.settings.ema_decay if step >= self.settings.ramp_steps else self.settings.ema_decay_early
        for average, current in zip(self.teacher.parameters(), self.model.parameters(), strict=True):
            average.lerp_(current, 1 - decay)

    @torch.no_grad()
    def _target(self, inputs: Tensor, teacher_logits: Tensor, ramp: float) -> Tensor:
        """lambda p_teacher + (1 - lambda) p_mentor; in the first iteration p_teacher: (B, ...), (B, C) -> (B, C)."""
        target = check_logits(teacher_logits).softmax(1)
        if self.mentor is None or self.stage < 2:
            return target
        share = self.settings.teacher_share * ramp
        of_mentor = check_logits(self.mentor(inputs)).softmax(1)
        return share * target + (1 - share) * of_mentor

    def _after_inner_steps(self, batch: Batch, logits: Tensor, kept: Tensor, target: Tensor) -> Tensor:
        """KL(target | p after a step on synthetic labels), mean over the label sets: (B, C), (B,), (B, C) -> (B,).

        The loop backpropagates the sum. The inner gradients are those of this process's samples.
        """
        with torch.no_grad():
            _, features = with_features(self.feature_net, batch.inputs)
            near = nearest(features.float().flatten(1), kept, self.settings.neighbours)
            uniforms = self.uniforms(batch, 2 * self.settings.label_sets)
            label_sets = synthetic_labels(batch.labels, near, kept, uniforms, self.settings.perturb_ratio)
        parameters = {name: value for name, value in self.model.named_parameters() if value.requires_grad}
        # Copies: in the authors' code every inner pass updates batch norm's running statistics.
        buffers = {name: value.detach().clone() for name, value in self.model.named_buffers()}
        mean = kept / kept.sum().clamp_min(1)
        log_p = check_logits(logits).log_softmax(1)
        total = log_p.new_zeros(len(log_p))
        for labels in label_sets:
            gradients = torch.autograd.grad(
                -(gather_labels(log_p, labels) * mean).sum(),
                list(parameters.values()),
                retain_graph=True,
                # The authors' code intends to cut the graph here, but only rebinds a loop variable.
                create_graph=self.settings.second_order,
                materialize_grads=True,
            )
            moved = {
                name: value - self.settings.inner_lr * gradient
                for (name, value), gradient in zip(parameters.items(), gradients, strict=True)
            }
            after: Tensor = functional_call(self.model, {**moved, **buffers}, (batch.inputs,))
            total = total + F.kl_div(check_logits(after).log_softmax(1), target, reduction="none").sum(1)
        terms = len(label_sets) * (log_p.shape[1] if self.settings.kl == "element" else 1)
        return total / terms


def nearest(features: Tensor, kept: Tensor, count: int) -> Tensor:
    """Indices of the nearest other kept samples, nearest first: (B, D), (B,) bool -> (B, min(count, B - 1)).

    If fewer samples are kept, the last columns are meaningless. Departure: the authors skip the nearest sample as the
    sample itself, which is wrong for duplicates in a batch; here the sample is excluded by its position.
    """
    distances = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    distances.masked_fill_(~kept, math.inf).fill_diagonal_(math.inf)
    return distances.topk(min(count, len(features) - 1), largest=False).indices


def synthetic_labels(labels: Tensor, near: Tensor, kept: Tensor, uniforms: Tensor, ratio: float) -> Tensor:
    """M label sets, each with new labels for a random share of the kept samples: (B,), (B, K), (B,), (B, 2M) -> (M, B).

    A new label is that of one of the first K kept neighbours; the first M draws of a row decide whether the label
    changes, the others which neighbour is used.
    """
    sets = uniforms.shape[1] // 2
    if near.shape[1] == 0:
        return labels.expand(sets, -1)
    rank = uniforms[:, :sets].masked_fill(~kept.unsqueeze(1), 2.0).argsort(0).argsort(0)  # dropped samples come last
    chosen = rank < (ratio * kept.sum()).floor()
    choices = (kept.sum() - 1).clamp(0, near.shape[1])
    pick = (uniforms[:, sets:] * choices).long().minimum(choices - 1).clamp_min(0)
    drawn = labels[near.gather(1, pick)]
    return torch.where(chosen & (choices > 0), drawn, labels.unsqueeze(1)).T
