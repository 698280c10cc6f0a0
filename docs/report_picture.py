"""Draw the report and the review in docs/images: `python docs/report_picture.py STAMPS`.

STAMPS is the folder of stamps of Tux Paint (GPL-2), on Debian and Ubuntu /usr/share/tuxpaint/stamps of the package
tuxpaint-stamps-default. Its photographs of five kinds of things are put on white, some into the folder of another
class, `jnpl find` judges them, and Chromium takes pictures of the first suspects in the report and in `jnpl review`. It
prints the output of `jnpl find`, and how many of the first suspects were moved. Needs playwright and a Chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from playwright.sync_api import Browser, Page, sync_playwright

from jnpl import Findings, noise

IMAGES = Path(__file__).parent / "images"
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


def take_report(browser: Browser, page: Path) -> None:
    """Take the picture: the headline of the report, then the first suspects."""
    view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    view.goto(page.resolve().as_uri())
    for hidden in ("#quality", "nav", ".next", ".controls"):  # between headline and suspects
        view.evaluate("name => document.querySelectorAll(name).forEach(each => each.remove())", hidden)
    save(view, "report.png")


def take_review(browser: Browser, link: str) -> None:
    """Take pictures of the review: one suspect, also on a phone, and the grid."""
    for name, width, height, key in (("one", 1180, 900, ""), ("phone", 360, 740, ""), ("grid", 1180, 860, "g")):
        view = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        view.goto(link)
        view.wait_for_selector("html[data-ready]:not([data-busy])", state="attached")
        if key:
            view.keyboard.press(key)
        view.wait_for_timeout(3000)
        save(view, f"review-{name}.png")


def save(view: Page, name: str) -> None:
    """Save what a page shows, with few colours."""
    view.screenshot(path=IMAGES / name)
    few = Image.open(IMAGES / name).convert("RGB").quantize(256, dither=Image.Dither.FLOYDSTEINBERG)
    few.save(IMAGES / name, optimize=True)


def main() -> None:
    """Find the wrong labels of the photographs and take the pictures."""
    with tempfile.TemporaryDirectory() as work:
        photos, run = Path(work, "photos"), Path(work, "run")
        moved = copy(photographs(Path(sys.argv[1])), photos)
        jnpl = [sys.executable, "-m", "jnpl"]
        subprocess.run([*jnpl, "find", "photos", "-o", "run"], check=True, cwd=work)
        suspects = Findings.load(run).worst(SHOWN)["id"]
        print(f"moved: {len(moved)}; of the first {SHOWN} suspects {suspects.isin(moved).sum()} were moved")
        review = [*jnpl, "review", "run", "--no-open", "--port", "0", "--reviewer", "Ann"]
        with subprocess.Popen(review, cwd=work, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as made:
            link = re.findall(r"http://\S+", (server.stdout or sys.stdin).readline())[0]
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = made.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            take_report(browser, run / "report.html")
            take_review(browser, link)
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
