"""All methods on human labels: CIFAR-10N (aggre, worse) and CIFAR-100N, heads on features of a pretrained network.

    python benchmarks/field.py --data DIR              # fill results/field.jsonl, resumable; write the pages
    python benchmarks/field.py --data DIR --seeds 3
    python benchmarks/field.py --table                 # the page from the results alone

The features of `jnpl reproduce --scale features`: the first 10,000 training images, 256 principal components of
EfficientNet-Lite0's embeddings, of the image or its mirror image at random; all test images. A run is a method, a
suite, a set of labels and a seed, trained in this process with one thread; its line holds every setting. Suites:

- `epochs`: an MLP with one hidden layer of 512, 30 epochs in all for every method.
- `linear`: the head, rate, weight decay and epochs of `fast` for every method.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from jnpl import __version__
from jnpl.data.sources.cifarn import read_human
from jnpl.experiments import features, results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.experiments.variants import newer_settings
from jnpl.internal import provenance
from jnpl.internal.settings import Settings
from jnpl.judging import metrics
from jnpl.methods.registry import METHODS
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.automatic import head_plan
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.training import evaluation, run_callback
from jnpl.training.reporting import Reporter

HERE = Path(__file__).parent
FILE, DOCS = HERE / "results/field.jsonl", HERE.parent / "docs"
PAGE = "results/field.md"  # of docs, and of its templates
SAMPLES, WIDTH, STEPS, EPOCHS = 10_000, 256, 79, 30
COLUMNS = {
    "cifar10-aggre": ("cifar10", "cifar-10n.npz", "aggre_label"),
    "cifar10-worse": ("cifar10", "cifar-10n.npz", "worse_label"),
    "cifar100-human": ("cifar100", "cifar-100n.npz", "noisy_label"),
}
Suite = Literal["epochs", "linear"]
OURS = "fast"
UNCALIBRATED = {"verdict.calibrate": False, "verdict.threshold": 0.5}  # ranking and cost alone count here
PLAN = {"epochs": EPOCHS, "batch_size": 128, "lr": 0.02, "weight_decay": 1e-3, "schedule": "cosine"}
ADAM = {**PLAN, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
# The methods of the paper's tables. Settings that papers count in hundreds of epochs are scaled to 30.
EARLIER = (
    *("ce", "mae", "gce", "sce", "nce-rce", "nfl-rce", "co-teaching", "jocor", "nlnl", "jnpl", "forward"),
    *("m-correction", "limit", "joint-optim", "metacleaner", "mlnt", "pencil"),
)
NEWER = ("co-teaching-plus", "dividemix", "elr", "elr-plus", "cores2", "sop", "sop-plus")
SCORES = {"ce-aum": "aum", "ce-margin": "margin"}  # cross-entropy, ranked by its margins
HEAD = (
    "ce",
    "gce",
    "elr",
    "elr-plus",
    "sop",
    "sop-plus",
    "cores2",
    "co-teaching-plus",
    "dividemix",
    "nlnl",
    "jnpl",
)  # suite `linear`


def own_settings(method: str, classes: int, steps: int) -> dict[str, Any]:
    """Return what a method changes in the common plan, by the papers; `steps` is the length of the training."""
    hundred = classes == 100
    settings: dict[str, dict[str, Any]] = {
        "nce-rce": {"method": load_recipe(f"nce-rce-cifar{classes}").method.model_dump()},
        "nfl-rce": {"method": load_recipe(f"nfl-rce-cifar{classes}").method.model_dump()},
        "co-teaching": {"train": ADAM, "method": {"noise_rate": "oracle", "ramp_epochs": 3}},
        "jocor": {
            "train": ADAM,
            "method": {"noise_rate": "oracle", "ramp_epochs": 3, "agreement": 0.85 if hundred else 0.9},
        },
        "nlnl": {
            "method": {"complements": "exhaustive"},
            "stages": {"nl": {"epochs": 8}, "selnl": {"epochs": 4}, "selpl": {"epochs": 4}},
            "pseudo": {"train": {**PLAN, "epochs": 7}},
        },
        "jnpl": {
            "train": {**PLAN, "epochs": 20},
            "method": {"complements": "exhaustive", "class_weight": "nlnl", "pl_start": 0.3},
            "pseudo": {"train": {**PLAN, "epochs": 10}},
        },
        "forward": {"stages": {"ce": {"epochs": 10}, "forward": {"epochs": 20}}},
        "limit": {"train": ADAM, "method": {"beta": 10.0}},
        "joint-optim": {
            "stages": {"labels": {"epochs": 20, "schedule": "constant"}, "retrain": {"epochs": 10}},
        },
        "mlnt": {
            "method": {
                "iterations": 1,
                "label_sets": 1,
                "inner_lr": 0.2,
                "warm_up_steps": 2 * STEPS,
                "ramp_steps": 5 * STEPS,
                "meta_weight": 0.4,
            },
            "stages": {"ce": {"epochs": 10}, "mlnt-1": {"epochs": 20}},
        },
        "pencil": {
            "method": {"label_lr": 5000.0},
            "stages": {
                "ce": {"epochs": 7, "schedule": "constant"},
                "labels": {"epochs": 13, "schedule": "constant"},
                "classify": {"epochs": 10},
            },
        },
    }
    if method in NEWER:
        return newer_settings(method, classes, steps)
    return settings.get(method, {})


class FieldRun(Settings):
    """A method on one set of human labels."""

    method: str
    column: str
    suite: Suite = "epochs"
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its line."""
        return f"{self.suite}-{self.column}-{self.method}-{self.seed}"

    def recipe(self) -> Recipe:
        """All settings of its training."""
        classes = 100 if self.column.startswith("cifar100") else 10
        head = head_plan(WIDTH, SAMPLES, classes)
        fade = {name: value for name, value in head.items() if name == "method.ce_fade"}
        if self.method == OURS:
            recipe = load_recipe("fast-embeddings", {**head, **UNCALIBRATED})
        elif self.method == "fast-mlp":  # the losses of fast on the network of the others
            recipe = load_recipe(
                "fast-embeddings",
                {"train.weight_decay": 1e-3, "stages.refine.weight_decay": 1e-3, **fade, **UNCALIBRATED},
            )
        else:
            recipe = self._rival(classes, head)
        model = recipe.model if self.method == OURS or self.suite == "linear" else "mlp512"
        data = recipe.data.model_copy(update={"vectors": "unit"})
        engine = recipe.engine.model_copy(update={"accelerator": "cpu", "workers": 0})
        return recipe.model_copy(update={"model": model, "data": data, "engine": engine})

    def _rival(self, classes: int, head: dict[str, Any]) -> Recipe:
        name = "ce" if self.method in SCORES else self.method
        own = own_settings(name, classes, EPOCHS * STEPS)
        train = {**PLAN, **own.get("train", {})}
        if self.suite == "linear":  # the plan of fast
            ours = load_recipe("fast-embeddings", head).train
            train |= {"lr": ours.lr, "weight_decay": ours.weight_decay} if train.get("optimizer") != "adam" else {}
        return parse_recipe(
            {
                "model": "linear" if self.suite == "linear" else "mlp512",
                "train": train,
                "stages": own.get("stages", {}),
                "method": {"name": name, **own.get("method", {})},
                "verdict": {"score": SCORES.get(self.method, "history")},
                **({"pseudo": own["pseudo"]} if "pseudo" in own else {}),
            }
        )


class TestClock:
    """CPU seconds of tests, which are no part of a method's cost."""

    def __init__(self) -> None:
        self.seconds, self._accuracy = 0.0, evaluation.accuracy
        setattr(run_callback, "accuracy", self._timed)  # noqa: B010 (a name that it imports)

    def _timed(self, *args: Any) -> dict[str, float]:
        start = time.process_time()
        found = self._accuracy(*args)
        self.seconds += time.process_time() - start
        return found


class Data:
    """The sources, each loaded once."""

    def __init__(self, root: Path) -> None:
        self.root, self._loaded = root, dict[str, Any]()

    def source(self, column: str) -> Any:
        """Return features with the human labels as given ones."""
        name, file, key = COLUMNS[column]
        if name not in self._loaded:
            self._loaded[name] = features.load(name, self.root, SAMPLES, features.Features(), note=print)
        clean = self._loaded[name]
        human, truth = (read_human(self.root / file, each)[: len(clean)] for each in (key, "clean_label"))
        if (truth != clean.labels).any():
            raise SystemExit(f"{file} is not in the order of the images")
        return replace(clean, name=column, labels=human)


def train_run(spec: FieldRun, data: Data, clock: TestClock) -> dict[str, Any]:
    """Train one run; returns its line of the file of results."""
    source, recipe = data.source(spec.column), spec.recipe()
    before, tests = time.process_time(), clock.seconds
    with tempfile.TemporaryDirectory() as folder:
        run = run_recipe(
            source,
            recipe,
            Path(folder) / "run",
            seed=spec.seed,
            every=CheckpointInterval(epochs=None, seconds=None),
            strict=False,
            report=Reporter(),
            classify=True,
        )
    if run is None or source.true_labels is None:
        raise RuntimeError("only the first of several processes has results")
    cpu = time.process_time() - before - (clock.seconds - tests)
    wrong = source.labels != source.true_labels
    at_rate = metrics.precision_at_k(run.findings.label_quality, wrong)
    kept = ("test_accuracy", "best_test_accuracy", "ap", "noise_rate", "epochs")
    return {
        **spec.model_dump(),
        "name": spec.name,
        "images": len(source),
        "test_images": len(source.test),
        "wrong": float(wrong.mean()),
        "versions": {"jnpl": __version__, "torch": torch.__version__},
        "commit": provenance.commit(),
        "settings": recipe.model_dump(mode="json", exclude={"engine", "description"}),
        "results": {**{key: run.results[key] for key in kept}, "precision_at_noise_rate": at_rate, "cpu_seconds": cpu},
    }


def costs(lines: dict[str, Any]) -> dict[str, float]:
    """Method -> CPU seconds of a training relative to cross-entropy's: median over columns, suite `epochs`, seed 0."""
    first = [line for line in lines.values() if (line["suite"], line["seed"]) == ("epochs", 0)]
    base = {line["column"]: line["results"]["cpu_seconds"] for line in first if line["method"] == "ce"}
    found = defaultdict(list)
    for line in first:
        if line["column"] in base:
            found[line["method"]].append(line["results"]["cpu_seconds"] / base[line["column"]])
    return {method: float(np.median(ratios)) for method, ratios in found.items()}


def specs(suite: Suite, seed: int, methods: list[str] | None) -> list[FieldRun]:
    """The runs of a suite and a seed, column by column within a method."""
    names = HEAD if suite == "linear" else (OURS, "ce", *NEWER, *EARLIER[1:], *SCORES, "fast-mlp")
    wanted = [name for name in names if not methods or name in methods]
    return [FieldRun(method=name, column=column, suite=suite, seed=seed) for name in wanted for column in COLUMNS]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10, CIFAR-100 and the human labels")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--suite", choices=["epochs", "linear"], help="default: both")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        (DOCS / PAGE).write_text(page(), "utf-8")
        return 0
    if args.data is None:
        parser.error("--data DIR is needed")
    torch.set_num_threads(1)
    data, clock = Data(args.data), TestClock()
    suites: list[Suite] = [args.suite] if args.suite else ["epochs", "linear"]
    for seed in range(args.seeds):
        for suite in suites:
            for spec in specs(suite, seed, args.methods):
                if spec.name not in results.read(FILE):
                    line = train_run(spec, data, clock)
                    results.add(FILE, line)
                    shown = {key: round(value, 3) for key, value in line["results"].items()}
                    print(spec.name, shown, flush=True)
    return 0


Lines = list[dict[str, Any]]
NAMES = {"cifar10-aggre": "CIFAR-10N aggre", "cifar10-worse": "CIFAR-10N worse", "cifar100-human": "CIFAR-100N"}
MEASURES = {"ap": "AP", "test_accuracy": "accuracy"}
SHOWN = {OURS: "`jnpl find`", "fast-mlp": "`jnpl find`, MLP"}


def of_suite(suite: Suite) -> dict[str, dict[str, Lines]]:
    """Method -> column -> lines."""
    found: dict[str, dict[str, Lines]] = defaultdict(lambda: defaultdict(list))
    for line in results.read(FILE).values():
        if line["suite"] == suite:
            found[line["method"]][line["column"]].append(line)
    return found


def mean(lines: Lines, key: str) -> float:
    """The mean of a result over seeds."""
    return float(np.mean([line["results"][key] for line in lines]))


def table(suite: Suite, relative: dict[str, float] | None = None) -> str:
    """A row for each method, AP and accuracy for each column; without `relative` costs the epochs are shown."""
    rows = of_suite(suite)
    if suite == "linear":
        rows[OURS] = of_suite("epochs")[OURS]
    best = {
        (column, key): max(mean(row[column], key) for row in rows.values() if row[column])
        for column in COLUMNS
        for key in MEASURES
    }
    head = ["method", *(f"{NAMES[column]}: {what}" for column in COLUMNS for what in MEASURES.values())]
    shown = [[*head, "seeds", "epochs" if relative is None else "cost"]]
    order = [OURS, "fast-mlp", "ce", *SCORES, *NEWER, *EARLIER[1:]]
    for name in sorted(rows, key=order.index):
        row, texts = rows[name], []
        for column in COLUMNS:
            for key in MEASURES:
                text = spread([line["results"][key] for line in row[column]]) if row[column] else "-"
                is_best = row[column] and mean(row[column], key) == best[column, key]
                texts.append(f"**{text}**" if is_best else text)
        line = next(iter(row.values()))[0]
        last = str(line["results"]["epochs"]) if relative is None else f"{relative[name]:.2f}"
        shown.append([SHOWN.get(name, name), *texts, str(max(len(lines) for lines in row.values())), last])
    return markdown_table(shown)


def summary() -> str:
    """The place of `jnpl find` in each column, who is ahead of it, and what they cost."""
    rows, cost = of_suite("epochs"), costs(results.read(FILE))
    lines, missed = [], []
    for key, what in MEASURES.items():
        for column in COLUMNS:
            values = {name: row[column] for name, row in rows.items() if name in METHODS and row[column]}
            ours = rows[OURS][column]
            own = mean(ours, key)
            ahead = sorted(
                (name for name in values if mean(values[name], key) > own), key=lambda name: -mean(values[name], key)
            )
            deviation = float(np.std([line["results"][key] for line in ours], ddof=1)) if len(ours) > 1 else 0.0
            leads = ", ".join(f"`{name}` ({mean(values[name], key) - own:+.3f})" for name in ahead)
            note = f"; ahead: {leads}" if ahead else ""
            if ahead and mean(values[ahead[0]], key) - own <= deviation:
                note += " (within one standard deviation)"
            elif ahead:
                missed.append(f"{NAMES[column]}, {what}")
            lines.append(f"- {NAMES[column]}, {what}: {own:.3f}, place {len(ahead) + 1} of {len(values) + 1}{note}")
    first = (
        "**Rivals are ahead of `jnpl find` in some columns.**"
        if any("ahead" in line for line in lines)
        else ("**`jnpl find` is first in every column.**")
    )
    ratio = cost[OURS] / cost["dividemix"]
    verdict = "Met" if not missed else f"**Not met** in {len(missed)} of {len(lines)} columns ({'; '.join(missed)})"
    goal = (
        f"Target: first, or within one standard deviation of the first, in every column. {verdict}. Target: a quarter "
        f"of DivideMix's cost. {'Met' if ratio <= 0.25 else '**Not met**'}: {ratio:.2f} of it ({cost[OURS]:.2f} and "
        f"{cost['dividemix']:.2f} times cross-entropy's)."
    )
    return "\n".join([f"{first} Its place among all methods:", "", *lines, "", goal])


def page() -> str:
    """docs/results/field.md from the results."""
    lines = results.read(FILE)
    wrong = {line["column"]: line["wrong"] for line in lines.values()}
    parts = {f"wrong_{column.partition('-')[2]}": f"{100 * share:.1f} %" for column, share in wrong.items()}
    parts |= {"summary": summary(), "epochs": table("epochs", costs(lines)), "linear": table("linear")}
    text = (DOCS / "templates" / PAGE).read_text("utf-8")
    for part, shown in parts.items():
        text = text.replace(f"{{{part}}}", shown)
    return text


if __name__ == "__main__":
    sys.exit(main())
