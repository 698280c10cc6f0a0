"""Draw docs/images/report.png, the picture in README.md: `python docs/report_picture.py PHOTOS`.

Copies a folder of photographs (one sub-folder per class), moves 5 % of them into another class, runs `jnpl find`, and
takes a picture of the top of its report and of the first label issues, in Chromium without a window. It prints the
output of `jnpl find`, and how many of the first issues were moved. Needs playwright and a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from jnpl import Findings, noise

PICTURE = Path(__file__).parent / "images/report.png"
WIDTH, HEIGHT, COLOURS = 1080, 812, 128
RATE, SHOWN = 0.05, 12


def take(page: Path, picture: Path) -> None:
    """Take the picture: the headline of the report, then the first label issues."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        view.goto(page.resolve().as_uri())
        view.evaluate("document.querySelector('#quality').remove()")  # the histogram between headline and suspects
        view.screenshot(path=picture)
        browser.close()
    Image.open(picture).convert("RGB").quantize(COLOURS).save(picture, optimize=True)


def copy(photos: Path, target: Path) -> set[str]:
    """Copy the photographs, some into another class; returns the paths of these."""
    files = sorted(path for path in photos.glob("*/*") if path.is_file())
    classes = sorted({path.parent.name for path in files})
    labels = np.array([classes.index(path.parent.name) for path in files])
    given = noise.symmetric(labels, rate=RATE, num_classes=len(classes), seed=0)
    for path, label in zip(files, given, strict=True):
        (target / classes[label]).mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / classes[label] / path.name)
    moved = np.flatnonzero(given != labels)
    return {f"{classes[given[at]]}/{files[at].name}" for at in moved}


def main() -> None:
    """Find the label issues of a folder of photographs and take the picture."""
    with tempfile.TemporaryDirectory() as work:
        photos, run = Path(work, "photos"), Path(work, "run")
        moved = copy(Path(sys.argv[1]), photos)
        command = [sys.executable, "-m", "jnpl", "find", "photos", "-o", "run"]
        subprocess.run(command, check=True, cwd=work)  # noqa: S603
        issues = Findings.load(run).worst(SHOWN)["id"]
        print(f"moved: {len(moved)}; of the first {SHOWN} label issues {issues.isin(moved).sum()} were moved")
        take(run / "report.html", PICTURE)


if __name__ == "__main__":
    main()
