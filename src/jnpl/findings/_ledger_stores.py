"""The two ways a ledger keeps predictions: whole, or the given label and three rivals in under 96 bytes a sample.

Both take the same calls: B samples are written, `nth` (B,) being how often each was recorded before; a part of
M samples is read, `seen` (M,) being how often each was recorded.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]

_BLOCKS = 10  # blocks in the window, so histories up to 10 are kept epoch by epoch
_RIVALS = 3  # classes followed beside the given label; 8 + 4 + 40 + 3 * (4 + 10) = 94 bytes
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly: dither without a generator


class Full:
    """Whole predictions: a ring of `history` of them per sample."""

    def __init__(self, num_samples: int, num_classes: int, history: int, labels: Ints | None) -> None:
        self.history, self.labels = history, labels
        self.probs = np.zeros((num_samples, history, num_classes), np.float32)  # unwritten slots stay 0

    def arrays(self) -> dict[str, Array]:
        """All that the store holds, by name, not copied."""
        return {"probs": self.probs} if self.labels is None else {"probs": self.probs, "labels": self.labels}

    def write(self, rows: Ints, probs: Floats, nth: Ints, repeat: npt.NDArray[np.bool_]) -> None:
        """Record (B,) samples, (B, C) predictions; `repeat` (B,): again in the same epoch."""
        del repeat  # a repeated recording has the same number, so it replaces the earlier one
        self.probs[rows, nth % self.history] = probs

    def mean(self, part: slice, seen: Ints) -> Floats:
        """(M,) recordings -> (M, C)."""
        total: Floats = self.probs[part].sum(axis=1)
        return total / np.clip(seen, 1, self.history).astype(np.float32)[:, None]

    def quality(self, part: slice, seen: Ints, labels: Ints) -> Floats:
        """(M,) mean probability of the (M,) labels."""
        window = np.take_along_axis(self.probs[part], labels[:, None, None], axis=2)[:, :, 0]  # (M, H)
        mean: Floats = window.sum(axis=1) / np.clip(seen, 1, self.history).astype(np.float32)
        return mean

    def top(self, part: slice, seen: Ints) -> tuple[Ints, Floats]:
        """(M,) class with the largest mean probability, (M,) that probability."""
        mean = self.mean(part, seen)
        best = mean.argmax(axis=1)
        return best, np.take_along_axis(mean, best[:, None], axis=1)[:, 0]


class Compact:
    """The probability of the given label and of three rivals, in at most ten blocks of recordings."""

    def __init__(self, labels: Ints, num_classes: int, history: int) -> None:
        self.length = -(-history // _BLOCKS)  # recordings per block; 1 up to a history of 10
        self.blocks = -(-history // self.length)
        rivals = min(_RIVALS, num_classes - 1)
        self.classes = np.full((len(labels), 1 + rivals), -1, np.int32)  # the given label, then its rivals
        self.classes[:, 0] = labels
        self.labels: Ints | None = self.classes[:, 0]
        self.given = np.zeros((len(labels), self.blocks), np.float32)  # block means of the given label
        self.rivals = np.zeros((len(labels), self.blocks, rivals), np.uint8)  # of its rivals, in 1/255

    def arrays(self) -> dict[str, Array]:
        """All that the store holds, by name, not copied."""
        return {"classes": self.classes, "given": self.given, "rivals": self.rivals}

    def write(self, rows: Ints, probs: Floats, nth: Ints, repeat: npt.NDArray[np.bool_]) -> None:
        """Record (B,) samples, (B, C) predictions; `repeat` (B,): again in the same epoch."""
        if self.length > 1 and repeat.any():  # a mean cannot give a value back: the earlier one stands
            rows, probs, nth = rows[~repeat], probs[~repeat], nth[~repeat]
        block = nth // self.length
        at = rows * self.blocks + block % self.blocks  # (B,) place of the block, all samples' in one line
        given, rivals = self.given.reshape(-1), self.rivals.reshape(-1, self.rivals.shape[2])  # views
        opens = nth % self.length == 0
        given[at[opens]], rivals[at[opens]] = 0, 0  # what the ring held there has left the window

        classes = self._follow(rows, probs, nth)  # (B, 1 + 3)
        p = probs.ravel()[np.arange(0, probs.size, probs.shape[1])[:, None] + classes]
        if self.length > 1:  # running mean of the block
            mean = np.concatenate([given[at, None], rivals[at] * np.float32(1 / 255)], axis=1)
            p = mean + (p - mean) / (nth - block * self.length + 1).astype(np.float32)[:, None]
        given[at] = p[:, 0]
        dither = (nth * _GOLDEN % 1).astype(np.float32)[:, None]  # rounding evens out over the window
        rivals[at] = np.minimum(p[:, 1:] * np.float32(255) + dither, np.float32(255))

    def _follow(self, rows: Ints, probs: Floats, nth: Ints) -> Ints:
        """Follow the strongest classes of a sample's first prediction; later a new one ousts the weakest."""
        classes = self.classes[rows]
        if not nth.all():
            first = np.flatnonzero(nth == 0)
            others, rivals = -probs[first], classes.shape[1] - 1
            others[np.arange(len(first)), classes[first, 0]] = 1
            classes[first, 1:] = np.argpartition(others, rivals - 1, axis=1)[:, :rivals]
            self.classes[rows[first]] = classes[first]
        best = probs.argmax(axis=1)
        new = np.flatnonzero((classes != best[:, None]).all(axis=1))
        if new.size:
            weakest = self.rivals[rows[new]].sum(axis=1, dtype=np.int32).argmin(axis=1)
            classes[new, 1 + weakest] = best[new]
            self.classes[rows[new]] = classes[new]
            self.rivals[rows[new], :, weakest] = 0  # its past is unknown: a lower bound
        return classes

    def means(self, part: slice, seen: Ints) -> Floats:
        """(M, 1 + 3) mean over the window: a block counts as often as it has recordings."""
        begun = -(-seen // self.length)
        weights = (np.arange(self.blocks) < begun[:, None]) * np.float32(self.length)
        weights[np.arange(len(seen)), (begun - 1) % self.blocks] = seen - (begun - 1) * self.length
        weights /= weights.sum(axis=1, keepdims=True)
        rivals = np.einsum("nrk,nr->nk", self.rivals[part], weights / np.float32(255))
        return np.concatenate([(self.given[part] * weights).sum(axis=1, keepdims=True), rivals], axis=1)

    def quality(self, part: slice, seen: Ints, labels: Ints) -> Floats:
        """(M,) mean probability of the (M,) labels."""
        del labels  # they are its own: the ledger has checked
        return self.means(part, seen)[:, 0]

    def top(self, part: slice, seen: Ints) -> tuple[Ints, Floats]:
        """(M,) class with the largest mean probability, (M,) that probability."""
        means = self.means(part, seen)
        best = means.argmax(axis=1)[:, None]
        return np.take_along_axis(self.classes[part], best, 1)[:, 0], np.take_along_axis(means, best, 1)[:, 0]
