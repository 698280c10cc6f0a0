"""The ledger: what the network said about every sample in its last epochs, and the ranking score made of it.

NLNL and the paper rank labels by the probability of the given label, averaged over the last ten epochs.
The ledger keeps what that mean needs: whole predictions (`full`), or less than 96 bytes a sample (`compact`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from jnpl.findings._ledger_stores import Array, Compact, Floats, Full
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

Values: TypeAlias = npt.ArrayLike | Tensor

_CHUNK = 1 << 16  # rows per step when the whole ledger is read: no temporary grows with the data
_HEADER, _VERSION = "jnpl.ledger", 1  # one entry of metadata: safetensors shuffles several
_SETTINGS = ("num_samples", "num_classes", "history", "keep")


class Ledger:
    """Prediction history of `num_samples` samples over their last `history` recorded epochs.

    The mean is taken over the last `history` epochs in which a sample was recorded, or over as many as there
    are. So early means are means (NLNL's ring starts with zeros: its first nine are not), and a sample that
    misses an epoch keeps what it has. A sample counts once an epoch: recorded twice, the later prediction
    replaces the earlier (compact with `history` > 10: the earlier call stands).

    `keep="full"` holds float32 predictions, 4 * history * num_classes bytes a sample. `keep="compact"` needs
    `labels` and holds at most 94 bytes a sample for any number of classes: the given label's probability in
    float32 and that of three rival classes in steps of 1/255; a rival's past before the epoch in which it was
    first followed counts as 0. Beyond `history` = 10 the window is kept in at most ten blocks of
    ceil(history / 10) epochs, and is up to one block shorter or longer than `history`.

    How compact compares with full is held by tests/test_ledger.py, on cross-entropy over digits with 40 % wrong labels:
    with `history` 10 the same ranking, and the same suggested label for more than 99 % of the samples; with `history`
    50, read in the middle of a block, a rank correlation above 0.999, AP within 0.001, and more than 98 %.

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
        self._store: Full | Compact
        if keep == "full":
            self._store = Full(self.num_samples, self.num_classes, self.history, given)
        elif keep != "compact":
            raise InputError(f"keep must be 'full' or 'compact', not {keep!r}")
        elif given is None:
            raise InputError("keep='compact' follows the given labels: pass labels=")
        else:
            self._store = Compact(given, self.num_classes, self.history)

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
        """Write (B,) sample numbers and their (B, C) probabilities under `epoch`, which never goes back."""
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
        rows = rows.astype(np.intp, copy=False)
        order = np.sort(rows)
        if (order[1:] == order[:-1]).any():  # twice in one batch: the last one counts
            kept = len(rows) - 1 - np.unique(rows[::-1], return_index=True)[1]
            rows, p = rows[kept], p[kept]
        repeat = self._last_epoch[rows] == epoch
        nth = self._seen[rows] - repeat
        self._store.write(rows, p, nth, repeat)
        self._seen[rows] = nth + 1
        self._last_epoch[rows] = self.epoch = epoch

    def mean_probs(self) -> Floats:
        """(N, C) mean prediction; nan where never seen. Only `keep="full"` has it."""
        if not isinstance(self._store, Full):
            raise InputError("keep='compact' holds no whole predictions: use quality() and top(), or keep='full'")
        mean = self._store.mean(slice(None), self._seen)
        mean[self._seen == 0] = np.nan
        return mean

    def newest(self) -> Floats:
        """(N, C) last recorded prediction; nan where never seen. Only `keep="full"` has it."""
        if not isinstance(self._store, Full):
            raise InputError("keep='compact' holds no whole predictions: use quality() and top(), or keep='full'")
        newest: Floats = self._store.probs[np.arange(self.num_samples), (self._seen - 1) % self.history]
        newest[self._seen == 0] = np.nan
        return newest

    def quality(self, labels: Values | None = None) -> Floats:
        """(N,) mean probability of the given label, LOWER = worse; nan where never seen."""
        own = self._store.labels
        given = own if labels is None else self._checked_labels(labels)
        if given is None:
            raise InputError("quality() needs labels: pass them here or to Ledger(...)")
        if self.keep == "compact" and own is not None and (given != own).any():
            sample = int((given != own).argmax())
            raise InputError(
                f"keep='compact' knows the quality of its own labels only: sample {sample} was made with "
                f"{own[sample]}, not {given[sample]}"
            )
        quality = np.empty(self.num_samples, np.float32)
        for part in self._parts():
            quality[part] = self._store.quality(part, self._seen[part], given[part])
        quality[self._seen == 0] = np.nan
        return quality

    def top(self) -> tuple[npt.NDArray[np.int64], Floats]:
        """(N,) class with the largest mean probability, (N,) that probability; -1, nan where never seen."""
        classes, confidence = np.empty(self.num_samples, np.int64), np.empty(self.num_samples, np.float32)
        for part in self._parts():
            classes[part], confidence[part] = self._store.top(part, self._seen[part])
        classes[self._seen == 0], confidence[self._seen == 0] = -1, np.nan
        return classes, confidence

    def prediction(self) -> npt.NDArray[np.int64]:
        """(N,) class with the largest mean probability; -1 where never seen."""
        return self.top()[0]

    def confidence(self) -> Floats:
        """(N,) mean probability of `prediction()`; nan where never seen."""
        return self.top()[1]

    def state_dict(self) -> dict[str, Any]:
        """Plain settings and, under "arrays", tensors that share memory with the ledger, as torch's do."""
        arrays = {name: torch.from_numpy(array) for name, array in self._arrays().items()}
        return {**{name: getattr(self, name) for name in _SETTINGS}, "epoch": self.epoch, "arrays": arrays}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state_dict()` of a ledger with the same settings and labels."""
        for name in _SETTINGS:
            if (theirs := state.get(name)) != (ours := getattr(self, name)):
                raise InputError(f"the saved ledger has {name}={theirs!r}, not {ours!r}")
        own, saved = self._arrays(), {name: _to_numpy(a) for name, a in state.get("arrays", {}).items()}
        for name in sorted(own.keys() | saved.keys()):
            theirs, ours = ((a[name].dtype, a[name].shape) if name in a else None for a in (saved, own))
            if theirs != ours:
                raise InputError(f"the saved ledger has {theirs} as {name}, not {ours}")
        labels = saved["classes"][:, 0] if self.keep == "compact" else saved.get("labels")
        if labels is not None and (labels != self._store.labels).any():
            raise InputError("the saved ledger was made with other labels")
        for name, array in own.items():
            np.copyto(array, saved[name])
        self.epoch = int(state["epoch"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file: whole or not at all."""
        settings = {"version": _VERSION, **{name: getattr(self, name) for name in (*_SETTINGS, "epoch")}}
        with replacing(path) as draft:
            mode = draft.stat().st_mode  # safetensors makes its files readable by their owner alone
            try:
                save_file(self._arrays(), draft, metadata={_HEADER: json.dumps(settings)})
            except SafetensorError as error:  # a full disk, in its own words
                raise OSError(str(error)) from error
            draft.chmod(mode)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ledger:
        """Read what `save` wrote; any other file is an InputError that names it."""
        try:
            with safe_open(path, framework="np") as file:
                state: dict[str, Any] = json.loads((file.metadata() or {})[_HEADER])
                if state["version"] != _VERSION:
                    raise InputError(f"version {state['version']!r}, where this program reads {_VERSION}")
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            labels = arrays["classes"][:, 0] if state["keep"] == "compact" else arrays.get("labels")
            ledger = cls(**{name: state[name] for name in _SETTINGS}, labels=labels)
            ledger.load_state_dict({**state, "arrays": arrays})
        except (OSError, SafetensorError, LookupError, TypeError, ValueError, MemoryError) as error:
            raise InputError(f"{path} is not a ledger that can be read: {error}") from error
        return ledger

    def _arrays(self) -> dict[str, Array]:
        return {"seen": self._seen, "last_epoch": self._last_epoch, **self._store.arrays()}

    def _parts(self) -> Iterator[slice]:
        return (slice(start, start + _CHUNK) for start in range(0, self.num_samples, _CHUNK))

    def _checked_labels(self, labels: Values) -> npt.NDArray[np.int32]:
        given = _to_numpy(labels)
        if given.shape != (self.num_samples,) or given.dtype.kind not in "iu":
            shape = f"{given.dtype} of shape {given.shape}"
            raise InputError(f"labels must be {self.num_samples} whole numbers, not {shape}")
        if given.min() < 0 or given.max() >= self.num_classes:
            raise InputError(f"labels must lie in 0..{self.num_classes - 1}, not {given.min()}..{given.max()}")
        return given.astype(np.int32)  # a copy: the caller may change its own


def _to_numpy(values: Values, dtype: torch.dtype | None = None) -> Array:
    if isinstance(values, Tensor):
        array: Array = values.detach().to("cpu", dtype).numpy()
        return array
    return np.asarray(values, None if dtype is None else np.float32)


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)
