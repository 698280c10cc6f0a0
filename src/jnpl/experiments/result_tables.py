"""Tables of `jnpl bench`: mean and spread over seeds, one column per setting. And how all tables are written."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from jnpl.experiments.results import FILE, read
from jnpl.experiments.spec import RunSpec
from jnpl.experiments.variants import BASE, BENCH
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text

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
_NOISES = ("symm", "asymm", "instance", "human", "none")


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


def latex_table(rows: Iterable[Sequence[str]]) -> str:
    """A table with its head as the first row, for booktabs; text between asterisks is bold, as in Markdown.

    >>> print(latex_table([["NL & PL", "50 %"], ["**1.5 ± 0.1**", "-"]]))
    \\begin{tabular}{ll}
    \\toprule
    NL \\& PL & 50 \\% \\\\ \\midrule
    \\textbf{1.5 $\\pm$ 0.1} & -- \\\\
    \\bottomrule
    \\end{tabular}
    <BLANKLINE>
    """

    def text(cell: str) -> str:
        for character, latex in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$")):
            cell = cell.replace(character, latex)
        inner = cell.strip("*")
        return "--" if cell == "-" else cell if inner == cell else rf"\textbf{{{inner}}}"

    lines = [[text(cell) for cell in row] for row in rows]
    head, *others = [" & ".join(line) + r" \\" for line in lines]
    begin = [rf"\begin{{tabular}}{{{'l' * len(lines[0])}}}", r"\toprule", rf"{head} \midrule"]
    return "\n".join([*begin, *others, r"\bottomrule", r"\end{tabular}"]) + "\n"


@dataclass(frozen=True)
class Result:
    """The results of a run; `setting` is the name of its column."""

    spec: RunSpec
    setting: str
    facts: dict[str, Any]

    def get(self, figure: str) -> float | None:
        """A figure of its results, None where it does not exist."""
        value = self.facts.get(figure)
        return None if value is None else float(value)


_Text: TypeAlias = "Callable[[Sequence[Result], Sequence[Result]], str]"  # of a cell, from its results and all results


def load(path: Path) -> list[Result]:
    """All runs of a file of results, in the order of variants, settings and seeds."""
    runs: list[tuple[RunSpec, dict[str, Any]]] = []
    for name, line in read(path).items():
        try:
            runs.append((RunSpec.model_validate(line["cell"]), _checked(line["results"])))
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{name!r} in {str(path)!r} is not the result of a run of jnpl bench") from error
    names = _column_names([spec for spec, _ in runs])
    order = {variant: number for number, variant in enumerate(BENCH)}

    def place(result: Result) -> tuple[Any, ...]:
        spec = result.spec
        setting = spec.data, _NOISES.index(spec.noise), spec.rate, result.setting
        return *setting, order.get(spec.variant, len(order)), spec.variant, spec.seed

    return sorted((Result(spec, names[_group(spec)], facts) for spec, facts in runs), key=place)


def _checked(facts: dict[str, Any]) -> dict[str, Any]:
    if wrong := [figure for figure in _FIGURES if not isinstance(facts.get(figure), int | float | None)]:
        raise ValueError(f"{wrong[0]} must be a number")
    return facts


def _group(spec: RunSpec) -> str:
    """What runs of one column have in common: all but variant and seed."""
    return spec.model_copy(update={"variant": "any", "seed": 0}).model_dump_json()


def _column_names(specs: Sequence[RunSpec]) -> dict[str, str]:
    """Group -> name: data and noise, and where that is not enough, what differs."""
    by_name: dict[str, dict[str, RunSpec]] = defaultdict(dict)
    for spec in specs:
        by_name[spec.setting][_group(spec)] = spec
    names: dict[str, str] = {}
    for name, groups in by_name.items():
        settings = [spec.model_dump(exclude={"variant", "seed"}) for spec in groups.values()]
        differ = [field for field in settings[0] if len({str(one[field]) for one in settings}) > 1]
        for group, setting in zip(groups, settings, strict=True):
            difference = ", ".join(f"{field} {setting[field]}" for field in differ)
            names[group] = f"{name} ({difference})" if difference else name
    return names


def markdown(results: Sequence[Result], level: int = 2) -> str:
    """Return all tables as Markdown, data set by data set; `level` is that of the first heading."""
    parts: list[str] = []
    head = "#" * level
    for data in dict.fromkeys(result.spec.data for result in results):
        of_data = [result for result in results if result.spec.data == data]
        seeds = sorted({result.spec.seed for result in of_data})
        parts.append(f"{head} {data}\n\nSeeds {', '.join(map(str, seeds))}; mean ± standard deviation over them.")
        parts += [f"{head}# {title}\n\n{_table(of_data, text, extra)}" for title, text, extra in _TABLES]
    return "\n\n".join(parts) + "\n"


def costs(results: Sequence[Result], figure: str) -> dict[str, float]:
    """Name of a run -> its CPU seconds over those of cross-entropy in the same setting with the same seed."""
    base = {(result.setting, result.spec.seed): result.get(figure) for result in results if result.spec.variant == BASE}
    ratios = {}
    for result in results:
        seconds, ce = result.get(figure), base.get((result.setting, result.spec.seed))
        if seconds is not None and ce:
            ratios[result.spec.name] = seconds / ce
    return ratios


def spread(values: Iterable[float | None], digits: int = 3) -> str:
    """Mean ± standard deviation of what there is.

    >>> spread([0.5, 0.7]), spread([0.5]), spread([None])
    ('0.600 ± 0.141', '0.500', '-')
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return "-"
    mean = f"{statistics.mean(numbers):.{digits}f}"
    return mean if len(numbers) == 1 else f"{mean} ± {statistics.stdev(numbers):.{digits}f}"


def _figure(name: str) -> _Text:
    """Mean and spread of a figure, and of how many seeds if some lack it."""

    def text(of_cell: Sequence[Result], _all: Sequence[Result]) -> str:
        values = [result.get(name) for result in of_cell]
        count = sum(value is not None for value in values)
        return spread(values) + (f" ({count} of {len(values)})" if 0 < count < len(values) else "")

    return text


def _last_and_peak(of_cell: Sequence[Result], _all: Sequence[Result]) -> str:
    peaks = [result for result in of_cell if result.get("ap_peak") is not None and len(result.facts["ap_curve"]) > 1]
    if not peaks:
        return "-"
    lost = [(result.get("ap") or 0.0) - (result.get("ap_peak") or 0.0) for result in peaks]
    peak, epoch = (statistics.mean(result.get(name) or 0.0 for result in peaks) for name in ("ap_peak", "ap_epoch"))
    return f"{peak:.3f} in epoch {epoch:.0f}; last {statistics.mean(lost):+.3f}"


def _cost(of_cell: Sequence[Result], results: Sequence[Result]) -> str:
    shown = []
    for figure in ("cpu_seconds", "total_cpu_seconds"):
        ratios = costs(results, figure)
        shown.append(spread((ratios.get(result.spec.name) for result in of_cell), 2))
    return shown[0] if shown[0] == shown[1] else " / ".join(shown)


_AP_EXTRA = (
    ("ce", "aum_ap", "ce, AUM"),
    ("ce", "ap_peak", "ce, best epoch (an oracle)"),
    ("cleanlab", "ap_normalized_margin", "cleanlab, normalised margin"),
)
_TABLES: tuple[tuple[str, _Text, tuple[tuple[str, str, str], ...]], ...] = (
    ("AP of the ranking, wrong labels positive", _figure("ap"), _AP_EXTRA),
    ("AP at its best epoch, and what the last one lost", _last_and_peak, ()),
    ("Share of wrong labels among the K worst, K their true number", _figure("precision_at_noise"), ()),
    ("Test accuracy of the final classifier", _figure("test_accuracy"), ()),
    ("Test accuracy of the network that ranked the labels", _figure("filter_test_accuracy"), ()),
    ("CPU seconds of the filter / of all, in times of ce", _cost, ()),
)


def _table(results: Sequence[Result], text: _Text, extra: tuple[tuple[str, str, str], ...]) -> str:
    columns = list(dict.fromkeys(result.setting for result in results))
    there = {result.spec.variant for result in results}
    variants = [*(variant for variant in BENCH if variant in there), *sorted(there - set(BENCH))]  # of another version

    def line(variant: str, text: _Text, shown: str) -> list[str]:
        cells = [[one for one in results if (one.spec.variant, one.setting) == (variant, column)] for column in columns]
        return [shown, *(text(of_cell, results) if of_cell else "-" for of_cell in cells)]

    lines = [line(variant, text, variant) for variant in variants]
    lines += [line(variant, _figure(figure), shown) for variant, figure, shown in extra if variant in variants]
    head = ["row", *(column.removeprefix(f"{results[0].spec.data}-") for column in columns)]
    return markdown_table([head, *(row for row in lines if set(row[1:]) != {"-"})])


def summary(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return means over seeds, one dict for each variant and setting, for `--json`."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.setting, result.spec.variant].append(result)
    ratios = costs(results, "cpu_seconds")
    rows = []
    for (setting, variant), group in groups.items():
        means: dict[str, Any] = {"setting": setting, "row": variant, "seeds": [result.spec.seed for result in group]}
        for figure in _FIGURES:
            if values := [value for result in group if (value := result.get(figure)) is not None]:
                means[figure] = statistics.mean(values)
        if cost := [ratios[result.spec.name] for result in group if result.spec.name in ratios]:
            means["cost"] = statistics.mean(cost)
        rows.append(means)
    return rows


def write(path: Path, out: Path) -> str:
    """Write table.md and ap-time.png to `out`; returns the tables."""
    from jnpl.experiments.plots import ap_against_time  # noqa: PLC0415 (slow to import)

    results = load(path)
    if not results:
        raise InputError(f"there is no result of a run in {str(path)!r}")
    text = markdown(results)
    write_text(out / TABLE_FILE, text)
    ap_against_time(out / PLOT_FILE, results)
    return text


def check_folder(out: Path) -> None:
    """Refuse a folder with files of these names that are not of `jnpl bench`."""
    for name in (TABLE_FILE, PLOT_FILE):
        if (out / name).exists() and not (out / FILE).exists():
            raise InputError(f"{str(out / name)!r} is not of jnpl bench: give another folder by --out")
