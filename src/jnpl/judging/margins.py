"""Logit margins of the given labels, summed over all epochs of a training: the scores AUM and averaged margin.

The margin of a label is its logit minus the largest other one. A wrong label has a low margin in the epochs before the
network memorises it, and the mean over all epochs remembers that. Pleiss et al., *Identifying Mislabeled Data using the
Area Under the Margin Ranking*, NeurIPS 2020.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from jnpl.internal.errors import InputError

_SCORES = ("aum", "margin")


class Margins:
    """Sums over epochs: 12 bytes a sample for "aum", 8 + 4 C for "margin".

    "aum" is the mean over epochs of the margin, "margin" the margin of the mean logits. A sample counts once an epoch,
    by its first recording.

    Args:
        score: "aum" or "margin".

    Example:
        >>> import numpy as np
        >>> margins = Margins(np.array([0, 1]), num_classes=3, score="aum")
        >>> margins.record(torch.tensor([0, 1]), torch.tensor([[3.0, 1.0, 0.0], [2.0, 0.0, 1.0]]), epoch=0)
        >>> margins.mean()
        array([ 2., -2.])
        >>> margins.quality().round(2)
        array([0.88, 0.12], dtype=float32)
    """

    def __init__(self, labels: npt.NDArray[np.integer[Any]], num_classes: int, score: Literal["aum", "margin"]) -> None:
        self.score, self.labels = score, torch.as_tensor(labels, dtype=torch.long)
        self.sums = torch.zeros(len(labels), num_classes if score == "margin" else 1)
        self._seen = torch.zeros(len(labels), dtype=torch.int32)
        self._last_epoch = torch.full((len(labels),), -1, dtype=torch.int32)

    @property
    def seen(self) -> npt.NDArray[np.int32]:
        """(N,) number of epochs in which each sample was recorded."""
        seen: npt.NDArray[np.int32] = self._seen.numpy()
        return seen

    def record(self, index: Tensor, logits: Tensor, epoch: int) -> None:
        """Add the logits (B, C) of the samples at positions (B,) in an epoch."""
        index, logits = index.cpu(), logits.cpu()
        new = self._last_epoch[index] < epoch
        index, logits = index[new], logits[new]
        values = logits if self.score == "margin" else margin(logits, self.labels[index]).unsqueeze(1)
        self.sums[index] += values
        self._seen[index] += 1
        self._last_epoch[index] = epoch

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the averaged margin (N,); nan where never seen."""
        mean = self.sums.double() / self._seen.unsqueeze(1)
        margins = margin(mean, self.labels) if self.score == "margin" else mean.squeeze(1)
        values: npt.NDArray[np.float64] = margins.numpy()
        return values

    def quality(self) -> npt.NDArray[np.float32]:
        """Return the label quality 1 / (1 + exp(-margin)), (N,): below 1/2 another class is ahead of the label."""
        quality: npt.NDArray[np.float32] = torch.from_numpy(self.mean()).sigmoid().float().numpy()
        return quality

    def state_dict(self) -> dict[str, Any]:
        """Return the score and, under "arrays", the tensors themselves."""
        return {
            "score": self.score,
            "arrays": {"sums": self.sums, "seen": self._seen, "last_epoch": self._last_epoch},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()` of margins with the same labels."""
        if state["score"] != self.score:
            raise InputError(f"the saved margins are for the score {state['score']!r}, not {self.score!r}")
        for target, name in ((self.sums, "sums"), (self._seen, "seen"), (self._last_epoch, "last_epoch")):
            target.copy_(state["arrays"][name])


def margins_of(score: str, labels: npt.NDArray[np.integer[Any]], num_classes: int) -> Margins | None:
    """Return empty margins if the score of a run needs them."""
    if score not in _SCORES:
        return None
    return Margins(labels, num_classes, "aum" if score == "aum" else "margin")


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logit of each row's label minus the largest other one: (B, C), (B,) -> (B,).

    >>> margin(torch.tensor([[3.0, 1.0, 0.0], [2.0, 0.0, 1.0]]), torch.tensor([0, 1]))
    tensor([ 2., -2.])
    """
    at = labels.unsqueeze(1)
    others = logits.scatter(1, at, -torch.inf).amax(1)
    return logits.gather(1, at).squeeze(1) - others
