"""Label noise that depends on the sample: its rates, its independence of the order, and its chunks."""

import math

import numpy as np
import pytest

from jnpl import noise
from jnpl.noise import instance


def blobs(samples: int = 4000, width: int = 12, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.Generator(np.random.PCG64(5))
    return rng.normal(size=(samples, width)), np.arange(samples) % classes


class TestInstanceDependent:
    @pytest.mark.parametrize("rate", [0.0, 0.03, 0.2, 0.5, 0.9, 1.0])
    def test_rate_is_near_and_the_true_class_never_drawn(self, rate):
        features, clean = blobs(20000)
        bundle = noise.corrupt(clean, "instance", rate, features=features)
        assert bundle.rate_realised == pytest.approx(rate, abs=0.01 if 0 < rate < 1 else 0)

    def test_flip_rates_vary_around_the_rate(self):
        uniforms = (np.arange(10000) + 0.5) / 10000
        rates = instance.flip_rates(0.4, uniforms)
        assert rates.mean() == pytest.approx(0.4, abs=1e-4)
        assert rates.std() == pytest.approx(0.1, abs=2e-3)
        assert 0 <= rates.min() < 0.1
        assert 0.7 < rates.max() <= 1
        for rate in (0.0, 1e-9, 0.05, 0.97, 1.0):
            rates = instance.flip_rates(rate, uniforms)
            assert rates.mean() == pytest.approx(rate, abs=1e-4)
            assert 0 <= rates.min() <= rates.max() <= 1

    def test_the_wrong_class_depends_on_the_features(self):
        """Two clusters inside one class go to different classes; shuffling the features undoes it."""
        rng = np.random.Generator(np.random.PCG64(0))
        cluster = np.arange(2000) % 2
        features = rng.normal(size=(2000, 8)) * 0.1 + np.where(cluster[:, None], 1.0, -1.0)
        clean = np.zeros(2000, dtype=int)

        def distance(inputs: np.ndarray, seed: int) -> float:
            noisy = noise.instance_dependent(inputs, clean, 1.0, seed, num_classes=6)
            shares = [np.bincount(noisy[cluster == k], minlength=6) / 1000 for k in (0, 1)]
            return float(np.abs(shares[0] - shares[1]).sum() / 2)

        shuffled = features[rng.permutation(2000)]
        assert np.mean([distance(features, seed) for seed in range(20)]) > 0.7
        assert max(distance(shuffled, seed) for seed in range(20)) < 0.1

    def test_every_class_has_its_own_projection(self):
        features = np.tile(np.linspace(-1, 1, 500)[:, None], (2, 1))
        noisy = noise.instance_dependent(features, np.repeat([0, 1], 500), 1.0, num_classes=8)
        shares = [np.bincount(part, minlength=8)[2:] for part in (noisy[:500], noisy[500:])]
        assert np.abs(shares[0] - shares[1]).sum() > 200

    def test_neither_memory_order_nor_chunks_nor_dtype_matter(self):
        rng = np.random.Generator(np.random.PCG64(1))
        features = rng.integers(0, 256, (300, 3, 40, 40), dtype=np.uint8)  # more than one chunk
        clean = np.arange(300) % 7
        first = noise.instance_dependent(features, clean, 0.5)
        flat = np.asfortranarray(features.reshape(300, -1).astype(np.float32))
        assert (noise.instance_dependent(flat, clean, 0.5) == first).all()
        assert (noise.instance_dependent(flat.astype(np.float64), clean, 0.5) == first).all()

    def test_constant_features_still_work(self):
        noisy = noise.instance_dependent(np.ones((100, 3)), np.zeros(100, dtype=int), 1.0, num_classes=3)
        assert set(noisy.tolist()) == {1, 2}

    def test_tables_are_far_from_every_rounding_edge(self):
        """A libm would have to be off by a thousand units in the last place to change one entry."""
        for table in (instance.quantiles_65536(), instance.odds_2_30()):
            edge = min(abs(value - math.floor(value) - 0.5) for value in table)
            assert edge > 1000 * 2.0**-53 * max(abs(value) for value in table)
