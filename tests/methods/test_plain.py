"""Methods that are one loss with one network: the mean of a function of `jnpl.functional`, with the settings given."""

import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import make, noise_batch

from jnpl import functional as JF
from jnpl.methods.gce import GCE
from jnpl.methods.plain import CE, MAE, NCERCE, NFLRCE, SCE

LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2])
CASES = [
    (CE, JF.pl, {}),
    (MAE, JF.mae, {}),
    (GCE, JF.gce, {"q": 0.3}),
    (SCE, JF.sce, {"alpha": 6.0, "beta": 0.1}),
    (NCERCE, JF.nce_rce, {"alpha": 10.0, "beta": 0.1}),
    (NFLRCE, JF.nfl_rce, {"alpha": 10.0, "beta": 0.1, "gamma": 2.0}),
]


@pytest.mark.parametrize(("method", "function", "settings"), CASES)
def test_the_step_is_the_mean_of_the_loss(method, function, settings):
    for changes in ({}, settings):
        made, batch = make(method, LABELS, **changes), noise_batch(LABELS)
        output = made(batch)
        losses = function(made.model(batch.inputs), LABELS, **changes)
        assert output.loss.item() == pytest.approx(losses.sum().item() / 7, rel=1e-6)
        assert output.logits.equal(made.model(batch.inputs))
        assert output.quality is None  # the score is the probability of the given label
        assert not output.scalars
    with pytest.raises(ValidationError, match="extra"):
        method.Settings(tau=1)
