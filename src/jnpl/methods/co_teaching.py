"""Co-teaching: two networks, each trained on the samples with small loss under the other."""

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import StepOutput
from jnpl.methods.small_loss import SmallLoss, SmallLossSettings, mean_of
from jnpl.methods.two_networks import log_mean_prediction


class CoTeaching(SmallLoss):
    """Cross-entropy of each network over the small-loss samples of the other.

    The networks share no parameters, so one optimiser over the sum of both losses is the same as two.
    """

    paper = "Han et al., NeurIPS 2018"
    score = "exp(-mean cross-entropy of the two networks), mean of the last 10 epochs"

    class Settings(SmallLossSettings):
        """Settings of the selection."""

        name: str = "co-teaching"

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        first, second = self.model(batch.inputs), self.second(batch.inputs)
        losses_1, losses_2 = JF.pl(first, batch.labels), JF.pl(second, batch.labels)
        chosen_1, chosen_2 = self.choose(batch, losses_1), self.choose(batch, losses_2)
        # The plain mean: the authors' code divides by the number of samples once more, which does not matter to Adam.
        loss_1, loss_2 = mean_of(losses_1, chosen_2), mean_of(losses_2, chosen_1)
        kept = chosen_1.share.to(loss_1)
        scalars = {"network_1": loss_1, "network_2": loss_2, "kept": kept}
        quality = (-(losses_1 + losses_2).detach() / 2).exp()
        return StepOutput(loss_1 + loss_2, log_mean_prediction(first, second), scalars, quality)
