"""Tables of `jnpl bench`: mean and spread over seeds, one column per setting. And how all tables are written."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from jnpl.experiments.cell import Cell
from jnpl.experiments.results import FILE, read
from jnpl.experiments.rows import BASE, ROWS
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

TABLE_FILE, PLOT_FILE = "table.md", "ap-time.png"
_FIGURES = (
    "ap",
    "ap_peak",
    "ap_epoch",
    "precision_at_noise",
    "test_accuracy",
    "filter_test_accuracy",
    "aum_ap",
    "ap_normalized_margin",
    "cpu_seconds",
    "total_cpu_seconds",
)


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """A table with its head as the first row. (pandas would need the package tabulate for it.)

    >>> markdown_table([["a", "b"], ["1", "2"]])
    '| a | b |\\n| --- | --- |\\n| 1 | 2 |'
    """
    head, *lines = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *lines])


def csv_table(rows: Iterable[dict[str, object]]) -> str:
    """Comma-separated rows, their keys as the head."""
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def latex_text(text: str) -> str:
    """Text for LaTeX, special characters escaped."""
    return text.replace("&", r"\&").replace("%", r"\%").replace("_", r"\_")


@dataclass(frozen=True)
class Result:
    """The results of a cell; `setting` is the name of its column."""

    cell: Cell
    setting: str
    facts: dict[str, Any]

    def get(self, figure: str) -> float | None:
        """A figure of its results, None where it does not exist."""
        value = self.facts.get(figure)
        return None if value is None else float(value)


def load(path: Path) -> list[Result]:
    """All cells of a file of results, in the order of rows, settings and seeds."""
    found: list[tuple[Cell, dict[str, Any]]] = []
    for name, line in read(path).items():
        try:
            found.append((Cell.model_validate(line["cell"]), _checked_figures(line["results"])))
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{name!r} in {str(path)!r} is not the result of a cell of jnpl bench") from error
    names = _column_names([cell for cell, _ in found])
    order = {row: number for number, row in enumerate(ROWS)}
    results = [Result(cell, names[_group(cell)], facts) for cell, facts in found]
    noises = {noise: number for number, noise in enumerate(("symm", "asymm", "instance", "human", "none"))}
    return sorted(
        results,
        key=lambda each: (
            each.cell.data,
            noises[each.cell.noise],
            each.cell.rate,
            each.setting,
            order.get(each.cell.row, len(order)),
            each.cell.row,
            each.cell.seed,
        ),
    )


def _checked_figures(facts: dict[str, Any]) -> dict[str, Any]:
    for figure in _FIGURES:
        if facts.get(figure) is not None and not isinstance(facts[figure], int | float):
            raise ValueError(f"{figure} must be a number")
    return facts


def _group(cell: Cell) -> str:
    """What cells of one column have in common: all but row and seed."""
    return cell.model_copy(update={"row": "any", "seed": 0}).model_dump_json()


def _column_names(cells: Sequence[Cell]) -> dict[str, str]:
    """Group -> name: data and noise, and where that is not enough, what differs."""
    by_name: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in cells:
        by_name[cell.setting][_group(cell)] = cell
    names: dict[str, str] = {}
    for name, groups in by_name.items():
        settings = [cell.model_dump(exclude={"row", "seed"}) for cell in groups.values()]
        differ = [field for field in settings[0] if len({str(each[field]) for each in settings}) > 1]
        for group, setting in zip(groups, settings, strict=True):
            own = ", ".join(f"{field} {setting[field]}" for field in differ)
            names[group] = f"{name} ({own})" if own else name
    return names


def markdown(results: Sequence[Result], level: int = 2) -> str:
    """Return all tables as Markdown, data set by data set; `level` is that of the first heading."""
    parts: list[str] = []
    head = "#" * level
    for data in dict.fromkeys(result.cell.data for result in results):
        own = [result for result in results if result.cell.data == data]
        seeds = sorted({result.cell.seed for result in own})
        parts.append(f"{head} {data}\n\nSeeds {', '.join(map(str, seeds))}; mean ± standard deviation over them.")
        for title, text, extra in _TABLES:
            parts.append(f"{head}# {title}\n\n{_table(own, text, extra)}")
    return "\n\n".join(parts) + "\n"


def costs(results: Sequence[Result], figure: str) -> dict[str, float]:
    """Name of a cell -> its CPU seconds over those of cross-entropy in the same setting with the same seed."""
    base = {(each.setting, each.cell.seed): each.get(figure) for each in results if each.cell.row == BASE}
    found = {}
    for each in results:
        own, ce = each.get(figure), base.get((each.setting, each.cell.seed))
        if own is not None and ce:
            found[each.cell.name] = own / ce
    return found


def spread(values: Iterable[float | None], digits: int = 3) -> str:
    """Mean ± standard deviation of what there is.

    >>> spread([0.5, 0.7]), spread([0.5]), spread([None])
    ('0.600 ± 0.141', '0.500', '-')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean = f"{statistics.mean(known):.{digits}f}"
    return mean if len(known) == 1 else f"{mean} ± {statistics.stdev(known):.{digits}f}"


def _figure(name: str) -> Callable[[Sequence[Result], Sequence[Result]], str]:
    def text(own: Sequence[Result], _every: Sequence[Result]) -> str:
        return _spread_of_known(own, [each.get(name) for each in own])

    return text


def _spread_of_known(own: Sequence[Result], values: Sequence[float | None]) -> str:
    """Mean and spread, and of how many seeds if some lack the figure."""
    known = sum(value is not None for value in values)
    return spread(values) + (f" ({known} of {len(own)})" if 0 < known < len(own) else "")


def _last_and_peak(own: Sequence[Result], _every: Sequence[Result]) -> str:
    peaks = [each for each in own if each.get("ap_peak") is not None and len(each.facts["ap_curve"]) > 1]
    if not peaks:
        return "-"
    lost = [(each.get("ap") or 0.0) - (each.get("ap_peak") or 0.0) for each in peaks]
    peak, epoch = (statistics.mean(each.get(name) or 0.0 for each in peaks) for name in ("ap_peak", "ap_epoch"))
    return f"{peak:.3f} in epoch {epoch:.0f}; last {statistics.mean(lost):+.3f}"


def _cost(own: Sequence[Result], every: Sequence[Result]) -> str:
    shown = []
    for figure in ("cpu_seconds", "total_cpu_seconds"):
        ratios = costs(every, figure)
        shown.append(spread((ratios.get(each.cell.name) for each in own), 2))
    return shown[0] if shown[0] == shown[1] else " / ".join(shown)


_AP_EXTRA = (
    ("ce", "aum_ap", "ce, AUM"),
    ("ce", "ap_peak", "ce, best epoch (an oracle)"),
    ("cleanlab", "ap_normalized_margin", "cleanlab, normalised margin"),
)
_TABLES: tuple[tuple[str, Callable[[Sequence[Result], Sequence[Result]], str], tuple[tuple[str, str, str], ...]], ...]
_TABLES = (
    ("AP of the ranking, wrong labels positive", _figure("ap"), _AP_EXTRA),
    ("AP at its best epoch, and what the last one lost", _last_and_peak, ()),
    ("Share of wrong labels among the K worst, K their true number", _figure("precision_at_noise"), ()),
    ("Test accuracy of the final classifier", _figure("test_accuracy"), ()),
    ("Test accuracy of the network that ranked the labels", _figure("filter_test_accuracy"), ()),
    ("CPU seconds of the filter / of all, in times of ce", _cost, ()),
)


def _table(
    results: Sequence[Result],
    text: Callable[[Sequence[Result], Sequence[Result]], str],
    extra: tuple[tuple[str, str, str], ...],
) -> str:
    columns = list(dict.fromkeys(result.setting for result in results))
    rows = [row for row in ROWS if any(result.cell.row == row for result in results)]
    rows += sorted({result.cell.row for result in results} - set(rows))  # of another version

    def line(row: str, text: Callable[[Sequence[Result], Sequence[Result]], str], shown: str) -> list[str]:
        own = [[each for each in results if (each.cell.row, each.setting) == (row, column)] for column in columns]
        return [shown, *(text(each, results) if each else "-" for each in own)]

    lines = [line(row, text, row) for row in rows]
    lines += [line(row, _figure(figure), shown) for row, figure, shown in extra if row in rows]
    lines = [each for each in lines if set(each[1:]) != {"-"}]
    head = ["row", *(column.removeprefix(f"{results[0].cell.data}-") for column in columns)]
    return markdown_table([head, *lines])


def summary(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return means over seeds, one dict for each row and setting, for `--json`."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for each in results:
        groups[each.setting, each.cell.row].append(each)
    rows = []
    for (setting, row), own in groups.items():
        means: dict[str, Any] = {"setting": setting, "row": row, "seeds": [each.cell.seed for each in own]}
        for figure in _FIGURES:
            known = [value for each in own if (value := each.get(figure)) is not None]
            if known:
                means[figure] = statistics.mean(known)
        ratios = costs(results, "cpu_seconds")
        if ratio := [ratios[each.cell.name] for each in own if each.cell.name in ratios]:
            means["cost"] = statistics.mean(ratio)
        rows.append(means)
    return rows


def write(path: Path, out: Path) -> str:
    """Write table.md and ap-time.png to `out`; returns the tables."""
    from jnpl.experiments.plots import ap_against_time  # noqa: PLC0415 (slow to import)

    results = load(path)
    if not results:
        raise InputError(f"there is no result of a cell in {str(path)!r}")
    text = markdown(results)
    write_text(out / TABLE_FILE, text)
    ap_against_time(out / PLOT_FILE, results)
    return text


def check_folder(out: Path) -> None:
    """Refuse a folder with files of these names that are not of a grid."""
    for name in (TABLE_FILE, PLOT_FILE):
        if (out / name).exists() and not (out / FILE).exists():
            raise InputError(f"{str(out / name)!r} is not of jnpl bench: give another folder by --out")
