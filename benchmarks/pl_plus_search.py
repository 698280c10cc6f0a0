"""Forms of PL+ side by side: which of them loses no class, and what it is worth (docs/results/pl-plus.md).

    python benchmarks/pl_plus_search.py features --data DIR   # a small network on features, all forms at once
    python benchmarks/pl_plus_search.py digits                # digits from random weights, the method jnpl-stable
    python benchmarks/pl_plus_search.py head --data DIR       # PL+ inside jnpl find's default, columns of owners.py
    python benchmarks/pl_plus_search.py page                  # the tables of docs/results/pl-plus.md

Every row is a line of benchmarks/results/pl-plus-search.jsonl; rows that are there are kept. What was to be tried was
fixed before: forms, regimes, noises, seeds, and the rule that decides (docs/results/pl-plus.md).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import owners
from jnpl import metrics, noise
from jnpl.data import split
from jnpl.data.loading.batches import Batch
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.experiments import features, results
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal.files import write_text
from jnpl.losses import class_weights
from jnpl.losses import functional as JF
from jnpl.losses.robust import plausibility, randomness
from jnpl.methods.base import Task
from jnpl.methods.refined_nl import RefinedNL
from jnpl.methods.registry import METHODS
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe
from jnpl.training.epoch_view import EpochView
from jnpl.training.reporting import Reporter

RESULTS = Path(__file__).parent / "results/pl-plus-search.jsonl"
PAGE = Path(__file__).parents[1] / "docs/results/pl-plus.md"
NOISES = ("symm20", "symm40", "symm60", "symm80", "asymm10", "asymm20", "asymm30", "asymm40")  # Table 1
LATE: dict[str, Any] = {"nl_if_lost": False}
# Settings of jnpl-stable. All have NLNL's class weights, and but for `written` NL in the first fifth of the epochs.
FORMS: dict[str, dict[str, Any]] = {
    "NL+ alone": {**LATE, "pl_weight": 0.0},
    "as written": {**LATE, "nl_share": 0.0, "pl_mean": "selected", "momentum": None},
    "after NL": {**LATE, "pl_mean": "selected", "momentum": None},
    "mean over the batch": {**LATE, "momentum": None},
    "only where y-hat is y": {**LATE, "momentum": None, "pl_target": "given"},
    "p / mean p": LATE,
    "p / mean p, NL if lost": {},
    "NL+ alone, NL if lost": {"pl_weight": 0.0},  # added when the others were known: what NL contributes
}
FINALISTS = ("NL+ alone", "p / mean p", "p / mean p, NL if lost")  # with more than one seed
GAIN = ("p / mean p, NL if lost", "NL+ alone")
SEEDS = (1, 2, 3)


def given_labels(source: Source, column: str, seed: int) -> npt.NDArray[np.int64]:
    """Return wrong labels by the name of a column, such as symm20; of digits asymmetric ones by CIFAR-10's map."""
    kind, rate = re.fullmatch(r"([a-z]+)(\d+)", column).groups()  # type: ignore[union-attr]
    clean, classes = source.labels, len(source.class_names)
    if kind == "symm":
        return noise.symmetric(clean, int(rate) / 100, classes, seed=seed)
    return noise.asymmetric(clean, int(rate) / 100, "cifar10", seed=seed, num_classes=classes)


def judged(quality: npt.NDArray[Any], given: Any, true: Any, predicted: npt.NDArray[Any]) -> dict[str, Any]:
    """Return average precision, mean quality of right and wrong labels, and how many classes are hardly predicted.

    `predicted` are counts of the classes in the last epoch, (C,).
    """
    wrong, lost = given != true, predicted < 0.1 * np.bincount(true, minlength=len(predicted))
    return {
        "ap": metrics.average_precision(quality, wrong),
        "p_right": float(quality[~wrong].mean()),
        "p_wrong": float(quality[wrong].mean()),
        "lost": int(lost.sum()),
    }


# Features: all forms at once, so that the search takes minutes instead of hours. The losses are those of the package.


class Network(NamedTuple):
    """Weights of K perceptrons with one hidden layer: (K, F, H), (K, 1, H), (K, H, C), (K, 1, C)."""

    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """(B, F) -> (K, B, C)."""
        x = x.expand(len(self.first), -1, -1)
        hidden = torch.baddbmm(self.first_bias, x, self.first).relu()
        return torch.baddbmm(self.second_bias, hidden, self.second)


def network(forms: int, sizes: tuple[int, int, int], generator: torch.Generator) -> Network:
    """Return the same initial weights for all forms, PyTorch's for linear layers."""
    weights = []
    for width, out in pairwise(sizes):
        for rows in (width, 1):
            drawn = (torch.rand(1, rows, out, generator=generator) * 2 - 1) / width**0.5
            weights.append(drawn.expand(forms, -1, -1).clone().requires_grad_())
    return Network(*weights)


class Filters:
    """K forms in training: what `jnpl-stable` does in a step, for the logits of all at once."""

    def __init__(self, forms: Sequence[str], labels: Tensor, classes: int) -> None:
        defaults: Any = METHODS["jnpl-stable"].Settings()  # type: ignore[call-arg]
        self.settings = [defaults.model_copy(update=FORMS[form]) for form in forms]
        self.class_weight, self.counts = class_weights(labels, classes), torch.bincount(labels, minlength=classes)
        self.mean = torch.full((len(forms), classes), 1 / classes)
        self.predicted = torch.zeros(len(forms), classes)
        self.nl_alone = torch.zeros(len(forms), dtype=torch.bool)

    def begin_epoch(self, progress: float) -> None:
        """Choose NL alone, or NL+ and PL+; `progress` is the share of the epochs before this one."""
        lost = (
            (self.predicted < 0.1 * self.counts).any(1) if self.predicted.any() else torch.ones(len(self.mean)).bool()
        )
        early = [progress < each.nl_share for each in self.settings]
        returns = torch.tensor([each.nl_if_lost for each in self.settings])
        self.nl_alone = torch.tensor(early) | (returns & lost)
        self.predicted.zero_()

    def loss(self, logits: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """(K, B, C), (B,) -> ()."""
        forms, size, classes = logits.shape
        complements = (labels[:, None] + torch.randint(1, classes, (size, 1), generator=generator)) % classes
        uniforms = torch.rand(size, generator=generator)
        with torch.no_grad():
            p = logits.softmax(2)
            self.mean.lerp_(p.mean(1), 0.01)
            self.predicted += nn.functional.one_hot(p.argmax(2), classes).sum(1)
        flat, repeated = logits.reshape(forms * size, classes), complements.repeat(forms, 1)
        negative = JF.nl_plus(flat, repeated).view(forms, size)
        if self.nl_alone.any():
            nl = JF.nl_plus(flat, repeated, 0.0).view(forms, size)
            negative = torch.where(self.nl_alone[:, None], nl, negative)
        total = (self.class_weight[labels] * negative).mean(1)
        weight = torch.tensor([each.pl_weight for each in self.settings]) * ~self.nl_alone
        if not weight.any():
            return total.sum()
        chosen, y_hats = [], []
        for form, own, mean in zip(logits.detach(), self.settings, self.mean, strict=True):
            selected, y_hat = JF.pl_plus_select(form, uniforms, None if own.momentum is None else mean)
            chosen.append(selected & (y_hat == labels) if own.pl_target == "given" else selected)
            y_hats.append(y_hat)
        selected = torch.stack(chosen)
        losses = torch.where(selected, JF.pl_plus(flat, torch.cat(y_hats)).view(forms, size), 0.0)
        over = [size if each.pl_mean == "batch" else 0 for each in self.settings]
        divisor = torch.where(torch.tensor(over) > 0, size, selected.sum(1).clamp_min(1))
        return (total + weight * losses.sum(1) / divisor).sum()


def train_on_features(
    forms: Sequence[str], source: Source, given: Any, seed: int, hidden: int = 128, epochs: int = 125
) -> list[dict[str, Any]]:
    """Train the forms with the paper's settings over 8 on the same batches, and return their results."""
    x, true = torch.from_numpy(np.asarray(source.inputs.values, np.float32)), source.labels  # type: ignore[attr-defined]
    samples, views, width = x.shape
    y, classes = torch.from_numpy(given), len(source.class_names)
    generator = torch.Generator().manual_seed(seed)
    filters, net = Filters(forms, y, classes), network(len(forms), (width, hidden, classes), generator)
    speed = [torch.zeros_like(weight) for weight in net]
    history, accuracies = torch.zeros(len(forms), samples), []
    for epoch in range(epochs):
        rate = 0.01 if epoch < round(0.8 * epochs) else 0.001
        filters.begin_epoch(epoch / epochs)
        order, view = (
            torch.randperm(samples, generator=generator),
            torch.randint(views, (samples,), generator=generator),
        )
        for rows in torch.split(order, 128):
            logits = net.logits(x[rows, view[rows]])
            if epoch >= epochs - 10:
                own = logits.detach().softmax(2)[:, torch.arange(len(rows)), y[rows]]
                history[:, rows] += own / 10
            gradients = torch.autograd.grad(filters.loss(logits, y[rows], generator), net)
            with torch.no_grad():
                for weight, velocity, gradient in zip(net, speed, gradients, strict=True):
                    velocity.mul_(0.9).add_(gradient + 1e-4 * weight)
                    weight.sub_(rate * velocity)
        if epoch % 5 == 4 or epoch == epochs - 1:
            accuracies.append(tested(net, source))
    found = []
    for form in range(len(forms)):
        shown = {
            "accuracy": float(accuracies[-1][form]),
            "mean_accuracy": fmean(float(each[form]) for each in accuracies),
        }
        found.append({**judged(history[form].numpy(), given, true, filters.predicted[form].numpy()), **shown})
    return found


def tested(net: Network, source: Source) -> npt.NDArray[np.float64]:
    """Return the accuracy of all forms (K,) on the mean view of the test images."""
    held_out: Any = source.test
    x = torch.from_numpy(np.asarray(held_out.inputs.values, np.float32)).mean(1)
    with torch.no_grad():
        right: npt.NDArray[np.float64] = (net.logits(x).argmax(2).numpy() == held_out.labels).mean(1)
    return right


def on_features(data: Path, seeds: Iterable[int]) -> None:
    """Train the forms that are not done on the first 10,000 images of CIFAR-10, as scale `features` has them."""
    source = features.load("cifar10", data, 10_000, features.Features(), note=print)
    for seed in seeds:
        forms = [*FORMS] if seed == SEEDS[0] else [*FINALISTS]
        for column in NOISES:
            stored = results.read(RESULTS)
            missing = [form for form in forms if f"features/{form}/{column}/{seed}" not in stored]
            if missing:
                found = train_on_features(missing, source, given_labels(source, column, seed), seed)
                for form, line in zip(missing, found, strict=True):
                    keep(f"features/{form}/{column}/{seed}", line)


def keep(name: str, found: dict[str, Any]) -> None:
    """Store a row, rounded."""
    rounded = {key: round(value, 5) if isinstance(value, float) else value for key, value in found.items()}
    results.add(RESULTS, {"name": name, "results": rounded})
    print(name, rounded, flush=True)


# Digits: the method of the package, a perceptron from random weights.

DIGITS = ("symm20", "symm40", "symm60", "asymm20", "asymm40")


def on_digits(seeds: Iterable[int]) -> None:
    """Train the forms that are not done."""
    clean = open_source("digits")
    for seed in seeds:
        for column in DIGITS:
            given = given_labels(clean, column, seed)
            for form, changes in FORMS.items():
                name = f"digits/{form}/{column}/{seed}"
                if name not in results.read(RESULTS):
                    source = replace(clean, labels=given)
                    keep(name, trained(source, digits_recipe(changes), seed))


def digits_recipe(changes: dict[str, Any]) -> Recipe:
    """The paper's two losses on digits, with Adam in 100 epochs."""
    settings: dict[str, Any] = {
        "model": "mlp",
        "data.val_size": 0,
        "train.epochs": 100,
        "train.milestones": [80],
        "train.batch_size": 64,
        "train.optimizer": "adam",
        "train.lr": 1e-3,
        "train.weight_decay": 0.0,
        "engine.accelerator": "cpu",
        "engine.workers": 0,
    }
    own = {f"method.{key}": value for key, value in changes.items()}
    return load_recipe("jnpl-stable-cifar10", {**settings, **own})


def trained(source: Source, recipe: Recipe, seed: int) -> dict[str, Any]:
    """Train a filter and judge what it says."""
    last: dict[str, npt.NDArray[Any]] = {}

    def note(view: EpochView) -> None:
        last["p"] = view.ledger.newest()

    report = Reporter()
    report.quiet(True)
    run = run_recipe(source, recipe, seed=seed, report=report, observe=note)
    if run is None or source.true_labels is None:
        raise RuntimeError("no result in this process")
    predicted = np.bincount(last["p"].argmax(1), minlength=len(source.class_names))
    found = judged(run.findings.label_quality, source.labels, source.true_labels, predicted)
    return {**found, "accuracy": run.results["test_accuracy"]}


# The default of jnpl find on embeddings, with PL+ beside its NL+ over all complements. The rows `head/...` are of the
# head of version 0.2, with the same PL+ in steps of autograd; `matrix/...` are of the head of today, one matrix.


class BalancedHead(RefinedNL):
    """The default on embeddings, with a PL+ that selects by p / mean p, weighted by its probability of selection.

    It begins after half of the epochs. `by_randomness`: its weight falls to 0 where the labels that contradict the
    predictions are of random classes (`jnpl.losses.robust.randomness`).
    """

    pl_weight, by_randomness = 0.0, False  # of the form that is trained

    def __init__(self, task: Task, settings: RefinedNL.Settings) -> None:
        super().__init__(task, settings)
        self.mean: Tensor | None = None  # (K, C), of each head
        self.counts_of_labels = torch.zeros(3, task.num_classes)  # decaying sums, as in RobustLoss

    def logit_gradient(self, probs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses of the first head without PL+ and the gradient of all: (B, K, C) -> (B,), (B, K, C)."""
        losses, gradient = super().logit_gradient(probs, batch)
        if self.stage == 1 or self.pl_weight == 0:
            return losses, gradient
        size, _, classes = probs.shape
        mean = torch.full_like(probs[0], 1 / classes) if self.mean is None else self.mean
        self.mean = mean.lerp(probs.mean(0), 0.01)
        labels, first = self.trusted_labels(batch), probs[:, 0]
        right = (first.argmax(1) == labels).float()
        plausible = (1 - right) * plausibility(first.clamp_min(1e-30).log(), labels)
        rows = torch.stack([torch.ones_like(right), right, plausible])
        self.counts_of_labels *= max(1 - size / (100 * classes), 0.0)
        self.counts_of_labels.scatter_add_(1, labels.expand(3, -1), rows)
        if self.epoch < 0.5 * self.epochs:
            return losses, gradient
        weight = self.pl_weight * (1 - randomness(*self.counts_of_labels).item() if self.by_randomness else 1.0)
        balanced = probs / self.mean
        top, at = (balanced / balanced.sum(2, keepdim=True)).topk(2, dim=2)
        y_hat = at[..., :1]
        chance = torch.where(top[..., 1:] < 1 / classes, top[..., :1], 0.0)  # of being selected by Algorithm 1
        pull = weight * chance * (1 - probs.gather(2, y_hat) ** 16)  # Eq. 8
        return losses, gradient + (probs * pull).scatter_add(2, y_hat, -pull)


HEADS = ("0", "0.03", "0.09", "0.2")  # weights beside C - 1 complements, of version 0.2
MATRICES: dict[str, tuple[float, bool]] = {
    "0": (0.0, False),
    "0.03": (0.03, False),
    "0.09": (0.09, False),
    "0.09, by randomness": (0.09, True),
}
COLUMNS = tuple(f"{name}/{column}" for name, each in owners.SETS.items() for column in each.columns)
MATRIX_COLUMNS = (
    *("agnews-minilm/weak", "flowers/symm5", "flowers/asymm20", "trec6-minilm/symm20", "yelp-minilm/weak"),
    *("flowers/symm20", "cifar10/asymm40", "trec6-tfidf/symm20", "agnews-tfidf/weak", "imdb-minilm/symm20"),
)
HEAD_SEEDS = (0, 1, 2)
FIRST = 10_000  # samples of CIFAR


def on_heads(data: Path) -> None:
    """Run the cells that are not done."""
    METHODS["refined-nl"] = BalancedHead
    for seed, column, (form, settings) in product((0, 1), MATRIX_COLUMNS, MATRICES.items()):
        name = f"matrix/{form}/{column}/{seed}"
        if name in results.read(RESULTS):
            continue
        set_name, _, labels = column.partition("/")
        source = owners.cell(set_name, labels, seed, data)
        if len(source) > FIRST:
            source = replace(split.part(source, np.arange(FIRST)), test=source.test)
        BalancedHead.pl_weight, BalancedHead.by_randomness = settings
        report = Reporter()
        report.quiet(True)
        run = run_recipe(source, adapt_recipe(source, None, None, {}).recipe, seed=seed, report=report)
        if run is None or source.true_labels is None:
            raise RuntimeError("no result in this process")
        ap = metrics.average_precision(run.findings.label_quality, source.labels != source.true_labels)
        keep(name, {"ap": ap, "accuracy": run.results["test_accuracy"]})


# The page.


def page(text: str, path: Path = RESULTS) -> str:
    """Return docs/results/pl-plus.md with the tables of the results."""
    stored = {name: line["results"] for name, line in results.read(path).items()}

    def filled(found: re.Match[str]) -> str:
        forms = {"head": HEADS, "matrix": MATRICES}
        if found[2] in forms:
            table = weight_table(stored, found[2], forms[found[2]])
        else:
            table = gain_table(stored) if found[2] == "gains" else form_table(stored, found[2])
        return f"{found[1]}\n{table}<!-- end -->"

    return re.sub(r"(<!-- results of (\w+): generated -->)\n.*?<!-- end -->", filled, text, flags=re.DOTALL)


def form_table(stored: dict[str, Any], regime: str) -> str:
    """Forms x noises with the first seed: AP, and lost classes in brackets."""
    columns = NOISES if regime == "features" else DIGITS
    rows = [["form", *(column.replace("mm", "mm ") for column in columns), "mean"]]
    for form in FORMS:
        found = [stored.get(f"{regime}/{form}/{column}/{SEEDS[0]}") for column in columns]
        cells = [
            "" if row is None else f"{row['ap']:.3f}" + (f" ({row['lost']})" if row["lost"] else "") for row in found
        ]
        done = [row["ap"] for row in found if row is not None]
        rows.append([form, *cells, f"{fmean(done):.3f}" if len(done) == len(columns) else ""])
    return markdown_table(rows) + "\n"


def gain_table(stored: dict[str, Any]) -> str:
    """Seeds x noises: AP of jnpl-stable less that of NL+ alone."""
    rows = [["seed", *(column.replace("mm", "mm ") for column in NOISES)]]
    for seed in SEEDS:
        cells = []
        for column in NOISES:
            ours, theirs = (stored.get(f"features/{form}/{column}/{seed}") for form in GAIN)
            cells.append("" if ours is None or theirs is None else f"{ours['ap'] - theirs['ap']:+.3f}")
        rows.append([str(seed), *cells])
    return markdown_table(rows) + "\n"


def weight_table(stored: dict[str, Any], part: str, forms: Iterable[str]) -> str:
    """Columns that were run x weights: AP, mean over the seeds that all weights have."""
    rows = [["labels", "seeds", *forms]]
    for column in COLUMNS:
        names = {seed: [f"{part}/{form}/{column}/{seed}" for form in forms] for seed in HEAD_SEEDS}
        runs = [[stored[name]["ap"] for name in each] for each in names.values() if stored.keys() >= {*each}]
        if runs:
            rows.append([column, str(len(runs)), *(f"{fmean(aps):.3f}" for aps in zip(*runs, strict=True))])
    return markdown_table(rows) + "\n"


def main() -> None:
    """Run a part of the search, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["features", "digits", "head", "page"])
    parser.add_argument("--data", type=Path, help="folder of the named data sets")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.part == "features":
        on_features(args.data, args.seeds)
    elif args.part == "digits":
        on_digits(args.seeds)
    elif args.part == "head":
        on_heads(args.data)
    else:
        write_text(PAGE, page(PAGE.read_text("utf-8")))


if __name__ == "__main__":
    main()
