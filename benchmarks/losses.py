"""How fast and how lean the negative losses are, against the literal formulation and cross-entropy.

    python benchmarks/losses.py [--threads 1] [--repeats 100] [--json FILE]

Forward and backward of a scalar loss over 128 samples. Rivals take turns in every round, so that a busy machine slows
them alike; ratios are of medians, in brackets of minima. `literal` is softmax, clamp(1 - p), repeat K times, log,
constant weight, NLL; `log first` takes the log once before it repeats, as the released code of the predecessor (NLNL)
does. Memory is torch's allocator log; the profiler may chatter on stderr.
"""

from __future__ import annotations

import argparse
import json
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
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal import provenance

BATCH = 128
SAMPLED = [(10, 1), (100, 110), (1000, 1000)]
EXHAUSTIVE = [10, 100, 1000, 10_000]
MEMORY = [(classes, k) for classes in (100, 1000, 10_000) for k in (1, 110, 1000)]
LARGEST_LITERAL = 6 * 10**8  # bytes of one repeated tensor; beyond it the literal formulation is not run
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


def race(rivals: dict[str, Callable[[], Tensor]], logits: Tensor, rounds: int) -> dict[str, dict[str, float]]:
    """Time every rival in turn, `rounds` times; microseconds per forward and backward."""

    def once(loss: Callable[[], Tensor], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            torch.autograd.grad(loss(), logits)
        return (time.perf_counter() - start) / calls

    warm = {name: min(once(loss, 1) for _ in range(2)) for name, loss in rivals.items()}
    calls = {name: max(1, min(50, int(2e-3 / seconds))) for name, seconds in warm.items()}
    times: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    for number in range(rounds):
        for name in order:
            if warm[name] < LONG or number < LONG_ROUNDS:
                times[name].append(once(rivals[name], calls[name]))
        order.append(order.pop(0))  # nobody always runs behind the same neighbour
    return {
        name: {"median_us": 1e6 * statistics.median(seen), "min_us": 1e6 * min(seen), "rounds": len(seen)}
        for name, seen in times.items()
    }


def peak_bytes(loss: Callable[[], Tensor], logits: Tensor) -> int:
    """Most bytes alive at once during forward and backward, beyond the inputs, by torch's own allocator log."""
    torch.autograd.grad(loss(), logits)  # warm: one-off allocations do not count
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.autograd.grad(loss(), logits)
    recorded: Any = profile.profiler
    events = [event for event in recorded.kineto_results.events() if event.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


def time_sampled(repeats: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for num_classes, k in SAMPLED:
        logits, labels, complements = inputs(num_classes, k)
        rivals: dict[str, Callable[[], Tensor]] = {
            "jnpl": lambda f=logits, c=complements: JF.nl_plus(f, c, reduction="mean"),  # type: ignore[misc]
            "literal": lambda f=logits, c=complements: literal(f, c),  # type: ignore[misc]
            "log_first": lambda f=logits, c=complements: log_first(f, c),  # type: ignore[misc]
            "cross_entropy": lambda f=logits, y=labels: F.cross_entropy(f, y),  # type: ignore[misc]
        }
        found.append({"classes": num_classes, "k": k, "times": race(rivals, logits, repeats)})
    return found


def time_exhaustive(repeats: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for num_classes in EXHAUSTIVE:
        logits, labels, _ = inputs(num_classes, 1)
        rivals: dict[str, Callable[[], Tensor]] = {
            "nl": lambda f=logits, y=labels: JF.nl_exhaustive(f, y, reduction="mean"),  # type: ignore[misc]
            "nl_plus": lambda f=logits, y=labels: JF.nl_plus_exhaustive(f, y, reduction="mean"),  # type: ignore[misc]
            "cross_entropy": lambda f=logits, y=labels: F.cross_entropy(f, y),  # type: ignore[misc]
        }
        found.append({"classes": num_classes, "times": race(rivals, logits, repeats)})
    return found


def weigh() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for num_classes, k in MEMORY:
        logits, labels, complements = inputs(num_classes, k)
        unit = 4 * BATCH * num_classes
        row: dict[str, Any] = {
            "classes": num_classes,
            "k": k,
            "jnpl": peak_bytes(lambda f=logits, c=complements: JF.nl_plus(f, c, reduction="mean"), logits) / unit,  # type: ignore[misc]
            "exhaustive": peak_bytes(
                lambda f=logits, y=labels: JF.nl_plus_exhaustive(f, y, reduction="mean"),  # type: ignore[misc]
                logits,
            )
            / unit,
            "literal": None,
        }
        if unit * k <= LARGEST_LITERAL:
            row["literal"] = peak_bytes(lambda f=logits, c=complements: literal(f, c), logits) / unit  # type: ignore[misc]
        found.append(row)
    return found


def report(sampled: list[dict[str, Any]], exhaustive: list[dict[str, Any]], memory: list[dict[str, Any]]) -> str:
    def median(row: dict[str, Any], name: str) -> float:
        return float(row["times"][name]["median_us"])

    def shown(row: dict[str, Any], name: str) -> str:
        return f"{median(row, name):,.0f} ({row['times'][name]['min_us']:,.0f})"

    def ratio(row: dict[str, Any], slow: str, fast: str) -> str:
        of_mins = row["times"][slow]["min_us"] / row["times"][fast]["min_us"]
        return f"{median(row, slow) / median(row, fast):.2f}x ({of_mins:.2f}x)"

    def status(met: bool) -> str:
        return "met" if met else "**missed**"

    rows = []
    for row in sampled:
        gain = median(row, "literal") / median(row, "jnpl")
        judged = (row["classes"], row["k"]) == (100, 110)
        rows.append(
            [f"{row['classes']}", f"{row['k']}"]
            + [shown(row, name) for name in ("jnpl", "literal", "log_first", "cross_entropy")]
            + [ratio(row, "literal", "jnpl"), ratio(row, "log_first", "jnpl"), ratio(row, "jnpl", "cross_entropy")]
            + [f">= 15x literal: {status(gain >= 15)}" if judged else ""]
        )
    times = ["jnpl", "literal", "log first", "cross-entropy"]
    heads = ["C", "K", *times, "literal / jnpl", "log first / jnpl", "jnpl / CE", "target"]
    parts = ["Sampled NL+, microseconds, median (min)", markdown_table([heads, *rows])]
    rows = []
    for row in exhaustive:
        worst = max(median(row, "nl"), median(row, "nl_plus")) / median(row, "cross_entropy")
        rows.append(
            [f"{row['classes']}"]
            + [shown(row, name) for name in ("nl", "nl_plus", "cross_entropy")]
            + [ratio(row, name, "cross_entropy") for name in ("nl", "nl_plus")]
            + [f"<= 3x CE: {status(worst <= 3)}"]
        )
    heads = ["C", "NL", "NL+", "cross-entropy", "NL / CE", "NL+ / CE", "target"]
    parts += ["Exhaustive, all C - 1 complements, microseconds, median (min)", markdown_table([heads, *rows])]
    rows = []
    for row in memory:
        rivals = "not run" if row["literal"] is None else f"{row['literal']:.1f}"
        bound = f"<= 10: {status(max(row['jnpl'], row['exhaustive']) <= 10)}"
        rows.append(
            [f"{row['classes']}", f"{row['k']}", f"{row['jnpl']:.1f}", f"{row['exhaustive']:.1f}", rivals, bound]
        )
    heads = ["C", "K", "jnpl", "exhaustive NL+", "literal", "target O(B C)"]
    parts += [
        "Peak memory of NL+ beyond its inputs, in units of the logits' own B * C * 4 bytes",
        markdown_table([heads, *rows]),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=100, help="rounds per size")
    parser.add_argument("--json", type=Path, help="also store everything here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = {"sampled": time_sampled(arguments.repeats), "exhaustive": time_exhaustive(arguments.repeats)}
    memory = weigh()
    setup = {"batch": BATCH, **vars(arguments), **provenance.versions(), "commit": provenance.commit()}
    print(" · ".join(f"{key} {value}" for key, value in setup.items()), end="\n\n")
    print(report(found["sampled"], found["exhaustive"], memory))
    if arguments.json:
        arguments.json.write_text(json.dumps({"setup": setup, **found, "memory": memory}, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
