"""The summary that `jnpl find` and `jnpl train` print at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jnpl.findings.findings import Findings
from jnpl.internal.json_files import read_json
from jnpl.internal.provenance import plain
from jnpl.internal.terminal import visible
from jnpl.outputs.report.page_tables import confused_pairs, worst

if TYPE_CHECKING:
    from pathlib import Path

_PAIRS = 5
_UNEVEN = 3  # ratio of the largest to the smallest class above which the summary mentions it


def show(result: dict[str, Any], out: Path, top: int) -> None:
    """Print counts, accuracies, the most frequent class pairs, the worst label issues, and the files written."""
    findings = Findings.load(out)
    console = Console(highlight=False, markup=False, soft_wrap=True)  # a path stays on one line in a pipe
    low, high = result["noise_interval"]
    console.print(
        f"{result['issues']:,} of {result['samples']:,} labels look wrong: {result['noise_rate']:.1%} "
        f"({low:.1%} have a label quality below 1/4, {high:.1%} below 3/4); {result['classes']} classes, "
        f"{result['epochs']} epochs in {result['seconds']:.0f} s"
    )
    for line in _notes(result, findings, out):
        console.print(visible(line))
    pairs = confused_pairs(findings, _names(findings), _PAIRS)
    if pairs:
        listed = ", ".join(f"{visible(pair.given)} -> {visible(pair.suggested)} ({pair.count:,})" for pair in pairs)
        console.print(f"most frequent label issues (given -> suggested): {listed}")
    if result["issues"] and top:
        console.print(_worst(findings, min(top, result["issues"])))
    console.print(f"all labels with their quality: {visible(out / 'findings.csv')}")
    if (out / "report.html").is_file():
        console.print(f"report:                        {visible(out / 'report.html')}")


def _notes(result: dict[str, Any], findings: Findings, out: Path) -> list[str]:
    """Return the lines below the headline."""
    lines = _accuracies(result)
    if result["noise_rate"] > 0.5:
        cut = "thresholds are" if "by_class" in findings.threshold_info else "threshold is"
        lines.insert(
            0, f"more than half of the labels look wrong: the network may need more epochs, or the {cut} too high"
        )
    if "ap" in result:
        lines.append(f"AP {result['ap']:.3f} of the ranking by label quality (true labels are known)")
    lines += result.get("notes", ())
    if broken := result.get("unreadable"):
        lines.append(f"{broken:,} {'sample' if broken == 1 else 'samples'} could not be read and were left out")
    lines += _data_notes(out)
    if uneven := _uneven(findings):
        lines.append(uneven)
    return lines


def facts(out: Path, top: int) -> dict[str, Any]:
    """Return what `--json` adds to the results: the most frequent class pairs and the worst label issues."""
    findings = Findings.load(out)
    found = confused_pairs(findings, _names(findings), _PAIRS)
    pairs = [{"given": pair.given, "suggested": pair.suggested, "count": pair.count} for pair in found]
    rows = findings.table.iloc[worst(findings, min(top, int(findings.is_label_issue.sum())))]
    columns = ["id", "given_label", "suggested_label", "label_quality", "suggested_confidence"]
    return {"confused": pairs, "suspects": plain(rows[columns].to_dict(orient="records"))}


def _names(findings: Findings) -> list[str]:
    return [str(name) for name in findings.class_names or range(findings.num_classes)]


def _uneven(findings: Findings) -> str | None:
    """Return a line if the largest class has more than 3 times the samples of the smallest non-empty one."""
    scored = ~np.isnan(findings.label_quality)
    classes, counts = np.unique(findings.given_labels[scored], return_counts=True)
    if len(counts) == 0 or counts.max() <= _UNEVEN * counts.min():
        return None
    names = _names(findings)
    most, least = ((names[classes[at]], f"{counts[at]:,}") for at in (counts.argmax(), counts.argmin()))
    line = f"uneven classes: {most[0]} has {most[1]} labels, {least[0]} {least[1]}"
    if "by_class" in findings.threshold_info:
        return f"{line}; each class has its own threshold"
    return f"{line}; --threshold per-class gives each class its own threshold"


def _worst(findings: Findings, count: int) -> Table:
    table = Table(title="worst label issues", title_justify="left", box=None)
    for column in ("id", "given", "suggested", "label quality", "confidence"):
        table.add_column(column, justify="left" if column == "id" else "right")
    for row in findings.table.iloc[worst(findings, count)].itertuples():
        texts = (Text(visible(cell)) for cell in (row.id, row.given_label, row.suggested_label))
        table.add_row(*texts, f"{row.label_quality:.2g}", f"{row.suggested_confidence:.3f}")
    return table


def _data_notes(out: Path) -> list[str]:
    """Return lines about test labels, duplicates and outliers, from data.json."""
    file = out / "data.json"
    facts = read_json(file) if file.is_file() else {}
    lines = []
    if facts.get("held_out") and not facts.get("true_labels"):
        lines.append(f"tested on {len(facts['held_out']):,} held-out samples, whose labels may also be wrong")
    if facts.get("conflicting_samples"):
        lines.append(f"{facts['conflicting_samples']:,} samples have the same content as a sample with another label")
    if near := facts.get("near_conflicting_samples"):
        lines.append(f"{near:,} samples are near duplicates of a sample with another label")
    if far := facts.get("outlier_samples"):
        lines.append(f"{far:,} {'sample looks' if far == 1 else 'samples look'} like nothing else (outliers)")
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
    each = {name[14:]: value for name, value in result.items() if name.startswith("test_accuracy_")}
    if each:
        lines.append(f"  mean of {', '.join(f'{name} {value:.3f}' for name, value in each.items())}")
    if "filter_test_accuracy" in result:
        lines.append(f"test accuracy before training on pseudo-labels: {result['filter_test_accuracy']:.3f}")
    return lines
