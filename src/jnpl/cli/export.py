"""`jnpl export`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
# No `from __future__ import annotations`: typer reads the annotations of the commands at run time.
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jnpl.cli.predict import find_own_modules
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.outputs.saved_model import SavedModel

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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what -o names, if it is there; never a file of a run.")
    ] = False,
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
    _refuse_targets(run, to, out, data, overwrite=overwrite)
    if to in MODELS:
        told = _model(run, to, out, data, root)
    elif to == "hf":
        told = _data_set(run, out, root, overwrite=overwrite)
    else:
        told = _findings(run, to, out, issues=issues, image_prefix=image_prefix, data=data)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "to": to, "out": str(out), **told}))
        return
    typer.echo("".join(f"{name}: {value}\n" for name, value in told.items()) + f"written: {out}")


def _refuse_targets(run: Path, to: str, out: Path, data: str | None, *, overwrite: bool) -> None:
    """What may not be written is told before anything is read; of a folder, `hf.write` tells it."""
    from jnpl.outputs.export.targets import refuse_target

    if to == "label-studio":
        from jnpl.outputs.export.label_studio import config_of

        refuse_target(config_of(out), run, overwrite=overwrite)
    refuse_target(out, run, overwrite=overwrite or to == "hf", read=data)


def _data_set(run: Path, out: Path, root: Path | None, *, overwrite: bool) -> dict[str, Any]:
    from jnpl.findings.findings import Findings
    from jnpl.outputs.export import hf
    from jnpl.outputs.image_folder import data_root

    findings = Findings.load(run)
    return hf.write(findings, out, None if findings.paths is None else data_root(run, root), overwrite=overwrite)


def _findings(
    run: Path, to: str, out: Path, *, issues: bool, image_prefix: str | None, data: str | None
) -> dict[str, Any]:
    from jnpl.findings.findings import Findings

    findings = Findings.load(run)
    if to in TABLES:
        from jnpl.outputs.export import findings as form

        return {"rows": form.write(findings, out, f".{to}", issues=issues)}
    if to == "cleanlab":
        from jnpl.outputs.export import cleanlab

        return {"rows": cleanlab.write(findings, out)}
    from jnpl.data.sources.table import read
    from jnpl.outputs.export import label_studio

    shown = None if data is None else read(Path(data))
    return label_studio.write(findings, out, image_prefix=image_prefix, table=shown, issues=issues)


def _model(run: Path, to: str, out: Path, data: str | None, root: Path | None) -> dict[str, Any]:
    import importlib

    from jnpl.outputs.export.deployed import samples_of
    from jnpl.outputs.saved_model import load

    find_own_modules(run)
    model = load(run)
    try:
        samples, origin = samples_of(model, _source(run, model, data, root))
    except InputError:
        if data is not None or root is not None:
            raise
        samples, origin = samples_of(model, None)
    difference = importlib.import_module(f"jnpl.outputs.export.{to}").write(model, out, samples)
    return {"input": _input(model.sample_shape), "checked_on": origin, "largest_difference": difference}


def _source(run: Path, model: "SavedModel", data: str | None, root: Path | None) -> "Source | None":
    """What an exported model is checked on: data that are named, else the run's images; InputError if they are gone."""
    from jnpl.data.new_data import open_new
    from jnpl.findings.findings import Findings
    from jnpl.outputs.export.deployed import images_of
    from jnpl.outputs.image_folder import data_root

    if data is not None:
        return open_new(data, model.classes, kind=model.kind, encoding=model.encoding).source
    if model.kind == "vector":
        return None
    findings = Findings.load(run)
    return None if findings.paths is None else images_of(model, findings, data_root(run, root))


def _input(shape: tuple[int, ...]) -> str:
    """What the exported model takes, in words."""
    kind = "uint8" if len(shape) == 3 else "float32"
    return f"{kind} ({', '.join(map(str, ('batch', *shape)))})"
