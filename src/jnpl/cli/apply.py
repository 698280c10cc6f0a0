"""`jnpl apply`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.outputs.corrections import Corrected

SHOWN = 10  # kinds of changes on the screen, and lines about files that failed


def apply(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A new .csv, .parquet or .json file. Default: corrected.csv in the run."),
    ] = None,
    decisions: Annotated[
        Path | None, typer.Option(help="Your own decisions: a table with the columns id and label.")
    ] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Take suggestions of at least this confidence only.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Leave out issues that get no better label.")] = False,
    copy: Annotated[Path | None, typer.Option(help="Also copy the images to this new folder, by class.")] = None,
    link: Annotated[Path | None, typer.Option(help="Also make such a folder of links.")] = None,
    hard: Annotated[bool, typer.Option("--hard", help="With --link: hard links, not symbolic ones.")] = False,
    root: Annotated[
        Path | None, typer.Option(help="Where the images lie. Default: where they were when the run was made.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the label file, if it is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Write the corrected labels: id, label, given_label, changed.

    Issues take the labels that the run suggests. With --decisions yours count, and all other labels stay, unless
    --min-confidence lets suggestions in. Samples that --holdout kept aside keep theirs, unless you decide. Your own
    files are never moved, changed or deleted.
    """
    if copy is not None and link is not None:
        raise InputError("--copy and --link exclude each other")
    if hard and link is None:
        raise InputError("--hard goes with --link")
    from jnpl.data.corrected_labels import read_label_rows
    from jnpl.findings.findings import Findings
    from jnpl.internal.tables import suffix_of
    from jnpl.outputs.corrections import correct, held_out, with_held_out
    from jnpl.outputs.export.targets import refuse_target
    from jnpl.outputs.image_folder import data_root, make_tree

    target = run / "corrected.csv" if out is None else out
    suffix_of(target)
    refuse_target(target, run, overwrite=overwrite, read=decisions, called="table of decisions")
    aside = held_out(run)
    findings = with_held_out(Findings.load(run), aside)
    decided = None if decisions is None else read_label_rows(decisions)
    corrected = correct(findings, decisions=decided, min_confidence=min_confidence, drop=drop)
    told: dict[str, Any] = {
        "run": str(run),
        "out": str(target),
        "samples": len(corrected.rows),
        "changed": int(corrected.changed.sum()),
        "dropped": corrected.dropped,
        **({"held_out": len(aside)} if aside else {}),
    }
    failed: list[tuple[str, str]] = []
    if (tree := copy or link) is not None:
        failed = make_tree(corrected, data_root(run, root), tree, "copy" if copy else "hard" if hard else "link")
        told |= {"tree": str(tree), "files": len(corrected.rows) - len(failed), "missing": len(failed)}
    corrected.write(target)
    for name, reason in failed[:SHOWN]:
        typer.echo(f"not in the tree: {name} ({reason})", err=True)
    if len(failed) > SHOWN:
        typer.echo(f"... and {len(failed) - SHOWN:,} more", err=True)
    if as_json:
        typer.echo(json.dumps(told))
    else:
        _show(told, corrected)


def _show(told: dict[str, Any], corrected: "Corrected") -> None:
    from jnpl.outputs.corrections import class_names

    names, given = class_names(corrected.findings), corrected.findings.given_labels[corrected.rows]
    changed = corrected.changed
    pairs = Counter(zip(given[changed].tolist(), corrected.labels[changed].tolist(), strict=True))
    typer.echo(f"{told['changed']:,} of {told['samples']:,} labels changed, {told['dropped']:,} samples left out")
    if "held_out" in told:
        typer.echo(f"  {told['held_out']:,} of the samples were held out: the run has not judged these")
    for (before, after), count in pairs.most_common(SHOWN):
        typer.echo(f"  {names[before]} -> {names[after]}: {count:,}")
    if "tree" in told:
        typer.echo(f"{told['files']:,} images by class: {told['tree']}")
    typer.echo(f"corrected labels: {told['out']}")
