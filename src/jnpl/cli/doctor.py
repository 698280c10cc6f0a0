"""`jnpl doctor`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import typer

from jnpl._version import __version__
from jnpl.cli.options import AsJson
from jnpl.internal.errors import one_line

_NOT_SHOWN = ("all", "dev", "docs")  # an extra that lists others, and what developers need


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was found, and why it does not work (None if it does)."""

    name: str
    found: str
    problem: str | None = None
    needed: bool = True


def doctor(*, as_json: AsJson = False) -> None:
    """Show what is installed, and which devices and backbones work. Exit code 1 if something needed does not work."""
    sections: dict[str, list[Check]] = {
        "packages": packages(),
        "extras": extras(),
        "devices": devices(),
        "backbones": backbones(),
        "folders": folders(),
    }
    broken = [check for checks in sections.values() for check in checks if check.needed and check.problem]
    python = f"{platform.python_version()} ({sys.executable})"
    if as_json:
        facts = {"jnpl": __version__, "python": python, "system": platform.platform()}
        shown = {name: [asdict(check) for check in checks] for name, checks in sections.items()}
        typer.echo(json.dumps({**facts, **shown, "works": not broken}))
    else:
        typer.echo(f"jnpl {__version__}, Python {python}, {platform.platform()}")
        for name, checks in sections.items():
            typer.echo(f"\n{name}")
            for check in checks:
                typer.echo(f"  {check.name:33} {check.found:20} {check.problem or ''}".rstrip())
        problems = [f"problem: {check.name}: {check.problem}" for check in broken]
        typer.echo("\n" + "\n".join(problems or ["Everything that jnpl needs works."]))
    if broken:
        raise typer.Exit(1)


def packages() -> list[Check]:
    """Return the packages that jnpl always needs, with their versions."""
    checks = []
    for name, condition in _requirements():
        version = _version(name)
        if "extra ==" not in condition and (version or "python_version <" not in condition):  # for older Pythons
            checks.append(Check(name, version or "", None if version else "not installed"))
    return checks or [Check("jnpl", "", "runs from its source without being installed: pip install .")]


def extras() -> list[Check]:
    """Return the extras, each with those of its packages that are missing."""
    missing: dict[str, list[str]] = {}
    for name, condition in _requirements():
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        if extra and extra[1] not in _NOT_SHOWN:
            missing.setdefault(extra[1], []).extend([] if _version(name) else [name])
    return [
        Check(extra, "", f'{", ".join(names)} not installed: pip install "jnpl[{extra}]"', needed=False)
        if names
        else Check(extra, "installed", needed=False)
        for extra, names in missing.items()
    ]


def _requirements() -> list[tuple[str, str]]:
    """Return (name of a package, condition such as 'extra == "ray"') of all that the installed jnpl requires."""
    try:
        lines = metadata.requires("jnpl") or []
    except metadata.PackageNotFoundError:
        return []
    return [(re.split(r"[^\w.-]", line, maxsplit=1)[0], line.partition(";")[2]) for line in lines]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def devices() -> list[Check]:
    """Return the CPU and the GPUs that PyTorch finds; each has multiplied two matrices."""
    import torch

    threads = torch.get_num_threads()
    devices = {"cpu": f"{threads} {'thread' if threads == 1 else 'threads'} of {os.cpu_count()} cores"}
    devices |= {f"cuda:{number}": torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())}
    if torch.backends.mps.is_available():
        devices["mps"] = "Apple GPU"
    return [Check(name, what, _problem(_multiply, name), name == "cpu") for name, what in devices.items()]


def _multiply(device: str) -> None:
    import torch

    square = torch.ones(8, 8, device=device)
    if float((square @ square).sum()) != 8**3:
        raise ArithmeticError("the product of two matrices is wrong")


def backbones() -> list[Check]:
    """Return the backbones; the one that is installed with jnpl has embedded an image."""
    from jnpl.embedding.backbones import BACKBONES, DEFAULT_IMAGE_BACKBONE

    checks = []
    for name, entry in BACKBONES.items():
        needed, problem = name == DEFAULT_IMAGE_BACKBONE, entry.why_not_here()
        if needed and problem is None:
            problem = _problem(_embed_an_image, name)
        checks.append(Check(name, entry.takes, problem, needed))
    return checks


def _embed_an_image(name: str) -> None:
    import torch

    from jnpl.embedding.backbones import ImageBackbone, load_backbone

    backbone = load_backbone(name, "image", size=64)
    if isinstance(backbone, ImageBackbone):
        with torch.inference_mode():
            backbone.network(backbone.inputs(torch.zeros(1, 64, 64, 3, dtype=torch.uint8)))


def folders() -> list[Check]:
    """Return the folders of cached embeddings and of data sets; a file was written in each and removed."""
    from jnpl.data.sources.download import data_root
    from jnpl.embedding.choice import default_cache

    places: dict[str, Callable[[], Path]] = {"embeddings (JNPL_CACHE)": default_cache, "data (JNPL_DATA)": data_root}
    checks = []
    for name, place in places.items():
        problem = _problem(_write_in, place)
        checks.append(Check(name, "" if problem else str(place()), problem))
    return checks


def _write_in(place: Callable[[], Path]) -> None:
    """Write a file into a folder, or into the first folder above it that exists, and remove it again."""
    folder = place()
    with tempfile.TemporaryFile(dir=next(place for place in (folder, *folder.parents) if place.exists())):
        pass


def _problem(check: Callable[[Any], None], value: Any) -> str | None:
    try:
        check(value)
    except Exception as error:  # noqa: BLE001 - drivers and broken installations raise anything
        return one_line(error)
    return None
