"""The summary that `jnpl find` and `jnpl train` print at the end."""

import shlex
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jnpl.internal.provenance import plain
from jnpl.internal.terminal import rounded, visible
from jnpl.judging.caveats import noise_sentence
from jnpl.judging.findings import Findings
from jnpl.judging.groups import sentences
from jnpl.outputs.report.page_tables import confused_pairs
from jnpl.outputs.review.reviewed_labels import reviewed_run
from jnpl.run_folder import RunFolder

SUSPECT_COLUMNS = ["id", "given_label", "suggested_label", "label_quality", "suggested_confidence"]
_PAIRS = 5
_FEW = 100  # samples, below which quality is not calibrated
_TOO_FEW = 10  # samples, below which nothing can be said
_BUDGET = 20  # labels of the command that shows the most doubtful ones
_EXCERPT = 70  # characters of a text or row in the list
_ASKED = 20  # samples to ask another annotator about
_PIPE_WIDTH = 100_000  # columns: nothing is cut in a pipe or a file
_REPEATED = 0.1  # share of different samples up to which the summary mentions that there are few
OVERLAP = 0.1  # share of samples of unclear class from which the summary mentions it
_UNEVEN = 3  # ratio of the largest to the smallest class above which the summary mentions it


def show(result: dict[str, Any], run: RunFolder, top: int) -> None:
    """Print counts, accuracies, the most frequent class pairs, the worst label issues, and the files written."""
    findings, console = reviewed_run(run).findings, console_for_output()
    issues = int(findings.is_label_issue.sum())
    console.print(
        f"{headline(issues, result['samples'], findings)}{estimate(findings, shlex.quote(str(run.path)))}; "
        f"{result['classes']} classes, {result['epochs']} epochs in {result['seconds']:.0f} s"
    )
    if decided := int(findings.is_decided.sum()):
        console.print(_decided_line(decided, findings))
    for line in _notes(result, run, findings):
        console.print(visible(line))
    pairs = confused_pairs(findings, [*map(str, findings.names)], _PAIRS)
    if pairs:
        console.print("most frequent mistakes:" if findings.look_wrong else "most frequent doubts:")
        for pair in pairs:
            verb = "looks" if pair.count == 1 else "look"
            console.print(f"  {pair.count:,} labelled {visible(pair.given)} {verb} like {visible(pair.suggested)}")
    if issues and top:
        console.print(worst_labels(findings, findings.worst_positions(min(top, issues)).tolist()))
    _show_files(console, run, issues, result["samples"])


def _show_files(console: Console, run: RunFolder, issues: int, samples: int) -> None:
    """Print where the results are, and what to do next."""
    console.print(f"all labels with their quality: {visible(run.path / 'findings.csv')}")
    if run.report_page.is_file():
        console.print(f"report:                        {visible(run.report_page)}")
    name = visible(shlex.quote(str(run.path)))
    if not issues:
        console.print(f"to see the most doubtful ones: jnpl report {name} --budget {min(_BUDGET, samples)}")
    else:
        console.print(f"to decide on a page:           jnpl review {name}")
        console.print(f"to correct labels:             jnpl apply {name}")


def headline(issues: int, samples: int, findings: Findings) -> str:
    """Return how many labels look wrong, or are to be checked."""
    one = issues == 1
    if findings.look_wrong:
        return f"{issues:,} of {samples:,} labels {'looks' if one else 'look'} wrong"
    return f"{issues:,} of {samples:,} labels to check"


def _decided_line(decided: int, findings: Findings) -> str:
    """Return how many labels are decided, and how many wrong ones are left."""
    line = f"{decided:,} label{'s are' if decided > 1 else ' is'} decided"
    if (left := findings.stated_left) is None:
        return line
    return f"{line}; of the others, about {left.value:,.0f} ({left.low:,.0f} to {left.high:,.0f}) are wrong"


def console_for_output() -> Console:
    """Return a console for stdout; in a pipe or a file nothing is cut, and a path stays on one line."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def estimate(findings: Findings, run: str = "RUN") -> str:
    """Return the noise rate and its interval, or why it cannot be told, to follow a count."""
    if findings.noise is None:
        return f": {findings.noise_rate:.1%}"
    return f"; {noise_sentence(findings.noise, visible(run))}"


def _notes(result: dict[str, Any], run: RunFolder, findings: Findings) -> list[str]:
    """Return the lines below the headline."""
    lines, issues = _accuracies(result), int(findings.is_label_issue.sum())
    if findings.noise_rate > 0.5:
        cut = "thresholds are" if "by_class" in findings.threshold_info else "threshold is"
        lines.insert(
            0,
            "more than half of the labels look wrong: check that labels and samples belong together (order, column); "
            f"if they do, train longer (--set train.epochs=100), or the {cut} too high (--threshold)",
        )
    if (scored := int(np.count_nonzero(~np.isnan(findings.label_quality)))) < _FEW:
        which = "samples" if scored != 1 else "sample"
        what = "judge" if scored < _TOO_FEW else "estimate how many labels are wrong"
        lines.insert(0, f"only {scored} {which}: too few to {what}; the order is a hint")
    if (expected := findings.expected_wrong) is not None and issues:
        them = "of these labels are" if issues > 1 else "of them is"
        lines.append(f"about {expected:,.0f} {them} expected to be truly wrong: look before you change them")
    if findings.overlap is not None and findings.overlap >= OVERLAP:
        lines.append(
            f"the classes overlap: about {findings.overlap:.0%} of the samples could not be told apart even with right "
            "labels; a low label quality is weak evidence there"
        )
    if "ap" in result:
        lines.append(f"AP {result['ap']:.3f} of the ranking by label quality (true labels are known)")
    lines += result.get("notes", ())
    if broken := result.get("unreadable"):
        samples = "sample" if broken == 1 else "samples"
        lines.append(f"{broken:,} {samples} could not be read and were left out: the report says why")
    lines += _data_notes(run)
    if uneven := _uneven(findings):
        lines.append(uneven)
    if findings.votes is not None:
        lines.append(
            f"labels are the consensus of {len(findings.votes)} annotators, quality is the chance that it is right"
        )
        lines += [
            f"annotator {row['annotator']}: {row['labels']:,} labels, {row['agreement']:.1%} agree with the consensus, "
            f"{row['quality']:.1%} expected to be right"
            for row in findings.annotators.head(_PAIRS).to_dict(orient="records")
        ]
    return [*lines, *sentences(findings)]


def facts(run: RunFolder, top: int) -> dict[str, Any]:
    """Return what `--json` adds to the results: issues and noise rate as they are now, pairs, the worst issues."""
    findings = reviewed_run(run).findings
    confused = confused_pairs(findings, [*map(str, findings.names)], _PAIRS)
    pairs = [{"given": pair.given, "suggested": pair.suggested, "count": pair.count} for pair in confused]
    rows = findings.table.iloc[findings.worst_positions(min(top, int(findings.is_label_issue.sum())))]
    now: dict[str, Any] = {"issues": int(findings.is_label_issue.sum()), **findings.noise_facts}
    if findings.noise is not None:
        now["noise_sentence"] = noise_sentence(findings.noise, shlex.quote(str(run.path)))
    if findings.decided is not None and findings.decided.any():
        now["decided"] = int(findings.decided.sum())
    return {
        **now,
        **group_facts(findings),
        "confused": pairs,
        "suspects": plain(rows[SUSPECT_COLUMNS].to_dict(orient="records")),
    }


def group_facts(findings: Findings) -> dict[str, Any]:
    """Return what `--json` says of groups, column -> rows of `Findings.by_group`, and of annotators."""
    columns = findings.groups or {}
    rows = {name: plain(findings.by_group(name).to_dict(orient="records")) for name in columns}
    facts: dict[str, Any] = {"groups": rows} if rows else {}
    if findings.votes is not None:
        facts["annotators"] = plain(findings.annotators.to_dict(orient="records"))
        facts["ask_next"] = plain(findings.ask_next(_ASKED).to_dict(orient="records"))
    return facts


def show_tags(result: dict[str, Any], run: RunFolder, top: int) -> None:
    """Print what `show` prints, of several tags per sample."""
    findings, console = run.tag_findings, console_for_output()
    counts = findings.summary()
    one = counts["issues"] == 1
    console.print(
        f"{counts['issues']:,} of {counts['samples']:,} samples {'has' if one else 'have'} tags that look wrong: "
        f"{counts['missing']:,} missing, {counts['extra']:,} extra; {counts['tags']:,} tags, {result['epochs']} epochs "
        f"in {result['seconds']:.0f} s"
    )
    console.print(f"{findings.noise_sentence}")
    if (unknown := int((~findings.judged).sum())) > 0:
        console.print(f"{unknown:,} tags are on too few or too many samples to be judged")
    if broken := result.get("unreadable"):
        console.print(f"{broken:,} samples could not be read and were left out")
    if top and counts["issues"]:
        table = Table(title="tags to check first", title_justify="left", box=None)
        for column in ("id", "tag", "looks", "quality"):
            table.add_column(column, justify="right" if column == "quality" else "left", overflow="fold")
        for row in findings.suspects.head(top).to_dict(orient="records"):
            cells = (Text(visible(row[name])) for name in ("id", "tag", "kind"))
            table.add_row(*cells, rounded(row["quality"]))
        console.print(table)
    _show_files(console, run, counts["issues"], counts["samples"])


def tag_facts(run: RunFolder, top: int) -> dict[str, Any]:
    """Return what `--json` adds to the results of several tags per sample: the worst pairs, and a row per tag."""
    findings = run.tag_findings
    pairs = findings.suspects.drop(columns=["position", "given", "is_issue"]).head(top)
    return {
        **findings.summary(),
        "noise_sentence": findings.noise_sentence,
        "by_tag": plain(findings.tag_summary().to_dict(orient="records")),
        "suspects": plain(pairs.to_dict(orient="records")),
    }


def _uneven(findings: Findings) -> str | None:
    """Return a line if the largest class has more than 3 times the samples of the smallest non-empty one."""
    scored = ~np.isnan(findings.label_quality)
    classes, counts = np.unique(findings.given_labels[scored], return_counts=True)
    if len(counts) == 0 or counts.max() <= _UNEVEN * counts.min():
        return None
    names = findings.names
    most, least = ((names[classes[at]], f"{counts[at]:,}") for at in (counts.argmax(), counts.argmin()))
    line = f"uneven classes: {most[0]} has {most[1]} labels, {least[0]} {least[1]}"
    if "by_class" in findings.threshold_info:
        return f"{line}; each class has its own threshold"
    return f"{line}; --threshold per-class gives each class its own threshold"


def worst_labels(findings: Findings, positions: list[int]) -> Table:
    """Return a table of some samples, by position."""
    table = Table(title="labels to check first", title_justify="left", box=None)
    for column in ("id", "labelled", "looks like", "label quality", "confidence"):
        is_text = column in ("id", "labelled", "looks like")
        table.add_column(column, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    with_excerpts = findings.excerpts is not None
    if with_excerpts:
        table.add_column("sample", overflow="ellipsis", no_wrap=True, max_width=_EXCERPT)
    for row in findings.part(positions).table.to_dict(orient="records"):
        better, confidence = row["suggested_label"], rounded(row["suggested_confidence"])
        if better == row["given_label"]:  # the confidence would be that in the given label
            better, confidence = "unclear", ""
        elif row.get("is_unclear"):
            better = f"unclear: {row['given_label']} or {better}"
        texts = (Text(visible(cell)) for cell in (row["id"], row["given_label"], better))
        excerpt = [Text(visible(row["excerpt"] or ""))] if with_excerpts else []
        table.add_row(*texts, rounded(row["label_quality"]), confidence, *excerpt)
    return table


def _data_notes(run: RunFolder) -> list[str]:
    """Return lines about test labels, duplicates and outliers, from data.json."""
    facts, lines = run.data_facts, []
    if facts.held_out and not facts.true_labels:
        lines.append(f"tested on {len(facts.held_out):,} held-out samples, whose labels may also be wrong")
    if facts.samples and facts.different_samples and facts.different_samples <= _REPEATED * facts.samples:
        lines.append(f"{facts.samples:,} samples, but only {facts.different_samples:,} different ones")
    if same := facts.conflicting_samples:
        kept = "keep one label for each (Duplicates in the report)"
        lines.append(f"{same:,} samples have the same content as a sample with another label: {kept}")
    if near := facts.near_conflicting_samples:
        lines.append(f"{near:,} samples are near duplicates of a sample with another label: compare them in the report")
    if far := facts.outlier_samples:
        odd, they = ("sample looks", "it belongs") if far == 1 else ("samples look", "they belong")
        lines.append(f"{far:,} {odd} like nothing else: check in the report whether {they} to the data (Outliers)")
    return lines


def _accuracies(result: dict[str, Any]) -> list[str]:
    """Return lines about the accuracy on test data, if there are any."""
    if "test_accuracy" not in result:
        return []
    best, when = f"best epoch {result['best_test_accuracy']:.3f}, chosen on the test data", "after the last epoch"
    if "last_test_accuracy" in result:
        when = "of the epoch chosen on the validation data"
        best = f"last epoch {result['last_test_accuracy']:.3f}; {best}"
    lines = [f"test accuracy {result['test_accuracy']:.3f} {when} ({best})"]
    networks = {name[14:]: value for name, value in result.items() if name.startswith("test_accuracy_")}
    together = "mean of" if networks.pop("ensemble", None) is None else "of the mean logits of both; alone"
    if networks:
        lines.append(f"  {together} {', '.join(f'{name} {value:.3f}' for name, value in networks.items())}")
    if "filter_test_accuracy" in result:
        lines.append(f"test accuracy before training on pseudo-labels: {result['filter_test_accuracy']:.3f}")
    return lines
