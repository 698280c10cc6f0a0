"""Write examples/jnpl.ipynb, a notebook on photos and texts: `python docs/notebook.py` (`--run`: also run it).

The cells are below. The notebook is stored without outputs; the tests run its code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

NOTEBOOK = Path(__file__).parent.parent / "examples/jnpl.ipynb"
CELLS = [
    """# Wrong labels in photos and texts

This notebook finds wrong labels twice: among small photographs and among texts. It needs no download. Replace the data
by your own: `jnpl.find_label_issues("photos/")` takes a folder with one sub-folder per class.""",
    """import numpy as np
from sklearn.datasets import load_sample_images

import jnpl

print(jnpl.__version__)""",
    """## Photos

scikit-learn ships two photographs, a temple and a flower. Pieces of them are the photos here, and every tenth label is
made wrong.""",
    """random = np.random.default_rng(0)
photos, truth = [], []
for name, picture in zip(["temple", "flower"], load_sample_images().images):
    for _ in range(100):
        top, left = random.integers(0, picture.shape[0] - 64), random.integers(0, picture.shape[1] - 64)
        photos.append(picture[top : top + 64, left : left + 64])
        truth.append(name)
photos, truth = np.stack(photos), np.array(truth)
labels = truth.copy()
wrong = random.choice(len(labels), 20, replace=False)
labels[wrong] = np.where(truth[wrong] == "temple", "flower", "temple")
photos.shape, (labels != truth).mean()""",
    """A pretrained network turns each photo into a vector, once; then a linear classifier is trained on the labels.""",
    """found = jnpl.find_label_issues(photos, labels)
found.worst(5)""",
    """The table has one row per photo, in the order of the data; `label_quality` is low for suspects. Here the truth is
known, so the ranking can be measured: average precision, wrong labels positive.""",
    """jnpl.metrics.average_precision(found.label_quality, labels != truth), found.noise_rate""",
    """import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 6, figsize=(12, 2.4))
for axis, at in zip(axes, found.worst(6).index):
    row = found.table.loc[at]
    axis.imshow(photos[at])
    axis.set_title(f"{row.given_label} → {row.suggested_label}", fontsize=9)
    axis.axis("off")""",
    """## Texts

Texts become vectors by TF-IDF, or by a sentence encoder: `backbone="hf:sentence-transformers/all-MiniLM-L6-v2"`.""",
    """subjects = ["film", "book", "song", "play", "meal", "hotel", "game", "class"]
praise, blame = ["lovely", "great", "fine", "superb"], ["awful", "dull", "poor", "terrible"]
places = ["in spring", "in June", "in town", "at home"]
texts = [f"a {word} {subject} {place}" for word in praise + blame for subject in subjects for place in places]
given = np.array(["good"] * 128 + ["bad"] * 128)
given[[3, 40, 150, 200]] = ["bad", "bad", "good", "good"]  # wrong
issues = jnpl.find_label_issues(texts, given)
issues.worst(6).assign(text=lambda rows: [texts[at] for at in rows.index])""",
    """## A classifier

`JNPLClassifier` is a scikit-learn estimator; labels may be wrong.""",
    """model = jnpl.JNPLClassifier(random_state=0).fit(photos, labels)
(model.predict(photos) == truth).mean()""",
    """## Correct

Accept the suggestions above a confidence, and look at the rest yourself.""",
    """sure = found.is_label_issue & (found.suggested_confidence > 0.6)
corrected = np.where(sure, found.table["suggested_label"], labels)
(labels == truth).mean(), (corrected == truth).mean()""",
]


def notebook() -> nbformat.NotebookNode:
    """Return the notebook; cells that begin like Python are code."""
    cells = []
    for number, text in enumerate(CELLS):
        make = new_markdown_cell if is_text(text) else new_code_cell
        cells.append(make(text, id=f"cell-{number}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def as_text(made: nbformat.NotebookNode) -> str:
    """Return what the file holds."""
    return f"{nbformat.writes(made)}\n"


def is_text(cell: str) -> bool:
    """Return whether a cell is text: it has a heading, or is no Python."""
    try:
        compile(cell, "cell", "exec")
    except SyntaxError:
        return True
    return False


def main() -> None:
    """Write the notebook; with --run, run its code."""
    made = notebook()
    NOTEBOOK.write_text(as_text(made), "utf-8")
    if "--run" in sys.argv[1:]:
        names: dict[str, object] = {}
        for cell in made.cells:
            if cell.cell_type == "code":
                exec(cell.source, names)  # noqa: S102 - our own cells
                print(cell.source.splitlines()[-1])
        print({name: names[name] for name in ("found", "issues")})


if __name__ == "__main__":
    main()
