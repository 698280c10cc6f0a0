"""Crop, flip and mean subtraction of a batch against one image at a time in plain Python."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jnpl.data.loading.augment import CropFlip, Standardize

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2, 0.3, 0.25)


def images(count, height=32, width=None, channels=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (count, height, width or height, channels)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def draws(count, seed=1):
    return torch.rand(count, 3, generator=torch.Generator().manual_seed(seed))


def one_image(image, uniform, crop):
    """The reference: (H, W, C) -> (C, size, size), pixel by pixel."""
    height, width, channels = image.shape
    size, padding = crop.size, crop.padding
    if padding:
        top = math.floor(uniform[0] * (height + 2 * padding - size + 1)) - padding
        left = math.floor(uniform[1] * (width + 2 * padding - size + 1)) - padding
    else:
        top, left = (height - size) // 2, (width - size) // 2
    turned = crop.flip and uniform[2] >= 0.5
    out = np.empty((channels, size, size))
    for c in range(channels):
        for y in range(size):
            for x in range(size):
                row, column = top + y, left + (size - 1 - x if turned else x)
                inside = 0 <= row < height and 0 <= column < width
                pixel = int(image[row, column, c]) / 255 if inside else 0.0
                out[c, y, x] = (pixel - crop.mean[c]) / crop.std[c]
    return out


def by_hand(samples, uniforms, crop):
    pairs = zip(samples.numpy(), uniforms.double().tolist(), strict=True)
    return torch.from_numpy(np.stack([one_image(image, uniform, crop) for image, uniform in pairs])).float()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5),
    st.integers(6, 12),
    st.integers(6, 12),
    st.sampled_from([1, 3]),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 9),
    st.integers(1, 6),
)
def test_batch_equals_one_image_at_a_time(count, height, width, channels, padding, flip, seed, size):
    samples, uniforms = images(count, height, width, channels, seed), draws(count, seed)
    crop = CropFlip(MEAN[:channels], STD[:channels], size, padding, flip)
    before = samples.clone()
    torch.testing.assert_close(crop.train(samples, uniforms), by_hand(samples, uniforms, crop), atol=2e-6, rtol=1e-6)
    assert torch.equal(samples, before)


@pytest.mark.parametrize("size", [32, 28, 40])
def test_cifar_size(size):
    samples, uniforms = images(4), draws(4)
    crop = CropFlip(MEAN, (1.0,) * 3, size)
    torch.testing.assert_close(crop.train(samples, uniforms), by_hand(samples, uniforms, crop), atol=1e-6, rtol=1e-6)


def test_large_images_too():  # factors are held for one row only from 33 pixels on
    samples, uniforms = images(2, 36, 40), draws(2)
    crop = CropFlip(MEAN, STD, 35, 2)
    torch.testing.assert_close(crop.train(samples, uniforms), by_hand(samples, uniforms, crop), atol=2e-6, rtol=1e-6)
    torch.testing.assert_close(
        crop.evaluate(samples),
        by_hand(samples, torch.zeros(2, 3), CropFlip(MEAN, STD, 35, 0)),
        atol=2e-6,
        rtol=1e-6,
    )


def test_padding_is_black_before_the_mean_is_subtracted():
    crop = CropFlip(MEAN, (1.0,) * 3, 32)
    corner = crop.train(images(1), torch.zeros(1, 3))
    expected = -torch.tensor(MEAN)[:, None, None].expand(3, 4, 32)
    torch.testing.assert_close(corner[0, :, :4], expected)
    torch.testing.assert_close(corner[0, :, :, :4], expected.mT)
    assert (corner[0, :, 4:, 4:] > -0.5).any()


def found_offsets(count=81 * 2 * 40, seed=3):
    """Top, left and flip of many crops, read off an image whose pixels say where they are."""
    y, x = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    image = torch.stack([y, x, torch.ones_like(x)], 2).to(torch.uint8)
    uniforms = draws(count, seed)
    crop = CropFlip((0.0,) * 3, (1.0,) * 3, 32)
    found = torch.cat([crop.train(image.expand(len(part), -1, -1, -1), part) for part in uniforms.split(1000)])
    middle = (found[:, :2, 16, 16] * 255).round().long()
    turned = found[:, 1, 16, 15] > found[:, 1, 16, 16]
    column = torch.where(turned, middle[:, 1] + 1, middle[:, 1])  # pixel 16 of a turned row is its 15th
    return middle[:, 0] - 16 + 4, column - 16 + 4, turned


def test_every_offset_and_both_flips_occur_equally_often():
    top, left, turned = found_offsets()
    cells = torch.bincount((top * 9 + left) * 2 + turned, minlength=162).double()
    assert len(cells) == 162
    assert cells.min() > 0
    statistic = float(((cells - 40) ** 2 / 40).sum())
    assert 105 < statistic < 224.0  # chi-square of 161 degrees of freedom, p = 0.9998 and p = 0.0007
    for marginal in (torch.bincount(top, minlength=9), torch.bincount(left, minlength=9)):
        assert float(((marginal - 720.0) ** 2 / 720).sum()) < 26.1  # 8 degrees, p = 0.001
    assert abs(int(turned.sum()) - 3240) < 3.3 * math.sqrt(6480 / 4)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_extreme_draws_stay_inside(uniform):
    samples, uniforms = images(1, 9), torch.full((1, 3), uniform)
    crop = CropFlip(MEAN, STD, 9)
    torch.testing.assert_close(crop.train(samples, uniforms), by_hand(samples, uniforms, crop), atol=2e-6, rtol=1e-6)


def test_without_padding_training_sees_the_centre():
    samples, uniforms = images(8, 10, 12), draws(8)
    upright = CropFlip(MEAN, STD, 6, padding=0, flip=False)
    assert torch.equal(upright.train(samples, uniforms), upright.evaluate(samples))
    turning = CropFlip(MEAN, STD, 6, padding=0).train(samples, uniforms)
    turned = uniforms[:, 2] >= 0.5
    assert turned.any()
    assert not turned.all()
    assert torch.equal(turning[~turned], upright.evaluate(samples)[~turned])
    assert torch.equal(turning[turned], upright.evaluate(samples)[turned].flip(3))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("padding", [0, 4])
def test_channels_last_floats(channels, padding):
    crop = CropFlip(MEAN[:channels], STD[:channels], 30, padding)
    for found in (crop.train(images(3, channels=channels), draws(3)), crop.evaluate(images(3, channels=channels))):
        assert found.shape == (3, channels, 30, 30)
        assert found.dtype == torch.float32
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert found.permute(0, 2, 3, 1).is_contiguous()


def test_evaluation_is_the_centre_minus_the_mean():
    samples = images(2, 8, 10)
    found = CropFlip(MEAN, STD, 4).evaluate(samples)
    centre = samples[:, 2:6, 3:7].permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(numbers)[:, None, None] for numbers in (MEAN, STD))
    torch.testing.assert_close(found, (centre - mean) / std, atol=1e-6, rtol=1e-6)


def test_an_empty_batch():
    crop = CropFlip(MEAN, STD, 32)
    assert crop.train(images(1)[:0], draws(1)[:0]).shape == (0, 3, 32, 32)
    assert crop.evaluate(images(1)[:0]).shape == (0, 3, 32, 32)


def test_settings_are_all_there_is():  # they are written down with the model
    crop = CropFlip(MEAN, STD, 32)
    crop.train(images(2), draws(2))
    assert vars(crop) == {"mean": MEAN, "std": STD, "size": 32, "padding": 4, "flip": True}


def test_vectors():
    samples = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    transform = Standardize((1.0, 2.0), (2.0, 4.0))
    assert transform.evaluate(samples).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert torch.equal(transform.train(samples, draws(2)), transform.evaluate(samples))
