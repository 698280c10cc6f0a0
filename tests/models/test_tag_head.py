"""The head with an output per tag: the same calibration as the model of the noise."""

import numpy as np
import torch

from jnpl.judging.tag_noise import TagModel
from jnpl.models.tag_head import TagHead


def test_probabilities_are_those_of_the_noise_model():
    head = TagHead(4, 3)
    bias = np.array([-1.0, 0.0, 2.0])
    head.calibrate(1.7, torch.from_numpy(bias).float(), 0.2)
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) * 5
    model = TagModel(1.7, bias, np.zeros(3), np.zeros(3), 0.2)
    expected = model.true_probs(head.linear(x).detach().numpy().astype(np.float64))
    np.testing.assert_allclose(head(x).sigmoid().detach().numpy(), expected, atol=1e-6)
