"""All methods on human labels: CIFAR-10N (aggre, worse) and CIFAR-100N, heads on features of a pretrained network.

    python benchmarks/field.py --data DIR              # fill results/field.jsonl, resumable; write the pages
    python benchmarks/field.py --data DIR --seeds 3
    python benchmarks/field.py --table                 # the pages from the results alone

The features of `jnpl reproduce --scale features`: the first 10,000 training images, 256 principal components of
EfficientNet-Lite0's embeddings, of the image or its mirror image at random; all test images. A run is a method, a
suite, a set of labels and a seed, trained in this process with one thread; its line holds every setting. Suites:

- `epochs`: an MLP with one hidden layer of 512, 30 epochs in all for every method.
- `compute`: the same, with as many epochs as take the CPU time of 30 epochs of cross-entropy.
- `linear`: the head, rate, weight decay and epochs of `fast` for every method.
- `tried`: `fast` and variants of it on CIFAR-100 with human, asymmetric and symmetric labels.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from jnpl import __version__, noise
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
PAGES = ("results/field.md", "results/field-details.md")  # of docs, each with its template
SAMPLES, WIDTH, STEPS, EPOCHS = 10_000, 256, 79, 30
COLUMNS = {
    "cifar10-aggre": ("cifar10", "cifar-10n.npz", "aggre_label"),
    "cifar10-worse": ("cifar10", "cifar-10n.npz", "worse_label"),
    "cifar100-human": ("cifar100", "cifar-100n.npz", "noisy_label"),
}
NOISE = {"cifar100-asymm40": 0.4, "cifar100-symm40": 0.4}  # rates of injected noise, suite `tried`
Suite = Literal["epochs", "compute", "linear", "tried"]
OURS = "fast"
UNCALIBRATED = {"verdict.calibrate": False, "verdict.threshold": 0.5}  # ranking and cost alone count here
SAME_COST = 1.25  # up to this cost a row of suite `epochs` stands for the one at the same compute
PLAN = {"epochs": EPOCHS, "batch_size": 128, "lr": 0.02, "weight_decay": 1e-3, "schedule": "cosine"}
ADAM = {**PLAN, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
# The methods of the paper's tables. Settings that papers count in hundreds of epochs are scaled to 30.
EARLIER = (
    *("ce", "mae", "gce", "sce", "nce-rce", "nfl-rce", "co-teaching", "jocor", "nlnl", "jnpl", "forward"),
    *("m-correction", "limit", "joint-optim", "metacleaner", "mlnt", "pencil"),
)
NEWER = ("co-teaching-plus", "dividemix", "elr", "elr-plus", "cores2", "sop", "sop-plus")
SCORES = {"ce-aum": "aum", "ce-margin": "margin"}  # cross-entropy, ranked by its margins
COMPARED = (OURS, "ce", *NEWER, *EARLIER[1:])
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
PAPER: dict[str, dict[str, Any]] = {  # of fast, which differ from it with more than ten classes
    "fast-agreement": {"method.ce_fade": "agreement"},
    "fast-fade-quarter": {"method.ce_fade": 0.25},
    "fast-fade-half": {"method.ce_fade": 0.5},
    "fast-slow": {  # learning rates of embeddings of 1,280 numbers, with their weight decay
        "train.lr": 0.05,
        "train.weight_decay": 0.0043,
        "stages.refine.lr": 0.02,
        "stages.refine.weight_decay": 0.014,
    },
}


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
    epochs: int = EPOCHS  # of the whole training

    @property
    def name(self) -> str:
        """The name of its line."""
        return f"{self.suite}-{self.column}-{self.method}-{self.seed}"

    def recipe(self) -> Recipe:
        """All settings of its training."""
        classes = 100 if self.column.startswith("cifar100") else 10
        head = head_plan(WIDTH, SAMPLES, classes)
        fade = {name: value for name, value in head.items() if name == "method.ce_fade"}
        if self.method == OURS or self.method in PAPER:
            recipe = load_recipe("fast-embeddings", {**head, **UNCALIBRATED, **PAPER.get(self.method, {})})
        elif self.method == "fast-mlp":  # the losses of fast on the network of the others
            recipe = load_recipe(
                "fast-embeddings",
                {"train.weight_decay": 1e-3, "stages.refine.weight_decay": 1e-3, **fade, **UNCALIBRATED},
            )
        else:
            recipe = self._rival(classes, head)
        model = recipe.model if self.method in (OURS, *PAPER) or self.suite == "linear" else "mlp512"
        data = recipe.data.model_copy(update={"vectors": "unit"})
        engine = recipe.engine.model_copy(update={"accelerator": "cpu", "workers": 0})
        return recipe.model_copy(update={"model": model, "data": data, "engine": engine})

    def _rival(self, classes: int, head: dict[str, Any]) -> Recipe:
        name = "ce" if self.method in SCORES else self.method
        own = own_settings(name, classes, self.epochs * STEPS)
        train = {**PLAN, **own.get("train", {})}
        if self.suite == "linear":  # the plan of fast
            ours = load_recipe("fast-embeddings", head).train
            train |= {"lr": ours.lr, "weight_decay": ours.weight_decay} if train.get("optimizer") != "adam" else {}
        shrink = self.epochs / EPOCHS
        train |= {"epochs": max(round(shrink * train["epochs"]), 2)}
        if "milestones" in train:
            train["milestones"] = [max(round(shrink * at), 1) for at in train["milestones"]]
        stages = {
            stage: {**plan, "epochs": max(round(shrink * plan["epochs"]), 1)}
            for stage, plan in own.get("stages", {}).items()
        }
        pseudo = own.get("pseudo")
        if pseudo is not None:
            pseudo = {"train": {**pseudo["train"], "epochs": max(round(shrink * pseudo["train"]["epochs"]), 1)}}
        return parse_recipe(
            {
                "model": "linear" if self.suite == "linear" else "mlp512",
                "train": train,
                "stages": stages,
                "method": {"name": name, **own.get("method", {})},
                "verdict": {"score": SCORES.get(self.method, "history")},
                **({} if pseudo is None else {"pseudo": pseudo}),
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
        """Return features with the human labels as given ones, or with injected noise."""
        if column in NOISE:
            human, rate = self.source("cifar100-human"), NOISE[column]
            pairs = partial(noise.asymmetric, mapping="cifar100")
            make: Callable[..., Any] = pairs if "asymm" in column else noise.symmetric
            return replace(human, name=column, labels=make(human.true_labels, rate, num_classes=100, seed=0))
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
    if suite == "tried":
        columns = ("cifar100-human", *NOISE)
        tried = [name for name in (OURS, *PAPER) if not methods or name in methods]
        return [FieldRun(method=name, column=column, suite=suite, seed=seed) for name in tried for column in columns]
    if suite == "linear":
        names: tuple[str, ...] = HEAD
    else:
        names = (OURS, "ce", *NEWER, *EARLIER[1:], *SCORES, "fast-mlp")
    ratio = costs(results.read(FILE)) if suite == "compute" else {}
    made = []
    for name in names:
        if methods and name not in methods:
            continue
        if suite == "compute" and (name not in ratio or name in (OURS, *SCORES, "fast-mlp")):
            continue
        epochs = EPOCHS if suite != "compute" else max(round(EPOCHS / ratio[name]), 2)
        if suite == "compute" and ratio[name] <= SAME_COST:
            continue  # the line of suite `epochs` stands for it
        made += [FieldRun(method=name, column=column, suite=suite, seed=seed, epochs=epochs) for column in COLUMNS]
    return made


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10, CIFAR-100 and the human labels")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--suite", choices=["epochs", "compute", "linear", "tried"], help="default: all")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        for name, text in pages().items():
            (DOCS / name).write_text(text, "utf-8")
        return 0
    if args.data is None:
        parser.error("--data DIR is needed")
    torch.set_num_threads(1)
    data, clock = Data(args.data), TestClock()
    suites: list[Suite] = [args.suite] if args.suite else ["epochs", "linear", "compute", "tried"]
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
NAMES |= {"cifar100-asymm40": "asymmetric 40 %", "cifar100-symm40": "symmetric 40 %"}
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
    columns = ("cifar100-human", *NOISE) if suite == "tried" else tuple(COLUMNS)
    if suite == "linear":
        rows[OURS] = of_suite("epochs")[OURS]
    if suite == "compute":
        ratio = costs(results.read(FILE))
        rows |= {name: row for name, row in of_suite("epochs").items() if ratio[name] <= SAME_COST and name in COMPARED}
    best = {
        (column, key): max(mean(row[column], key) for row in rows.values() if row[column])
        for column in columns
        for key in MEASURES
    }
    head = ["method", *(f"{NAMES[column]}: {what}" for column in columns for what in MEASURES.values())]
    shown = [[*head, "seeds", "epochs" if relative is None else "cost"]]
    order = [OURS, *PAPER, "fast-mlp", "ce", *SCORES, *NEWER, *EARLIER[1:]]
    for name in sorted(rows, key=order.index):
        row, texts = rows[name], []
        for column in columns:
            for key in MEASURES:
                text = spread([line["results"][key] for line in row[column]]) if row[column] else "-"
                is_best = row[column] and mean(row[column], key) == best[column, key]
                texts.append(f"**{text}**" if is_best else text)
        line = next(iter(row.values()))[0]
        last = str(line["results"]["epochs"]) if relative is None else f"{relative[name]:.2f}"
        called = name if suite == "tried" else SHOWN.get(name, name)
        shown.append([called, *texts, str(max(len(lines) for lines in row.values())), last])
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


def pages() -> dict[str, str]:
    """Page of docs -> its text, from the results."""
    lines = results.read(FILE)
    wrong = {line["column"]: line["wrong"] for line in lines.values() if line["column"] in COLUMNS}
    parts = {f"wrong_{column.partition('-')[2]}": f"{100 * share:.1f} %" for column, share in wrong.items()}
    parts |= {"summary": summary(), "epochs": table("epochs", costs(lines))}
    parts |= {"compute": table("compute"), "linear": table("linear"), "tried": table("tried")}
    made = {}
    for name in PAGES:
        text = (DOCS / "templates" / name).read_text("utf-8")
        for part, shown in parts.items():
            text = text.replace(f"{{{part}}}", shown)
        made[name] = text
    return made


if __name__ == "__main__":
    sys.exit(main())
