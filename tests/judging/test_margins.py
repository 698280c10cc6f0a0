"""Logit margins over all epochs: AUM and the averaged margin, and runs that are ranked by them."""

import math

import numpy as np
import pytest
import torch
from tests.helpers import quick

from jnpl.internal.errors import InputError
from jnpl.judging.margins import Margins

LABELS = np.array([0, 1, 2])
EPOCHS = [
    torch.tensor([[3.0, 1.0, 0.0], [2.0, 0.0, 1.0], [0.0, 0.0, 4.0]]),
    torch.tensor([[1.0, 2.0, 0.0], [0.0, 5.0, 1.0], [6.0, 0.0, 1.0]]),
]


def recorded(score):
    margins = Margins(LABELS, 3, score)
    for epoch, logits in enumerate(EPOCHS):
        margins.record(torch.tensor([2, 0]), logits[[2, 0]], epoch)
        margins.record(torch.tensor([1]), logits[[1]], epoch)
    return margins


def test_aum_is_the_mean_of_the_margins():
    assert recorded("aum").mean().tolist() == [(2 - 1) / 2, (-2 + 4) / 2, (4 - 5) / 2]


def test_the_averaged_margin_is_that_of_the_mean_logits():
    margins = recorded("margin")
    assert margins.mean().tolist() == [2.0 - 1.5, 2.5 - 1.0, 2.5 - 3.0]
    assert margins.quality().tolist() == pytest.approx([1 / (1 + math.exp(-m)) for m in (0.5, 1.5, -0.5)])


def test_a_sample_counts_once_an_epoch_and_a_shift_of_all_logits_does_not_matter():
    margins = recorded("aum")
    before = margins.mean().tolist()
    margins.record(torch.tensor([1]), EPOCHS[0][[1]], 1)
    assert margins.mean().tolist() == before
    shifted = Margins(LABELS, 3, "margin")
    for epoch, logits in enumerate(EPOCHS):
        shifted.record(torch.arange(3), logits + 7.0 * epoch, epoch)
    np.testing.assert_allclose(shifted.mean(), recorded("margin").mean())


def test_the_state_continues_and_another_score_is_refused():
    margins, again = recorded("aum"), Margins(LABELS, 3, "aum")
    again.load_state_dict(margins.state_dict())
    assert again.mean().tolist() == margins.mean().tolist()
    assert again.seen.tolist() == [2, 2, 2]
    with pytest.raises(InputError, match=r"'margin'.*'aum'"):
        again.load_state_dict(recorded("margin").state_dict())


@pytest.mark.parametrize("score", ["aum", "margin"])
def test_a_run_is_ranked_by_margins_and_resumes_exactly(score, tmp_path):
    recipe = quick.recipe_of("ce")
    recipe = recipe.model_copy(update={"verdict": recipe.verdict.model_copy(update={"score": score})})
    calm = quick.train(quick.data(), recipe, tmp_path / "calm")
    stopped, stops = quick.stopped_and_resumed(
        lambda report: quick.train(quick.data(), recipe, tmp_path / "stopped", report), 3
    )
    assert stops >= 1
    first, second = (each.findings.label_quality for each in (calm, stopped))
    assert first.tolist() == second.tolist()
    assert calm.results["ap"] > 0.5  # 30 % are wrong
    plain = quick.train(quick.data(), quick.recipe_of("ce"), tmp_path / "plain")
    assert first.tolist() != plain.findings.label_quality.tolist()
