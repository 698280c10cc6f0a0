"""Strong views: each operation does what its name says, draws decide everything."""

import numpy as np
import pytest
import torch

from jnpl.data.loading.augment import DRAWS, CropFlip
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import prepare
from jnpl.data.loading.strong_augment import STRONG_DRAWS, strong_augment
from jnpl.data.sources.arrays import from_arrays

CORNER = (0.999, 0.999)  # the square lies around the last pixel
CROP = CropFlip((0.5, 0.5, 0.5), (1.0, 1.0, 1.0), 16)


def images(count=1, side=16):
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8))


def changed(pixels, geometric=0, strength=0.5, photometric=0, colour=0.5):
    """One image through operation `geometric` of 6 and `photometric` of 7; a strength of 0.5 is none."""
    draws = [(geometric + 0.5) / 6, strength, (photometric + 0.5) / 7, colour, *CORNER]
    return strong_augment(pixels, torch.tensor([draws]).repeat(len(pixels), 1))


def visible(pixels):
    """Without the part that the square can hide."""
    return pixels[:, :11, :11].float()


def test_nothing_but_the_square_is_changed_by_the_first_operations():
    before = images()
    after = changed(before)
    assert visible(after).equal(visible(before))
    assert after[0, 11:, 11:].eq(128).all()
    assert after.dtype == torch.uint8


@pytest.mark.parametrize("geometric", range(1, 6))
def test_a_geometric_operation_without_strength_changes_nothing(geometric):
    before = images()
    assert (visible(changed(before, geometric)) - visible(before)).abs().max() <= 1  # interpolation


def test_a_shift_moves_the_picture_and_brings_in_grey():
    before = images(side=20)
    after = changed(before, geometric=3, strength=1.0)  # 0.3 of 20 pixels along x
    assert after[0, :10, :10].equal(before[0, :10, 6:16])
    down = changed(before, geometric=4, strength=0.0)
    assert down[0, 6:10, :10].equal(before[0, :4, :10])
    assert down[0, :5, :10].eq(128).all()


def test_a_rotation_keeps_the_centre_and_turns_the_rest():
    plus = torch.zeros(1, 17, 17, 3, dtype=torch.uint8)
    plus[0, 8], plus[0, 8, 8] = 255, 200
    after = changed(plus, geometric=5, strength=1.0)
    assert after[0, 8, 8, 0] == 200
    assert after[0, 8, 0, 0] < 100


def test_colours():
    before = images()
    seen = visible(before)
    assert (visible(changed(before, photometric=1, colour=0.0)) - 0.1 * seen).abs().max() < 0.51
    grey = visible(changed(before, photometric=3, colour=0.0))
    assert (grey.amax(3) - grey.amin(3)).mean() < 0.2 * (seen.amax(3) - seen.amin(3)).mean()
    flat = changed(before, photometric=2, colour=0.0)
    assert visible(flat).std() < 0.2 * seen.std()
    negative = visible(changed(before, photometric=4, colour=0.0))
    assert negative.equal(255 - seen)
    coarse = changed(before, photometric=5, colour=1.0)
    assert visible(coarse).remainder(16).eq(0).all()
    dull = (before.float() / 4 + 50).to(torch.uint8)
    bright = changed(dull, photometric=6)
    assert (visible(bright).max() - visible(bright).min()) > 240


def test_a_strong_view_is_a_function_of_its_draws_and_differs_from_a_weak_one():
    before = images(8, side=16)
    draws = torch.rand(8, DRAWS, generator=torch.Generator().manual_seed(1))
    assert STRONG_DRAWS == DRAWS - 3
    assert CROP.strong(before, draws).equal(CROP.strong(before, draws))
    assert not CROP.strong(before, draws).equal(CROP.train(before, draws))
    assert before.equal(images(8, side=16))  # not changed in place


def test_views_of_a_feed_depend_on_seed_epoch_and_step_and_leave_the_inputs_as_they_were():
    source = from_arrays(images(24).numpy(), np.arange(24) % 3)
    prepared = prepare(source, None, memory_limit=1 << 30)
    make = (prepared, source.labels, CROP, 8, 0, torch.device("cpu"))
    plain, viewed = list(Feed(*make).epoch(1)), list(Feed(*make, views=("weak", "strong")).epoch(1))
    parts = [list(Feed(*make, rank, 2, views=("weak", "strong")).epoch(1)) for rank in range(2)]
    for number, (one, batch) in enumerate(zip(plain, viewed, strict=True)):
        assert one.views == ()
        assert one.inputs.equal(batch.inputs)
        weak, strong = batch.views
        assert weak.shape == strong.shape == batch.inputs.shape
        assert not weak.equal(batch.inputs)
        for own in range(2):  # two processes draw the same
            assert torch.cat([part[number].views[own] for part in parts]).equal(batch.views[own])
