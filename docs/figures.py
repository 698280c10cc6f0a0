"""Draw the figures of docs/how-it-works.md: `python docs/figures.py`. All curves are gradients by autograd.

- gradients.png: how strongly a sample pulls the network towards its label, with cross-entropy, NL, NL+ and PL+.
- gradient-maps.png: the size of the gradient of NL and NL+ over (p of the given label, p of the complementary label).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from jnpl.experiments import style
from jnpl.losses import functional as JF

IMAGES = Path(__file__).parent / "images"
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
        right.plot(own, pull(lambda x, y, n=n: JF.pl_plus(x, y, n=n), own), label=f"PL+, N = {n}", color=style.LINES[n + 1])
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
        drawn = axis.pcolormesh(own, other, size, vmin=0, vmax=1, cmap=style.GRADIENT, shading="nearest", rasterized=True)
        style.tidy(axis, "probability of the given label", "probability of the complementary label", name)
    figure.colorbar(drawn, ax=figure.axes, label="size of the gradient")
    style.save(figure, IMAGES / "gradient-maps.png")


if __name__ == "__main__":
    gradients()
    maps()
