"""What a step of MLNT costs, as PyTorch counts it, and what that makes of Table 2's estimate."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.experiments.reproduce import cost
from jnpl.experiments.spec import RunSpec
from jnpl.methods.base import Task
from jnpl.methods.mlnt import MLNT
from jnpl.models.build import build
from jnpl.recipes.load import load_recipe


def counted(run):
    counter = FlopCounterMode(display=False)
    with counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("second_order", [True, False])
@pytest.mark.parametrize(("stage", "label_sets"), [(0, 2), (1, 1), (1, 3), (2, 2)])
def test_the_passes_of_a_step_of_mlnt_are_those_that_pytorch_counts(second_order, stage, label_sets):
    settings = MLNT.Settings(label_sets=label_sets, second_order=second_order, warm_up_steps=0, ramp_steps=0)
    labels = torch.arange(8) % 4

    def network(number):
        return build("resnet8", num_classes=4, input_shape=(3, 32, 32), seed=number)

    method = MLNT(Task(network, labels, 4, None, None, None), settings)
    method.stage, method.epoch, method.epochs = stage, 0, 1
    inputs = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    batch = Batch(inputs, labels, torch.arange(8), generator_for(0, "step"), Rows(0, 8, 8))

    def whole():
        method.step(batch).loss.backward()

    one, step = counted(lambda: method.model(inputs)), counted(whole)
    recipe = load_recipe("mlnt-cifar10").model_copy(update={"method": settings})
    assert step / one == pytest.approx(cost.passes(recipe, stage), rel=0.03)


def test_table_2_counts_the_inner_steps_of_mlnt():
    same = {"data": "clothing1m", "noise": "none", "seed": 1, "scale": "paper", "classify": True, "weights": "any"}
    ce, mlnt = (cost.gpu_hours([RunSpec(variant=variant, **same)]) for variant in ("ce", "mlnt"))
    epochs = load_recipe("ce-clothing1m").train.epochs
    # Three epochs of cross-entropy, then three with 95, 96 and 96 passes where others have three.
    assert mlnt / ce == pytest.approx((3 * 3 + 95 + 96 + 96) / (3 * epochs))
