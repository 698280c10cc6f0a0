"""The ledger: the predictions of the last epochs for every sample, and the label quality computed from them.

NLNL and the paper rank labels by the probability of the given label, averaged over the last ten epochs.
The ledger keeps what that mean needs: whole predictions (`FullHistory`), or less than 96 bytes a sample
(`CompactHistory`). Both histories take the same calls: B samples are written, `nth` (B,) being how often each was
recorded before; a part of M samples is read, `seen` (M,) being how often each was recorded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from jnpl.data.sources.arrays import to_numpy
from jnpl.internal.allocator import scratch_zeros
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing, require_file
from jnpl.internal.json_files import parse_json
from jnpl.judging.column_checks import checked_labels

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Values: TypeAlias = npt.ArrayLike | Tensor

_CHUNK = 1 << 16  # rows per step when the whole ledger is read: no temporary grows with the data
_HEADER, _VERSION = "jnpl.ledger", 2  # one entry of metadata: safetensors shuffles several
_BLOCKS = 10  # blocks in the window of a compact history, so up to 10 epochs are kept one by one
_RIVALS = 3  # classes followed beside the given label; 8 + 4 + 40 + 3 * (4 + 10) = 94 bytes
_SUM_ERROR = 0.02  # of probabilities, which may be rounded to bfloat16
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly: dither without a generator
_SETTINGS = ("num_samples", "num_classes", "history", "keep")


class Ledger:
    """The predictions of `num_samples` samples in their last `history` recorded epochs.

    The mean is taken over the last `history` epochs in which a sample was recorded, or over as many as there
    are. So early means are means (NLNL's buffer starts with zeros: its first nine are not), and a sample that
    misses an epoch keeps its earlier predictions. A sample counts once an epoch: recorded twice, the later prediction
    replaces the earlier (compact with `history` > 10: the earlier one stays).

    Args:
        num_samples: N.
        num_classes: C.
        history: number of epochs to average over.
        keep: "full" keeps float32 predictions, 4 * history * C bytes a sample; from 64 MiB on they are in a memory map
            of a temporary file, not in memory. "compact" needs `labels` and keeps at
            most 94 bytes a sample for any C: the probability of the given label in float32 and of three rival
            classes in steps of 1/255; before the epoch in which a rival was first followed, its probability counts
            as 0. Beyond `history` = 10 the window is kept in at most ten blocks of ceil(history / 10) epochs, and is
            up to one block shorter or longer than `history`.
        labels: (N,) given labels.

    How compact compares with full is tested in tests/judging/test_ledger.py, with cross-entropy on digits and 40 %
    wrong labels: with `history` 10 the same ranking, and the same suggested label for more than 99 % of the samples;
    with `history` 50, read in the middle of a block, a rank correlation above 0.999, AP within 0.001, and more than
    98 %.

    Example:
        >>> ledger = Ledger(num_samples=2, num_classes=3, labels=[0, 2])
        >>> ledger.record(index=[0, 1], probs=[[0.6, 0.3, 0.1], [0.8, 0.1, 0.1]], epoch=0)
        >>> ledger.record(index=[1], probs=[[0.9, 0.1, 0.0]], epoch=1)
        >>> print(ledger.quality(), ledger.prediction(), ledger.seen)
        [0.6  0.05] [0 0] [1 2]
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        history: int = 10,
        keep: Literal["full", "compact"] = "full",
        labels: Values | None = None,
    ) -> None:
        self.num_samples = _whole("num_samples", num_samples, least=1)
        self.num_classes = _whole("num_classes", num_classes, least=2)
        self.history = _whole("history", history, least=1)
        self.keep: Literal["full", "compact"] = keep
        self.epoch = -1
        self._seen = np.zeros(num_samples, np.int32)
        self._last_epoch = np.full(num_samples, -1, np.int32)
        given = None if labels is None else self._checked_labels(labels)
        self._history: FullHistory | CompactHistory
        if keep == "full":
            self._history = FullHistory(self.num_samples, self.num_classes, self.history, given)
        elif keep != "compact":
            raise InputError(f"keep must be 'full' or 'compact', not {keep!r}")
        elif given is None:
            raise InputError("keep='compact' follows the given labels: pass labels=")
        else:
            self._history = CompactHistory(given, self.num_classes, self.history)

    def __repr__(self) -> str:
        return f"Ledger({', '.join(f'{name}={getattr(self, name)!r}' for name in _SETTINGS)})"

    @property
    def seen(self) -> npt.NDArray[np.int32]:
        """(N,) number of epochs in which each sample was recorded."""
        return self._seen.copy()

    @property
    def bytes_per_sample(self) -> int:
        """Memory of one sample, labels and counters included."""
        return sum(array.nbytes for array in self._arrays().values()) // self.num_samples

    def record(self, index: Values, probs: Values, epoch: int) -> None:
        """Record the (B, C) predictions of B samples in an epoch.

        Args:
            index: (B,) positions of the samples.
            probs: (B, C) their probabilities.
            epoch: the number of the epoch, at least that of the last recording.

        Example: see `Ledger`.
        """
        rows, p = _to_numpy(index), _to_numpy(probs, torch.float32)
        if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
            raise InputError(f"index must be (B,) whole numbers, not {rows.dtype} of shape {rows.shape}")
        if p.shape != (len(rows), self.num_classes):
            raise InputError(f"probs must have shape {(len(rows), self.num_classes)}, not {p.shape}")
        epoch = _whole("epoch", epoch, least=max(self.epoch, 0))  # at least the last one recorded
        if not len(rows):
            return
        if rows.min() < 0 or rows.max() >= self.num_samples:
            raise InputError(f"index must lie in 0..{self.num_samples - 1}, not {rows.min()}..{rows.max()}")
        if not (p.min() >= 0 and p.max() <= 1.001):  # written so that nan fails too
            raise InputError(f"probs must lie in 0..1, not {p.min()}..{p.max()}: logits? a diverged network?")
        total = p.sum(axis=1)
        if (off := np.abs(total - 1) > _SUM_ERROR).any():
            at = int(off.argmax())
            raise InputError(f"probs of a sample must sum to 1, not {total[at]:g} (sample {rows[at]}): logits?")
        rows = rows.astype(np.intp, copy=False)
        order = np.sort(rows)
        if (order[1:] == order[:-1]).any():  # twice in one batch: the last one counts
            kept = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
            rows, p = rows[kept], p[kept]
        repeat = self._last_epoch[rows] == epoch
        nth = self._seen[rows] - repeat
        self._history.write(rows, p, nth, repeat)
        self._seen[rows] = nth + 1
        self._last_epoch[rows] = self.epoch = epoch

    def mean_probs(self) -> Floats:
        """Return the (N, C) mean prediction; nan where never seen. Only `keep="full"` has it."""
        history, mean = self._full_history(), np.empty((self.num_samples, self.num_classes), np.float32)
        for part in self._parts():
            mean[part] = history.mean(part, self._seen[part])
        mean[self._seen == 0] = np.nan
        return mean

    def newest(self) -> Floats:
        """Return the (N, C) last recorded prediction; nan where never seen. Only `keep="full"` has it."""
        newest: Floats = self._full_history().probs[(self._seen - 1) % self.history, np.arange(self.num_samples)]
        newest[self._seen == 0] = np.nan
        return newest

    def quality(self, labels: Values | None = None) -> Floats:
        """Return the (N,) mean probability of the given label, LOWER = worse; nan where never seen.

        Args:
            labels: (N,) given labels; by default those of the ledger. "compact" takes no others.
        """
        kept = self._history.labels
        given = kept if labels is None else self._checked_labels(labels)
        if given is None:
            raise InputError("quality() needs labels: pass them here or to Ledger(...)")
        if self.keep == "compact" and kept is not None and (given != kept).any():
            sample = int((given != kept).argmax())
            raise InputError(
                f"keep='compact' knows the quality of its own labels only: sample {sample} was made with "
                f"{kept[sample]}, not {given[sample]}"
            )
        quality = np.empty(self.num_samples, np.float32)
        for part in self._parts():
            quality[part] = self._history.quality(part, self._seen[part], given[part])
        quality[self._seen == 0] = np.nan
        return quality

    def top(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return the (N,) class with the largest mean probability, and that probability; -1, nan where never seen."""
        classes, confidence = np.empty(self.num_samples, np.int64), np.empty(self.num_samples, np.float32)
        for part in self._parts():
            classes[part], confidence[part] = self._history.top(part, self._seen[part])
        classes[self._seen == 0], confidence[self._seen == 0] = -1, np.nan
        return classes, confidence

    def prediction(self) -> npt.NDArray[np.int64]:
        """Return the (N,) class with the largest mean probability; -1 where never seen."""
        return self.top()[0]

    def confidence(self) -> Floats:
        """Return the (N,) mean probability of `prediction()`; nan where never seen."""
        return self.top()[1]

    def state_dict(self) -> dict[str, Any]:
        """Return the settings and, under "arrays", tensors that share memory with the ledger, as in torch."""
        arrays = {name: torch.from_numpy(array) for name, array in self._arrays().items()}
        return {**{name: getattr(self, name) for name in _SETTINGS}, "epoch": self.epoch, "arrays": arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state_dict()` of a ledger with the same settings and labels."""
        if not isinstance(state, Mapping) or not isinstance(state.get("arrays", {}), Mapping):
            kind = type(state).__name__
            raise InputError(f"the saved ledger must be a dictionary, as state_dict() returns it, not {kind}")
        for name in _SETTINGS:
            if (theirs := state.get(name)) != (ours := getattr(self, name)):
                raise InputError(f"the saved ledger has {name}={theirs!r}, not {ours!r}")
        arrays, saved = self._arrays(), {name: _to_numpy(a) for name, a in state.get("arrays", {}).items()}
        for name in sorted(arrays.keys() | saved.keys()):
            theirs, ours = ((a[name].dtype, a[name].shape) if name in a else None for a in (saved, arrays))
            if theirs != ours:
                raise InputError(f"the saved ledger has {theirs} as {name}, not {ours}")
        labels = saved["classes"][:, 0] if self.keep == "compact" else saved.get("labels")
        if labels is not None and (labels != self._history.labels).any():
            raise InputError("the saved ledger was made with other labels")
        for name, array in arrays.items():
            np.copyto(array, saved[name])
        self.epoch = int(state["epoch"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all.

        Args:
            path: of the file; an existing one is replaced.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Ledger(num_samples=2, num_classes=3).save(f"{folder}/ledger.safetensors")
            ...     Ledger.load(f"{folder}/ledger.safetensors")
            Ledger(num_samples=2, num_classes=3, history=10, keep='full')
        """
        settings = {"version": _VERSION, **{name: getattr(self, name) for name in (*_SETTINGS, "epoch")}}
        with replacing(path) as draft:
            mode = draft.stat().st_mode  # safetensors makes its files readable by their owner alone
            try:
                save_file(self._arrays(), draft, metadata={_HEADER: json.dumps(settings)})
            except SafetensorError as error:  # such as a full disk
                raise OSError(str(error)) from error
            draft.chmod(mode)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ledger:
        """Return the ledger that `save` wrote to `path`; any other file is an InputError that names it."""
        try:
            with safe_open(require_file(path), framework="np") as file:
                state: dict[str, Any] = parse_json((file.metadata() or {})[_HEADER])
                if state["version"] != _VERSION:
                    raise InputError(f"version {state['version']!r}, where this program reads {_VERSION}")
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            labels = arrays["classes"][:, 0] if state["keep"] == "compact" else arrays.get("labels")
            ledger = cls(**{name: state[name] for name in _SETTINGS}, labels=labels)
            ledger.load_state_dict({**state, "arrays": arrays})
        except (OSError, SafetensorError, LookupError, TypeError, ValueError, MemoryError) as error:
            raise InputError(f"{path} is not a ledger that can be read: {error}") from error
        return ledger

    def _full_history(self) -> FullHistory:
        if not isinstance(self._history, FullHistory):
            raise InputError("keep='compact' holds no whole predictions: use quality() and top(), or keep='full'")
        return self._history

    def _arrays(self) -> dict[str, Array]:
        return {"seen": self._seen, "last_epoch": self._last_epoch, **self._history.arrays()}

    def _parts(self) -> Iterator[slice]:
        return (slice(start, start + _CHUNK) for start in range(0, self.num_samples, _CHUNK))

    def _checked_labels(self, labels: Values) -> npt.NDArray[np.int32]:
        return checked_labels(_to_numpy(labels), self.num_samples, self.num_classes).astype(np.int32)


def _to_numpy(values: Values, dtype: torch.dtype | None = None) -> Array:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        plain: Array = (values if dtype is None or values.is_complex() else values.to(dtype)).numpy()
    else:
        plain = to_numpy(values, "the ledger's input")
    if dtype is None:
        return plain
    if plain.dtype.kind not in "biuf":
        raise InputError(f"predictions must be real numbers, not {plain.dtype}")
    return np.asarray(plain, np.float32)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


class FullHistory:
    """Whole predictions: a ring buffer of the last `history` per sample."""

    def __init__(self, num_samples: int, num_classes: int, history: int, labels: Ints | None) -> None:
        self.history, self.labels = history, labels
        # Unwritten slots stay 0. An epoch is one block: a large ledger is a file, of which an epoch writes one part.
        self.probs: Floats = np.asarray(scratch_zeros((history, num_samples, num_classes), np.float32))

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name, not copied."""
        return {"probs": self.probs} if self.labels is None else {"probs": self.probs, "labels": self.labels}

    def write(self, rows: Ints, probs: Floats, nth: Ints, repeat: npt.NDArray[np.bool_]) -> None:
        """Record (B,) samples, (B, C) predictions; `repeat` (B,): again in the same epoch."""
        del repeat  # a repeated recording has the same number, so it replaces the earlier one
        self.probs[nth % self.history, rows] = probs

    def mean(self, part: slice, seen: Ints) -> Floats:
        """Return the (M, C) mean prediction."""
        total: Floats = self.probs[:, part].sum(axis=0)
        total /= np.clip(seen, 1, self.history).astype(np.float32)[:, None]
        return total

    def quality(self, part: slice, seen: Ints, labels: Ints) -> Floats:
        """Return the (M,) mean probability of the (M,) labels."""
        window = np.take_along_axis(self.probs[:, part], labels[None, :, None], axis=2)[:, :, 0]  # (H, M)
        mean: Floats = window.sum(axis=0) / np.clip(seen, 1, self.history).astype(np.float32)
        return mean

    def top(self, part: slice, seen: Ints) -> tuple[Ints, Floats]:
        """Return the (M,) class with the largest mean probability, (M,) that probability."""
        mean = self.mean(part, seen)
        best = mean.argmax(axis=1)
        return best, np.take_along_axis(mean, best[:, None], axis=1)[:, 0]


class CompactHistory:
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
        """Return all arrays by name, not copied."""
        return {"classes": self.classes, "given": self.given, "rivals": self.rivals}

    def write(self, rows: Ints, probs: Floats, nth: Ints, repeat: npt.NDArray[np.bool_]) -> None:
        """Record (B,) samples, (B, C) predictions; `repeat` (B,): again in the same epoch."""
        if self.length > 1 and repeat.any():  # a value cannot be removed from a mean: the earlier one stays
            rows, probs, nth = rows[~repeat], probs[~repeat], nth[~repeat]
        block = nth // self.length
        at = rows * self.blocks + block % self.blocks  # (B,) place of the block, all samples' in one line
        given, rivals = self.given.reshape(-1), self.rivals.reshape(-1, self.rivals.shape[2])  # views
        opens = nth % self.length == 0
        given[at[opens]], rivals[at[opens]] = 0, 0  # the block that was there has left the window

        classes = self._follow(rows, probs, nth)  # (B, 1 + 3)
        p = probs.ravel()[np.arange(0, probs.size, probs.shape[1])[:, None] + classes]
        if self.length > 1:  # running mean of the block
            mean = np.concatenate([given[at, None], rivals[at] * np.float32(1 / 255)], axis=1)
            p = mean + (p - mean) / (nth - block * self.length + 1).astype(np.float32)[:, None]
        given[at] = p[:, 0]
        dither = (nth * _GOLDEN % 1).astype(np.float32)[:, None]  # rounding evens out over the window
        rivals[at] = np.minimum(p[:, 1:] * np.float32(255) + dither, np.float32(255))

    def _follow(self, rows: Ints, probs: Floats, nth: Ints) -> Ints:
        """Return the (B, 1 + 3) classes to follow.

        They are the strongest of a sample's first prediction; later a new best class replaces the weakest of them.
        """
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
            self.rivals[rows[new], :, weakest] = 0  # its earlier probabilities are unknown: 0 is a lower bound
        return classes

    def means(self, part: slice, seen: Ints) -> Floats:
        """Return the (M, 1 + 3) mean over the window: a block counts as often as it has recordings."""
        begun = -(-seen // self.length)
        weights = (np.arange(self.blocks) < begun[:, None]) * np.float32(self.length)
        weights[np.arange(len(seen)), (begun - 1) % self.blocks] = seen - (begun - 1) * self.length
        weights /= weights.sum(axis=1, keepdims=True)
        rivals = np.einsum("nrk,nr->nk", self.rivals[part], weights / np.float32(255))
        return np.concatenate([(self.given[part] * weights).sum(axis=1, keepdims=True), rivals], axis=1)

    def quality(self, part: slice, seen: Ints, labels: Ints) -> Floats:
        """Return the (M,) mean probability of the (M,) labels."""
        del labels  # the same as its own: the ledger has checked
        return self.means(part, seen)[:, 0]

    def top(self, part: slice, seen: Ints) -> tuple[Ints, Floats]:
        """Return the (M,) class with the largest mean probability, (M,) that probability."""
        means = self.means(part, seen)
        best = means.argmax(axis=1)[:, None]
        return np.take_along_axis(self.classes[part], best, 1)[:, 0], np.take_along_axis(means, best, 1)[:, 0]
