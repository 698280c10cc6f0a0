"""Fine-tuning: the weights that it starts from."""

import torch
from tests.helpers.backbones import WIDTH, noise_images, tiny_backbone

from jnpl.data.loading.augment import EmbeddingViews
from jnpl.embedding.compute import EmbeddingOptions, embed_source
from jnpl.training.finetune import finetuning_recipe
from jnpl.training.run_results import TrainedModel


def test_damaged_weights_to_start_from_are_written_again(tmp_path):
    backbone = tiny_backbone()
    embedded = embed_source(noise_images(6), backbone, EmbeddingOptions())
    views = EmbeddingViews((0.0,) * WIDTH, (1.0,) * WIDTH)
    head = TrainedModel(torch.nn.Linear(WIDTH, 3), views, {})
    starts = []
    for _ in range(2):
        recipe = finetuning_recipe(embedded, backbone, head, None, {"model": "resnet8"}, cache=tmp_path)
        (start,) = tmp_path.iterdir()
        assert str(start) == recipe.weights
        starts.append(start.read_bytes())
        start.write_bytes(starts[0][:-1] + b"?")
    assert starts[0] == starts[1]
