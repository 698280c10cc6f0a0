"""Export the data with given and corrected labels as a folder for `datasets.load_from_disk` (extra `hf`)."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import make_folder, reason_of, require_file
from jnpl.internal.importing import require
from jnpl.outputs.corrections import CorrectedLabels, correct
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.image_folder import data_root, image_place, with_places
from jnpl.outputs.review.reviewed_labels import reviewed_run

_INFO = {"state.json", "dataset_info.json"}  # beside its .arrow files


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the data set of a run; returns the number of rows and of missing images."""
    reviewed = reviewed_run(request.run)
    findings = with_places(reviewed.findings, request.run)
    corrected = correct(findings, decisions=reviewed.all_decisions, suggest=not reviewed.has_decisions)
    facts = request.run.require_data_facts()
    inside = facts.kind == "image" and facts.root is None  # no files
    without = findings.paths is None or (inside and request.root is None)
    root = None if without else data_root(request.run, request.root)
    return dict(write(corrected, request.out, root, overwrite=request.overwrite))


def write(corrected: CorrectedLabels, out: Path, root: Path | None, *, overwrite: bool = False) -> dict[str, int]:
    """Write one row per sample in the order of the data; returns the number of rows and of missing images.

    Columns: image (its file's bytes, where the data are files below `root`; null where it could not be read), id,
    label (corrected: what `jnpl apply` gives without options), given_label, label_quality, is_label_issue,
    suggested_confidence. Samples that are no files have no column of their own: `id` names them.
    `overwrite` replaces an earlier data set at `out`, and nothing else.
    """
    datasets, findings = require("datasets", "hf"), corrected.findings
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if not _is_data_set(out):
            raise InputError(f"{str(out)!r} is there and not empty; name a new folder")
        if not overwrite:
            raise InputError(f"{str(out)!r} is there already; name a new folder, or give --overwrite")
    label = datasets.ClassLabel(names=[str(name) for name in findings.names])
    columns: dict[str, Any] = {
        "id": datasets.Value("int64" if findings.ids.dtype.kind in "iu" else "string"),
        "label": label,
        "given_label": label,
        "label_quality": datasets.Value("float64"),
        "is_label_issue": datasets.Value("bool"),
        "suggested_confidence": datasets.Value("float64"),
    }
    if root is not None:
        columns = {"image": datasets.Image(), **columns}
    make_folder(out.parent)
    # Beside its place: a rename on one file system, and a folder that is whole or not there.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as work:
        bars = datasets.are_progress_bars_disabled()
        datasets.disable_progress_bars()
        try:
            made = datasets.Dataset.from_generator(
                _rows,
                features=datasets.Features(columns),
                cache_dir=f"{work}/cache",
                gen_kwargs={"corrected": corrected, "root": root},
            )
            missing = _missing(corrected, made, root)
            made.save_to_disk(f"{work}/data")
        except Exception as error:  # `datasets` wraps what `_rows` raises, and what the operating system says
            if (cause := _cause(error)) is None:
                raise
            if isinstance(cause, InputError):
                raise cause from None
            raise UnwritableError(f"cannot write {str(out)!r}: {reason_of(cause)}") from error
        finally:
            if not bars:
                datasets.enable_progress_bars()
        del made  # lets go of the cache's files
        if out.exists():
            out.rename(f"{work}/before")  # goes with the rest of `work`
        shutil.move(f"{work}/data", out)
    return {"rows": len(corrected.rows), **missing}


def _cause(error: BaseException | None) -> OSError | InputError | None:
    """Return the InputError or OSError in a chain of exceptions; None if there is none."""
    while error is not None and not isinstance(error, OSError | InputError):
        error = error.__cause__ or error.__context__
    return error


def _is_data_set(folder: Path) -> bool:
    """Whether a folder holds what `save_to_disk` writes, and nothing else."""
    return folder.is_dir() and {file.name for file in folder.iterdir() if file.suffix != ".arrow"} == _INFO


def _missing(corrected: CorrectedLabels, made: Any, root: Path | None) -> dict[str, int]:
    """How many images could be read once, but not now; none at all is an InputError."""
    if root is None:
        return {}
    empty, broken = made.data.column("image").null_count, 0
    if (unreadable := corrected.findings.unreadable) is not None:
        broken = int(unreadable[corrected.rows].sum())
    if empty == len(corrected.rows):
        raise InputError(f"none of the {empty} images is in {str(root)!r}; name the data folder with --root")
    return {"missing_images": empty - broken}


def _rows(corrected: CorrectedLabels, root: Path | None) -> Iterator[dict[str, Any]]:
    findings, ids = corrected.findings, corrected.findings.ids.tolist()
    for at, label in zip(corrected.rows.tolist(), corrected.labels.tolist(), strict=True):
        row = {
            "id": ids[at],
            "label": label,
            "given_label": int(findings.given_labels[at]),
            "label_quality": float(findings.label_quality[at]),
            "is_label_issue": bool(findings.is_label_issue[at]),
            "suggested_confidence": float(findings.suggested_confidence[at]),
        }
        if findings.paths is not None and root is not None:
            broken = findings.unreadable is not None and bool(findings.unreadable[at])
            row["image"] = None if broken else _file(root, str(findings.paths[at]))
        yield row


def _file(root: Path, path: str) -> dict[str, Any] | None:
    place = image_place(root, path)
    try:
        return {"bytes": require_file(root / place).read_bytes(), "path": Path(path).name}
    except (OSError, InputError):
        return None
