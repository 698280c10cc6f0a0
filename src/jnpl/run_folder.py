"""The run folder: one reader and writer of what is in it, and which run it belongs to.

`run.json` (settings, seed, versions, fingerprint, results), `metrics.jsonl` (a line an epoch), `checkpoint/`, the
findings, the model, `data.json` (facts of the data, and how they can be opened again), `neighbours.parquet` (where the
data have embeddings), `thumbnails.parquet`, `report.html`, `review.sqlite` (decisions of a review), `audit.json`
(labels checked at random; `before-audit/` then has the findings of the model) and `tracking.json` (ids of experiment
trackers).
"""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from pydantic import Field, model_validator

from jnpl import __version__
from jnpl.data.source import UnreadableError
from jnpl.internal import locks, pictures
from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import create_new, draft_of, make_folder, reason_of, replacing, require_file, write_text
from jnpl.internal.json_files import StoredFacts, parse_json, read_facts, read_json
from jnpl.internal.tables import load_parquet, save_parquet
from jnpl.judging.audit import UNSURE_LABEL, AuditSample, audited
from jnpl.judging.findings import Findings
from jnpl.judging.tag_findings import TagFindings
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.judging.threshold import as_threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from jnpl.analysis.data_report import DataReport
    from jnpl.analysis.neighbours import Neighbours

OWN_FILES = frozenset(
    {
        "audit.json",
        "run.json",
        "backbone.safetensors",
        "check.json",
        "data.json",
        "metrics.jsonl",
        "neighbours.parquet",
        "reference.safetensors",
        "thumbnails.parquet",
        "findings.csv",
        "findings.json",
        "findings.parquet",
        "model.json",
        "model.safetensors",
        "review.sqlite",
        "review.sqlite-shm",
        "review.sqlite-wal",
    }
)  # that a run cannot do without; report.html can be made again
THUMBNAIL_SIDE = 160  # pixels of the longer side
MAX_THUMBNAILS = 1500
TAGS = "tags"  # the kind of a run on several tags per sample, in run.json
_FORMAT = "jnpl run 1"
_MARKS = {"run.json": "format", "findings.json": "kind"}  # file -> key whose value starts with "jnpl" in a run folder
_LOCK = ".lock"
_DRAFT = re.compile(
    r"\.(run|metrics|findings|model|backbone|check|reference|data|neighbours|thumbnails|report|tracking)\.\w+\.\d+\.tmp"
)  # as internal.files names them


class StoredResults(StoredFacts):
    """`results` in run.json, as far as they are used."""

    noise_rate: float | None = None
    epochs: int | None = None
    seconds: float | None = None
    ap: float | None = None
    test_accuracy: float | None = None
    best_test_accuracy: float | None = None
    notes: list[str] = Field(default_factory=list)
    judged_by: str | None = None  # one of the notes: which models judged the labels, a fact and nothing to act on


class RunFacts(StoredFacts):
    """run.json. Every entry may be missing, as in that of `jnpl demo`."""

    status: str | None = None
    kind: str | None = None  # TAGS; None: one label per sample
    versions: dict[str, Any] = Field(default_factory=dict)
    seed: int | None = None
    data: str | None = None
    fingerprint: str | None = None
    recipe: dict[str, Any] | None = None
    precision: str | None = None
    results: StoredResults | None = None


class UnreadableSample(StoredFacts):
    """A sample that could not be read."""

    id: str | int
    reason: str = "no reason given"


class SameContent(StoredFacts):
    """Samples with the same or nearly the same content, and their labels."""

    ids: list[str | int]
    labels: list[str | int]
    count: int | None = None  # of all samples of the group, listed or not
    conflicting: bool | None = None

    @model_validator(mode="after")
    def _are_pairs(self) -> Self:
        if not len(self.ids) == len(self.labels) > 0:
            raise ValueError(f"there are {len(self.ids)} ids and {len(self.labels)} labels")
        return self

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

    id: str | int
    score: float


class TinyClass(StoredFacts):
    """A class with too few samples to learn it."""

    name: str | int = Field(alias="class")
    count: int


class TableRows(StoredFacts):
    """The samples that are shown as rows of a table, by position."""

    names: list[str]
    rows: dict[int, list[Any]]


class LabelledSample(StoredFacts):
    """A sample and its label, by name."""

    id: str | int
    label: str | int


class DataFacts(StoredFacts):
    """data.json. A list is None if the run did not search, and empty if it found nothing.

    Duplicates are searched for only where contents are `compared`, near duplicates and outliers only in embeddings.
    Lists may be cut; `..._samples` count all.
    """

    kind: str | None = None
    command: list[str] | None = None  # empty for a run that was started in Python
    choices: list[str] = Field(default_factory=list)
    root: str | None = None  # where the paths of images start
    images: str | None = None  # the folder of all images, where some lie outside `root`
    options: dict[str, Any] | None = None  # to open the data again
    unreadable: list[UnreadableSample] | None = None
    unreadable_samples: int | None = None
    duplicates: list[SameContent] | None = None
    samples: int | None = None  # that can be read
    different_samples: int | None = None  # in content, among them
    duplicate_samples: int | None = None
    conflicting_samples: int | None = None
    compared: bool = True
    near_duplicates: list[SameContent] | None = None
    near_duplicate_samples: int | None = None
    near_conflicting_samples: int | None = None
    outliers: list[Outlier] | None = None
    outlier_samples: int | None = None
    neighbours_searched: str | None = None
    tiny_classes: list[TinyClass] | None = None
    held_out: tuple[LabelledSample, ...] = ()
    true_labels: bool = False  # held-out samples are tested with them
    decided: tuple[LabelledSample, ...] = ()  # by the reviews of earlier runs (`jnpl find --review`)
    dropped: tuple[str | int, ...] = ()  # by them
    columns: TableRows | None = None
    evidence: dict[int, dict[int, int]] = Field(default_factory=dict)  # suspect -> class -> sample that surely has it

    @property
    def are_crops(self) -> bool:
        """Whether samples are boxes in images."""
        return bool((self.options or {}).get("crops"))


class CopyOfRun(StoredFacts):
    """A new sample that is a sample of the run that judged it."""

    id: str | int
    label: str | int
    run_id: str | int
    run_label: str | int


class FarSample(StoredFacts):
    """A new sample that looks like nothing in the run that judged it."""

    id: str | int


class ComparisonFacts(StoredFacts):
    """check.json, as far as the report shows it."""

    run: str = ""
    sentences: tuple[str, ...] = ()
    copies: tuple[CopyOfRun, ...] = ()
    far: tuple[FarSample, ...] = ()


class AuditAnswer(StoredFacts):
    """A checked label: the class number that is right, or WRONG_LABEL or UNSURE_LABEL."""

    position: int
    label: int
    by: str
    at: str


class AuditFacts(StoredFacts):
    """audit.json: the labels that were drawn, in order, and the answers in the order in which they were given."""

    fingerprint: str
    sizes: list[int]
    positions: list[int]
    part: list[int]
    answers: list[AuditAnswer] = Field(default_factory=list)

    @property
    def sample(self) -> AuditSample:
        """The sample that was drawn."""
        return AuditSample(*(np.array(column, np.int64) for column in (self.positions, self.part, self.sizes)))

    @property
    def labels(self) -> dict[int, int]:
        """Position -> answer."""
        return {answer.position: answer.label for answer in self.answers}


class RunFolder:
    """A run folder. Findings and the two JSON files are read at most once; writing through this object renews them.

    Args:
        path: the folder, which need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    # Places

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoint"

    @property
    def report_page(self) -> Path:
        """The page of the report."""
        return self.path / "report.html"

    @property
    def decisions(self) -> Path:
        """The decisions of a review."""
        return self.path / "review.sqlite"

    @property
    def model_facts(self) -> Path:
        """The description of the model."""
        return self.path / "model.json"

    @property
    def model_weights(self) -> Path:
        """The weights of the model."""
        return self.path / "model.safetensors"

    @property
    def backbone_weights(self) -> Path:
        """The weights of a backbone that was fitted to the data."""
        return self.path / "backbone.safetensors"

    @property
    def reference_vectors(self) -> Path:
        """The samples as short vectors, to compare new ones with."""
        return self.path / "reference.safetensors"

    def has_findings(self) -> bool:
        """Return whether findings are there."""
        return (self.path / "findings.json").is_file()

    def format(self) -> str | None:
        """Return what run.json says of its own format; None if there is none that can be read."""
        try:
            return str(read_json(self.path / "run.json")["format"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def is_run(self) -> bool:
        """Return whether files of a run are there."""
        for name, key in _MARKS.items():
            try:
                if str(read_json(self.path / name)[key]).startswith("jnpl"):
                    return True
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return False

    # What is stored

    @cached_property
    def findings(self) -> Findings:
        """The findings; an InputError if there are none that can be read, or if samples have several tags."""
        if self.has_tags:
            what = "jnpl report, review, apply, export and predict take it, this does not"
            raise InputError(f"{str(self.path)!r} is a run on several tags per sample: {what}")
        return Findings.load(self.path)

    @property
    def has_tags(self) -> bool:
        """Return whether the run is about several tags per sample: it has `tag_findings` and no `findings`."""
        return self.run_facts.kind == TAGS

    @cached_property
    def tag_findings(self) -> TagFindings:
        """The findings on several tags per sample; an InputError if there are none that can be read."""
        return TagFindings.load(self.path)

    @property
    def sample_findings(self) -> Findings:
        """The findings with one label per sample, which is the set of its tags where samples have several."""
        return self._tag_set_findings if self.has_tags else self.findings

    @cached_property
    def _tag_set_findings(self) -> TagSetFindings:
        return TagSetFindings.of(self.tag_findings)

    def save_tag_findings(self, findings: TagFindings) -> None:
        """Write the findings on several tags per sample."""
        findings.save(self.path)
        self.__dict__.pop("_tag_set_findings", None)
        self.tag_findings = findings

    def save_findings(self, findings: Findings) -> None:
        """Write the findings of a training; an audit of the same labels still counts."""
        if self.model_findings_folder.exists():
            findings.save(self.model_findings_folder)
        self._replace_findings(self.with_audit(findings))

    def _replace_findings(self, findings: Findings) -> None:
        self.__dict__.pop("findings", None)
        findings.save(self.path)
        self.findings = findings

    @property
    def model_findings(self) -> Findings:
        """The findings as the model made them, without an audit."""
        return Findings.load(self.model_findings_folder) if self.model_findings_folder.exists() else self.findings

    # The audit

    @property
    def audit_file(self) -> Path:
        """The answers of an audit."""
        return self.path / "audit.json"

    @property
    def model_findings_folder(self) -> Path:
        """Where the findings of the model are, once an audit has changed those of the run."""
        return self.path / "before-audit"

    def read_audit(self) -> AuditFacts | None:
        """Return the audit of these labels; None if there is none. One of other labels is an InputError."""
        if not self.audit_file.exists():
            return None
        facts = read_facts(self.audit_file, AuditFacts)
        if facts.fingerprint != self.findings.fingerprint:
            raise InputError(f"{str(self.audit_file)!r} is about other labels than the findings; move it away")
        self._check_audit(facts, self.findings)
        return facts

    def _check_audit(self, facts: AuditFacts, findings: Findings) -> None:
        """Raise an InputError if an audit holds what no audit of these labels does."""
        count, drawn = len(findings.given_labels), set(facts.positions)
        right = (
            len(facts.positions) == len(facts.part) == len(drawn)
            and all(0 <= position < count for position in drawn)
            and all(0 < size <= count for size in facts.sizes)
            and all(0 <= part < len(facts.sizes) for part in facts.part)
            and set(facts.labels) <= drawn
            and all(UNSURE_LABEL <= label < findings.num_classes for label in facts.labels.values())
        )
        if not right:
            raise InputError(f"{str(self.audit_file)!r} holds what no audit of these labels does; move it away")

    def write_audit(self, facts: AuditFacts) -> None:
        """Write the audit; it is on disk when this returns."""
        write_text(self.audit_file, json.dumps(facts.model_dump(), indent=1) + "\n")

    def apply_audit(self) -> None:
        """Let the answers of the audit change the findings, and the results in run.json; without any, undo that."""
        with self.lock():
            model = self.model_findings
            if not self.model_findings_folder.exists():
                model.save(self.model_findings_folder)
            self._replace_judged(self.with_audit(model))

    def with_audit(self, findings: Findings) -> Findings:
        """Return findings with the audit of these labels, if there is one with answers."""
        if not self.audit_file.exists():
            return findings
        facts = read_facts(self.audit_file, AuditFacts)
        if facts.fingerprint != findings.fingerprint or all(label == UNSURE_LABEL for label in facts.labels.values()):
            return findings
        self._check_audit(facts, findings)
        return audited(findings, facts.sample, facts.labels)

    @cached_property
    def run_facts(self) -> RunFacts:
        """What run.json says; empty if there is none, as beside findings that were saved alone."""
        file = self.path / "run.json"
        return read_facts(file, RunFacts) if file.exists() else RunFacts()

    @cached_property
    def data_facts(self) -> DataFacts:
        """What data.json says; empty if there is none."""
        file = self.path / "data.json"
        return read_facts(file, DataFacts) if file.exists() else DataFacts()

    @cached_property
    def comparison(self) -> ComparisonFacts | None:
        """What check.json says: how new samples compare with the run that judged them; None in other runs."""
        file = self.path / "check.json"
        return read_facts(file, ComparisonFacts) if file.exists() else None

    def require_data_facts(self) -> DataFacts:
        """Return what data.json says; an InputError if the run has not written it, so that no held-out sample is lost.

        Findings that were saved alone have neither data.json nor run.json.
        """
        if not (self.path / "data.json").exists() and (self.path / "run.json").exists():
            reason = "it has no data.json, which says where its samples are and which were held out"
            raise InputError(
                f"the run {str(self.path)!r} is not complete: {reason}; repeat the command it was made with"
            )
        return self.data_facts

    def neighbours(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None:
        """Return groups of near duplicates (N,), -1 in none, and outliers (N,); None if they were not searched for."""
        file = self.path / "neighbours.parquet"
        if not file.is_file():
            return None
        try:
            table = load_parquet(file, columns=["near_duplicate_group", "is_outlier"])
            groups = table["near_duplicate_group"].fill_null(-1).to_numpy().astype(np.int64)
            return groups, table["is_outlier"].to_numpy().astype(bool)
        except (OSError, LookupError, ValueError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {error}") from error

    def thumbnails(self) -> dict[int, bytes]:
        """Return position -> picture, worst first; empty if there are none."""
        file = self.path / "thumbnails.parquet"
        if not file.is_file():
            return {}
        try:
            table = load_parquet(file, columns=["position", "image"])
            positions, images = table["position"].to_pylist(), table["image"].to_pylist()
            return {int(position): bytes(image) for position, image in zip(positions, images, strict=True)}
        except (OSError, LookupError, TypeError, ValueError) as error:  # pyarrow's errors are among these
            raise InputError(f"{str(file)!r} holds no pictures that can be read: {error}") from error

    # The facts of the data, at the end of a run

    def write_data(
        self,
        report: DataReport,
        *,
        command: Sequence[str] = (),
        choices: Sequence[str] = (),
        options: dict[str, Any] | None = None,
        reviewed: dict[str, Any] | None = None,
        thumbnails: bool = True,
    ) -> None:
        """Write neighbours.parquet, data.json and thumbnails.parquet.

        Args:
            options: how the data can be opened again.
            reviewed: decisions of earlier reviews, as `outputs.review.reviewed_labels.given_decisions` returns them.
            thumbnails: write small pictures.
        """
        problems = report.problems
        facts: dict[str, Any] = {
            "kind": report.kind,
            "command": list(command),
            "choices": [*choices, *report.notes],
            "root": report.root,
            **({} if options is None else {"options": options}),
            **problems.to_dict(),
            **({} if report.images is None else {"images": report.images}),
        }
        if report.held_out:
            facts |= {"held_out": report.held_out, "true_labels": report.has_true_labels}
        facts |= {name: samples for name, samples in (reviewed or {}).items() if samples}
        if report.columns is not None:
            facts["columns"] = report.columns
        if report.evidence:
            facts["evidence"] = report.evidence
        if problems.neighbours is not None:
            self._write_neighbours(problems.neighbours)
        self.__dict__.pop("data_facts", None)
        write_text(self.path / "data.json", json.dumps(facts, indent=1, default=str) + "\n")
        if thumbnails and report.pictures is not None:
            self.write_thumbnails(report.shown, report.pictures.read)

    def _write_neighbours(self, neighbours: Neighbours) -> None:
        """Write neighbours.parquet, a row per sample in the order of the data."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        groups = neighbours.group_numbers()
        columns = {
            "position": pa.array(np.arange(len(groups))),
            "near_duplicate_group": pa.array(groups, mask=groups < 0),
            "outlier_score": pa.array(neighbours.outlier_score, mask=np.isnan(neighbours.outlier_score)),
            "is_outlier": pa.array(neighbours.is_outlier),
        }
        with replacing(self.path / "neighbours.parquet") as draft:
            save_parquet(draft, pa.table(columns))

    def write_thumbnails(self, positions: Iterable[int], read: Callable[[int], npt.NDArray[Any]]) -> int:
        """Write pictures of the first `MAX_THUMBNAILS` samples that can be read; return their number.

        Args:
            positions: of the samples, the worst suspects first.
            read: position -> uint8 (H, W, 1 or 3); UnreadableError or OSError where a sample cannot be read.
        """
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        small: dict[int, bytes] = {}
        for position in positions:
            if len(small) == MAX_THUMBNAILS:
                break
            try:
                small[int(position)] = pictures.encoded(read(int(position)), THUMBNAIL_SIDE)
            except (UnreadableError, OSError):
                continue
        columns = {"position": pa.array(list(small), pa.int64()), "image": pa.array(small.values(), pa.binary())}
        with replacing(self.path / "thumbnails.parquet") as draft:
            save_parquet(draft, pa.table(columns))
        return len(small)

    # Which run the folder belongs to

    def open(self, identity: dict[str, Any]) -> dict[str, Any] | None:
        """Check that the run of this `identity` (settings, seed, data) may begin or resume here.

        A folder with another run, or with anything else in it, is an InputError, unless that run has no checkpoint yet
        (it had a wrong setting, say), or is a finished `jnpl find` that this `jnpl train` continues.

        Returns:
            The results of the run if it is finished, else None.
        """
        self.check_place()
        saved = self._saved()
        if saved is None:
            make_folder(self.path)
            return None
        if self._is_replaced(saved, identity):
            return None
        results = saved.get("results")
        return dict(results) if saved.get("status") == "finished" and results else None

    def check_data(self, identity: dict[str, Any], samples: int, classes: int) -> None:
        """Refuse a folder with a run of other data, as far as that can be seen before they are embedded.

        Args:
            identity: what is known of it: seed, name of the data.
            samples: number of samples, without held-out ones.
        """
        saved = self._saved()
        if saved is None or self._is_replaced(saved, identity):
            return
        results = saved.get("results") or {}
        if saved.get("status") == "finished" and (results.get("samples"), results.get("classes")) != (samples, classes):
            theirs = f"{results.get('samples')} samples of {results.get('classes')} classes"
            self._refuse(f"other data: {theirs}, not {samples} of {classes}", identity)

    def _saved(self) -> dict[str, Any] | None:
        """Return what run.json says; None if there is none."""
        file = self.path / "run.json"
        if not file.is_file():
            return None
        try:
            saved = read_json(file)
        except (ValueError, OSError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {error}") from None
        if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
            raise InputError(f"{str(self.path)!r} holds something else than a run; name an empty or a new folder")
        if not isinstance(saved.get("results") or {}, dict):
            raise InputError(f"{str(file)!r} cannot be used: results: it must be an object")
        return saved

    def _is_replaced(self, saved: dict[str, Any], identity: dict[str, Any]) -> bool:
        """Return whether a run takes the place of another one; an InputError if work would be lost."""
        for key, value in identity.items():
            if saved.get(key) != value:
                if not self._makes_room(saved, identity):
                    self._refuse(_difference(key, saved.get(key), value), identity)
                return True
        return False

    def _refuse(self, differs: str, identity: dict[str, Any]) -> NoReturn:
        if differs.startswith("recipe.verdict.threshold"):
            how = "jnpl report RUN --precision, --budget or --threshold chooses them anew without a training"
            raise InputError(f"{str(self.path)!r} holds a run whose label issues were chosen in another way; {how}")
        raise InputError(
            f"{str(self.path)!r} holds a run with {differs}; name another folder, or "
            f"{self._how_to_repeat(pseudo_labels=identity.get('second') is not None)}"
        )

    def check_place(self) -> None:
        """Refuse a file, and a folder that holds something else than a run; nothing is created."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"the run folder {str(self.path)!r} is a file; name a folder")
        # A kill before the first run.json is complete leaves its draft, which is ours.
        if (
            self.path.is_dir()
            and not (self.path / "run.json").is_file()
            and any(at.name != _LOCK and not _DRAFT.fullmatch(at.name) for at in self.path.iterdir())
        ):
            raise InputError(f"{str(self.path)!r} holds something else than a run; name an empty or a new folder")

    def check_writable(self) -> None:
        """Refuse a folder that cannot be made or written; what is made to find out is removed."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        draft = draft_of(self.path / "run.json")
        try:
            make_folder(self.path)
            create_new(draft)
            draft.unlink()
        except OSError as error:
            if isinstance(error, InputError):
                raise
            raise UnwritableError(f"cannot write to the folder {str(self.path)!r}: {reason_of(error)}") from error
        finally:
            with suppress(OSError):
                for folder in missing:
                    folder.rmdir()

    def check_outside(self, data: str | os.PathLike[str]) -> None:
        """Refuse a run folder inside a folder of images: the next command would take it for a class."""
        folder, base = (Path(os.path.realpath(path)) for path in (self.path, data))  # never fails, unlike `resolve`
        inside = folder.relative_to(base).parts if base in folder.parents else ()
        if inside and Path(data).is_dir() and not any(part.startswith(".") for part in inside):
            raise InputError(
                f"the run folder {str(self.path)!r} lies inside the data folder {str(data)!r}, where every folder is a "
                "class; name one outside it"
            )

    def _makes_room(self, saved: dict[str, Any], identity: dict[str, Any]) -> bool:
        """Return whether no work is lost: there is no checkpoint, or only pseudo-labels are added to a finished run."""
        reached = any(self.checkpoints.glob("[0-9]*"))
        if saved.get("status") != "finished" and not reached:
            return True
        same = all(saved.get(key) == value for key, value in identity.items() if key != "second")
        return reached and same and saved.get("second", ...) is None

    def _how_to_repeat(self, *, pseudo_labels: bool) -> str:
        """Return the command that the run was made with; for pseudo-labels after `jnpl find`, that of `jnpl train`."""
        try:
            command = self.data_facts.command
        except InputError:
            command = None
        if not command:
            return "repeat the command it was made with" if command is None else "repeat the call it was made with"
        if command[1:2] == ["find"] and pseudo_labels:
            return f"go on from it: {shlex.join(['jnpl', 'train', *command[2:]])}"
        return f"repeat its command: {shlex.join(command)}"

    def begin(self, identity: dict[str, Any]) -> None:
        """Mark the run as running, once the folder is locked and data and settings are checked."""
        self.write(identity, status="running")

    def remove_unused(self) -> None:
        """Remove a folder that was made for a run which could not begin."""
        if not (self.path / "run.json").exists():
            with suppress(OSError):  # somebody else has put something into it
                (self.path / _LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def _sweep(self) -> None:
        """Remove the drafts that killed runs left."""
        for left in self.path.iterdir():
            if _DRAFT.fullmatch(left.name):
                left.unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder: two runs at once would overwrite each other's files. The lock ends with the process."""
        file = locks.take(require_file(self.path / _LOCK))
        if file is None:
            raise InputError(f"another run is using {str(self.path)!r}; wait for it, or stop it")
        with file:
            self._sweep()
            for name in (
                "findings",
                "tag_findings",
                "_tag_set_findings",
                "run_facts",
                "data_facts",
            ):  # another process may have written since
                self.__dict__.pop(name, None)
            yield

    def write(self, identity: dict[str, Any], status: str, results: dict[str, Any] | None = None) -> None:
        """Write run.json."""
        import torch  # noqa: PLC0415 - which the report does without

        versions = {"jnpl": __version__, "torch": torch.__version__, "python": platform.python_version()}
        facts = {"format": _FORMAT, "status": status, "versions": versions, **identity, "results": results}
        self.write_facts(facts)

    def change_threshold(self, threshold: str) -> int:
        """Replace the findings by those with another threshold, without training; return the number of label issues.

        Args:
            threshold: a number, or a rule of `Findings.from_probs`.

        Returns:
            How many labels are issues now. The count in run.json follows.
        """
        if not self.has_findings():
            Findings.load(self.path)  # an error, before a lock is put into a folder without findings
        with self.lock():
            _ = self.run_facts.results  # a run.json that cannot be read is an error
            if self.has_tags:
                self.save_tag_findings(self.tag_findings.with_threshold(as_threshold(threshold)))
                return self._update_results(self.tag_findings.summary())
            model = self.model_findings.with_threshold(as_threshold(threshold))
            model = replace(model, threshold_info=model.threshold_info | {"asked": threshold})  # for Learn
            if self.model_findings_folder.exists():
                model.save(self.model_findings_folder)
            return self._replace_judged(self.with_audit(model))

    def _replace_judged(self, findings: Findings) -> int:
        """Replace the findings, and what run.json says of them; return the number of label issues."""
        self._replace_findings(findings)
        return self._update_results({"issues": int(findings.is_label_issue.sum()), **findings.noise_facts})

    def _update_results(self, results: dict[str, Any]) -> int:
        """Change what run.json says of the findings, if it says anything; return the number of label issues."""
        if self.run_facts.results is not None and (facts := read_json(self.path / "run.json"))["results"]:
            facts["results"].pop("relabel_accuracy", None)  # of the issues before
            facts["results"] |= results
            self.write_facts(facts)
        return int(results["issues"])

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Write run.json as it is."""
        self.__dict__.pop("run_facts", None)
        write_text(self.path / "run.json", json.dumps(facts, indent=1) + "\n")

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        path = self.path / "metrics.jsonl"
        try:
            with require_file(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint after it is synced too
        except OSError as error:
            raise UnwritableError(f"cannot write {str(path)!r}: {reason_of(error)}") from error

    def cut_log(self, epochs: int, stages: list[str] | None = None) -> list[dict[str, Any]]:
        """Drop the lines from epoch `epochs` on, which will be written again, and return those before.

        `stages`, one an epoch, are added to lines of a run that had but one stage when they were written.
        """
        kept = [
            line if stages is None or "stage" in line else {"epoch": 0, "stage": stages[line["epoch"]], **line}
            for line in self.read_log()
            if line["epoch"] < epochs
        ]
        self.write_log(kept)
        return kept

    def write_log(self, lines: Iterable[dict[str, Any]]) -> None:
        """Write all lines of metrics.jsonl."""
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def read_log(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, up to a torn one, as a killed run leaves it."""
        file = self.path / "metrics.jsonl"
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
            if not isinstance(line, dict) or not _is_epoch(line):
                break
            lines.append(line)
        return lines

    def tracking_ids(self) -> dict[str, str]:
        """Return experiment tracker -> its id of this run, as tracking.json has them."""
        file = self.path / "tracking.json"
        try:
            stored = read_json(file) if file.exists() else {}
        except (OSError, ValueError) as error:
            raise InputError(
                f"{str(file)!r} cannot be read: {error}; remove it to log to a new run of the tracker"
            ) from error
        return {str(name): str(value) for name, value in stored.items()} if isinstance(stored, dict) else {}

    def keep_tracking_id(self, tracker: str, value: str) -> str:
        """Add the id of a tracker to tracking.json, and return it."""
        write_text(self.path / "tracking.json", json.dumps(self.tracking_ids() | {tracker: value}) + "\n")
        return value


def _is_epoch(line: dict[str, Any]) -> bool:
    """Whether a line of metrics.jsonl has the number of an epoch, and numbers where they are compared."""
    numbers = [value for name, value in line.items() if name.startswith("test_accuracy")]
    is_text = isinstance(line.get("stage", ""), str)
    return type(line.get("epoch")) is int and is_text and all(isinstance(value, float | int) for value in numbers)


def _difference(key: str, theirs: Any, ours: Any) -> str:
    """Return the first difference between two settings, in words."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in {**theirs, **ours}:
            if theirs.get(name) != ours.get(name):
                return _difference(f"{key}.{name}", theirs.get(name), ours.get(name))
    if key == "fingerprint":
        return "other data"
    if key == "data":
        return f"the data {theirs!r}, not {ours!r}"
    if key == "second" and (theirs is None or ours is None):
        return "no pseudo-labels (jnpl find)" if theirs is None else "pseudo-labels (jnpl train)"
    return f"{key} = {json.dumps(theirs)}, not {json.dumps(ours)}"
