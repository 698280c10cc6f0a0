"""`jnpl apply`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli.options import AsJson, Overwrite, RunFolder
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.outputs.corrections import CorrectedLabels

SHOWN = 10  # class pairs and failed files to print


def apply(
    run: RunFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The .csv, .parquet or .json file to write. Default: corrected.csv in the run."
        ),
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option(help="Your own decisions: a table with the columns id and label.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Use only suggestions of at least this confidence.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Leave out label issues without a better label.")] = False,
    copy: Annotated[Path | None, typer.Option(help="Also copy the images to this new folder, sorted by class.")] = None,
    link: Annotated[Path | None, typer.Option(help="Also link the images in this new folder, sorted by class.")] = None,
    hard: Annotated[bool, typer.Option("--hard", help="With --link: hard links in place of symbolic ones.")] = False,
    root: Annotated[
        Path | None, typer.Option(help="Folder of the images. Default: where they were during the run.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the corrected labels: id, label, given_label, changed.

    Label issues get the label that the run suggests. With --decisions, your labels are used, and all others stay,
    unless --min-confidence allows suggestions. Samples held out by --holdout keep their label, unless you decide
    otherwise. Your own files are never moved, changed or deleted.
    """
    if copy is not None and link is not None:
        raise InputError("--copy and --link exclude each other")
    if hard and link is None:
        raise InputError("--hard goes with --link")
    from jnpl.data.label_files import read_label_rows
    from jnpl.findings.findings import Findings
    from jnpl.internal.tables import suffix_of
    from jnpl.outputs.corrections import correct, held_out, with_held_out
    from jnpl.outputs.image_folder import copy_image_folder, data_root
    from jnpl.outputs.output_paths import refuse_target

    target = run / "corrected.csv" if out is None else out
    suffix_of(target)
    refuse_target(target, run, overwrite=overwrite, read=decisions, called="table of decisions")
    held = held_out(run)
    findings = with_held_out(Findings.load(run), held)
    decided = None if decisions is None else read_label_rows(decisions)
    corrected = correct(findings, decisions=decided, min_confidence=min_confidence, drop=drop)
    facts: dict[str, Any] = {
        "run": str(run),
        "out": str(target),
        "samples": len(corrected.rows),
        "changed": int(corrected.changed.sum()),
        "dropped": corrected.dropped,
        **({"held_out": len(held)} if held else {}),
    }
    failed: list[tuple[str, str]] = []
    with corrected.writing(target):  # complete before images are copied, and in its place after them
        if (folder := copy or link) is not None:
            failed = copy_image_folder(
                corrected, data_root(run, root), folder, "copy" if copy else "hard" if hard else "link"
            )
            facts |= {"tree": str(folder), "files": len(corrected.rows) - len(failed), "missing": len(failed)}
    for name, reason in failed[:SHOWN]:
        typer.echo(f"not in the tree: {visible(name)} ({visible(reason)})", err=True)
    if len(failed) > SHOWN:
        typer.echo(f"... and {len(failed) - SHOWN:,} more", err=True)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts, corrected)


def _show(facts: dict[str, Any], corrected: "CorrectedLabels") -> None:
    from jnpl.outputs.corrections import class_names

    names, given = class_names(corrected.findings), corrected.findings.given_labels[corrected.rows]
    changed = corrected.changed
    pairs = Counter(zip(given[changed].tolist(), corrected.labels[changed].tolist(), strict=True))
    typer.echo(f"{facts['changed']:,} of {facts['samples']:,} labels changed, {facts['dropped']:,} samples left out")
    if "held_out" in facts:
        typer.echo(f"  {facts['held_out']:,} of the samples were held out: the run has no findings for them")
    for (before, after), count in pairs.most_common(SHOWN):
        typer.echo(f"  {visible(names[before])} -> {visible(names[after])}: {count:,}")
    if "tree" in facts:
        typer.echo(f"{facts['files']:,} images by class: {visible(facts['tree'])}")
    typer.echo(f"corrected labels: {visible(facts['out'])}")
