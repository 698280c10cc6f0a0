"""A run logs every epoch to TensorBoard, MLflow and Weights & Biases, and continues the same record after a resume."""

import json
import time

import pytest

from jnpl.internal.errors import InputError
from jnpl.run_folder import RunFolder
from jnpl.training.epoch_log import TRACKERS, check_trackers, tracking

SETTINGS = {"train.epochs": 2, "model": "auto"}
LINES = [{"epoch": 0, "loss": 2.5, "stage": "train"}, {"epoch": 1, "loss": 1.5, "stage": "train"}]


def log(name, folder):
    """Log two epochs in two goes, as an interrupted run does."""
    for line in LINES:
        with tracking([name], RunFolder(folder), SETTINGS, line["epoch"]) as send:
            send(line)


def test_what_cannot_be_used_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(InputError, match="one of tensorboard, mlflow, wandb, got 'neptune'"):
        check_trackers(["neptune"], tmp_path)
    with pytest.raises(InputError, match=r'mlflow, which is not installed: pip install "jnpl\[mlflow\]"'):
        check_trackers(["mlflow"], tmp_path)


def test_every_line_goes_to_every_tracker_without_texts(tmp_path, monkeypatch):
    from contextlib import contextmanager

    seen = []

    @contextmanager
    def tracker(folder, settings, epoch):
        seen.append((folder.path, settings, epoch))
        yield lambda numbers, step: seen.append((numbers, step))

    monkeypatch.setitem(TRACKERS, "own", (tracker, "json"))
    with tracking(["own"], RunFolder(tmp_path), SETTINGS, 0) as send:
        for line in LINES:
            send(line)
    assert seen == [(tmp_path, SETTINGS, 0), ({"epoch": 0, "loss": 2.5}, 0), ({"epoch": 1, "loss": 1.5}, 1)]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log("tensorboard", tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(each.step, each.value) for each in events.Scalars("loss")] == [(0, 2.5), (1, 1.5)]


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs the extra mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # newer versions warn of a store in files
    run = tmp_path / "run"
    run.mkdir()
    log("mlflow", run)
    (name,) = json.loads((run / "tracking.json").read_text("utf-8")).values()
    client = mlflow.MlflowClient()
    assert [(each.step, each.value) for each in client.get_metric_history(name, "loss")] == [(0, 2.5), (1, 1.5)]
    found = client.get_run(name)
    assert (found.data.params["train.epochs"], found.info.run_name, found.info.status) == ("2", "run", "FINISHED")


@pytest.mark.filterwarnings("ignore")  # of Weights & Biases
def test_weights_and_biases_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log("wandb", tmp_path)
    name = json.loads((tmp_path / "tracking.json").read_text("utf-8"))["wandb"]
    for _ in range(100):  # its own process writes the files, a little later
        stored = [file.read_bytes() for file in (tmp_path / "wandb").glob(f"offline-run-*{name}/*.wandb")]
        if len(stored) == 2 and all(b"loss" in each for each in stored):
            break
        time.sleep(0.1)
    assert len(stored) == 2  # one file for each go, of one run
    assert all(b"loss" in each and b"train.epochs" in each for each in stored)
