"""Captions, and the output folder of `jnpl reproduce`: figures, tables, index.html with all of them, reproduce.json."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from jnpl._version import __version__
from jnpl.experiments import style
from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, FIGURES, ClaimVerdict, verdicts
from jnpl.experiments.reproduce.experiment import Rows
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns
from jnpl.experiments.result_tables import csv_table, latex_table, markdown_table
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json
from jnpl.training.reporting import in_words

SUMMARY, PAGE = "reproduce.json", "index.html"
TABLE_FORMATS = ("md", "csv", "tex")


def _formats(name: str) -> tuple[str, ...]:
    return style.FORMATS if name in FIGURES else TABLE_FORMATS


def check_folder(out: Path, scale: str) -> None:
    """Refuse a folder with results of another scale or other files that would be overwritten."""
    file = out / SUMMARY
    if out.exists() and not out.is_dir():
        raise InputError(f"{str(out)!r} is a file: --out is the folder for all that is made")
    if not file.is_file():
        names = [PAGE, *(f"{name}.{kind}" for name in EXPERIMENTS for kind in _formats(name))]
        lost = [name for name in names if (out / name).exists()]
        if lost:  # ours come after the summary
            raise InputError(f"{str(out / lost[0])!r} is not of jnpl reproduce: give another folder by --out")
        return
    try:
        before = read_json(file)["scale"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{str(file)!r} is not of jnpl reproduce: give another folder by --out") from error
    if before != scale:
        raise InputError(
            f"{str(out)!r} holds what was made at scale {before}: give another folder by --out for {scale}"
        )


def draw(runs: PaperRuns, names: Sequence[str], out: Path) -> list[Path]:
    """Write experiments, index.html and reproduce.json to a folder; returns the files.

    Experiments that lie there from before are drawn again, if they have runs or need none at this scale: the page shows
    them all.
    """
    make_folder(out)
    before = {name for name in EXPERIMENTS if (out / f"{name}.{_formats(name)[0]}").is_file()}
    names = [
        name
        for name in EXPERIMENTS
        if name in names or (name in before and (used(runs, name) or not lacking(runs, name)))
    ]
    write_text(out / SUMMARY, json.dumps(summary(runs, names), indent=1) + "\n")  # first: it marks the folder as ours
    written = [path for name in names for path in _write(runs, name, out)]
    write_text(out / PAGE, render(runs, names, out))
    return [*written, out / PAGE, out / SUMMARY]


def figure(runs: PaperRuns, name: str) -> Figure:
    """Draw one figure, with the command that makes it at the bottom."""
    draw_figure = EXPERIMENTS[name].draw
    if draw_figure is None:
        raise InputError(f"{name} is a table, not a figure")
    drawn: Figure = draw_figure(runs)
    style.foot(drawn, foot(runs, name))
    return drawn


def blocks(runs: PaperRuns, name: str) -> Sequence[str | Rows]:
    """The lines of text and the tables of an experiment; none of a figure."""
    make_blocks = EXPERIMENTS[name].blocks
    return () if make_blocks is None else make_blocks(runs)


def markdown(runs: PaperRuns, name: str) -> str:
    """The table of an experiment as Markdown."""
    return "\n\n".join(block if isinstance(block, str) else markdown_table(block) for block in blocks(runs, name))


def table_texts(runs: PaperRuns, name: str) -> dict[str, str]:
    """The table of an experiment as Markdown, CSV and LaTeX: suffix -> text."""
    shown, as_csv = blocks(runs, name), EXPERIMENTS[name].csv
    head, *lines = next((block for block in shown if not isinstance(block, str)), [[]])
    rows: list[dict[str, object]] = [dict(zip(head, line, strict=True)) for line in lines]
    return {
        "md": markdown(runs, name) + "\n",
        "csv": csv_table(rows) if as_csv is None else as_csv(runs),
        "tex": "\n".join(f"% {block}\n" if isinstance(block, str) else latex_table(block) for block in shown),
    }


def _write(runs: PaperRuns, name: str, out: Path) -> list[Path]:
    """Write a figure as PNG and SVG, or a table as Markdown, CSV and LaTeX."""
    paths = [out / f"{name}.{kind}" for kind in _formats(name)]
    if name in FIGURES:
        drawn = figure(runs, name)
        return [style.save(drawn, path) for path in paths]
    for path, text in zip(paths, table_texts(runs, name).values(), strict=True):
        write_text(path, text)
    return paths


def summary(runs: PaperRuns, names: Sequence[str]) -> dict[str, Any]:
    """Return reproduce.json: every run with settings, seed, noise hash, version, time and figures; every verdict."""
    kept = ("name", "cell", "recipe", "data", "noise_sha256", "versions", "commit", "device", "engine")
    lines = []
    for run in runs.every:
        facts = {key: run.line.get(key) for key in kept} | {"seed": run.spec.seed, "classify": run.spec.classify}
        figures = {key: value for key, value in run.line["results"].items() if "curve" not in key}
        lines.append({**facts, "results": figures, "current": run.is_current})
    return {
        "version": __version__,
        "scale": runs.scale.name,
        "what": runs.scale.what,
        "missing": runs.missing,
        "items": [{key: getattr(EXPERIMENTS[name], key) for key in ("name", "title", "claim")} for name in names],
        "verdicts": [verdict._asdict() for verdict in verdicts(runs)],
        "cells": lines,
    }


def render(runs: PaperRuns, names: Sequence[str], folder: Path) -> str:
    """Return index.html: all experiments on one self-contained page, with the pictures in `folder` inside."""
    environment = Environment(
        loader=PackageLoader("jnpl.experiments.reproduce", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sheet = (resources.files("jnpl.experiments.reproduce") / "page.css").read_text("utf-8")
    shown_runs = {run.spec.name: run for name in names for run in used(runs, name)}.values()
    page = environment.get_template("page.html.j2").render(
        experiments=[
            {
                "name": name,
                "caption": caption(runs, name),
                "picture": _encoded(folder / f"{name}.png") if name in FIGURES else None,
                "blocks": blocks(runs, name),
            }
            for name in names
        ],
        verdicts=[verdict for verdict in verdicts(runs) if verdict.item in names],
        scale=runs.scale,
        style=Markup(sheet),  # noqa: S704 - our own file
        version=__version__,
        runs=len(shown_runs),
        stale=sum(not run.is_current for run in shown_runs),
        commits=sorted({str(run.line.get("commit", "unknown")) for run in shown_runs}),
        time=in_words(sum(run.get("seconds") or 0.0 for run in shown_runs)),
    )
    return page.strip() + "\n"


def _encoded(picture: Path) -> str | None:
    return base64.b64encode(picture.read_bytes()).decode() if picture.is_file() else None


class Caption(NamedTuple):
    """The texts that go with an experiment."""

    title: str
    claim: str  # of the paper
    seen: str  # here
    agrees: str
    scale: str
    command: str


def caption(runs: PaperRuns, name: str) -> Caption:
    """Return the texts that go with an experiment."""
    own_verdicts = [verdict for verdict in verdicts(runs) if verdict.item == name]
    experiment = EXPERIMENTS[name]
    texts = seen(own_verdicts), agreement(own_verdicts), describe(runs, name), command(runs, name)
    return Caption(experiment.title, experiment.claim, *texts)


def command(runs: PaperRuns, name: str) -> str:
    """The command that makes the experiment."""
    root = "" if runs.scale.name == "tiny" else " --data-root DIR"
    seeds = "" if runs.seeds is None else f" --seeds {runs.seeds}"
    return f"jnpl reproduce {name} --scale {runs.scale.name}{seeds}{root} --out OUT"


def foot(runs: PaperRuns, name: str) -> str:
    """The line at the bottom of the picture: command, runs and seeds."""
    seeds = len({run.spec.seed for run in used(runs, name)})
    return f"{command(runs, name)}   ({_count(runs, name)}, {seeds} seed{'' if seeds == 1 else 's'})"


def used(runs: PaperRuns, name: str) -> list[PaperRun]:
    """The runs that an experiment is drawn from."""
    wanted = _wanted(runs, name)
    drawn: list[PaperRun] = []
    variants = tuple(dict.fromkeys(spec.variant for spec in wanted))
    for spec in wanted:
        setting = None if spec.noise == "none" else (spec.noise, spec.rate)
        part = next(part for part, data in runs.scale.stands_for.items() if data == spec.data)
        if setting is None or spec.classify:
            stored = runs.of(spec.variant, setting, part, classify=spec.classify)
        else:
            stored = runs.shared(variants, setting, part).get(spec.variant, [])
        drawn += [run for run in (stored[:1] if EXPERIMENTS[name].one_seed else stored) if run not in drawn]
    return drawn


def lacking(runs: PaperRuns, name: str) -> int:
    """How many runs of the experiment are missing; data sets that are not there do not count."""

    def places(specs: Sequence[RunSpec]) -> Counter[tuple[object, ...]]:
        return Counter((spec.variant, spec.data, spec.noise, spec.rate) for spec in specs)

    return (places(_wanted(runs, name)) - places([run.spec for run in used(runs, name)])).total()


def _wanted(runs: PaperRuns, name: str) -> list[RunSpec]:
    parts = [part for part in runs.scale.stands_for if part not in runs.missing]
    specs = EXPERIMENTS[name].specs(runs.scale, runs.seeds, parts, weights="any")
    return [spec for spec in specs if spec.variant not in EXPERIMENTS[name].not_shown]


def _count(runs: PaperRuns, name: str) -> str:
    have, missing = len(used(runs, name)), lacking(runs, name)
    return f"{have} of {have + missing} runs" if missing else f"{have} run{'' if have == 1 else 's'}"


def describe(runs: PaperRuns, name: str) -> str:
    """Scale, runs and seeds of an experiment, what is missing, and how to read it."""
    drawn, experiment = used(runs, name), EXPERIMENTS[name]
    seeds = sorted({run.spec.seed for run in drawn})
    sentences = [f"Scale {runs.scale.name}."]
    if _wanted(runs, name):
        names = ", ".join(map(str, seeds)) or "none"
        sentences = [f"Scale {runs.scale.name}, {_count(runs, name)}, seed{'' if len(seeds) == 1 else 's'} {names}."]
    sentences += [f"{runs.missing[part]}." for part in experiment.optional if part in runs.missing]
    sentences += experiment.notes(runs, drawn)
    if stale := sum(not run.is_current for run in drawn):
        sentences.append(f"{stale} of the runs were made with other settings than those of this version.")
    return " ".join(sentences)


def seen(of_experiment: Sequence[ClaimVerdict]) -> str:
    """The figures behind an experiment's verdicts, in words."""
    figures = [verdict.figures for verdict in of_experiment if verdict.status != "not enough data"]
    return " ".join(figures) if figures else "not run, or not enough of it."


def agreement(of_experiment: Sequence[ClaimVerdict]) -> str:
    """Whether our runs agree with each claim, in words."""
    words = {"not enough data": "Not enough data to judge", "no difference": "No difference is seen"}
    words |= {status: f"{status.capitalize()} with the paper" for status in ("agrees", "disagrees")}
    return " ".join(f"{words[verdict.status]}: {verdict.claim.rstrip('.')}." for verdict in of_experiment)
