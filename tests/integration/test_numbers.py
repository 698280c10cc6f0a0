"""Numbers that a run must not lose: in bf16 and with extreme logits they stay finite, and threads do not decide."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from jnpl import functional as JF
from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.pipeline import run_recipe
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.training.reporting import Reporter

FAST = ("train.epochs=4", "train.batch_size=64", "engine.accelerator=cpu", "engine.workers=0")
LABELS = torch.tensor([0, 1, 2])
LOSSES = {
    "pl": lambda logits: JF.pl(logits, LABELS),
    "nl": lambda logits: JF.nl(logits, LABELS),
    "nl_plus": lambda logits: JF.nl_plus(logits, LABELS),
    "pl_plus": lambda logits: JF.pl_plus(logits, LABELS),
    "nl_exhaustive": lambda logits: JF.nl_exhaustive(logits, LABELS),
    "nl_plus_exhaustive": lambda logits: JF.nl_plus_exhaustive(logits, LABELS),
}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [1.0, 80.0, 1e4])
def test_losses_and_gradients_of_extreme_logits_are_finite(name, kind, size):
    logits = (size * torch.tensor([[1.0, 0.0, -1.0], [-1.0, 1.0, 1.0], [0.0, 1.0, -1.0]])).to(kind).requires_grad_()
    loss = LOSSES[name](logits)
    loss.sum().backward()
    assert loss.isfinite().all()
    assert logits.grad.isfinite().all()


def data():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 400)
    x = random.normal(size=(400, 8)) + 2 * np.eye(8)[labels]
    return from_arrays(x, noise.symmetric(labels, 0.3, 3, seed=0), y_true=labels)


def run(*changes):
    recipe = load_recipe("small", parse_changes([*FAST, *changes]))
    return run_recipe(data(), recipe, seed=0, report=Reporter())


def test_training_in_bf16_stays_finite_and_finds_the_same():
    half, whole = run("engine.precision=bf16-mixed"), run()
    assert all(np.isfinite(line["loss"]) for line in half.history)
    assert np.isfinite(half.findings.label_quality).all()
    assert spearmanr(half.findings.label_quality, whole.findings.label_quality)[0] > 0.95


def test_runs_of_one_two_and_four_threads_agree_in_their_ranking():
    qualities = []
    for threads in (1, 2, 4, 1):
        torch.set_num_threads(threads)
        qualities.append(run("train.epochs=1").findings.label_quality)
    assert np.array_equal(qualities[0], qualities[3])  # one seed, one result
    for other in qualities[1:3]:
        assert spearmanr(qualities[0], other)[0] > 0.999
