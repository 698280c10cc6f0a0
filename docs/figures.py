"""Draw the figures of docs/how-it-works.md and docs/results/pl-plus.md: `python docs/figures.py`.

Gradients are by autograd.

- gradients.png: how strongly a sample pulls the network towards its label, with cross-entropy, NL, NL+ and PL+.
- gradient-maps.png: the size of the gradient of NL and NL+ over (p of the given label, p of the complementary label).
- pl-plus-forms.png: average precision of some forms of PL+, from benchmarks/results/pl-plus-search.jsonl.
- pl-plus-forces.png: the pull towards a lost class, and what PL+ makes of one prediction for all samples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from jnpl.experiments import results, style
from jnpl.losses import functional as JF

IMAGES = Path(__file__).parent / "images"
SEARCH = Path(__file__).parents[1] / "benchmarks/results/pl-plus-search.jsonl"
CLASSES = 10


def logits_of(own: torch.Tensor) -> torch.Tensor:
    """(B,) probabilities of class 0 -> (B, C) logits; class 1 has nearly all of the rest."""
    others = torch.full((len(own), CLASSES - 2), 1e-6, dtype=torch.float64)
    return torch.cat([own[:, None], 1 - own[:, None], others], 1).log()


def pull(loss, own: torch.Tensor) -> torch.Tensor:
    """Return (B,): the negative gradient of a loss on the logit of the given label 0, at these probabilities of it."""
    logits = logits_of(own).requires_grad_()
    loss(logits, torch.zeros(len(own), dtype=torch.long)).sum().backward()
    return -logits.grad[:, 0]


def gradients() -> None:
    """Draw the pull of one sample over the probability of its given label."""
    own = torch.linspace(0.001, 0.999, 500, dtype=torch.float64)
    figure = style.new(9, 3.4)
    left, right = style.panels(figure, 1, 2)
    curves = {"cross-entropy (PL)": JF.pl, "NL": JF.nl_exhaustive, "NL+": JF.nl_plus_exhaustive}
    for (name, loss), color, dash in zip(curves.items(), style.LINES, ("-", style.DASHES[1], "-"), strict=False):
        left.plot(own, pull(loss, own), label=name, color=color, linestyle=dash, linewidth=2)
    style.tidy(left, "probability of the given label", "pull towards the given label", "Which labels are learnt")
    left.legend(frameon=False, fontsize=8)
    right.plot(own, pull(JF.pl, own), label="cross-entropy", color=style.LINES[0])
    for n in range(4):
        right.plot(
            own, pull(lambda x, y, n=n: JF.pl_plus(x, y, n=n), own), label=f"PL+, N = {n}", color=style.LINES[n + 1]
        )
    style.tidy(right, "probability of the predicted label", "pull towards it", "How PL+ finishes")
    right.legend(frameon=False, fontsize=8)
    style.save(figure, IMAGES / "gradients.png")


def maps() -> None:
    """Draw the size of the gradient on the logit of the given label over the triangle of possible probabilities."""
    steps = np.linspace(0.005, 0.99, 120)
    own, other = np.meshgrid(steps, steps)
    possible = own + other < 0.999
    probs = np.stack([own[possible], other[possible]], 1)
    rest = np.repeat((1 - probs.sum(1, keepdims=True)) / (CLASSES - 2), CLASSES - 2, 1)
    figure = style.new(9, 3.6)
    drawn = None
    for axis, (name, gamma) in zip(style.panels(figure, 1, 2), (("NL", 0.0), ("NL+", 1.0)), strict=True):
        logits = torch.tensor(np.concatenate([probs, rest], 1)).log().requires_grad_()
        JF.nl_plus(logits, torch.ones(len(probs), dtype=torch.long), gamma=gamma).sum().backward()
        size = np.full(own.shape, np.nan)
        size[possible] = logits.grad[:, 0].abs().numpy()
        drawn = axis.pcolormesh(
            own, other, size, vmin=0, vmax=1, cmap=style.GRADIENT, shading="nearest", rasterized=True
        )
        style.tidy(axis, "probability of the given label", "probability of the complementary label", name)
    figure.colorbar(drawn, ax=figure.axes, label="size of the gradient")
    style.save(figure, IMAGES / "gradient-maps.png")


def forces() -> None:
    """Draw the pull towards a lost class, and the leader's share of a constant prediction under NL+ and PL+."""
    figure = style.new(9, 3.4)
    left, right = style.panels(figure, 1, 2)
    rest = torch.logspace(-6, 0, 200, dtype=torch.float64)[:-1]  # what the leader leaves; y has a ninth of it
    curves = {"cross-entropy": JF.pl, "NL": JF.nl_exhaustive, "NL+": JF.nl_plus_exhaustive}
    for (name, loss), color in zip(curves.items(), style.LINES, strict=False):
        shares = (rest / (CLASSES - 1))[:, None].expand(-1, CLASSES - 1)
        logits = torch.cat([shares, 1 - rest[:, None]], 1).log().requires_grad_()
        loss(logits, torch.zeros(len(rest), dtype=torch.long)).sum().backward()
        left.plot(rest, -logits.grad[:, 0], label=name, color=color, linewidth=2)
    left.set_xscale("log")
    left.invert_xaxis()
    style.tidy(left, "1 - p of the leading class", "pull towards the given label", "A sample whose class is lost")
    left.legend(frameon=False, fontsize=8)
    forms = {"as written": ("selected", False), "mean over the batch": ("batch", False), "p / mean p": ("batch", True)}
    for (name, (mean, balanced)), color in zip(forms.items(), style.LINES[1:], strict=False):
        right.plot(leader(mean=mean, balanced=balanced), label=name, color=color, linewidth=2)
    right.set_ylim(0, 1)
    style.tidy(right, "steps", "p of the leading class", "NL+ and PL+ from a lead of 0.0001")
    right.legend(frameon=False, fontsize=8)
    style.save(figure, IMAGES / "pl-plus-forces.png")


def leader(*, mean: str, balanced: bool, steps: int = 3000, size: int = 100) -> list[float]:
    """Return p of the leading class at each step of gradient descent on logits that all samples share.

    Labels are balanced, so that NL+ has no part in it. The learning rate is 1, PL+ has the paper's weight.
    """
    row = torch.zeros(CLASSES, dtype=torch.float64)
    row[0] = 1e-3
    row.requires_grad_()
    labels, generator = torch.arange(size) % CLASSES, torch.Generator().manual_seed(0)
    shares = []
    for _ in range(steps):
        logits = row.expand(size, CLASSES)
        p = logits.detach().softmax(1)
        shares.append(float(p[0, 0]))
        uniforms = torch.rand(size, generator=generator)
        selected, y_hat = JF.pl_plus_select(logits, uniforms, p.mean(0) if balanced else None)
        total = torch.where(selected, JF.pl_plus(logits, y_hat), 0.0).sum()
        pl_plus = total / (size if mean == "batch" else max(int(selected.sum()), 1))
        loss = JF.nl_plus_exhaustive(logits, labels).mean() / (CLASSES - 1) + 0.01 * pl_plus
        (slope,) = torch.autograd.grad(loss, row)
        with torch.no_grad():
            row -= slope
    return shares


def forms() -> None:
    """Draw the average precision of some forms of PL+ over the share of wrong labels, seed 1."""
    stored = {name: line["results"] for name, line in results.read(SEARCH).items()}
    figure = style.new(9, 3.4)
    shown = {
        "as written": "JNPL as written",
        "mean over the batch": "after NL, mean over the batch",
        "NL+ alone": "NL+ alone",
        "p / mean p, NL if lost": "jnpl-stable",
    }
    names = {"symm": "symmetric noise", "asymm": "asymmetric noise"}
    for axis, (kind, title) in zip(style.panels(figure, 1, 2), names.items(), strict=True):
        rates = (20, 40, 60, 80) if kind == "symm" else (10, 20, 30, 40)
        for (form, name), color in zip(shown.items(), (*style.LINES[2:4], *style.LINES[:2]), strict=True):
            aps = [stored[f"features/{form}/{kind}{rate}/1"]["ap"] for rate in rates]
            axis.plot(rates, aps, marker="o", markersize=4, color=color, linewidth=2, label=name)
        axis.set_xticks(rates)
        style.tidy(axis, "wrong labels, %", "average precision", title)
    figure.axes[1].legend(frameon=False, fontsize=8)
    style.save(figure, IMAGES / "pl-plus-forms.png")


if __name__ == "__main__":
    gradients()
    maps()
    forces()
    forms()
