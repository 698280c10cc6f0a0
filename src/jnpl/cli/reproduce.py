"""`jnpl reproduce`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jnpl.cli.bench import Address, EngineName, Gpus, Jobs
from jnpl.experiments.results import FILE, contains
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.experiments.bench.engines import Engine
    from jnpl.experiments.reproduce.cell import Cell
    from jnpl.experiments.reproduce.results import Results


def reproduce(
    item: Annotated[
        str, typer.Argument(help="fig1 to fig6, table1, table2, figures (all six) or all.", show_default=False)
    ],
    *,
    scale: Annotated[
        str, typer.Option(help="paper: as the paper, for GPUs; small: part of CIFAR-10, for two cores; tiny: to try.")
    ] = "small",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for all of it; what is done there stays done.")
    ] = Path("jnpl-reproduce"),
    data_root: Annotated[
        Path | None, typer.Option(help="Where named data sets lie. Default: JNPL_DATA, or a cache folder.")
    ] = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="So many of every run. Default: 1, or more in fig3, fig4 and table1 as the scale has it."
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="table2: ImageNet weights of a ResNet-50, with torchvision's keys.")
    ] = None,
    only_draw: Annotated[bool, typer.Option("--only-draw", help="Train nothing: draw the results there are.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Train at scale paper without a GPU all the same.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Make the paper's figures and tables again, and say which of its claims they bear out.

    Writes PNG and SVG, tables as Markdown, CSV and LaTeX, index.html and reproduce.json to the folder, and a
    line for each run to results.jsonl in it. Killed at any moment, the same command goes on with what is left.
    """
    from jnpl.experiments.reproduce.items import names_of, plan
    from jnpl.experiments.reproduce.results import load
    from jnpl.experiments.reproduce.scales import SCALES

    names = names_of(item)
    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}; there are {', '.join(SCALES)}")

    from jnpl.experiments.bench.engines import make_engine
    from jnpl.experiments.reproduce.captions import needed
    from jnpl.experiments.reproduce.data import missing
    from jnpl.experiments.reproduce.draw import draw

    where = make_engine(engine, address, gpus)
    if weights is not None:
        weights = _weights(weights, names)
    _check_paths(out, scale, data_root)
    absent = missing(SCALES[scale], data_root)
    without = {part: absent[part] for name in names for part in needed(name) if part in absent}
    failed: dict[str, str] = {}
    if not only_draw:
        parts = [part for part in SCALES[scale].stands_for if part not in absent]
        wanted = plan(names, SCALES[scale], seeds, parts, weights)
        if not wanted:
            raise InputError(f"{item} cannot be made at scale {scale}: {'; '.join(without.values())}")
        cells = _left(wanted, out / FILE)
        to_do = [cell for cell in cells if not contains(out / FILE, cell.name)]
        if scale == "paper" and not yes and not (engine == "ray" and gpus):
            _ask_for_gpus(to_do, engine, without)
        _check(to_do, data_root)
        _tell_missing(without, "jnpl: ", err=True)
        failed = _train(cells, out, jobs, data_root, where)
    results = load(out / FILE, scale, absent, seeds)
    if only_draw and not results.every:
        raise InputError(
            f"there is no result of scale {scale} in {str(out / FILE)!r}: train first, without --only-draw"
        )
    written = draw(results, names, out)
    _tell(results, names, out, [str(path) for path in written], failed, as_json)
    if not as_json:
        _tell_missing(without)
        typer.echo(f"to look at: {out / 'index.html'}")
    if failed:
        raise typer.Exit(1)


def _check_paths(out: Path, scale: str, data_root: Path | None) -> None:
    """Say what is in the way before anything is trained."""
    from jnpl.experiments.reproduce.draw import check_folder
    from jnpl.experiments.reproduce.results import load

    check_folder(out, scale)
    load(out / FILE, scale)
    if data_root is not None and not data_root.exists():
        raise InputError(f"there is no {str(data_root)!r}: --data-root is where the data sets lie")


def _tell_missing(without: dict[str, str], before: str = "", *, err: bool = False) -> None:
    for told in without.values():
        typer.echo(f"{before}not run: {told}", err=err)


def _weights(weights: str, names: tuple[str, ...]) -> str:
    """The whole path of a file of weights that is needed, and is there."""
    if "table2" not in names:
        raise InputError("--weights are for table2 (Clothing1M): no other item begins with any")
    if not Path(weights).is_file():
        raise InputError(f"there is no file {weights!r}: --weights is a file of ImageNet weights of a ResNet-50")
    return str(Path(weights).resolve())


def _left(cells: "list[Cell]", results: Path) -> "list[Cell]":
    """Without those whose twin that went on to a classifier is done."""
    whole = (cell.model_copy(update={"classify": True}) for cell in cells)
    done = [contains(results, twin.name) for twin in whole]
    return [cell for cell, there in zip(cells, done, strict=True) if cell.classify or not there]


def _ask_for_gpus(cells: "list[Cell]", engine: str, without: dict[str, str]) -> None:
    """Refuse to begin what takes GPUs where there is none."""
    import torch

    if not cells or (engine == "local" and torch.cuda.is_available()):
        return
    from jnpl.experiments.reproduce.cost import TERA, gpu_hours
    from jnpl.experiments.reproduce.paper import DATA_NAMES

    many = f"{len(cells)} run{'' if len(cells) == 1 else 's'}"
    where = "there is no GPU here" if engine == "local" else "on Ray a run gets a GPU by --gpus 1, or a share of one"
    names = " and ".join(DATA_NAMES[part] for part in without)
    less = f", without {names}, which {'is' if len(without) == 1 else 'are'} not there" if without else ""
    raise InputError(
        f"scale paper trains {many} of full length{less}, about {gpu_hours(cells):,.0f} GPU-hours (their "
        f"operations, at {TERA / 1e12:.0f} TFLOP/s sustained), and {where}: --scale small is for two cores, --yes "
        "begins all the same"
    )


def _check(cells: "list[Cell]", data_root: Path | None) -> None:
    """Say what is wrong before anything is trained; data that are not there yet are fetched once, not by each cell."""
    from jnpl.experiments.reproduce import data

    for cell in cells:
        cell.recipe()
    for cell in {cell.data: cell for cell in cells}.values():
        data.load(cell, data_root)


def _train(
    cells: "list[Cell]", out: Path, jobs: int | None, data_root: Path | None, engine: "Engine"
) -> dict[str, str]:
    """Run what has no JSON yet; returns what failed, and why."""
    from jnpl.experiments.bench.grid import run_cells

    return run_cells(
        cells,
        out / FILE,
        out / "work",
        jobs,
        data_root,
        lambda line: typer.echo(f"jnpl: {line}", err=True),
        module="jnpl.experiments.reproduce.run",
        engine=engine,
    )


def _tell(
    results: "Results", names: tuple[str, ...], out: Path, written: list[str], failed: dict[str, str], as_json: bool
) -> None:
    from jnpl.experiments.reproduce.claims import verdicts

    own = [verdict for verdict in verdicts(results) if verdict.item in names]
    if as_json:
        told = [
            {"claim": each.claim, "item": each.item, "status": each.status, "figures": each.figures} for each in own
        ]
        typer.echo(json.dumps({"out": str(out), "files": written, "failed": failed, "verdicts": told}))
        return
    if own and results.scale.name == "tiny":
        typer.echo("scale tiny is to try the program: what follows says nothing of the paper")
    for each in own:
        typer.echo(f"{each.status}: {each.claim} {each.figures}")
