"""`jnpl apply`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli import options
from jnpl.cli.options import AsJson, Overwrite
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.outputs.corrections import CorrectedLabels
    from jnpl.outputs.image_folder import How

_OVERLAP = 0.1  # share of samples of unclear class from which the command warns
SHOWN = 10  # class pairs and failed files to print


def apply(
    run: options.RunArgument,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The .csv, .parquet or .json file to write. Default: corrected.csv in the run."
        ),
    ] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="Decisions from elsewhere: a table with the columns id and label, or an export of jnpl review, Label "
            "Studio (.json), CVAT for images (.xml) or FiftyOne (.json)."
        ),
    ] = None,
    id_column: Annotated[str, typer.Option(help="With --decisions: the table's column of ids.")] = "id",
    label_column: Annotated[
        str | None, typer.Option(help="With --decisions: the table's column of labels, or FiftyOne's field.")
    ] = None,
    review: Annotated[bool, typer.Option(help="Use the decisions of jnpl review, if there are any.")] = True,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Instead, use all suggestions of at least this confidence.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Leave out label issues without a better label.")] = False,
    copy: Annotated[Path | None, typer.Option(help="Also copy the images to this new folder, sorted by class.")] = None,
    link: Annotated[Path | None, typer.Option(help="Also link the images in this new folder, sorted by class.")] = None,
    same_form: Annotated[
        Path | None,
        typer.Option(
            help="Also write the data in their own form with the corrected labels: a COCO .json, a new folder "
            "of label files of YOLO, or a table of tags."
        ),
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="With --link: hard links in place of symbolic ones.")] = False,
    root: Annotated[
        Path | None, typer.Option(help="Folder of the images. Default: where they were during the run.")
    ] = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only say what would be changed and what that is worth; write nothing.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the corrected labels: id, label, given_label, changed.

    Label issues get the label that the run suggests where that is expected to help: it is likelier than not, and
    likelier than the given label by 0.1, even if there are as few wrong labels as the estimate allows. The others keep
    their label; --drop leaves them out, jnpl review shows them. With --decisions, or after jnpl review, your labels are
    used, and all others stay, unless --min-confidence allows suggestions, never of samples you were unsure of; dropped
    samples are left out. Decisions of reviews before the run (jnpl find --review) count too. Samples held out by
    --holdout keep their label, unless you decide otherwise. Your own files are never moved, changed or deleted.
    """
    if copy is not None and link is not None:
        raise InputError("--copy and --link exclude each other")
    if hard and link is None:
        raise InputError("--hard goes with --link")
    import numpy as np

    from jnpl.data.decision_files import read_decisions
    from jnpl.internal.tables import suffix_of
    from jnpl.outputs.corrections import correct, place_decisions, with_held_out
    from jnpl.outputs.image_folder import data_root, with_places
    from jnpl.outputs.output_paths import refuse_target
    from jnpl.outputs.review.reviewed_labels import as_current, review_of, reviewed_run, run_alone
    from jnpl.outputs.same_form import same_form_writer
    from jnpl.run_folder import RunFolder

    folder = RunFolder(run)
    target = run / "corrected.csv" if out is None else out
    suffix_of(target)
    if not preview:
        refuse_target(target, folder, overwrite=overwrite, read=decisions, called="table of decisions")
    elif copy is not None or link is not None or same_form is not None:
        raise InputError("--preview writes nothing; leave out --copy, --link and --same-form")
    write_same_form = same_form_writer(folder, same_form, overwrite=overwrite)
    data_facts = folder.require_data_facts()
    reviewed = reviewed_run(folder) if review else run_alone(folder)
    whole, rows_of_run = with_held_out(reviewed.findings, data_facts.held_out)
    chosen = np.full(len(whole.ids), -1, np.int64)
    chosen[rows_of_run] = reviewed.decisions
    if decisions is not None:
        chosen = place_decisions(
            read_decisions(decisions, whole.ids, id_column=id_column, label_column=label_column),
            whole,
        )
        ranking = reviewed.ranking
        reviewed = review_of(ranking, as_current(chosen[rows_of_run], ranking.findings))
        whole, _ = with_held_out(reviewed.findings, data_facts.held_out)
    before = place_decisions([(str(sample.id), sample.label) for sample in data_facts.decided], whole)
    decided = before.copy()
    decided[rows_of_run] = reviewed.ranking.findings.decided_labels  # before the run, or in an audit
    audited = int(((before == -1) & (chosen == -1) & (decided != -1)).sum())
    suggest = decisions is None and not (chosen != -1).any()
    corrected = correct(
        with_places(whole, folder),
        decisions=np.where(chosen == -1, decided, chosen),
        min_confidence=min_confidence,
        drop=drop,
        suggest=suggest,
    )
    facts: dict[str, Any] = {
        "run": str(run),
        "out": None if preview else str(target),
        "samples": len(corrected.rows),
        "changed": int(corrected.changed.sum()),
        "dropped": corrected.dropped,
        "uncertain": corrected.uncertain,
        **({"held_out": len(data_facts.held_out)} if data_facts.held_out else {}),
        **({"decisions": str(decisions)} if decisions is not None else {}),
        **({"reviewed": reviewed.decided} if decisions is None and reviewed.decided else {}),
        **({"reviewed_before": earlier} if (earlier := int(((before != -1) & (chosen == -1)).sum())) else {}),
        **({"audited": audited} if audited else {}),
    }
    facts |= _expected(corrected, str(run))
    with nullcontext() if preview else corrected.writing(target):  # complete before images are copied, in place after
        if (tree := copy or link) is not None:
            facts |= _write_tree(
                corrected, data_root(folder, root), tree, "copy" if copy else "hard" if hard else "link"
            )
        if write_same_form is not None:
            facts |= {"same_form": str(same_form), "changed_in_form": write_same_form(corrected)}
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show({**facts, "suggests": suggest or min_confidence is not None}, corrected)


def _write_tree(corrected: "CorrectedLabels", root: Path, tree: Path, how: "How") -> dict[str, Any]:
    """Copy or link the images by class, print those that failed, and return the counts."""
    from jnpl.outputs.image_folder import copy_image_folder

    failed = copy_image_folder(corrected, root, tree, how)
    for name, reason in failed[:SHOWN]:
        typer.echo(f"not in the tree: {visible(name)} ({visible(reason)})", err=True)
    if len(failed) > SHOWN:
        typer.echo(f"... and {len(failed) - SHOWN:,} more", err=True)
    return {"tree": str(tree), "files": len(corrected.rows) - len(failed), "missing": len(failed)}


def _show(facts: dict[str, Any], corrected: "CorrectedLabels") -> None:
    is_preview = facts["out"] is None
    changes, leaves = ("would be changed", "would be left out") if is_preview else ("changed", "left out")
    typer.echo(f"{facts['changed']:,} of {facts['samples']:,} labels {changes}, {facts['dropped']:,} samples {leaves}")
    sources = {"reviewed": "jnpl review", "reviewed_before": "reviews before this run", "audited": "jnpl audit"}
    for name, reviews in sources.items():
        if count := facts.get(name):
            typer.echo(f"  by {count:,} decision{'s' * (count > 1)} of {reviews}")
    if "held_out" in facts:
        typer.echo(f"  {facts['held_out']:,} of the samples were held out: the run has no findings for them")
    if expected := _expected_line(facts, corrected):
        typer.echo(f"  {expected}")
    if facts["uncertain"]:
        typer.echo(f"  {_kept(facts)}")
    overlap, lines = corrected.findings.overlap, _changes(corrected)
    if lines and overlap is not None and overlap >= _OVERLAP:
        typer.echo(
            f"  the classes overlap: about {overlap:.0%} of the samples could not be told apart even with right "
            "labels, so check some changes before you use them"
        )
    for line in lines:
        typer.echo(f"  {line}")
    if "tree" in facts:
        typer.echo(f"{facts['files']:,} images by class: {visible(facts['tree'])}")
    if "same_form" in facts:
        typer.echo(f"data with {facts['changed_in_form']:,} changes: {visible(facts['same_form'])}")
    typer.echo("nothing was written (--preview)" if is_preview else f"corrected labels: {visible(facts['out'])}")


def _changes(corrected: "CorrectedLabels") -> list[str]:
    """Return a line for each of the most frequent changes: of labels, or of single tags."""
    if corrected.tag_sets is not None:
        counts = Counter(
            (tag, "gets" if tag in after else "loses", "get" if tag in after else "lose")
            for before, after in corrected.tags()
            for tag in set(before) ^ set(after)
        )
        return [
            f"{count:,} {f'sample {one}' if count == 1 else f'samples {many}'} {visible(tag)}"
            for (tag, one, many), count in counts.most_common(SHOWN)
        ]
    names, given_labels = corrected.findings.names, corrected.findings.given_labels[corrected.rows]
    changed = corrected.changed
    pairs = Counter(zip(given_labels[changed].tolist(), corrected.labels[changed].tolist(), strict=True))
    return [
        f"{count:,} labelled {visible(names[before])} {'becomes' if count == 1 else 'become'} {visible(names[after])}"
        for (before, after), count in pairs.most_common(SHOWN)
    ]


def _kept(facts: dict[str, Any]) -> str:
    """Return a line about the label issues that keep their labels, and what can be done about them."""
    count = facts["uncertain"]
    issues, are, they = ("issue", "is", "its label") if count == 1 else ("issues", "are", "their labels")
    if facts["suggests"]:
        how = "look at them (jnpl review), or leave them out (--drop)"
        return f"{count:,} more label {issues} {are} too uncertain to change: {how}"
    more = "" if "decisions" in facts else ", --no-review changes what the run suggests"
    how = f"--min-confidence 0.9 changes those that the run is sure of{more}"
    return f"{count:,} more label {issues} {are} not decided and {'keeps' if count == 1 else 'keep'} {they}: {how}"


def _expected(corrected: "CorrectedLabels", run: str) -> dict[str, Any]:
    """Return the noise rate in words, and the expected number of wrong labels before and after, where known."""
    from jnpl.judging.caveats import noise_sentence

    expected, noise = corrected.expected_wrong(), corrected.findings.noise
    sentence = {} if noise is None else {"noise_sentence": noise_sentence(noise, run)}
    if expected is None:
        return sentence
    numbers = expected._asdict().items()
    return sentence | {
        "expected_wrong": {
            name: [round(end, 1) for end in value] if isinstance(value, tuple) else round(value, 1)
            for name, value in numbers
        }
    }


def _expected_line(facts: dict[str, Any], corrected: "CorrectedLabels") -> str | None:
    """Return how many labels are expected to be wrong, or why that cannot be told."""
    noise = corrected.findings.noise
    if noise is not None and noise.caveat is not None:
        return str(facts["noise_sentence"])
    if "expected_wrong" not in facts:
        return None
    return f"wrong labels, expected: {_span(facts, 'before')} before, {_span(facts, 'after')} after"


def _span(facts: dict[str, Any], when: str) -> str:
    """Return a number with its interval, such as "320 (240 to 400)"."""
    low, high = facts["expected_wrong"][f"{when}_interval"]
    return f"{facts['expected_wrong'][when]:,.0f} ({low:,.0f} to {high:,.0f})"
