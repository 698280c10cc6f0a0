"""The variant cleanlab: held-out predictions, folds that are not trained again."""

import numpy as np
import pytest

from jnpl.experiments import cross_validation
from jnpl.experiments.runner import train_run
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import MissingExtraError

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 12, "batch_size": 32, "seed": 1}


class Killed(BaseException):
    """Stands for a SIGKILL, which nobody can catch."""


def test_cleanlab_ranks_by_what_other_folds_say(tmp_path):
    pytest.importorskip("cleanlab", reason="the row cleanlab needs jnpl[bench]")
    spec = RunSpec(**{**IRIS, "row": "cleanlab", "data": "digits", "images": 600, "epochs": 2, "rate": 0.2})
    told = train_run(spec, tmp_path / "run", None)["results"]
    assert told["ap"] > 0.6
    assert told["ap_curve"] == [told["ap"]]
    assert told["filter_epochs"] == 5 * 2
    assert 0 < told["issues"] < 300
    assert told["test_accuracy"] > 0.5
    assert told["ap_normalized_margin"] > 0.6


def test_finished_folds_are_not_trained_again(tmp_path, monkeypatch, figures):
    pytest.importorskip("cleanlab", reason="the row cleanlab needs jnpl[bench]")
    spec = RunSpec(**{**IRIS, "row": "cleanlab", "epochs": 2, "rate": 0.2})
    whole, train, trained = train_run(spec, tmp_path / "whole", None), cross_validation.train, []

    def until(last):
        def training(source, recipe, folder, seed):
            trained.append(folder.name)
            train(source, recipe, folder, seed)
            if folder.name == last:
                raise Killed  # in the middle, as it were: nothing says that the fold is done

        return training

    for last in ("fold-2", "final"):
        monkeypatch.setattr(cross_validation, "train", until(last))
        with pytest.raises(Killed):
            train_run(spec, tmp_path / "run", None)
    monkeypatch.setattr(cross_validation, "train", until(None))
    told = train_run(spec, tmp_path / "run", None)
    assert trained == ["fold-0", "fold-1", "fold-2", "fold-2", "fold-3", "fold-4", "final", "final"]
    assert figures(told) == figures(whole)
    with np.load(tmp_path / "run" / "fold-4.npz") as fold:
        assert told["results"]["cpu_seconds"] == pytest.approx(fold["seconds"][1], abs=0.5)


def test_without_cleanlab_the_extra_is_named(tmp_path, monkeypatch):
    def missing(module, extra):
        raise MissingExtraError(f"{module} {extra}")

    monkeypatch.setattr("jnpl.experiments.cross_validation.require", missing)
    with pytest.raises(MissingExtraError, match=r"cleanlab.rank bench"):
        train_run(RunSpec(**{**IRIS, "row": "cleanlab"}), tmp_path / "run", None)
