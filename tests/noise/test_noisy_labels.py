"""Noisy labels with their recipe: what they hold, and their file."""

import numpy as np
import pytest

from jnpl import noise
from jnpl.internal.errors import InputError


def balanced(classes: int, each: int) -> np.ndarray:
    return np.tile(np.arange(classes), each)


class TestBundle:
    def test_what_it_holds(self):
        bundle = noise.corrupt(balanced(3, 10), "symmetric", 0.5, num_classes=4, seed=2)
        assert (bundle.kind, bundle.rate, bundle.seed, bundle.num_classes) == ("symm", 0.5, 2, 4)
        assert bundle.rate_realised == 0.5
        assert (bundle.is_noisy == (bundle.labels != bundle.clean_labels)).all()
        assert bundle.matrix.shape == (4, 4)
        assert bundle.matrix.sum(1) == pytest.approx(1)
        assert (bundle.matrix[3] == [0, 0, 0, 1]).all()  # no samples: identity row
        assert (np.diag(bundle.matrix)[:3] == 0.5).all()

    def test_arrays_cannot_be_changed(self):
        bundle = noise.corrupt([0, 1], "symm", 0.5)
        with pytest.raises(ValueError, match="read-only"):
            bundle.labels[0] = 1

    def test_hash_sees_everything(self):
        def make(**changes: object) -> str:
            settings = {
                "labels": [0, 1],
                "clean_labels": [0, 0],
                "num_classes": 2,
                "kind": "symm",
                "rate": 0.5,
            }
            return noise.NoisyLabels(**{**settings, **changes}).sha256

        variants = [{}, {"labels": [1, 1]}, {"clean_labels": [1, 1]}, {"num_classes": 3}, {"kind": "asymm"}]
        variants += [{"rate": 0.4}, {"seed": 1}, {"count": "bernoulli"}, {"mapping": {0: 1}}]
        variants += [{"class_names": ("a", "b")}, {"requested_matrix": np.eye(2)}, {"inclusive": True}]
        assert len({make(**variant) for variant in variants}) == len(variants)
        assert make() == "7eaf31ba7277f5556e24b9e020a2ea1c41a9eb12af9824caf1728500dec2b0c4"

    @pytest.mark.parametrize(
        "arguments",
        [
            {"kind": "symm", "rate": 0.4},
            {"kind": "asymm", "rate": 0.4, "mapping": {2: 0, 10: 1}, "num_classes": 12},
            {"kind": "asymm", "rate": 0.4, "mapping": "cifar10"},
            {"kind": "matrix", "matrix": [[0.5, 0.5, 0], [0, 1, 0], [0, 1 / 3, 2 / 3]]},
            {"kind": "symm", "rate": 0.4, "class_names": ("Bär", "cat", "dog")},
        ],
    )
    def test_round_trip(self, tmp_path, arguments):
        bundle = noise.corrupt(balanced(3, 10), seed=2**70, **arguments)
        path = bundle.save(tmp_path / "noisy.npz")
        loaded = noise.NoisyLabels.load(path)
        assert loaded.sha256 == bundle.sha256
        for field in ("num_classes", "kind", "rate", "seed", "count", "mapping", "class_names", "inclusive"):
            assert getattr(loaded, field) == getattr(bundle, field)
        assert (loaded.labels == bundle.labels).all()
        assert (loaded.clean_labels == bundle.clean_labels).all()
        assert [file.name for file in tmp_path.iterdir()] == ["noisy.npz"]  # no scratch file left

    def test_two_saves_are_the_same_file(self, tmp_path):
        bundle = noise.corrupt(balanced(3, 10), "symm", 0.4)
        first, second = (bundle.save(tmp_path / name).read_bytes() for name in ("a.npz", "b.npz"))
        assert first == second

    def test_names_are_written_as_names(self, tmp_path):
        bundle = noise.corrupt([0, 1, 1], "symm", 1.0, class_names=["cat", "dog"])
        with np.load(bundle.save(tmp_path / "n.npz"), allow_pickle=False) as arrays:
            assert arrays["y"].tolist() == ["dog", "cat", "cat"]
            assert arrays["y_true"].tolist() == ["cat", "dog", "dog"]

    @pytest.mark.parametrize("key", ["y", "y_true", "recipe", "sha256"])
    def test_tampering_is_found(self, tmp_path, key):
        path = noise.corrupt(balanced(3, 10), "symm", 0.4).save(tmp_path / "n.npz")
        with np.load(path) as archive:
            arrays = dict(archive)
        if key in ("y", "y_true"):
            arrays[key][0] = (arrays[key][0] + 1) % 3
        else:
            arrays[key] = np.array(str(arrays[key]).replace("0", "1"))
        np.savez(path, **arrays)
        with pytest.raises(InputError, match=r"n\.npz"):
            noise.NoisyLabels.load(path)

    def test_files_that_are_not_ours(self, tmp_path):
        whole = noise.corrupt(balanced(3, 10), "symm", 0.4).save(tmp_path / "whole.npz").read_bytes()
        np.savez(tmp_path / "other.npz", x=np.zeros(3))
        np.savez(tmp_path / "pickle.npz", y=np.array([{}], dtype=object))
        np.save(tmp_path / "array.npy", np.zeros(3))
        (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
        (tmp_path / "damaged.npz").write_bytes(whole.replace(b"\x01\0\0\0\0\0\0\0", b"\x02\0\0\0\0\0\0\0", 1))
        (tmp_path / "text.npz").write_text("hello")
        (tmp_path / "empty.npz").write_bytes(b"")
        (tmp_path / "folder.npz").mkdir()
        for name in (
            "other.npz",
            "pickle.npz",
            "array.npy",
            "cut.npz",
            "damaged.npz",
            "text.npz",
            "empty.npz",
        ):
            with pytest.raises(InputError, match=name):
                noise.NoisyLabels.load(tmp_path / name)
        for name in ("folder.npz", "missing.npz"):
            with pytest.raises(InputError, match=name):
                noise.NoisyLabels.load(tmp_path / name)

    def test_a_save_that_fails_leaves_nothing(self, tmp_path):
        bundle = noise.corrupt([0, 1], "symm", 0.5)
        with pytest.raises(InputError, match=r"\.npz"):
            bundle.save(tmp_path / "labels.txt")
        with pytest.raises(InputError, match="cannot write"):
            bundle.save(tmp_path / "no" / "n.npz")
        assert list(tmp_path.iterdir()) == []
