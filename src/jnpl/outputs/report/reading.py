"""Read the files of a run folder for the report. Only the findings must be there; every other file may be missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field

from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file
from jnpl.internal.json_files import StoredFacts, parse_json, read_facts
from jnpl.judging.findings import Findings
from jnpl.outputs.report import thumbs

if TYPE_CHECKING:
    from pathlib import Path

Name = str | int
NO_REASON = "no reason given"
_Facts = TypeVar("_Facts", bound=StoredFacts)


class Results(StoredFacts):
    """`results` of run.json."""

    noise_rate: float | None = None
    epochs: int | None = None
    seconds: float | None = None
    ap: float | None = None
    test_accuracy: float | None = None
    best_test_accuracy: float | None = None
    notes: list[str] = Field(default_factory=list)


class RunFile(StoredFacts):
    """run.json."""

    status: str | None = None
    versions: dict[str, Any] = Field(default_factory=dict)
    seed: Any = None
    data: Any = None
    fingerprint: Any = None
    recipe: dict[str, Any] = Field(default_factory=dict)
    precision: Any = None
    results: Results | None = None


class Broken(StoredFacts):
    """A sample that could not be read."""

    id: Name
    reason: str = NO_REASON


class Duplicate(StoredFacts):
    """Samples with the same or nearly the same content, and their labels."""

    ids: list[Name]
    labels: list[Name]
    count: int | None = None  # of all samples of the group, listed or not
    conflicting: bool | None = None

    @property
    def size(self) -> int:
        """Return the number of samples."""
        return len(self.ids) if self.count is None else self.count

    @property
    def differ(self) -> bool:
        """Return whether the same content has different labels, of which at most one is right."""
        return len(set(self.labels)) > 1 if self.conflicting is None else self.conflicting


class Outlier(StoredFacts):
    """A sample that is far from all others."""

    id: Name
    score: float


class TinyClass(StoredFacts):
    """A class with too few samples to learn it."""

    name: Name = Field(alias="class")
    count: int


class Columns(StoredFacts):
    """The samples that the page shows as rows of a table, by position."""

    names: list[str]
    rows: dict[int, list[Any]]


class DataFile(StoredFacts):
    """data.json. A list is None if the run did not search, and empty if it found nothing.

    Duplicates are searched for only where contents are `compared`, near duplicates and outliers only in embeddings.
    Lists may be cut; `..._samples` count all.
    """

    kind: str | None = None
    command: list[str] | None = None
    choices: list[str] = Field(default_factory=list)
    unreadable: list[Broken] | None = None
    unreadable_samples: int | None = None
    duplicates: list[Duplicate] | None = None
    duplicate_samples: int | None = None
    conflicting_samples: int | None = None
    compared: bool = True
    near_duplicates: list[Duplicate] | None = None
    near_duplicate_samples: int | None = None
    near_conflicting_samples: int | None = None
    outliers: list[Outlier] | None = None
    outlier_samples: int | None = None
    neighbours_searched: str | None = None
    tiny_classes: list[TinyClass] | None = None
    held_out: list[dict[str, Any]] = Field(default_factory=list)
    true_labels: bool = False  # held-out samples are tested with them
    columns: Columns | None = None


@dataclass(frozen=True, eq=False)
class RunFacts:
    """Everything that the report uses of a run folder."""

    name: str
    findings: Findings
    lines: list[dict[str, Any]]
    run: RunFile
    data: DataFile
    pictures: dict[int, bytes]

    @property
    def results(self) -> Results:
        """Return the results; empty before the run is finished."""
        return self.run.results or Results()


def read(folder: Path) -> RunFacts:
    """Return the contents of a run folder; an InputError names a file that is missing or broken."""
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is no folder; name a run folder, as `jnpl find DATA -o RUN` writes it")
    if not (folder / "findings.json").is_file():
        reason = "a finished run has them; repeat its command if it was stopped"
        raise InputError(f"{str(folder)!r} holds no findings: {reason}")
    return RunFacts(
        name=folder.resolve().name,
        findings=Findings.load(folder),
        lines=_lines(folder / "metrics.jsonl"),
        run=_facts(folder / "run.json", RunFile),
        data=_facts(folder / "data.json", DataFile),
        pictures=thumbs.load(folder),
    )


def _facts(file: Path, kind: type[_Facts]) -> _Facts:
    return read_facts(file, kind) if file.exists() else kind()


def _lines(file: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl up to the first broken one; a killed run may leave its last line unfinished."""
    try:
        texts = require_file(file).read_text("utf-8", "replace").splitlines() if file.exists() else []
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read: {error}") from None
    lines: list[dict[str, Any]] = []
    for text in texts:
        try:
            line = parse_json(text)
        except ValueError:
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines
