"""Co-teaching+: Co-teaching on the samples whose predictions differ between the two networks."""

import torch
from pydantic import Field

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import StepOutput, Task
from jnpl.methods.co_teaching import CoTeaching
from jnpl.methods.small_loss import SmallLossSettings, keep_count, keep_share, own_part, smallest
from jnpl.methods.two_networks import log_mean_prediction


class CoTeachingPlus(CoTeaching):
    """After a warm-up, each network learns the small-loss samples of the other among those they disagree on."""

    paper = "Yu et al., ICML 2019"

    class Settings(SmallLossSettings):
        """Settings of the selection."""

        name: str = "co-teaching-plus"
        warm_up: int | None = Field(
            None, ge=0, description="epochs of Co-teaching at the start (CIFAR-100: 5); None: a tenth (20 of 200)"
        )

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        self.warm_up = settings.warm_up

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        if self.epoch < (round(0.1 * self.epochs) if self.warm_up is None else self.warm_up):
            return super().step(batch)
        first, second = self.model(batch.inputs), self.second(batch.inputs)
        losses_1, losses_2 = JF.pl(first, batch.labels), JF.pl(second, batch.labels)
        differs = first.argmax(1) != second.argmax(1)
        gathered = torch.stack([losses_1.detach(), losses_2.detach(), differs.to(losses_1)], 1)
        index, rows = self.gather_over_processes(batch, gathered)  # (W,), (W, 3): of the whole batch
        differ = rows[:, 2] > 0
        share = keep_share(self.noise_rate, self.epoch, self.ramp_epochs)
        # How many to keep of 0, 1, ..., W samples. If no predictions differ, the authors' code takes the whole batch.
        counts = torch.tensor([len(rows), *(keep_count(share, n + 1) for n in range(len(rows)))], device=rows.device)
        count = counts[differ.sum()]
        small_1, small_2 = (smallest(torch.where(differ, rows[:, at], torch.inf), count) for at in range(2))
        scale = len(rows) / (count * len(batch.labels))
        loss_1 = torch.where(own_part(batch, index, small_2), losses_1, 0.0).sum() * scale
        loss_2 = torch.where(own_part(batch, index, small_1), losses_2, 0.0).sum() * scale
        scalars = {
            "network_1": loss_1,
            "network_2": loss_2,
            "kept": count / len(rows),
            "disagreement": differ.float().mean(),
        }
        quality = (-(losses_1 + losses_2).detach() / 2).exp()
        return StepOutput(loss_1 + loss_2, log_mean_prediction(first, second), scalars, quality)
