"""Problems of a data set that show before training: duplicates, outliers, unreadable samples, tiny classes."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from jnpl.analysis.neighbours import Neighbours, embeddings, neighbours
from jnpl.analysis.short_vectors import ShortVectors
from jnpl.data.source import Inputs, Source
from jnpl.data.tags import by_tag_set
from jnpl.internal.progress import part_of

MOST = 1000  # groups of duplicates, outliers and unreadable samples to list; all are counted
MOST_OF_A_GROUP = 100  # ids to list
FEW = 10  # a class of fewer samples is tiny, and so is one below a hundredth of the mean
_CHUNK = 2**20
_HASHING = 0.1  # of the time of a search among embeddings, to compare contents
_EVERY = 1000  # samples between two calls of `progress`
_HEAD = 64 * 1024  # bytes of a file that are read first: files that differ mostly differ there


@dataclass(frozen=True)
class Group:
    """Samples with (nearly) the same content: ids and names of the given labels, in the order of the data."""

    ids: list[int | str]
    labels: list[int | str]
    count: int  # of all of them, listed or not
    conflicting: bool  # whether the labels differ


@dataclass(frozen=True)
class Problems:
    """Problems of a data set.

    Groups with differing labels come first, then the larger ones. `duplicate_samples` counts the samples whose content
    another one has too, `conflicting_samples` those among them where the labels differ; the same for near duplicates.
    `imbalance` is the size of the largest class over that of the smallest one that is not empty.
    """

    unreadable: list[tuple[int | str, str]]  # id, reason
    unreadable_samples: int
    samples: int  # that can be read
    different_samples: int | None  # in content, among them; None if contents were not compared
    duplicates: list[Group]
    duplicate_samples: int
    conflicting_samples: int
    compared: bool  # whether contents were compared at all
    tiny_classes: list[tuple[int | str, int]]  # name, samples that can be read; the smallest first
    imbalance: float
    near_duplicates: list[Group]
    near_duplicate_samples: int
    near_conflicting_samples: int
    outliers: list[tuple[int | str, float]]  # id, mean distance to the nearest neighbours; the farthest first
    outlier_samples: int
    neighbours: Neighbours | None  # None if the data have no embeddings to search

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        facts = {of.name: getattr(self, of.name) for of in fields(self) if of.name != "neighbours"}
        if self.neighbours is None:
            of_neighbours = ("near_", "outlier")
            facts = {name: value for name, value in facts.items() if not name.startswith(of_neighbours)}
        else:
            facts["outliers"] = [{"id": name, "score": score} for name, score in self.outliers]
            facts["neighbours_searched"] = self.neighbours.searched
        for name in ("duplicates", "near_duplicates"):
            facts |= {name: [asdict(group) for group in facts[name]]} if name in facts else {}
        facts["unreadable"] = [{"id": name, "reason": reason} for name, reason in self.unreadable]
        facts["tiny_classes"] = [{"class": name, "count": count} for name, count in self.tiny_classes]
        return facts


def problems(
    source: Source,
    unreadable: Mapping[int, str] | None = None,
    progress: Callable[[float], None] = lambda _: None,
    short: ShortVectors | None = None,
) -> Problems:
    """Find duplicates, near duplicates, outliers, unreadable samples and tiny classes among N samples.

    Args:
        source: the data. Texts and arrays are compared by value, files by their bytes; near duplicates and outliers
            are searched for among embeddings (`jnpl.analysis.neighbours`).
        unreadable: position -> reason, of the samples known to be unreadable; by default those of the source. They are
            left out of all other counts.
        progress: called with the share of the search done, 0..1; what it raises stops the search.
        short: its embeddings, shortened, if that was done.

    Returns:
        What was found.
    """
    broken = sorted(((source.unreadable if unreadable is None else unreadable) or {}).items())
    readable = np.ones(len(source), bool)
    readable[[position for position, _ in broken]] = False
    if source.tags is None:
        counts = np.bincount(source.labels[readable], minlength=len(source.class_names))
    else:
        counts = source.tags[readable].sum(axis=0)
    filled, tiny = counts[counts > 0], np.flatnonzero((counts < FEW) | (counts < 0.01 * counts.mean()))
    tiny = tiny[np.argsort(counts[tiny], kind="stable")]
    hashing = 1.0 if embeddings(source) is None else _HASHING
    groups = _groups(source, np.flatnonzero(readable).tolist(), part_of(progress, 0.0, hashing))
    near = neighbours(source, readable, groups or (), part_of(progress, hashing, 1.0), short)
    labelled = by_tag_set(source)
    duplicates, near_duplicates = (
        _Labelled(labelled, groups_of_kind) for groups_of_kind in (groups or (), near.groups if near else ())
    )
    outliers = near.outliers if near else []
    return Problems(
        unreadable=[(_plain(source.ids[position]), reason) for position, reason in broken[:MOST]],
        unreadable_samples=len(broken),
        samples=int(readable.sum()),
        different_samples=None if groups is None else int(readable.sum()) - duplicates.samples + len(groups),
        duplicates=duplicates.listed(),
        duplicate_samples=duplicates.samples,
        conflicting_samples=duplicates.conflicting_samples,
        compared=groups is not None,
        tiny_classes=[(source.class_names[label], int(counts[label])) for label in tiny],
        imbalance=float(filled.max() / filled.min()) if len(filled) else 1.0,
        near_duplicates=near_duplicates.listed(),
        near_duplicate_samples=near_duplicates.samples,
        near_conflicting_samples=near_duplicates.conflicting_samples,
        outliers=[(_plain(source.ids[at]), round(float(near.outlier_score[at]), 4)) for at in outliers[:MOST] if near],
        outlier_samples=len(outliers),
        neighbours=near,
    )


class _Labelled:
    """Groups of positions, those with differing labels first, then the larger ones."""

    def __init__(self, source: Source, groups: Iterable[list[int]]) -> None:
        labelled = [(group, len(set(source.labels[group].tolist())) > 1) for group in groups]
        self._source = source
        self._groups = sorted(labelled, key=lambda pair: (not pair[1], -len(pair[0]), pair[0][0]))
        self.samples = sum(len(group) for group, _ in labelled)
        self.conflicting_samples = sum(len(group) for group, differ in labelled if differ)

    def listed(self) -> list[Group]:
        return [_listed(self._source, group, conflicting=differ) for group, differ in self._groups[:MOST]]


def _groups(source: Source, positions: list[int], progress: Callable[[float], None]) -> list[list[int]] | None:
    """Return groups of two or more positions with the same content; None if contents cannot be compared."""
    counted = _counted(positions, progress)
    if source.texts is not None:  # vectors of the same text may differ in the last bit between batches
        return _alike((source.texts[position].strip(), position) for position in counted)
    inputs = source.pictures or source.inputs
    if inputs.path(0) is not None:
        return _same_files(inputs, positions, progress)
    if inputs.content(0) is None:
        return None
    return _alike((hashlib.sha256(inputs.content(at)).digest(), at) for at in counted)


def common_samples(source: Source, other: Source) -> int:
    """Return how many samples of another source have the content of one of the source; 0 if they cannot be compared."""
    texts = [data.inputs.texts() if data.texts is None else data.texts for data in (source, other)]
    if texts[0] is not None and texts[1] is not None:
        stripped = {text.strip() for text in texts[0]}
        return sum(text.strip() in stripped for text in texts[1])
    ours, theirs = (data.pictures or data.inputs for data in (source, other))
    if ours.path(0) is not None and theirs.path(0) is not None:
        sizes = ours.sizes(), theirs.sizes()
        common = np.setdiff1d(np.intersect1d(sizes[0], sizes[1]), [0])
        same_size = [np.flatnonzero(np.isin(side, common)).tolist() for side in sizes]
        digests = {digest for digest, _ in _hashed(ours, same_size[0], head_only=True)}
        return sum(digest in digests for digest, _ in _hashed(theirs, same_size[1], head_only=True))
    if ours.content(0) is None or theirs.content(0) is None:
        return 0
    digests = {hashlib.sha256(ours.content(at)).digest() for at in range(len(ours))}
    return sum(hashlib.sha256(theirs.content(at)).digest() in digests for at in range(len(theirs)))


def _counted(positions: list[int], progress: Callable[[float], None]) -> Iterator[int]:
    """Yield the positions, and call `progress` with the share that was yielded now and then."""
    for number, position in enumerate(positions):
        if number % _EVERY == 0:
            progress(number / len(positions))
        yield position


def _same_files(files: Inputs, positions: list[int], progress: Callable[[float], None]) -> list[list[int]]:
    """Compare sizes first, then first bytes, then contents: most files are never read."""
    sizes = files.sizes()
    same_size = _alike((sizes[position], position) for position in positions if sizes[position])
    same_head, done, to_read = list[list[int]](), 0, sum(map(len, same_size))
    for group in same_size:
        same_head += _alike(_hashed(files, group, head_only=True))
        done += len(group)
        progress(done / to_read)
    short = [group for group in same_head if sizes[group[0]] <= _HEAD]
    long = [group for group in same_head if sizes[group[0]] > _HEAD]
    return short + [same_content for group in long for same_content in _alike(_hashed(files, group, head_only=False))]


def _hashed(files: Inputs, positions: list[int], *, head_only: bool) -> Iterator[tuple[bytes, int]]:
    """Yield the SHA-256 of files, or of their first bytes, with the position; unreadable files are skipped."""
    for position in positions:
        if (path := files.path(position)) is None:
            continue
        with suppress(OSError), path.open("rb", buffering=0) as file:
            digest = hashlib.sha256(file.read(_HEAD))
            while not head_only and (part := file.read(_CHUNK)):
                digest.update(part)
            yield digest.digest(), position


def _alike(keyed: Iterable[tuple[Hashable, int]]) -> list[list[int]]:
    """Return groups of two or more positions that share a key."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for key, position in keyed:
        groups[key].append(position)
    return [group for group in groups.values() if len(group) > 1]


def _listed(source: Source, group: list[int], *, conflicting: bool) -> Group:
    """Return the group with at most `MOST_OF_A_GROUP` ids, every label among them if possible."""
    first = {int(source.labels[position]): position for position in reversed(group)}
    chosen = [*first.values(), *(position for position in group if position != first[int(source.labels[position])])]
    listed = sorted(chosen[:MOST_OF_A_GROUP])
    ids = [_plain(source.ids[position]) for position in listed]
    return Group(ids, [source.class_names[source.labels[position]] for position in listed], len(group), conflicting)


def _plain(name: Any) -> int | str:
    return name if isinstance(name, str) else int(name)
