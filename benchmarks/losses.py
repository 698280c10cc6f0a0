"""How fast the negative losses are, against the literal formulation and cross-entropy.

    python benchmarks/losses.py     # fills results/losses.jsonl and the table in docs/how-it-works.md

Forward and backward of a scalar loss over 128 samples, one thread, CPU time. Rivals take turns in every round, so that
a busy machine slows them alike. `literal` is softmax, clamp(1 - p), repeat K times, log, constant weight, NLL; `log
first` takes the log once before it repeats, as the released code of the predecessor (NLNL) does.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from jnpl import complement
from jnpl import functional as JF
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal import provenance
from jnpl.internal.files import write_text

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks/results/losses.jsonl", ROOT / "docs/how-it-works.md"
BLOCK = re.compile(r"(<!-- losses: generated -->\n).*?(<!-- end -->)", re.DOTALL)
BATCH, ROUNDS = 128, 100
SAMPLED = [(100, 110), (1000, 1000)]  # classes, complements
EXHAUSTIVE = [10, 100, 1000, 10_000]
LONG = 0.2  # seconds: a rival that needs more is given only a few rounds
LONG_ROUNDS = 5


def literal(logits: Tensor, complements: Tensor) -> Tensor:
    k = complements.shape[1]
    keep = (1 - logits.softmax(1)).clamp(1e-5, 1)  # (B, C)
    repeated = keep.repeat(k, 1)  # (K * B, C)
    return _weighted_nll(repeated.log(), repeated.detach(), complements)


def log_first(logits: Tensor, complements: Tensor) -> Tensor:
    k = complements.shape[1]
    keep = (1 - logits.softmax(1)).clamp(1e-5, 1)
    return _weighted_nll(keep.log().repeat(k, 1), keep.detach().repeat(k, 1), complements)


def _weighted_nll(log_keep: Tensor, keep: Tensor, complements: Tensor) -> Tensor:
    chosen = complements.t().reshape(-1)  # the order of `repeat`
    weights = keep.gather(1, chosen.unsqueeze(1)).squeeze(1)
    return (weights * F.nll_loss(log_keep, chosen, reduction="none")).sum() / len(complements)


def inputs(num_classes: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = (3 * torch.randn(BATCH, num_classes, generator=generator)).requires_grad_()
    labels = torch.randint(num_classes, (BATCH,), generator=generator)
    return logits, labels, complement.sample(labels, num_classes, k, generator)


def race(rivals: dict[str, Callable[[], Tensor]], logits: Tensor, rounds: int) -> dict[str, float]:
    """Time every rival in turn, `rounds` times; median CPU microseconds of forward and backward."""

    def once(loss: Callable[[], Tensor], calls: int) -> float:
        start = time.process_time()
        for _ in range(calls):
            torch.autograd.grad(loss(), logits)
        return (time.process_time() - start) / calls

    warm = {name: min(once(loss, 1) for _ in range(2)) for name, loss in rivals.items()}
    calls = {name: max(1, min(50, int(2e-3 / seconds))) for name, seconds in warm.items()}
    times: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    for number in range(rounds):
        for name in order:
            if warm[name] < LONG or number < LONG_ROUNDS:
                times[name].append(once(rivals[name], calls[name]))
        order.append(order.pop(0))  # nobody always runs behind the same neighbour
    return {name: 1e6 * statistics.median(seen) for name, seen in times.items()}


def measure() -> dict[str, dict[str, float]]:
    """Return name of a size -> microseconds of each rival."""
    found = {}
    for num_classes, k in SAMPLED:
        logits, labels, complements = inputs(num_classes, k)
        found[f"sampled-{num_classes}-{k}"] = race(
            {
                "jnpl": lambda f=logits, c=complements: JF.nl_plus(f, c, reduction="mean"),  # type: ignore[misc]
                "literal": lambda f=logits, c=complements: literal(f, c),  # type: ignore[misc]
                "log first": lambda f=logits, c=complements: log_first(f, c),  # type: ignore[misc]
            },
            logits,
            ROUNDS,
        )
    for num_classes in EXHAUSTIVE:
        logits, labels, _ = inputs(num_classes, 1)
        found[f"exhaustive-{num_classes}"] = race(
            {
                "jnpl": lambda f=logits, y=labels: JF.nl_plus_exhaustive(f, y, reduction="mean"),  # type: ignore[misc]
                "cross-entropy": lambda f=logits, y=labels: F.cross_entropy(f, y),  # type: ignore[misc]
            },
            logits,
            ROUNDS,
        )
    return found


def table(lines: dict[str, Any]) -> str:
    """Return the table of docs/how-it-works.md."""
    rows = [["", "CPU microseconds", "compared with"]]
    for num_classes, k in SAMPLED:
        times = lines[f"sampled-{num_classes}-{k}"]["results"]
        gains = [times[name] / times["jnpl"] for name in ("literal", "log first")]
        title = f"NL+, {num_classes:,} classes, {k:,} sampled complements"
        against = f"{gains[0]:,.0f} times faster than the literal form, {gains[1]:,.1f} times than with the log first"
        rows.append([title, f"{times['jnpl']:,.0f}", against])
    for num_classes in EXHAUSTIVE:
        times = lines[f"exhaustive-{num_classes}"]["results"]
        against = f"{times['jnpl'] / times['cross-entropy']:.1f} times cross-entropy"
        rows.append([f"exhaustive NL+, {num_classes:,} classes", f"{times['jnpl']:,.0f}", against])
    return markdown_table(rows)


def main() -> None:
    """Measure, store, and write the table."""
    torch.set_num_threads(1)
    about = {"versions": provenance.versions(), "commit": provenance.commit()}
    results.add(RESULTS, *({"name": name, "results": times, **about} for name, times in measure().items()))
    text = PAGE.read_text("utf-8")
    write_text(PAGE, BLOCK.sub(lambda match: f"{match[1]}{table(results.read(RESULTS))}\n{match[2]}", text))


if __name__ == "__main__":
    main()
