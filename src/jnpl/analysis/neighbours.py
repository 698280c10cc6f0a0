"""Near duplicates and outliers of a source, by the nearest neighbours of its embeddings.

Distances are cosine distances between mean embeddings of the views of a sample. The mean of an image and its mirror
image is the same for the mirror image, so mirrored copies are found too. Thresholds are relative to the distances in
the data: what is near in one set of photographs is far in another. Near duplicates of texts must also share most of
their letters: embeddings of few words, above all those of TF-IDF, hardly tell "what is titanium" from "what is jazz".

Many long embeddings are searched as vectors of 256 numbers (`jnpl.analysis.short_vectors`). On 50,000 photographs, in
7 of 224 cells, that takes a quarter of the time of a search among whole vectors in 4 of them, and finds more of the
ten nearest neighbours (65 % for 63 %) and of the pairs of near duplicates (88 % for 84 %). The library faiss is not
used because it brings an OpenMP of its own beside that of torch, which can end the process on macOS (OMP: Error #15).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.analysis.short_vectors import BLOCK, ShortVectors, mean_views

if TYPE_CHECKING:
    from torch import Tensor

    from jnpl.data.source import Array, Labels, Source

Mask: TypeAlias = npt.NDArray[np.bool_]

NUM_NEIGHBOURS = 10
MIN_SAMPLES = 50  # fewer say too little about which distances are usual
MIN_WIDTH = 128  # vectors of fewer numbers are rather measurements than embeddings
EXACT_LIMIT = 8_000  # samples up to which all pairs are compared
MAX_OUTLIERS = 0.02  # share of the samples
NEAR = 1 / 3  # of the distance to the tenth neighbour: near duplicates are closer
VERY_NEAR = 0.05  # of the median distance to the tenth neighbour: enough on its own, for groups of more than ten copies
_SHARED_LETTERS = 0.75  # of the triples of letters in two texts: near duplicates share more
_MAX_TEXT = 2000  # characters compared
_FAR = 2.5  # standard deviations (estimated by the median absolute deviation) above the median: outliers are farther
_ROUNDING = 1e-5  # cosine distances of equal float32 vectors stay below
_PROBED, _LEAST_PROBED = 1_500, 4  # cells to search for the neighbours of a sample: 1,500 / sqrt(M), at least 4
_DIVIDING = 0.15  # of the time of a search, to divide the samples into cells
_MEASURED = 2_000  # samples whose distances are measured, to correct those of short vectors


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Near duplicates and outliers among N samples."""

    groups: list[list[int]]  # positions of near duplicates, two or more in a group
    # (N,) mean cosine distance to the ten nearest neighbours, nan where a sample was not compared
    outlier_score: npt.NDArray[np.float32]
    is_outlier: Mask  # (N,) true where that is unusually large
    searched: str  # how the neighbours were found, in words

    @property
    def outliers(self) -> list[int]:
        """Positions of the outliers, the farthest first."""
        positions = np.flatnonzero(self.is_outlier)
        ranked: list[int] = positions[np.argsort(-self.outlier_score[positions], kind="stable")].tolist()
        return ranked

    def group_numbers(self) -> Labels:
        """Return the number of the group of each sample (N,), -1 for a sample in no group."""
        numbers = np.full(len(self.outlier_score), -1, np.int64)
        for number, group in enumerate(self.groups):
            numbers[group] = number
        return numbers


def neighbours(
    source: Source,
    readable: Mask,
    same: Iterable[list[int]] = (),
    progress: Callable[[float], None] = lambda _: None,
    short: ShortVectors | None = None,
) -> Neighbours | None:
    """Find near duplicates and outliers among N embedded samples.

    Args:
        source: embedded images or texts, or vectors of at least 128 numbers.
        readable: (N,) false for samples to leave out.
        same: groups of samples with the same content. They count as near duplicates of each other, but a group of
            nothing else is not returned.
        short: the embeddings, shortened: the search is among them, and near duplicates are measured in whole.

    Returns:
        What was found; None if the source has no embeddings, or fewer than 50 samples.
    """
    values = embeddings(source)
    if values is None:
        return None
    readable = readable & _not_zero(values if short is None else short.values)
    positions = np.flatnonzero(readable)
    if len(positions) < MIN_SAMPLES:
        return None
    index, distances = nearest(values if short is None else short, positions, progress=progress)
    if short is not None:
        index, distances = _measured(values, short, positions, index, distances)
    exact = [group for group in same if readable[group].all()]
    score = np.full(len(values), np.nan, np.float32)
    score[positions] = distances.mean(axis=1)
    searched = "all pairs of samples were compared"
    if len(positions) > EXACT_LIMIT:
        probed, cells = _probed(len(positions)), round(math.sqrt(len(positions)))
        searched = f"each sample was compared with those in the {probed} nearest of {cells:,} cells (k-means)"
    if short is not None:
        searched += f", as vectors shortened to {short.values.shape[1] - 1} numbers"
    return Neighbours(
        groups=_near_duplicates(_near_pairs(source.texts, positions, index, distances), exact),
        outlier_score=score,
        is_outlier=_far(score),
        searched=searched,
    )


def embeddings(source: Source) -> Array | None:
    """Return the embeddings (N, V, F) or (N, F) of a source; None if its inputs are something else."""
    vectors = source.inputs.array() if source.kind == "vector" else None
    if vectors is None or vectors.ndim == 3:  # of a backbone
        return vectors
    return vectors if source.encoding is None and vectors.shape[1] >= MIN_WIDTH else None


def short_vectors(source: Source, seed: int = 0) -> ShortVectors | None:
    """Return the embeddings of a source, shortened; None without embeddings, and if they stay as they are."""
    values = embeddings(source)
    rows = np.delete(np.arange(len(source)), list(source.unreadable or ()))
    return None if values is None else ShortVectors.of(values, rows, seed)


def nearest(
    values: Array | ShortVectors,
    positions: Labels,
    limit: int = EXACT_LIMIT,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> tuple[Labels, npt.NDArray[np.float32]]:
    """Find the ten nearest neighbours of M samples by cosine distance.

    Args:
        values: (N, V, F) or (N, F) embeddings, none of them zero, or short vectors of them.
        positions: (M,) of the samples, M above 10.
        limit: of M, up to which all pairs are compared. Beyond it, samples are divided into about sqrt(M) cells, and
            compared with those in the cells nearest to their own, 15 with 10,000 samples and 4 with 100,000 or more, so
            that time grows with M^1.5 and no more than a few cells are in memory.
        seed: of the cells.

    Returns:
        Indices into `positions` (M, 10) and distances (M, 10), the nearest first.
    """
    import torch  # noqa: PLC0415 - not needed for other sources

    read = partial(_vectors, values)
    nearest_so_far = (
        torch.full((len(positions), NUM_NEIGHBOURS), -1),
        torch.full((len(positions), NUM_NEIGHBOURS), -math.inf),
    )
    with torch.inference_mode():
        if len(positions) <= limit:
            whole, blocks = read(positions), torch.split(torch.arange(len(positions)), BLOCK)
            pairs = list(combinations_with_replacement(blocks, 2))  # a pair gives the neighbours of both blocks
            for number, (rows, columns) in enumerate(pairs, 1):
                similar = whole[rows] @ whole[columns].T
                if rows is columns:
                    similar.fill_diagonal_(-math.inf)  # a sample is no neighbour of itself
                _merge(nearest_so_far, rows, columns, similar)
                if rows is not columns:
                    _merge(nearest_so_far, columns, rows, similar.T.contiguous())
                progress(number / len(pairs))
        else:
            done = 0
            for rows, columns in _cells(read, positions, seed, lambda share: progress(_DIVIDING * share)):
                candidates = read(positions[columns.numpy()])
                similar = candidates[: len(rows)] @ candidates.T  # the samples themselves are the first candidates
                _merge(nearest_so_far, rows, columns, similar.fill_diagonal_(-math.inf))
                done += len(rows)
                progress(_DIVIDING + (1 - _DIVIDING) * done / len(positions))
    index, similarity = (part.numpy() for part in nearest_so_far)
    return index, np.clip(1 - similarity, 0, None)


def _merge(nearest_so_far: tuple[Tensor, Tensor], rows: Tensor, columns: Tensor, similar: Tensor) -> None:
    """Update the neighbours of `rows` (R,) by their similarity (R, C) to `columns` (C,), -inf to themselves."""
    import torch  # noqa: PLC0415

    index, similarity = nearest_so_far
    top = similar.topk(min(NUM_NEIGHBOURS, len(columns)), dim=1)
    both = torch.cat([similarity[rows], top.values], dim=1)
    which = torch.cat([index[rows], columns[top.indices]], dim=1)
    best = both.topk(NUM_NEIGHBOURS, dim=1)
    similarity[rows], index[rows] = best.values, which.gather(1, best.indices)


def _cells(
    read: Callable[[Labels], Tensor], positions: Labels, seed: int, progress: Callable[[float], None]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the samples of each cell and those of the nearest cells, itself first: indices into `positions`.

    `read` returns vectors of some samples, `progress` is called with the share of the samples that have a cell.
    """
    import torch  # noqa: PLC0415

    blocks = [positions[start : start + BLOCK] for start in range(0, len(positions), BLOCK)]
    centres = _centres(read, positions, seed)
    cell_of = []
    for number, block in enumerate(blocks, 1):
        cell_of.append((read(block) @ centres.T).argmax(dim=1))
        progress(number / len(blocks))
    nearest_cell = torch.cat(cell_of)
    order = nearest_cell.argsort(stable=True)
    ends = nearest_cell.bincount(minlength=len(centres)).cumsum(dim=0).tolist()
    # A cell of very many samples is cut into parts, which stay neighbours because they share their centre.
    parts = [
        (cell, order[start : min(start + BLOCK, end)])
        for cell, (first, end) in enumerate(zip([0, *ends], ends, strict=False))
        for start in range(first, end, BLOCK)
    ]
    owners, probed = centres[[cell for cell, _ in parts]], _probed(len(positions))
    for number, (_, rows) in enumerate(parts):
        closeness = owners @ owners[number]
        closeness[number] = math.inf
        ranked = closeness.argsort(descending=True, stable=True).tolist()
        chosen = [parts[number_of_part][1] for number_of_part in ranked[:probed]]
        for number_of_part in ranked[probed:]:
            if sum(map(len, chosen)) > NUM_NEIGHBOURS:
                break
            chosen.append(parts[number_of_part][1])
        yield rows, torch.cat(chosen)


def _probed(samples: int) -> int:
    """Return in how many cells the neighbours of a sample are searched for: 15 with 10,000 samples, 7 with 50,000."""
    return max(round(_PROBED / math.sqrt(samples)), _LEAST_PROBED)


def _centres(read: Callable[[Labels], Tensor], positions: Labels, seed: int) -> Tensor:
    """Return the centres of about sqrt(M) cells: spherical k-means on a sample of 32 samples for each."""
    generator = np.random.default_rng(seed)
    number = round(math.sqrt(len(positions)))
    drawn = generator.choice(positions, min(32 * number, len(positions)), replace=False)
    sample = read(np.sort(drawn))
    centres = sample[generator.choice(len(sample), number, replace=False)]
    for _ in range(5):
        cell_of = (sample @ centres.T).argmax(dim=1)
        sums = (centres * 1e-3).index_add(0, cell_of, sample)  # an empty cell keeps its centre
        centres = sums / sums.norm(dim=1, keepdim=True)
    return centres


def _vectors(values: Array | ShortVectors, positions: Labels) -> Tensor:
    """Return the mean embedding of the views of M samples, of length 1, or their short vectors: float32 (M, F)."""
    import torch  # noqa: PLC0415

    if isinstance(values, ShortVectors):
        return torch.from_numpy(values.values[positions].astype(np.float32))
    made = torch.empty((len(positions), values.shape[-1]))
    for start in range(0, len(positions), BLOCK):
        rows = torch.from_numpy(mean_views(values, positions[start : start + BLOCK]))
        made[start : start + BLOCK] = rows / rows.norm(dim=1, keepdim=True)
    return made


def _measured(
    values: Array, short: ShortVectors, positions: Labels, index: Labels, distances: npt.NDArray[np.float32]
) -> tuple[Labels, npt.NDArray[np.float32]]:
    """Return neighbours (M, 10) by their distances as whole vectors, from those of their short vectors.

    These are measured where a neighbour may be a near duplicate, and estimated elsewhere: what the short vectors say is
    corrected by some measured ones.
    """

    def measure(rows: Labels) -> npt.NDArray[np.float32]:
        measured = np.empty((len(rows), index.shape[1]), np.float32)
        for start in range(0, len(rows), BLOCK // 8):
            part = rows[start : start + BLOCK // 8]
            one, others = _vectors(values, positions[part]), _vectors(values, positions[index[part].ravel()])
            alike = others.view(*index[part].shape, -1) @ one.unsqueeze(2)
            measured[start : start + len(part)] = 1 - alike.squeeze(2).numpy()
        return np.clip(measured, 0, None)

    rest = short.values[positions, -1].astype(np.float32)
    rests = rest[:, None] * rest[index]
    drawn = np.arange(0, len(positions), max(len(positions) // _MEASURED, 1))
    corrected = distances + (measure(drawn) - distances[drawn]).sum() / max(rests[drawn].sum(), 1e-9) * rests
    near = _is_near(short.lower_bound(distances, rests), corrected.max(axis=1), index).any(axis=1)
    corrected[near] = measure(np.flatnonzero(near))
    order = corrected.argsort(axis=1)
    return np.take_along_axis(index, order, 1), np.take_along_axis(np.clip(corrected, 0, None), order, 1)


def _not_zero(values: Array) -> Mask:
    """Return whether each sample has a direction (N,): a text of unknown words may have none."""
    starts = range(0, len(values), BLOCK)
    lengths = np.concatenate([np.linalg.norm(mean_views(values, slice(at, at + BLOCK)), axis=1) for at in starts])
    has_direction: Mask = np.isfinite(lengths) & (lengths > 0)
    return has_direction


def _near_pairs(
    texts: Array | None, positions: Labels, index: Labels, distances: npt.NDArray[np.float32]
) -> list[tuple[int, int]]:
    """Return pairs of positions that are much closer to each other than to the others around them."""
    rows, columns = np.nonzero(_is_near(distances, distances[:, -1], index))
    pairs = list(zip(positions[rows].tolist(), positions[index[rows, columns]].tolist(), strict=True))
    return pairs if texts is None else [pair for pair in pairs if _have_same_letters(*texts[list(pair)])]


def _is_near(distances: npt.NDArray[np.float32], tenth: npt.NDArray[np.float32], index: Labels) -> Mask:
    """Return which neighbours (M, 10) are near duplicates, by their distances and those (M,) to the tenth ones."""
    local = np.minimum(tenth[:, None], tenth[index])
    near: Mask = distances <= np.maximum(np.maximum(NEAR * local, VERY_NEAR * np.median(tenth)), _ROUNDING)
    return near


def _have_same_letters(one: str, other: str) -> bool:
    """Return whether two texts share most triples of letters (Jaccard similarity), in upper or lower case.

    >>> _have_same_letters("How far is the moon?", "how far is  the moon")
    True
    >>> _have_same_letters("What is titanium?", "What is ethology?")
    False
    """
    first, second = (" ".join(text.lower().split())[:_MAX_TEXT] for text in (one, other))
    triples = [{text[at : at + 3] for at in range(max(len(text) - 2, 1))} for text in (first, second)]
    return len(triples[0] & triples[1]) >= _SHARED_LETTERS * len(triples[0] | triples[1])


def _near_duplicates(pairs: list[tuple[int, int]], same: list[list[int]]) -> list[list[int]]:
    """Return groups of positions that pairs or the same content connect, and not the same content alone."""
    content = {position: number for number, group in enumerate(same) for position in group}
    same_content = [(group[0], other) for group in same for other in group[1:]]
    return [
        group
        for group in _connected(pairs + same_content)
        if len({content.get(position, -1 - position) for position in group}) > 1
    ]


def _connected(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return groups of numbers that pairs connect, in ascending order.

    >>> _connected([(5, 1), (2, 3), (1, 9)])
    [[1, 5, 9], [2, 3]]
    """
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        while parent.setdefault(number, number) != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    groups: dict[int, list[int]] = {}
    for number in sorted(parent):
        groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def _far(score: npt.NDArray[np.float32]) -> Mask:
    """Return which scores (N,) are unusually large, at most 2 % of them; nan is not."""
    finite = score[~np.isnan(score)]
    middle = np.median(finite)
    spread = 1.4826 * np.median(np.abs(finite - middle))  # the standard deviation, if the scores are normal
    largest = np.sort(finite)[-(math.floor(MAX_OUTLIERS * len(finite)) + 1)]
    far: Mask = score > max(middle + _FAR * spread, middle + _ROUNDING, largest)
    return far
