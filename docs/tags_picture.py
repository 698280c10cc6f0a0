"""Draw docs/images/review-tags.png, the review of samples with several tags: `python docs/tags_picture.py`.

600 grids of 2 x 2 digits, which scikit-learn ships, have the names of their digits as tags. 15 % of the tags are
removed and 2 % of the absent ones added, `jnpl find` judges them, and Chromium takes a picture of a suspect in `jnpl
review`. It prints how many of the suspects are truly wrong. Needs playwright and a Chromium.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from sklearn.datasets import load_digits

from jnpl.judging.tag_findings import TagFindings

PICTURE = Path(__file__).parent / "images/review-tags.png"
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
SAMPLES, SIDE, GAP = 600, 96, 8
MISSING, EXTRA = 0.15, 0.02


def write_grids(folder: Path) -> np.ndarray:
    """Write the grids and grids.csv with wrong tags; returns the true tags (N, 10)."""
    rng, digits = np.random.default_rng(0), load_digits()
    chosen = rng.integers(0, len(digits.images), (SAMPLES, 4))
    true = (digits.target[chosen][:, :, None] == np.arange(10)).any(1)
    given = np.where(true, rng.random(true.shape) >= MISSING, rng.random(true.shape) < EXTRA)
    (folder / "grids").mkdir()
    for number, cells in enumerate(chosen):
        page = Image.new("L", (2 * SIDE + 3 * GAP, 2 * SIDE + 3 * GAP), 255)
        for place, digit in enumerate(cells):
            picture = Image.fromarray((255 - 15.9375 * digits.images[digit]).astype(np.uint8))
            left, top = (GAP + at * (SIDE + GAP) for at in (place % 2, place // 2))
            page.paste(picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC), (left, top))
        page.save(folder / "grids" / f"{number:03}.png")
    paths = [f"grids/{number:03}.png" for number in range(SAMPLES)]
    pd.DataFrame({"path": paths, "tags": [";".join(NAMES[row]) for row in given]}).to_csv(
        folder / "grids.csv", index=False
    )
    return true


def take_picture(page: Page, link: str, position: int) -> None:
    """Open the review at a sample, turn its first suspected tag over, and take a picture."""
    page.goto(link)
    page.wait_for_selector("html[data-ready]:not([data-busy])", state="attached")
    page.goto(f"{link.partition('?')[0]}#view=one&position={position}")
    page.reload()
    page.wait_for_selector("html[data-ready]:not([data-busy])", state="attached")
    page.wait_for_selector(".strip img", state="attached")
    page.keyboard.press("1")
    page.wait_for_timeout(1500)
    page.screenshot(path=PICTURE, full_page=True)


def main() -> None:
    """Draw the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        true = write_grids(folder)
        find = ["find", "grids.csv", "--label-column", "tags", "--multi-label", "-o", "run"]
        subprocess.run([sys.executable, "-m", "jnpl", *find], cwd=folder, check=True)
        findings = TagFindings.load(folder / "run")
        order = [int(NAMES.tolist().index(tag)) for tag in findings.tag_names]
        wrong = findings.given != true[:, order]
        print(f"{(findings.is_issue & wrong).sum()} of {findings.is_issue.sum()} suspects are wrong, of {wrong.sum()}")
        several = np.flatnonzero((findings.is_issue & wrong).sum(1) == findings.is_issue.sum(1).max())
        position = int(min(several, key=lambda at: findings.sample_quality[at]))
        review = [sys.executable, "-m", "jnpl", "review", "run", "--no-open", "--port", "0", "--reviewer", "Ann"]
        server = subprocess.Popen(review, cwd=folder, stdout=subprocess.PIPE, text=True)
        link = re.findall(r"http://\S+", (server.stdout or sys.stdin).readline())[0]
        with sync_playwright() as browsers:
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            view = browser.new_page(viewport={"width": 1180, "height": 900}, color_scheme="light")
            take_picture(view, link, position)
            browser.close()
        server.terminate()
        server.wait()
    Image.open(PICTURE).convert("RGB").quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
