"""Read the files of a run folder for the report. Only the findings must be there; every other file may be missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jnpl.findings.findings import Findings
from jnpl.internal.errors import InputError
from jnpl.outputs.report import thumbs

if TYPE_CHECKING:
    from pathlib import Path

Name = str | int
_Facts = TypeVar("_Facts", bound="_File")


class _File(BaseModel):
    """Facts from a JSON file; what the report does not know is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Results(_File):
    """`results` of run.json."""

    noise_rate: float | None = None
    noise_interval: tuple[float, float] | None = None
    epochs: int | None = None
    seconds: float | None = None
    ap: float | None = None
    test_accuracy: float | None = None
    best_test_accuracy: float | None = None
    notes: list[str] = Field(default_factory=list)


class RunFile(_File):
    """run.json."""

    status: str | None = None
    versions: dict[str, Any] = Field(default_factory=dict)
    seed: Any = None
    data: Any = None
    fingerprint: Any = None
    recipe: dict[str, Any] = Field(default_factory=dict)
    precision: Any = None
    results: Results | None = None


class Broken(_File):
    """A sample that could not be read."""

    id: Name
    reason: str = "not told"


class Duplicate(_File):
    """Samples with the same content, and their labels."""

    ids: list[Name]
    labels: list[Name]
    count: int | None = None  # of all of them, listed or not
    conflicting: bool | None = None

    @property
    def size(self) -> int:
        """How many samples there are."""
        return len(self.ids) if self.count is None else self.count

    @property
    def differ(self) -> bool:
        """Whether the same content carries different labels: at least one of them is wrong."""
        return len(set(self.labels)) > 1 if self.conflicting is None else self.conflicting


class TinyClass(_File):
    """A class with too few samples to learn."""

    name: Name = Field(alias="class")
    count: int


class Columns(_File):
    """The worst suspects as rows of a table, by position."""

    names: list[str]
    rows: dict[int, list[Any]]


class DataFile(_File):
    """data.json. None: not looked for. Empty: looked for, and nothing found, unless contents were not `compared`.

    Lists may be cut; the numbers beside them count all.
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
    tiny_classes: list[TinyClass] | None = None
    held_out: list[dict[str, Any]] = Field(default_factory=list)
    true_labels: bool = False  # what was held out is tested by these
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
        """The results, if there are any yet."""
        return self.run.results or Results()


def read(folder: Path) -> RunFacts:
    """Read a run folder; an InputError says what is missing or broken."""
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is no folder; name a run folder, as `jnpl find DATA -o RUN` writes it")
    if not (folder / "findings.json").is_file():
        reason = "a run has them when it is finished; repeat its command if it was stopped"
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
    if not file.exists():
        return kind()
    try:
        return kind.model_validate(json.loads(file.read_text("utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise InputError(f"{str(file)!r} cannot be used: {where}: {first['msg']}") from None
    except (ValueError, RecursionError, OSError) as error:  # no JSON, no UTF-8, no permission
        raise InputError(f"{str(file)!r} cannot be read: {error}") from None


def _lines(file: Path) -> list[dict[str, Any]]:
    """Lines of metrics.jsonl, up to one that is torn: a kill may leave such a last one."""
    try:
        texts = file.read_text("utf-8", "replace").splitlines() if file.exists() else []
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read: {error}") from None
    lines: list[dict[str, Any]] = []
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines
