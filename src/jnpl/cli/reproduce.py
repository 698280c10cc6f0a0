"""`jnpl reproduce`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jnpl.cli.options import Address, AsJson, DataRoot, EngineName, Gpus, Jobs, show_line
from jnpl.experiments.results import FILE, contains
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.paper_runs import PaperRuns
    from jnpl.experiments.spec import RunSpec


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help="fig1 to fig6, table1, table2, figures, all; beyond the paper human, heads, starts, weights, steps, "
            "stable.",
            show_default=False,
        ),
    ],
    *,
    scale: Annotated[
        str,
        typer.Option(
            help="features: the paper's schedules on embeddings, for two cores (features-full: all images and "
            "epochs); small: from random weights, part of CIFAR-10; tiny: a test; paper: as in the paper, for GPUs."
        ),
    ] = "small",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for all results. Finished runs in it are kept.")
    ] = Path("jnpl-reproduce"),
    data_root: DataRoot = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    address: Address = None,
    gpus: Gpus = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Seeds per run. Default: 1; at some scales more for fig3, fig4 and table1."
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="table2: ImageNet weights of a ResNet-50, with torchvision's keys.")
    ] = None,
    only_draw: Annotated[
        bool, typer.Option("--only-draw", help="Train nothing, and draw the results that exist.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Train at scale paper even without a GPU.")] = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's figures and tables, and check its claims against them.

    Writes PNG and SVG, tables as Markdown, CSV and LaTeX, index.html and reproduce.json to the folder, and a
    line for each run to results.jsonl in it. The same command resumes it after a stop at any moment.
    """
    from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, names_of, specs_of
    from jnpl.experiments.reproduce.paper_runs import load
    from jnpl.experiments.scales import SCALES, missing

    names = names_of(experiment)
    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}; there are {', '.join(SCALES)}")

    from jnpl.experiments import run_data
    from jnpl.experiments.execute import RunEngine, run_all
    from jnpl.experiments.reproduce.output import draw

    where = RunEngine(engine, address, gpus)
    if weights is not None:
        weights = _weights(weights, names)
    _check_paths(out, scale, data_root)
    absent = missing(SCALES[scale], data_root)
    without = {part: absent[part] for name in names for part in EXPERIMENTS[name].optional if part in absent}
    failed: dict[str, str] = {}
    if not only_draw:
        parts = [part for part in SCALES[scale].stands_for if part not in absent]
        wanted = specs_of(names, SCALES[scale], seeds, parts, weights)
        if not wanted:
            raise InputError(f"{experiment} cannot be made at scale {scale}: {'; '.join(without.values())}")
        specs = _not_covered(wanted, out / FILE)
        to_do = [spec for spec in specs if not contains(out / FILE, spec.name)]
        if scale == "paper" and not yes and not (engine == "ray" and gpus):
            _require_gpu(to_do, engine, without)
        run_data.check(to_do, data_root)
        _show_missing(without, "jnpl: ", err=True)
        failed = run_all(specs, out / FILE, out / "work", jobs, data_root, show_line, engine=where)
    results = load(out / FILE, scale, absent, seeds)
    if only_draw and not results.every:
        raise InputError(
            f"there is no result of scale {scale} in {str(out / FILE)!r}: train first, without --only-draw"
        )
    written = draw(results, names, out)
    _show(results, names, out, [str(path) for path in written], failed, as_json)
    if not as_json:
        _show_missing(without)
        typer.echo(f"report: {visible(out / 'index.html')}")
    if failed:
        raise typer.Exit(1)


def _check_paths(out: Path, scale: str, data_root: Path | None) -> None:
    """Report wrong paths before anything is trained."""
    from jnpl.experiments.reproduce.output import check_folder
    from jnpl.experiments.reproduce.paper_runs import load

    check_folder(out, scale)
    load(out / FILE, scale)
    if data_root is not None and not data_root.exists():
        raise InputError(f"there is no {str(data_root)!r}: --data-root is the folder of the data sets")


def _show_missing(without: dict[str, str], before: str = "", *, err: bool = False) -> None:
    for message in without.values():
        typer.echo(f"{before}not run: {visible(message)}", err=err)


def _weights(weights: str, names: tuple[str, ...]) -> str:
    """Return the absolute path of the weights; they must exist, and table2 must be among the experiments."""
    if "table2" not in names:
        raise InputError("--weights are for table2 (Clothing1M): no other experiment starts from pretrained weights")
    if not Path(weights).is_file():
        raise InputError(f"there is no file {weights!r}: --weights is a file of ImageNet weights of a ResNet-50")
    return str(Path(weights).resolve())


def _not_covered(specs: "list[RunSpec]", results: Path) -> "list[RunSpec]":
    """Return the runs without filters that a finished run with a classifier covers."""
    whole = (spec.model_copy(update={"classify": True}) for spec in specs)
    done = [contains(results, twin.name) for twin in whole]
    return [spec for spec, there in zip(specs, done, strict=True) if spec.classify or not there]


def _require_gpu(specs: "list[RunSpec]", engine: str, without: dict[str, str]) -> None:
    """Refuse to train at scale paper without a GPU."""
    import torch

    if not specs or (engine == "local" and torch.cuda.is_available()):
        return
    from jnpl.experiments.paper import DATA_NAMES
    from jnpl.experiments.reproduce.cost import TERA, gpu_hours

    many = f"{len(specs)} run{'' if len(specs) == 1 else 's'}"
    where = "there is no GPU here" if engine == "local" else "on Ray a run gets a GPU by --gpus 1, or a share of one"
    names = " and ".join(DATA_NAMES[part] for part in without)
    less = f", without {names}, which {'is' if len(without) == 1 else 'are'} not there" if without else ""
    raise InputError(
        f"scale paper trains {many} of full length{less}, about {gpu_hours(specs):,.0f} GPU-hours (their "
        f"operations, at {TERA / 1e12:.0f} TFLOP/s sustained), and {where}: --scale small is for two cores, --yes "
        "trains anyway"
    )


def _show(
    results: "PaperRuns", names: tuple[str, ...], out: Path, written: list[str], failed: dict[str, str], as_json: bool
) -> None:
    from jnpl.experiments.reproduce.catalogue import verdicts

    shown = [verdict for verdict in verdicts(results) if verdict.item in names]
    if as_json:
        keys = ("claim", "item", "status", "figures")
        facts = [{key: getattr(verdict, key) for key in keys} for verdict in shown]
        typer.echo(json.dumps({"out": str(out), "files": written, "failed": failed, "verdicts": facts}))
        return
    if shown and results.scale.name == "tiny":
        typer.echo("scale tiny only tests the program: these results say nothing about the paper")
    for verdict in shown:
        typer.echo(f"{verdict.status}: {verdict.claim} {verdict.figures}")
