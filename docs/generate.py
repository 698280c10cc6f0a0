"""Write the generated parts of docs/: `python docs/generate.py` (`--check`: only report what is out of date).

docs/methods: the list of methods, and the settings on each method's page, from the registry. docs/architecture.md: the
table of rooms, from the docstrings in the rooms' `__init__.py`, in the order of tests/test_house.py. README.md and
docs/results/fast.md: tables of results, from benchmarks/results. llms.txt, for language models: commands, Python names
and pages, from the package and mkdocs.yml. And src/jnpl/methods/table.json, for `jnpl methods`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import typer
from pydantic_core import PydanticUndefined

import jnpl
from jnpl.cli.app import COMMANDS, app
from jnpl.methods.registry import METHODS, table

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parent
PAGES = DOCS / "methods"
PACKAGE = DOCS.parent / "src/jnpl"
ARCHITECTURE, README, LLMS = DOCS / "architecture.md", DOCS.parent / "README.md", DOCS.parent / "llms.txt"
RESULTS = DOCS.parent / "benchmarks/results"
OWNERS = {  # columns of benchmarks/results/owners.jsonl -> what they are
    "cifar10/worse": "CIFAR-10N, 50,000 photos, labels by people",
    "cifar100/human": "CIFAR-100N, 20,000 photos, labels by people",
    "flowers/symm20": "flowers, 2,000 photos, 400 for the test, labels changed at random",
    "agnews-minilm/weak": "news texts, labels by keyword rules",
    "trec6-minilm/symm20": "questions, labels changed at random",
}
TABLES = "symm20"  # the column of benchmarks/results/owners-tables.jsonl whose mean over the tables is shown
FAST = ("ce", "nlnl", "cleanlab", "jnpl-paper", "gce", "co-teaching", "fast")  # rows of benchmarks/results/fast.jsonl
BLOCK = re.compile(r"(<!-- (?:settings|rooms|results|lists|fast): generated -->\n).*?(<!-- end -->)", re.DOTALL)

PAGE = re.compile(r'^ +- "?(.+?)"?: ([\w/-]+\.md)$', re.MULTILINE)  # of the navigation in mkdocs.yml

SKELETON = """# {name}

## Equation

## Settings
<!-- settings: generated -->
<!-- end -->

## What differs from the original, and why

## Unverified
"""


def index() -> str:
    """Return docs/methods/README.md: all methods, as `jnpl methods` lists them."""
    rows = [
        f"| [`{row['name']}`]({row['name']}.md) | {row['paper']} | {row['networks']} | {', '.join(row['stages'])} "
        f"| {row['needs']} | {row['score'].replace('|', '&#124;')} |"
        for row in table()
    ]
    head = "| method | paper | networks | stages | needs in advance | label quality |\n|---|---|---|---|---|---|"
    return f"""# Methods

All methods use the same training loop, on vectors and images, in one or several processes, and resume exactly. Each
gives a classifier and a quality for every label. `jnpl methods` prints this table; this page is generated from the same
registry (`python docs/generate.py`). [How they compare on labels by people](../results/field.md).

{head}
{chr(10).join(rows)}

Label quality lies in 0..1, lower is worse. `jnpl train DATA -o RUN --method NAME` trains a method, `--set
method.KEY=VALUE` changes its settings, `--set stages.STAGE.KEY=VALUE` the plan of one of its stages; a stage without
its own plan uses `[train]`. Recipes with the papers' settings: `jnpl recipes`.
"""


def settings(name: str) -> str:
    """Return the settings of a method as a table."""
    fields = {key: field for key, field in METHODS[name].Settings.model_fields.items() if key != "name"}
    if not fields:
        return "None of its own.\n"
    rows = []
    for key, field in fields.items():
        default = "required" if field.default is PydanticUndefined else f"`{field.default!r}`"
        rows.append(f"| `method.{key}` | {default} | {field.description or ''} |".replace("| ''", "|"))
    return "\n".join(["| setting | default | |", "|---|---|---|", *rows]) + "\n"


def llms() -> str:
    """Return the lists of llms.txt: commands, Python names, and pages in docs/."""
    program: Any = typer.main.get_command(app)
    commands = [f"- `jnpl {name}`: {first_line(program.commands[name].help)}" for name in COMMANDS]
    names = [name for name in jnpl.__all__ if not name.startswith("__")]
    python = [f"- `jnpl.{name}`: {first_line(getattr(jnpl, name).__doc__)}" for name in names]
    listed = PAGE.findall((DOCS.parent / "mkdocs.yml").read_text("utf-8"))
    pages = [f"- [{title}](docs/{path})" for title, path in listed if (DOCS / path).exists()]
    parts = {"Commands": commands, "Python": python, "Pages": pages}
    return "\n".join(f"## {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in parts.items())


def first_line(text: str) -> str:
    """Return the first line of a docstring."""
    return text.strip().splitlines()[0]


def room_names() -> tuple[str, ...]:
    """Return the rooms in import order, as tests/test_house.py lists them."""
    tree = ast.parse((DOCS.parent / "tests/test_house.py").read_text("utf-8"))
    found = next(
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["ROOMS"]
    )
    names: tuple[str, ...] = ast.literal_eval(found)
    return names


def rooms() -> str:
    """Return one row per room: its first docstring line. The docstring says what each module of the room does."""
    rows = []
    for name in room_names():
        is_file = (PACKAGE / f"{name}.py").is_file()
        source = PACKAGE / f"{name}.py" if is_file else PACKAGE / name / "__init__.py"
        docstring = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
        rows.append(f"| `{name}{'.py' if is_file else '/'}` | {docstring.splitlines()[0] if docstring else ''} |")
    return "\n".join(["| room | what it offers |", "|---|---|", *rows]) + "\n"


def results() -> str:
    """Return the results of README.md: means over the seeds in benchmarks/results."""
    return f"{owners_table()}\n{seconds_sentence()}\n{field_sentence()}"


def owners_table() -> str:
    """Return the ranking and the classifier of `jnpl find` beside cleanlab on the same embeddings, and on tables."""
    cells = defaultdict(list)
    for line in lines("owners.jsonl"):
        cells[line["name"].rpartition("/")[0]].append(line["results"])
    rows = []
    for column, what in OWNERS.items():
        runs = [run for run in cells[column] if {"jnpl", "cleanlab"} <= run.keys()]
        figures = [
            mean(run["jnpl"]["ap"] for run in runs),
            mean(rival_ap(run) for run in runs),
            mean(run["jnpl"]["accuracy"] for run in runs),
            mean(max(run["cleanlab"]["accuracy_all"], run["cleanlab"]["accuracy_kept"]) for run in runs),
        ]
        shown = [f"{value:.3f}" for value in figures]
        rows.append(f"| {what} | {mean(run['noise_rate'] for run in runs):.0%} | {' | '.join(shown)} |")
    head = "| data | wrong | AP | cleanlab's | accuracy | cleanlab's |\n|---|---|---|---|---|---|"
    return "\n".join([head, *rows, *tables_row()]) + "\n"


def tables_row() -> list[str]:
    """Return the row of `jnpl find` beside cleanlab around gradient boosting: means over the tables that are stored."""
    runs = defaultdict(list)
    for line in lines("owners-tables.jsonl"):
        name, column, _ = line["name"].split("/")
        if column == TABLES and {"jnpl", "cleanlab"} <= line["results"].keys():
            runs[name].append(line["results"])
    if not runs:
        return []

    def over_tables(figure: Callable[[dict[str, Any]], float]) -> float:
        return mean(mean(figure(run) for run in each) for each in runs.values())

    ap, rival, noise = (
        over_tables(of) for of in (lambda run: run["jnpl"]["ap"], rival_ap, lambda run: run["noise_rate"])
    )
    what = f"{len(runs)} tables, labels changed at random; cleanlab with gradient boosting"
    return [f"| {what} | {noise:.0%} | {ap:.3f} | {rival:.3f} | | |"]


def rival_ap(run: dict[str, Any]) -> float:
    """Return the AP of the better one of cleanlab's rankings."""
    return float(max(run["cleanlab"]["ap"], run["cleanlab"]["ap_margin"]))


_HUNDRED = 20_000  # photos of the row of whole.py with 100 classes; the others have 5 or 10


def seconds_sentence() -> str:
    """Return the CPU seconds of whole commands, which benchmarks/whole.py measures."""
    found = {
        int(name[5:]): line["results"]["least"] for line in lines("whole.jsonl") if "find-" in (name := line["name"])
    }
    parts = [
        f"{size:,} photos{' of 100 classes' * (size == _HUNDRED)} {run['jnpl'][0]:.1f} against {run['rival'][0]:.1f}"
        for size, run in sorted(found.items())
    ]
    return (
        "CPU seconds of one thread, from process start to findings and report, without the embedding, against five\n"
        f"folds of logistic regression with cleanlab: {'; '.join(parts)}.\n"
    )


def field_sentence() -> str:
    """Return how `jnpl find` ranks wrong labels beside other methods on the same head, on labels by people."""
    cells = defaultdict(lambda: defaultdict(list))
    for line in lines("field.jsonl"):
        if line["suite"] == "linear" or (line["suite"], line["method"]) == ("epochs", "fast"):  # fast has that head
            cells[line["column"]][line["method"]].append(line["results"]["ap"])
    means = {column: {method: mean(aps) for method, aps in row.items()} for column, row in cells.items()}
    best = sum(max(row, key=lambda method: row[method]) == "fast" for row in means.values())
    others = min(len(row) for row in means.values()) - 1
    return (
        f"Compared with {others} methods for wrong labels (ELR, SOP, DivideMix, ...) on the same head and views,\n"
        f"with as many epochs or more, it ranks best on {best} of {len(means)} sets of labels by people.\n"
    )


def fast_tables() -> str:
    """Return the tables of docs/results/fast.md: means over seeds, a row per method, the best of a column bold."""
    cells = defaultdict(lambda: defaultdict(list))
    for line in lines("fast.jsonl"):
        spec = line["cell"]
        column = "human" if spec["noise"] == "human" else f"{spec['noise']}{100 * spec['rate']:.0f}"
        cells[column][spec["row"]].append(line["results"])
    columns = sorted(cells, key=lambda name: ("symm", "asym", "huma").index(name[:4]))
    parts = []
    for key, about in (
        ("ap", "Average precision (AP) of the ranking, wrong labels positive, after the last epoch:"),
        ("test_accuracy", "Test accuracy of the final classifier:"),
    ):
        means = {name: {row: mean(run[key] for run in cells[name][row]) for row in FAST} for name in columns}
        rows = [
            " | ".join(
                f"**{by_row[row]:.3f}**" if by_row[row] == max(by_row.values()) else f"{by_row[row]:.3f}"
                for by_row in means.values()
            )
            for row in FAST
        ]
        head = f"|  | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}"
        parts.append(
            "\n".join([about, "", head, *(f"| `{row}` | {text} |" for row, text in zip(FAST, rows, strict=True))])
        )
    return "\n\n".join(parts) + "\n"


def lines(name: str) -> list[dict[str, Any]]:
    """Return the lines of a file of results, none if it does not exist."""
    path = RESULTS / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def pages() -> dict[Path, str]:
    """Return every generated page as it should be."""
    made = {
        PAGES / "README.md": index(),
        ARCHITECTURE: _filled(ARCHITECTURE, rooms()),
        README: _filled(README, results()),
        LLMS: _filled(LLMS, llms()),
        DOCS / "results/fast.md": _filled(DOCS / "results/fast.md", fast_tables()),
        PACKAGE / "methods" / "table.json": json.dumps(table(), indent=1, ensure_ascii=False) + "\n",
    }
    for name in METHODS:
        made[PAGES / f"{name}.md"] = _filled(PAGES / f"{name}.md", settings(name), SKELETON.format(name=name))
    return made


def _filled(path: Path, generated: str, skeleton: str = "") -> str:
    text = path.read_text("utf-8") if path.exists() else skeleton
    if not BLOCK.search(text):
        raise SystemExit(f"{path} has no block for its generated part: {BLOCK.pattern}")
    return BLOCK.sub(lambda match: match[1] + generated + match[2], text)


def main() -> None:
    """Write the pages that differ, or with --check report them."""
    differing = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    if "--check" in sys.argv[1:]:
        if differing:
            raise SystemExit(f"not up to date: {', '.join(map(str, differing))}; run python docs/generate.py")
        return
    for path, text in differing.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
