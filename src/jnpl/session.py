"""All that lives while a run trains: data, network, ledger, and where it stands."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file

from jnpl import checkpoint, metrics
from jnpl.data.augment import CropFlip, Standardize, Transform
from jnpl.data.feed import Feed
from jnpl.data.prepare import Prepared, default_workers, prepare
from jnpl.errors import InputError
from jnpl.files import replacing, write_text
from jnpl.findings import Findings
from jnpl.interrupt import Interrupted, Wish
from jnpl.ledger import Ledger
from jnpl.methods import registry
from jnpl.models.build import build
from jnpl.train import Progress, accuracy, train

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.config import Recipe, Training
    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.progress import Reporter
    from jnpl.run_folder import RunFolder


@dataclass(frozen=True)
class Every:
    """How often a run saves itself: in epochs, or in seconds."""

    epochs: int | None = None
    seconds: float | None = 60.0


class Session:
    """All that lives while a run trains."""

    def __init__(
        self,
        source: Source,
        recipe: Recipe,
        folder: RunFolder,
        seed: int,
        every: Every,
        fabric: Fabric,
        report: Reporter,
        *,
        strict: bool,
    ) -> None:
        self.source, self.recipe, self.folder, self.every = source, recipe, folder, every
        self.fabric, self.report, self.wish = fabric, report, Wish()
        engine, classes = recipe.engine, len(source.class_names)
        here = max(fabric.world_size // engine.num_nodes, 1)  # processes on this machine share its cores
        workers = max(default_workers() // here, 1) if engine.workers is None else engine.workers
        bring = partial(prepare, memory_limit=engine.memory_limit, workers=workers, cache=engine.cache, strict=strict)
        self.prepared = bring(source, recipe.data.size)
        for position, reason in self.prepared.unreadable.items():
            report.note(f"left out: {source.ids[position]} ({reason})")
        if not len(self.prepared.readable()):
            raise InputError(f"none of the {len(source)} samples of {source.name} can be read")
        transform, shape = _transform(self.prepared, recipe)
        self.feed = self._feed(self.prepared, source, transform, seed)
        self.test = None
        if source.test is not None:
            self.test = self._feed(bring(source.test, recipe.data.size), source.test, transform, seed)
        if recipe.weights == "required":
            raise InputError(
                "this recipe starts from pretrained weights: name a file with torchvision's keys by --weights"
            )
        name = recipe.model if recipe.model != "auto" else ("resnet8" if source.kind == "image" else "mlp")
        model = build(name, num_classes=classes, input_shape=shape, seed=seed, weights=recipe.weights)
        if engine.channels_last and len(shape) == 3:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if engine.compile:
            model.compile()
        self.model_facts = {"model": name, "input_shape": list(shape), "transform": _facts(transform)}
        self.method: Method = registry.make(model, recipe.method, source.labels, classes)
        self.setup, self.optimizer = fabric.setup(self.method, make_optimizer(self.method, recipe.train))
        if fabric.world_size > 1:
            self.method.sum_over_processes = lambda tensor: torch.as_tensor(fabric.all_reduce(tensor, reduce_op="sum"))
        verdict = recipe.verdict
        labels = source.labels if verdict.keep == "compact" else None
        self.ledger = Ledger(len(source), classes, verdict.history, verdict.keep, labels)
        self.progress = Progress()
        self.seconds, self.best = 0.0, 0.0
        self.last: dict[str, Any] = {}
        self.board: Any = None
        self._clock = self._saved_at = time.monotonic()
        size = sum(weight.numel() for weight in model.parameters())
        data = f"{source.name}: {len(source):,} samples, {classes} classes"
        report.note(f"{data}; {name}, {size:,} weights, on {fabric.device}")

    def _feed(self, prepared: Prepared, source: Source, transform: Transform, seed: int) -> Feed:
        place = (self.fabric.device, self.fabric.global_rank, self.fabric.world_size)
        return Feed(prepared, source.labels, transform, self.recipe.train.batch_size, seed, *place)

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        state, torn = checkpoint.load(self.folder.checkpoints)
        for line in torn:
            self.report.note(line)
        if state is not None:
            facts = state.facts
            self.method.load_state_dict(checkpoint.part("method", state.tensors))
            saved = checkpoint.State(checkpoint.part("optimizer", state.tensors), facts["optimizer"])
            checkpoint.unpack_optimizer(self.optimizer.optimizer, saved)
            self.ledger.load_state_dict({**facts["ledger"], "arrays": checkpoint.part("ledger", state.tensors)})
            self._same_shares(facts)
            self.progress = Progress(facts["epoch"], facts["step"])
            if self.fabric.is_global_zero:  # they were added up over all processes
                self.progress.sums = checkpoint.part("sums", state.tensors)
                self.progress.samples = facts["samples"]
            self.prepared.unreadable.update({int(at): why for at, why in facts["unreadable"].items()})
            if facts["precision"]:
                self.fabric.strategy.precision.load_state_dict(facts["precision"])
            self.seconds = facts["seconds"]
            self.report.note(f"going on from epoch {self.progress.epoch}, step {self.progress.step}")
        self.fabric.barrier()
        if self.fabric.is_global_zero:
            lines = self.folder.cut_log(self.progress.epoch)
            self.best = max((line.get("test_accuracy", 0.0) for line in lines), default=0.0)
            self.last = lines[-1] if lines else {}

    def _same_shares(self, facts: dict[str, Any]) -> None:
        """In the middle of an epoch the last batch must not change: its size may hang on the number of processes."""
        if facts["step"] and facts["processes"] != self.fabric.world_size:
            saved = f"{facts['processes']} process{'' if facts['processes'] == 1 else 'es'}"
            raise InputError(f"the run was saved in the middle of an epoch by {saved}; go on with as many (--devices)")

    def save(self) -> None:
        """Write a checkpoint: all processes take part, the first one writes."""
        sums, samples = self._sums()
        if not self.fabric.is_global_zero:
            return
        optimizer = checkpoint.pack_optimizer(self.optimizer.optimizer)
        ledger = self.ledger.state_dict()
        tensors = {
            **checkpoint.prefixed("method", self.method.state_dict()),
            **checkpoint.prefixed("optimizer", optimizer.tensors),
            **checkpoint.prefixed("ledger", ledger.pop("arrays")),
            **checkpoint.prefixed("sums", sums),
        }
        facts = {
            "epoch": self.progress.epoch,
            "step": self.progress.step,
            "samples": samples,
            "processes": self.fabric.world_size,
            "optimizer": optimizer.facts,
            "ledger": ledger,
            "unreadable": {str(at): why for at, why in self.prepared.unreadable.items()},
            "precision": self.fabric.strategy.precision.state_dict(),  # the gradient scaler of 16-mixed
            "seconds": self._elapsed(),
        }
        checkpoint.save(self.folder.checkpoints, checkpoint.State(tensors, facts))

    def train(self) -> None:
        """Run the loop from where it stands."""
        plan, steps = self.recipe.train, self.feed.steps()
        # The loop seeds the global generators for dropout: others find them as they were.
        gpus = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        with self.report.training(plan.epochs, steps, self.progress), torch.random.fork_rng(gpus):
            train(
                self.setup, self.optimizer, self.feed, self.ledger, plan, self.fabric, self.progress,
                self._after_step, self._after_epoch,
            )  # fmt: skip

    def _after_step(self) -> None:
        self.report.step(self.progress, self.optimizer.param_groups[0]["lr"])
        signal = self.wish.signal
        due = self.every.seconds is not None and time.monotonic() - self._saved_at >= self.every.seconds
        if self.fabric.world_size > 1:  # all processes save and stop together, or they wait for each other for ever
            wishes = torch.tensor([float(signal), float(due)], device=self.fabric.device)
            told = torch.as_tensor(self.fabric.all_reduce(wishes, reduce_op="max")).tolist()
            signal, due = int(told[0]), bool(told[1])
        if signal or due:
            self.save()
            self._saved_at = time.monotonic()
        if signal:
            at = f"epoch {self.progress.epoch}, step {self.progress.step}"
            raise Interrupted(f"stopped at {at}, all saved; the same command goes on from there", signal)

    def _after_epoch(self) -> None:
        epoch = self.progress.epoch
        self._share_unreadable()
        line: dict[str, Any] = {"epoch": epoch, "lr": self.recipe.train.lr_at(epoch), **self._means()}
        if self.test is not None:
            self._share_buffers()
            line["test_accuracy"] = accuracy(self.method, self.test, self.fabric)
            self.best = max(self.best, line["test_accuracy"])
        self.last = line
        if self.fabric.is_global_zero:
            self.folder.log(line)
        if self.board is not None:
            for name, value in line.items():
                self.board.add_scalar(name, value, epoch)
        self.report.epoch(line)
        if self.every.epochs is not None and (epoch + 1) % self.every.epochs == 0:
            whole = self.progress
            self.progress = Progress(epoch + 1)
            self.save()
            self.progress = whole

    def _share_unreadable(self) -> None:
        """Processes that stream a set learn of broken samples each for itself: tell the others."""
        if self.fabric.world_size == 1 or self.prepared.values is not None:
            return
        told: list[dict[int, str]] = [{} for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather_object(told, self.prepared.unreadable)
        for each in told:
            self.prepared.unreadable.update(each)

    def _share_buffers(self) -> None:
        """Batch norm's statistics differ between processes: the first one's are the model's."""
        if self.fabric.world_size > 1:
            for buffer in self.method.buffers():
                torch.distributed.broadcast(buffer, 0)

    def _sums(self) -> tuple[dict[str, torch.Tensor], int]:
        """What the method reported this epoch, and of how many samples, over all processes."""
        if self.fabric.world_size == 1:
            return self.progress.sums, self.progress.samples
        told: list[Any] = [None] * self.fabric.world_size
        own = {name: value.item() for name, value in self.progress.sums.items()}
        torch.distributed.all_gather_object(told, (own, self.progress.samples))
        names = sorted({name for sums, _ in told for name in sums})
        total = {name: torch.tensor(sum(sums.get(name, 0.0) for sums, _ in told)) for name in names}
        return total, sum(samples for _, samples in told)

    def _means(self) -> dict[str, float]:
        sums, samples = self._sums()
        return {name: value.item() / max(samples, 1) for name, value in sums.items()}

    def _elapsed(self) -> float:
        return self.seconds + time.monotonic() - self._clock

    def results(self) -> dict[str, Any]:
        """Judge the labels."""
        source, verdict = self.source, self.recipe.verdict
        paths = source.ids.tolist() if source.ids.dtype == object else None
        unreadable = np.zeros(len(source), bool)
        unreadable[list(self.prepared.unreadable)] = True
        self.findings = Findings.from_ledger(
            self.ledger, source.labels, class_names=source.class_names, threshold=verdict.threshold, paths=paths,
            ids=None if paths else source.ids, unreadable=unreadable if unreadable.any() else None,
        )  # fmt: skip
        results: dict[str, Any] = {
            "run": str(self.folder.path),
            "samples": len(source),
            "classes": len(source.class_names),
            "issues": int(self.findings.is_label_issue.sum()),
            "noise_rate": self.findings.noise_rate,
            "epochs": self.recipe.train.epochs,
            "seconds": self._elapsed(),
        }
        if unreadable.any():
            results["unreadable"] = int(unreadable.sum())
        if source.true_labels is not None and (source.true_labels != source.labels).any():
            scores = metrics.evaluate(self.findings, source.true_labels)
            known = {name: scores[name] for name in ("ap", "ap_clean", "relabel_accuracy")}
            # With all labels wrong AP is nan, which is no JSON.
            results |= {name: value for name, value in known.items() if not np.isnan(value)}
        if self.test is not None:
            results |= {"test_accuracy": self.last["test_accuracy"], "best_test_accuracy": self.best}
        return results

    def write(self, results: dict[str, Any]) -> None:
        """Findings and model."""
        self.findings.save(self.folder.path)
        state = self.method.model.state_dict()  # a clone each: safetensors refuses tensors that share memory
        weights = {name: value.detach().cpu().clone().contiguous() for name, value in state.items()}
        with replacing(self.folder.path / "model.safetensors") as draft:
            mode = draft.stat().st_mode  # safetensors makes its files readable by their owner alone
            save_file(weights, draft)
            draft.chmod(mode)
        facts = {**self.model_facts, "classes": list(self.source.class_names), "results": results}
        write_text(self.folder.path / "model.json", json.dumps(facts, indent=1) + "\n")


def make_optimizer(method: Method, plan: Training) -> torch.optim.Optimizer:
    """SGD, Adam or AdamW over all parameters."""
    if plan.optimizer == "sgd":
        return torch.optim.SGD(method.parameters(), plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.AdamW
    return kind(method.parameters(), plan.lr, betas=(plan.momentum, 0.999), weight_decay=plan.weight_decay)


def _transform(prepared: Prepared, recipe: Recipe) -> tuple[Transform, tuple[int, ...]]:
    """What the network sees, from the training data's own statistics, and the shape of it."""
    values = _statistics_sample(prepared)
    if values.ndim == 2:
        deviation = values.std(0, dtype=np.float64)
        deviation[deviation == 0] = 1
        mean = values.mean(0, dtype=np.float64)
        return Standardize(tuple(mean.tolist()), tuple(deviation.tolist())), values.shape[1:]
    pixels = values.reshape(-1, values.shape[3])
    mean, deviation = pixels.mean(0, dtype=np.float64) / 255, pixels.std(0, dtype=np.float64) / 255
    side = recipe.data.crop or min(values.shape[1:3])
    if side > min(values.shape[1:3]):  # padding is for training alone: in evaluation the centre is cut from the image
        raise InputError(f"setting data.crop: {side} pixels cannot be cut from images of {values.shape[1:3]}")
    std = (1.0,) * len(mean) if recipe.data.std == "one" else tuple(np.maximum(deviation, 1e-6).tolist())
    crop = CropFlip(tuple(mean.tolist()), std, side, recipe.data.padding, recipe.data.flip)
    return crop, (len(mean), side, side)


def _statistics_sample(prepared: Prepared, most: int = 50_000) -> np.ndarray[Any, Any]:
    """All readable samples in memory, or up to `most` of them, or 1,000 of a stream, evenly spread: (M, ...)."""
    readable = prepared.readable()
    few = min(len(readable), most if prepared.values is not None else 1000)
    positions = readable[np.linspace(0, len(readable) - 1, few).astype(np.int64)]
    batches = torch.split(torch.from_numpy(positions), 64)
    return np.concatenate([samples.numpy() for _, samples in prepared.fetch(batches)])


def _facts(transform: Transform) -> dict[str, Any]:
    return {"kind": type(transform).__name__, **vars(transform)}
