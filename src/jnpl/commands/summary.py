"""What `jnpl find` and `jnpl train` say on the screen when they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jnpl.findings import Findings

if TYPE_CHECKING:
    from pathlib import Path

_PAIRS = 5


def show(result: dict[str, Any], out: Path, top: int) -> None:
    """Counts, accuracy, the pairs of classes that are most confused, the worst suspects, where the rest is."""
    findings = Findings.load(out)
    console = Console(highlight=False, markup=False)
    low, high = result["noise_interval"]
    console.print(
        f"{result['issues']:,} of {result['samples']:,} labels look wrong: {result['noise_rate']:.1%} "
        f"(surely {low:.1%}, possibly {high:.1%}) in {result['classes']} classes; "
        f"{result['epochs']} epochs, {result['seconds']:.0f} s"
    )
    if result["noise_rate"] > 0.5:
        console.print("more than half: the network has hardly learnt yet (more epochs?), or the threshold is too high")
    for line in _accuracies(result):
        console.print(line)
    if "ap" in result:
        console.print(f"AP {result['ap']:.3f}: true labels are known, wrong ones rank before right ones so well")
    for line in result.get("notes", ()):
        console.print(line)
    if result.get("unreadable"):
        console.print(f"{result['unreadable']:,} samples could not be read and were left out")
    pairs = confused(findings)[:_PAIRS]
    if pairs:
        told = ", ".join(f"{given} for {suggested} ({count:,})" for given, suggested, count in pairs)
        console.print(f"most often given: {told}")
    if result["issues"] and top:
        console.print(_worst(findings, min(top, result["issues"])))
    console.print(f"every label with its quality: {out / 'findings.csv'}")
    if (out / "report.html").is_file():
        console.print(f"to look at:                   {out / 'report.html'}")


def confused(findings: Findings) -> list[tuple[str, str, int]]:
    """Pairs (given, suggested, how many issues), the most frequent first."""
    moved = findings.is_label_issue & (findings.suggested_labels != findings.given_labels)
    size = findings.num_classes
    codes = findings.given_labels[moved] * size + findings.suggested_labels[moved]
    pairs, counts = np.unique(codes, return_counts=True)
    names = findings.class_names or tuple(range(size))
    order = np.argsort(-counts, kind="stable")
    return [(str(names[pairs[at] // size]), str(names[pairs[at] % size]), int(counts[at])) for at in order]


def _worst(findings: Findings, count: int) -> Table:
    table = Table(title="the worst suspects", title_justify="left", box=None)
    for column in ("id", "given", "suggested", "label quality", "confidence"):
        table.add_column(column, justify="left" if column == "id" else "right")
    for row in findings.worst(count).itertuples():
        texts = (Text(str(cell)) for cell in (row.id, row.given_label, row.suggested_label))
        table.add_row(*texts, f"{row.label_quality:.2g}", f"{row.suggested_confidence:.3f}")
    return table


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
