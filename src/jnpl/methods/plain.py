"""Methods that are a loss on the given labels and nothing else: one network, one stage."""

from collections.abc import Callable
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task


class PlainLoss(Method):
    """The mean over the batch of `loss`, (B, C), (B,) -> (B,), which takes the method's settings by name."""

    loss: ClassVar[Callable[..., Tensor]]

    def __init__(self, task: Task, settings: MethodSettings) -> None:
        super().__init__(task)
        self.settings = settings.model_dump(exclude=set(MethodSettings.model_fields))

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        return StepOutput(self.loss(logits, batch.labels, **self.settings).mean(), logits, {})


class CE(PlainLoss):
    """The mean of -log p_y over the batch (positive learning, Eq. 1)."""

    paper = "the baseline of all"
    loss = staticmethod(JF.pl)

    class Settings(MethodSettings):
        """No settings of its own."""

        name: str = "ce"


class MAE(PlainLoss):
    """The mean of sum_k |p_k - [k = y]| = 2 (1 - p_y): its gradient is bounded, wrong labels have little influence."""

    paper = "Ghosh et al., AAAI 2017"
    loss = staticmethod(JF.mae)

    class Settings(MethodSettings):
        """No settings of its own."""

        name: str = "mae"


class SCE(PlainLoss):
    """Symmetric cross-entropy: the mean of alpha CE + beta RCE over the batch."""

    paper = "Wang et al., ICCV 2019"
    loss = staticmethod(JF.sce)

    class Settings(MethodSettings):
        """Weights of the two terms: 0.1 and 1 are the authors' for CIFAR-10, 6 and 0.1 for CIFAR-100."""

        name: str = "sce"
        alpha: float = Field(0.1, ge=0, description="weight of cross-entropy (CIFAR-100: 6)")
        beta: float = Field(1.0, ge=0, description="weight of reverse cross-entropy (CIFAR-100: 0.1)")


class NCERCE(PlainLoss):
    """The mean of alpha NCE + beta RCE over the batch: an active and a passive loss of APL."""

    paper = "Ma et al., ICML 2020"
    loss = staticmethod(JF.nce_rce)

    class Settings(MethodSettings):
        """Weights of the two terms: 1 and 1 are the authors' for CIFAR-10, 10 and 0.1 for CIFAR-100."""

        name: str = "nce-rce"
        alpha: float = Field(1.0, ge=0, description="weight of normalised cross-entropy (CIFAR-100: 10)")
        beta: float = Field(1.0, ge=0, description="weight of reverse cross-entropy (CIFAR-100: 0.1)")


class NFLRCE(PlainLoss):
    """The mean of alpha NFL + beta RCE over the batch: an active and a passive loss of APL."""

    paper = "Ma et al., ICML 2020"
    loss = staticmethod(JF.nfl_rce)

    class Settings(MethodSettings):
        """Weights of the two terms: 1 and 1 are the authors' for CIFAR-10, 10 and 0.1 for CIFAR-100."""

        name: str = "nfl-rce"
        alpha: float = Field(1.0, ge=0, description="weight of the normalised focal loss (CIFAR-100: 10)")
        beta: float = Field(1.0, ge=0, description="weight of reverse cross-entropy (CIFAR-100: 0.1)")
        gamma: float = Field(0.5, ge=0, description="exponent of the focal factor; 0: NCE+RCE")
