"""What `jnpl find` and `jnpl train` say on the screen when they are done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jnpl.findings.findings import Findings
from jnpl.internal.provenance import plain
from jnpl.outputs.report.tables import worst

if TYPE_CHECKING:
    from pathlib import Path

_PAIRS = 5
_UNEVEN = 3  # times the smallest class that the largest may have without a word


def show(result: dict[str, Any], out: Path, top: int) -> None:
    """Counts, accuracy, the pairs of classes that are most confused, the worst suspects, where the rest is."""
    findings = Findings.load(out)
    console = Console(highlight=False, markup=False, soft_wrap=True)  # a path in a pipe is one line
    low, high = result["noise_interval"]
    console.print(
        f"{result['issues']:,} of {result['samples']:,} labels look wrong: {result['noise_rate']:.1%} "
        f"(quality below 1/4: {low:.1%}, below 3/4: {high:.1%}) in {result['classes']} classes; "
        f"{result['epochs']} epochs, {result['seconds']:.0f} s"
    )
    for line in _notes(result, findings, out):
        console.print(line)
    pairs = confused(findings)[:_PAIRS]
    if pairs:
        told = ", ".join(f"{given} for {suggested} ({count:,})" for given, suggested, count in pairs)
        console.print(f"most often given: {told}")
    if result["issues"] and top:
        console.print(_worst(findings, min(top, result["issues"])))
    console.print(f"every label with its quality: {out / 'findings.csv'}")
    if (out / "report.html").is_file():
        console.print(f"to look at:                   {out / 'report.html'}")


def _notes(result: dict[str, Any], findings: Findings, out: Path) -> list[str]:
    """What there is to say of a run beside its headline."""
    lines = _accuracies(result)
    if result["noise_rate"] > 0.5:
        cut = "thresholds are" if "by_class" in findings.threshold_info else "threshold is"
        lines.insert(0, f"more than half: the network has hardly learnt yet (more epochs?), or the {cut} too high")
    if "ap" in result:
        lines.append(f"AP {result['ap']:.3f}: true labels are known, wrong ones rank before right ones so well")
    lines += result.get("notes", ())
    if broken := result.get("unreadable"):
        lines.append(f"{broken:,} {'sample' if broken == 1 else 'samples'} could not be read and took no part")
    lines += _of_the_data(out)
    if uneven := _uneven(findings):
        lines.append(uneven)
    return lines


def facts(out: Path, top: int) -> dict[str, Any]:
    """What `--json` has beside the results: the pairs that are most confused, and the worst suspects."""
    findings = Findings.load(out)
    pairs = [{"given": given, "suggested": suggested, "count": n} for given, suggested, n in confused(findings)]
    rows = findings.table.iloc[worst(findings, min(top, int(findings.is_label_issue.sum())))]
    columns = ["id", "given_label", "suggested_label", "label_quality", "suggested_confidence"]
    return {"confused": pairs[:_PAIRS], "suspects": plain(rows[columns].to_dict(orient="records"))}


def confused(findings: Findings) -> list[tuple[str, str, int]]:
    """Pairs (given, suggested, how many issues), the most frequent first."""
    moved = findings.is_label_issue & (findings.suggested_labels != findings.given_labels)
    size = findings.num_classes
    codes = findings.given_labels[moved] * size + findings.suggested_labels[moved]
    pairs, counts = np.unique(codes, return_counts=True)
    names = findings.class_names or tuple(range(size))
    order = np.argsort(-counts, kind="stable")
    return [(str(names[pairs[at] // size]), str(names[pairs[at] % size]), int(counts[at])) for at in order]


def _uneven(findings: Findings) -> str | None:
    """A line if the largest class has more than 3 times the samples of the smallest that is not empty."""
    scored = ~np.isnan(findings.label_quality)
    classes, counts = np.unique(findings.given_labels[scored], return_counts=True)
    if len(counts) == 0 or counts.max() <= _UNEVEN * counts.min():
        return None
    names = findings.class_names or tuple(range(findings.num_classes))
    most, least = ((names[classes[at]], f"{counts[at]:,}") for at in (counts.argmax(), counts.argmin()))
    told = f"uneven classes: {most[0]} has {most[1]} labels, {least[0]} {least[1]}"
    if "by_class" in findings.threshold_info:
        return f"{told}; each class has a threshold of its own"
    return f"{told}; --threshold per-class gives each class a threshold of its own"


def _worst(findings: Findings, count: int) -> Table:
    table = Table(title="the worst suspects", title_justify="left", box=None)
    for column in ("id", "given", "suggested", "label quality", "confidence"):
        table.add_column(column, justify="left" if column == "id" else "right")
    for row in findings.table.iloc[worst(findings, count)].itertuples():
        texts = (Text(str(cell)) for cell in (row.id, row.given_label, row.suggested_label))
        table.add_row(*texts, f"{row.label_quality:.2g}", f"{row.suggested_confidence:.3f}")
    return table


def _of_the_data(out: Path) -> list[str]:
    """What data.json tells of test labels and duplicates."""
    file = out / "data.json"
    told = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    lines = []
    if told.get("held_out") and not told.get("true_labels"):
        lines.append(f"tested on {len(told['held_out']):,} samples kept aside, whose labels may be wrong as the others")
    if told.get("conflicting_samples"):
        lines.append(f"{told['conflicting_samples']:,} samples have the content of another one with another label")
    return lines


def _accuracies(result: dict[str, Any]) -> list[str]:
    """Lines about test data, if there were any."""
    if "test_accuracy" not in result:
        return []
    best, when = f"best epoch {result['best_test_accuracy']:.3f}, an oracle", "after the last epoch"
    if "last_test_accuracy" in result:
        when = "of the epoch that validation data chose"
        best = f"last epoch {result['last_test_accuracy']:.3f}; {best}"
    lines = [f"test accuracy {result['test_accuracy']:.3f} {when} ({best})"]
    each = {name[14:]: value for name, value in result.items() if name.startswith("test_accuracy_")}
    if each:
        lines.append(f"  the mean of {', '.join(f'{name} {value:.3f}' for name, value in each.items())}")
    if "filter_test_accuracy" in result:
        lines.append(f"test accuracy of the filter, before pseudo-labels: {result['filter_test_accuracy']:.3f}")
    return lines
