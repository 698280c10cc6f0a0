"""`jnpl export`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.saved import SavedModel

TABLES = ("csv", "parquet", "json")
MODELS = ("torchscript", "onnx")
FORMS = (*TABLES, "label-studio", "cleanlab", "hf", *MODELS)
_OPTIONS = {  # which forms heed which option
    "--issues": (*TABLES, "label-studio"),
    "--image-prefix": ("label-studio",),
    "--data": ("label-studio", *MODELS),
    "--root": ("hf", *MODELS),
}


def export(
    run: Annotated[Path, typer.Argument(help="The folder of a run.")],
    *,
    to: Annotated[str, typer.Option(help=f"{', '.join(FORMS)}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; for hf a new folder.")],
    issues: Annotated[
        bool, typer.Option("--issues", help="Tables, label-studio: only the labels that look wrong, worst first.")
    ] = False,
    image_prefix: Annotated[
        str | None,
        typer.Option(help="label-studio: what comes before the images' paths. Default: /data/local-files/?d="),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="label-studio: the run's own table, to show its rows. Models: what to check them on."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="hf and models: where the images lie. Default: where they were when the run was made."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")] = False,
) -> None:
    """Write what a run found, or its model, in a form that other programs read.

    csv, parquet, json: the findings. label-studio: tasks with predictions. cleanlab: a .csv with its columns. hf: a
    data set with corrected labels. torchscript, onnx: the model, checked against the network before it is kept.
    """
    if to not in FORMS:
        raise InputError(f"--to is one of {', '.join(FORMS)}, got {to!r}")
    given = {"--issues": issues or None, "--image-prefix": image_prefix, "--data": data, "--root": root}
    for option, value in given.items():
        if value is not None and to not in _OPTIONS[option]:
            raise InputError(f"{option} is for {', '.join(_OPTIONS[option])}, not for {to}")
    if to in MODELS:
        told = _model(run, to, out, data, root)
    else:
        told = _findings(run, to, out, issues=issues, image_prefix=image_prefix, data=data, root=root)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "to": to, "out": str(out), **told}))
        return
    typer.echo("".join(f"{name}: {value}\n" for name, value in told.items()) + f"written: {out}")


def _findings(
    run: Path, to: str, out: Path, *, issues: bool, image_prefix: str | None, data: str | None, root: Path | None
) -> dict[str, Any]:
    from jnpl.findings import Findings

    findings = Findings.load(run)
    if to in TABLES:
        from jnpl.export import findings as form

        return {"rows": form.write(findings, out, f".{to}", issues=issues)}
    if to == "cleanlab":
        from jnpl.export import cleanlab

        return {"rows": cleanlab.write(findings, out)}
    if to == "hf":
        from jnpl.export import hf
        from jnpl.tree import data_root

        return {"rows": hf.write(findings, out, None if findings.paths is None else data_root(run, root))}
    from jnpl.data.table import read
    from jnpl.export import label_studio

    shown = None if data is None else read(Path(data))
    return label_studio.write(findings, out, image_prefix=image_prefix, table=shown, issues=issues)


def _model(run: Path, to: str, out: Path, data: str | None, root: Path | None) -> dict[str, Any]:
    import importlib

    from jnpl.export.deployed import samples_of
    from jnpl.saved import load

    sys.path.insert(0, str(Path.cwd()))  # for a network of one's own, as `jnpl find` finds it
    model = load(run)
    samples, origin = samples_of(model, _source(run, model, data, root))
    difference = importlib.import_module(f"jnpl.export.{to}").write(model, out, samples)
    return {"input": _input(model.sample_shape), "checked_on": origin, "largest_difference": difference}


def _source(run: Path, model: "SavedModel", data: str | None, root: Path | None) -> "Source | None":
    """What an exported model is checked on: data that are named, else the run's images, if they are still there."""
    from jnpl.data.unlabelled import open_new
    from jnpl.export.deployed import images_of
    from jnpl.findings import Findings
    from jnpl.tree import data_root

    if data is not None:
        return open_new(data, model.classes, kind=model.kind, encoding=model.encoding).source
    if model.kind == "vector":
        return None
    try:
        findings = Findings.load(run)
        return None if findings.paths is None else images_of(model, findings, data_root(run, root))
    except InputError:
        if root is not None:
            raise
        return None


def _input(shape: tuple[int, ...]) -> str:
    """What the exported model takes, in words."""
    kind = "uint8" if len(shape) == 3 else "float32"
    return f"{kind} ({', '.join(map(str, ('batch', *shape)))})"
