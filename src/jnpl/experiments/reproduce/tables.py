"""Tables 1 and 2 as Markdown, CSV and LaTeX: ours, mean and spread over seeds, and beneath it what the paper prints."""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.paper import DATA_NAMES, METHODS, SETTINGS, TABLE1, TABLE2, percent, printed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jnpl.experiments.reproduce.results import Result, Results

_LEGEND = "Test accuracy in percent; ± is the standard deviation over seeds, where there are several."
_BEST = 2  # the paper prints the best two of a column bold; we do so among its methods


@dataclass(frozen=True)
class Entry:
    """One cell of a table: test accuracies in percent, one a seed; the paper's; runs that came to no classifier."""

    values: tuple[float, ...]
    paper: float | None
    failed: int = 0

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, from two on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def text(self, plus_minus: str = " ± ", nothing: str = "-") -> str:
        """Mean ± spread.

        >>> Entry((50.0, 52.0), None).text(), Entry((50.0,), 60.0).text(), Entry((), 60.0).text()
        ('51.0 ± 1.4', '50.0', '-')
        """
        if self.mean is None:
            return "no classifier" if self.failed else nothing
        told = f"{self.mean:.1f}" + ("" if self.spread is None else f"{plus_minus}{self.spread:.1f}")
        return told + (f" ({self.failed} without)" if self.failed else "")


def entry(found: Sequence[Result], paper: float | None) -> Entry:
    """Of the runs of one method in one setting."""
    values = [each.get("test_accuracy") for each in found]
    known = tuple(100 * value for value in values if value is not None)
    return Entry(known, paper, len(values) - len(known))


def table1(results: Results) -> dict[str, dict[str, list[Entry]]]:
    """Data set of the paper -> variant -> an entry for each of its eight settings."""
    return {
        part: {
            variant: [
                entry(results.of(variant, setting, part, classify=True), printed(part, variant, setting))
                for setting in SETTINGS
            ]
            for variant in METHODS
        }
        for part in ("cifar10", "cifar100")
    }


def table2(results: Results) -> dict[str, Entry]:
    """Variant -> its entry."""
    return {
        variant: entry(results.of(variant, None, "clothing1m", classify=True), quoted)
        for variant, (_, quoted) in TABLE2.items()
    }


def bold(rows: Mapping[str, Sequence[Entry]], column: int) -> set[str]:
    """Which of the paper's methods are the best two of a column."""
    own = {variant: row[column].mean for variant, row in rows.items() if variant in TABLE1["cifar10"]}
    known = sorted((mean, variant) for variant, mean in own.items() if mean is not None)
    return {variant for _, variant in known[-_BEST:]} if len(known) > _BEST else set()


def _marked(rows: Mapping[str, Sequence[Entry]], variant: str, mark: str, *text: str) -> list[str]:
    """The entries of a row, those of the best two in `mark`, which has a place for them."""
    told = [each.text(*text) for each in rows[variant]]
    return [mark.replace("TEXT", each) if variant in bold(rows, column) else each for column, each in enumerate(told)]


def as_markdown(rows: Iterable[Sequence[str]]) -> str:
    """Rows of a table, the second of them of dashes.

    >>> as_markdown([["a", "b"], ["---", "---"]])
    '| a | b |\\n| --- | --- |'
    """
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def markdown1(results: Results) -> str:
    """A table a data set; two lines a method: ours, and the paper's. Bold: the best two of the paper's methods."""
    parts = []
    for part, rows in table1(results).items():
        if missing := _why(results, part, rows):
            parts.append(f"**{_title(results, part)}**{missing}")
            continue
        names = [f"{noise} {percent(rate)}" for noise, rate in SETTINGS]
        lines = [["method", "", *names], ["---"] * (len(names) + 2)]
        for variant, row in rows.items():
            lines.append([METHODS[variant], "ours", *_marked(rows, variant, "**TEXT**")])
            if any(each.paper is not None for each in row):
                lines.append(["", "paper", *("-" if each.paper is None else f"{each.paper:.2f}" for each in row)])
        parts.append(f"**{_title(results, part)}**\n\n{as_markdown(lines)}")
    return "\n\n".join([*parts, f"{_LEGEND} Bold: the best two of the paper's seven methods."]) + "\n"


def _title(results: Results, part: str) -> str:
    ours = results.scale.stands_for.get(part)
    return DATA_NAMES[part] + (f" (ours: {ours})" if ours not in (None, part) else "")


def _why(results: Results, part: str, rows: dict[str, list[Entry]]) -> str:
    """Why nothing of ours is in a table."""
    if any(each.values or each.failed for row in rows.values() for each in row):
        return ""
    return f". Not run: {results.missing.get(part, 'there are no results')}."


def csv1(results: Results) -> str:
    """A line an entry."""
    rows: list[Sequence[object]] = [
        ("data", "method", "noise", "rate", "seeds", "mean", "spread", "paper", "scale", "ours")
    ]
    for part, methods in table1(results).items():
        for variant, row in methods.items():
            for (noise, rate), each in zip(SETTINGS, row, strict=True):
                rows.append((part, variant, noise, rate, len(each.values), *_figures(each), *_origin(results, part)))
    return _csv(rows)


def _figures(each: Entry) -> tuple[str, str, str]:
    mean, spread, paper = ("" if value is None else f"{value:.2f}" for value in (each.mean, each.spread, each.paper))
    return mean, spread, paper


def _origin(results: Results, part: str) -> tuple[str, str]:
    """The scale, and the data that stand for those of the paper."""
    return results.scale.name, results.scale.stands_for.get(part, "")


def _csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def latex1(results: Results) -> str:
    """For booktabs and multirow, in the paper's arrangement; its numbers beneath ours, in brackets."""
    noises = r"\multicolumn{4}{c|}{\textit{Symm}} & \multicolumn{4}{c}{\textit{Asymm}} \\"
    lines = [
        f"% Test accuracy (%), scale {results.scale.name}; in brackets the paper's. Needs booktabs and multirow.",
        r"\begin{tabular}{c|l|cccc|cccc}\toprule",
        r"\multirow{2}{*}{Data} & \multirow{2}{*}{Method} & " + noises,
        " & & " + " & ".join(percent(rate) for _, rate in SETTINGS) + r" \\",
    ]
    for part, rows in table1(results).items():
        lines.append(r"\midrule")
        for at, (variant, row) in enumerate(rows.items()):
            ours = _marked(rows, variant, r"\textbf{TEXT}", r" $\pm$ ", "--")
            first = _escaped(_title(results, part)) if at == 0 else ""
            lines.append(f"{first} & {_escaped(METHODS[variant])} & " + " & ".join(ours) + r" \\")
            if any(each.paper is not None for each in row):
                paper = ("(--)" if each.paper is None else f"({each.paper:.2f})" for each in row)
                lines.append(" & & " + " & ".join(paper) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("&", r"\&").replace("%", r"\%").replace("_", r"\_")


def markdown2(results: Results) -> str:
    """Quoted beside ours."""
    rows = table2(results)
    lines = [["method", "paper", "ours"], ["---"] * 3]
    lines += [[TABLE2[variant][0], f"{each.paper:.2f}", each.text()] for variant, each in rows.items()]
    text = as_markdown(lines)
    if any(each.values for each in rows.values()):
        return text + "\n"
    return f"{text}\n\nNot run: {results.missing.get('clothing1m', 'there are no results')}.\n"


def csv2(results: Results) -> str:
    """A line a method."""
    rows: list[Sequence[object]] = [("data", "method", "seeds", "mean", "spread", "paper", "scale", "ours")]
    for variant, each in table2(results).items():
        rows.append(("clothing1m", variant, len(each.values), *_figures(each), *_origin(results, "clothing1m")))
    return _csv(rows)


def latex2(results: Results) -> str:
    """For booktabs."""
    lines = [r"\begin{tabular}{l|cc}", r"\toprule", r"Method & Paper & Ours \\ \midrule"]
    for variant, each in table2(results).items():
        ours = each.text(r" $\pm$ ", "--")
        lines.append(f"{_escaped(TABLE2[variant][0])} & {each.paper:.2f} & {ours}" + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


MARKDOWN = {"table1": markdown1, "table2": markdown2}
