"""A linear head and its siblings of the folds, trained as one matrix, without autograd.

What a head costs is reading the vectors: six heads that read them together cost little more than one. A sibling learns
nothing from the samples of its fold, so that what it predicts for them is unseen: a prediction by a network that was
trained without the sample's label.
"""

import torch
from torch import Tensor, nn


class HeadMatrix:
    """K linear heads, (K C, F) and (K C,): the head itself first, then one sibling for each fold.

    The parameters of `head` become views of the first C rows: what is learnt here is at once in the network.
    Predictions are averaged from `reset` on.

    Args:
        head: the network, with the weights that all K heads start from.
        samples: N.
        fold_of: (N,) the fold of each sample; None: no siblings.
        several: a sample may have several of the C classes, which are tags: each has a probability of its own.

    Example:
        >>> heads = HeadMatrix(torch.nn.Linear(4, 3), samples=6, fold_of=torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> heads.probs(torch.ones(2, 4)).shape  # the head and two siblings
        torch.Size([2, 3, 3])
    """

    def __init__(self, head: nn.Linear, samples: int, fold_of: Tensor | None = None, *, several: bool = False) -> None:
        self.several = several
        self.classes, device = head.out_features, head.weight.device
        self.fold_of = None if fold_of is None else fold_of.to(device)
        self.heads = 1 if fold_of is None else 2 + int(fold_of.max())
        self.weight = head.weight.detach().repeat(self.heads, 1)
        self.bias = head.bias.detach().repeat(self.heads)
        head.weight.data, head.bias.data = self.weight[: self.classes], self.bias[: self.classes]
        self.speed, self.bias_speed = torch.zeros_like(self.weight), torch.zeros_like(self.bias)
        self.fold = torch.arange(-1, self.heads - 1, device=device)  # of each head; -1: learns from all samples
        self.seen = torch.zeros(samples, self.classes, device=device)  # sums of predictions, of the head
        self.unseen = torch.zeros_like(self.seen) if fold_of is not None else None  # of the sibling of the fold
        self.count = torch.zeros(samples, device=device)

    def probs(self, inputs: Tensor) -> Tensor:
        """Return what each head predicts: (B, F) -> (B, K, C), with the samples next to each other in memory.

        A softmax over rows of few classes would take half as long as the product.
        """
        logits = torch.addmm(self.bias.unsqueeze(1), self.weight, inputs.T)
        logits = logits.view(self.heads, self.classes, len(inputs))
        return (logits.sigmoid() if self.several else logits.softmax(1)).permute(2, 0, 1)

    def record(self, index: Tensor, probs: Tensor) -> None:
        """Add the predictions (B, K, C) of the samples `index` to the sums."""
        self.seen.index_add_(0, index, probs[:, 0])
        self.count.index_add_(0, index, torch.ones_like(index, dtype=self.count.dtype))
        if self.unseen is not None and self.fold_of is not None:
            rows = torch.arange(len(index), device=index.device)
            self.unseen.index_add_(0, index, probs[rows, self.fold_of[index] + 1])

    def reset(self) -> None:
        """Forget the predictions that were recorded so far."""
        for sums in (self.seen, self.unseen, self.count):
            if sums is not None:
                sums.zero_()

    def learners(self, index: Tensor) -> Tensor | None:
        """Return (B, K, 1), 1 where a head learns from a sample and 0 where it does not; None if all do."""
        if self.fold_of is None:
            return None
        return (self.fold_of[index].unsqueeze(1) != self.fold).to(self.weight.dtype).unsqueeze(2)

    def descend(
        self, inputs: Tensor, gradient: Tensor, learners: Tensor | None, *, rate: float, momentum: float, decay: float
    ) -> None:
        """One step of SGD, by the gradient (B, K, C) of each sample's loss on the logits, which is overwritten.

        The loss is their mean; `learners` is what the method of this name returns for the samples.
        """
        if learners is not None:
            gradient.mul_(learners)
        flat = gradient.permute(1, 2, 0).reshape(-1, len(inputs))
        self.speed.mul_(momentum).add_(self.weight, alpha=decay).addmm_(flat, inputs, alpha=1 / len(inputs))
        self.bias_speed.mul_(momentum).add_(self.bias, alpha=decay).add_(flat.mean(1))
        self.weight.sub_(self.speed, alpha=rate)
        self.bias.sub_(self.bias_speed, alpha=rate)

    def means(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the mean predictions (B, C) of head and siblings for the samples `index`; nan where none are."""
        count = self.count[index].unsqueeze(1)
        return self.seen[index] / count, None if self.unseen is None else self.unseen[index] / count

    def state_dict(self) -> dict[str, Tensor]:
        """Return all that a resume needs, the weights of the head included; not copied."""
        return {name: value for name, value in vars(self).items() if name in _STATE and value is not None}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict()`, of as many heads, classes and samples."""
        for name, value in self.state_dict().items():
            value.copy_(state[name])


_STATE = ("weight", "bias", "speed", "bias_speed", "seen", "unseen", "count")
