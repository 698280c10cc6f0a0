"""Draw docs/images/report.png, the picture in README.md: `python docs/report_picture.py STAMPS`.

STAMPS is the folder of stamps of Tux Paint (GPL-2), on Debian and Ubuntu /usr/share/tuxpaint/stamps of the package
tuxpaint-stamps-default. Its photographs of five kinds of things are put on white, some into the folder of another
class, `jnpl find` judges them, and Chromium takes a picture of the first suspects in the report. It prints the output
of `jnpl find`, and how many of the first suspects were moved. Needs playwright and a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from playwright.sync_api import sync_playwright

from jnpl import Findings, noise

PICTURE = Path(__file__).parent / "images/report.png"
WIDTH, HEIGHT = 1080, 690
CLASSES = {
    "bird": "animals/birds",
    "flower": "plants/flowers",
    "fruit": "food/fruit",
    "mammal": "animals/mammals",
    "vegetable": "food/vegetables",
}
RATE, SIDE, SHOWN = 0.06, 480, 12


def photographs(stamps: Path) -> dict[Path, str]:
    """The files of the photographs, without drawings, and the class of each."""
    return {
        file: name
        for name, folder in CLASSES.items()
        for file in sorted((stamps / folder).rglob("*.png"))
        if "cartoon" not in file.parts
    }


def on_white(file: Path) -> Image.Image:
    """The photograph on a white square."""
    picture = Image.open(file).convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    white.alpha_composite(picture)
    return ImageOps.pad(white.convert("RGB"), (SIDE, SIDE), color="white")


def copy(photos: dict[Path, str], target: Path) -> set[str]:
    """Copy the photographs into a folder per class, some into another class; returns the paths of these."""
    names = sorted(CLASSES)
    labels = np.array([names.index(label) for label in photos.values()])
    given = noise.symmetric(labels, rate=RATE, num_classes=len(names), seed=0)
    moved = set()
    for file, label, true in zip(photos, given, labels, strict=True):
        path = Path(names[label], f"{file.stem}.jpg")
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        on_white(file).save(target / path, quality=92)
        moved |= {str(path)} if label != true else set()
    return moved


def take(page: Path, picture: Path) -> None:
    """Take the picture: the headline of the report, then the first suspects."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        view.goto(page.resolve().as_uri())
        for hidden in ("#quality", "nav", ".next", ".controls"):  # between headline and suspects
            view.evaluate("name => document.querySelectorAll(name).forEach(each => each.remove())", hidden)
        view.screenshot(path=picture)
        browser.close()
    Image.open(picture).convert("RGB").quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(picture, optimize=True)


def main() -> None:
    """Find the wrong labels of the photographs and take the picture."""
    with tempfile.TemporaryDirectory() as work:
        photos, run = Path(work, "photos"), Path(work, "run")
        moved = copy(photographs(Path(sys.argv[1])), photos)
        command = [sys.executable, "-m", "jnpl", "find", "photos", "-o", "run"]
        subprocess.run(command, check=True, cwd=work)
        suspects = Findings.load(run).worst(SHOWN)["id"]
        print(f"moved: {len(moved)}; of the first {SHOWN} suspects {suspects.isin(moved).sum()} were moved")
        take(run / "report.html", PICTURE)


if __name__ == "__main__":
    main()
