"""All that lives while a run trains: data, networks, ledger, and where it stands."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl.data.loading.batches import generator_for
from jnpl.findings.findings import Findings
from jnpl.findings.ledger import Ledger
from jnpl.internal.errors import InputError
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.methods.pseudo_label import PseudoLabel, Targets
from jnpl.models.build import build
from jnpl.training import pseudo_labels as pseudo
from jnpl.training import scoring as verdict
from jnpl.training import snapshot
from jnpl.training.evaluation import TrainingSet, share
from jnpl.training.feeds import make_feeds
from jnpl.training.interrupt import Interrupted, Wish
from jnpl.training.learner import Learner
from jnpl.training.loop import Books, Progress, Watcher, accuracy, train
from jnpl.training.phases import Phase, make_phases, second_part

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.data.loading.feed import Feed
    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.models.build import Factory
    from jnpl.recipes.schema import Recipe
    from jnpl.training.phases import Second
    from jnpl.training.progress import Reporter
    from jnpl.training.run_folder import RunFolder


@dataclass(frozen=True)
class Every:
    """How often a run saves itself: in epochs, or in seconds."""

    epochs: int | None = None
    seconds: float | None = 60.0


class Session(Watcher):
    """All that lives while a run trains; `second` says how pseudo-labels follow, if they do.

    `network`, a module or a factory as `jnpl.models.build` takes it, stands in for the recipe's model.
    """

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
        second: Second | None = None,
        network: nn.Module | Factory | None = None,
    ) -> None:
        self.source, self.recipe, self.folder, self.seed, self.every = source, recipe, folder, seed, every
        self.fabric, self.report, self.wish, self.second = fabric, report, Wish(), second
        _refuse(recipe, second, weighted=source.weights is not None)
        self.feeds = make_feeds(source, recipe, fabric, seed, report.note, strict=strict)
        self.prepared = self.feeds.train.prepared
        self.model_name = recipe.model if recipe.model != "auto" else ("resnet8" if source.kind == "image" else "mlp")
        if network is not None:
            self.model_name = getattr(network, "__name__", type(network).__name__)
        self.network = self.model_name if network is None else network
        rate, matrix = source.realised_noise()
        self.task = Task(
            self._network,
            torch.from_numpy(source.labels),
            len(source.class_names),
            rate,
            None if matrix is None else torch.from_numpy(matrix),
            None if source.weights is None else torch.from_numpy(source.weights / source.weights.mean()),
        )
        method = registry.make(self.task, recipe.method)
        self.phases = make_phases(recipe, method, second)
        selects = any(phase.select for phase in self.phases)
        self.validation = self.feeds.validation() if selects else None
        self.progress = Progress()
        self._install(method)
        self.kept: dict[str, torch.Tensor] = {}  # the weights that did best on validation data in this phase
        self.kept_accuracy = -1.0
        self.chosen: dict[str, float] = {}  # test accuracy of those weights
        self.findings: Findings | None = None
        self.final_probs: npt.NDArray[np.float64] | None = None  # what the filter says at its end, if that is the score
        self.seconds = 0.0
        self.lines: list[dict[str, Any]] = []
        self.notes: list[str] = []  # of the filter, for the user
        self.board: Any = None
        self.observe: Callable[[Session], None] | None = None
        self._clock = self._saved_at = time.monotonic()
        size = sum(weight.numel() for weight in method.model.parameters())
        data = f"{source.name}: {len(source):,} samples, {self.task.num_classes} classes"
        report.note(f"{data}; {self.model_name}, {size:,} weights, on {fabric.device}")
        if selects and self.validation is None:
            told = "has no validation data to choose by: it goes on with the last epoch's weights"
            report.note(f"{recipe.method.name} {told}")

    def _network(self, number: int) -> nn.Module:
        """Network `number` of this run, with first weights of its own."""
        recipe, classes = self.recipe, len(self.source.class_names)
        seed = self.seed if number == 0 else generator_for(self.seed, "network", number).initial_seed()
        shape = self.feeds.shape
        model = build(self.network, num_classes=classes, input_shape=shape, seed=seed, weights=recipe.weights)
        if recipe.engine.channels_last and len(shape) == 3:
            model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if recipe.engine.compile:
            model.compile()
        return model

    def _install(self, method: Method) -> None:
        """Put the method of this phase in place, with an optimiser and empty books."""
        self.learner = Learner(method, self.phase.plan, self.fabric)
        self._aim()
        self._empty_books()

    @property
    def method(self) -> Method:
        """Who learns."""
        return self.learner.method

    def _empty_books(self) -> None:
        kept = self.recipe.verdict
        labels = self.source.labels if kept.keep == "compact" else None
        self.books = Books.make(Ledger(len(self.source), self.task.num_classes, kept.history, kept.keep, labels))

    def _aim(self) -> None:
        """Tell method and feed which phase it is."""
        plan, method = self.phase.plan, self.method
        method.stage, method.epoch, method.epochs = self.phase.number, 0, plan.epochs
        self.feed = replace(self.feeds.train, batch_size=plan.batch_size, group_size=method.group_size)

    @property
    def phase(self) -> Phase:
        """Where the run stands."""
        return self.phases[self.progress.phase]

    def resume(self) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        if snapshot.load(self):
            self.report.note(f"going on from {self._where()}")
        self.fabric.barrier()
        if self.fabric.is_global_zero:
            names = [phase.name for phase in self.phases for _ in range(phase.plan.epochs)]
            self.lines = self.folder.cut_log(self.progress.total, names if len(self.phases) > 1 else None)

    def go_to(self, progress: Progress) -> None:
        """Stand where a checkpoint stands, with networks that are still to be loaded."""
        self.progress = progress
        if self.phase.pseudo:
            self.findings = Findings.load(self.folder.path)
            blank = np.zeros((len(self.source), self.task.num_classes), np.float32)
            self._install(self._pseudo_method(Targets(blank, blank[:, 0], self._first_of_two())))
        else:
            self._aim()
            self.learner.replan(self.phase.plan, fresh=True)
        self.method.epoch = progress.epoch

    def _where(self) -> str:
        stage = f" ({self.phase.name})" if len(self.phases) > 1 else ""
        return f"epoch {self.progress.total}, step {self.progress.step}{stage}"

    def train(self) -> None:
        """Run the loop from where it stands, phase after phase."""
        total = sum(phase.plan.epochs for phase in self.phases)
        # The loop seeds the global generators for dropout: others find them as they were.
        gpus = [self.fabric.device] if self.fabric.device.type == "cuda" else []
        while True:
            with self.report.training(total, self.feed.steps(), self.progress), torch.random.fork_rng(gpus):
                train(
                    self.learner.wrapped,
                    self.learner.wrapped_optimizer,
                    self.feed,
                    self.books,
                    self.phase.plan,
                    self.fabric,
                    self.progress,
                    self,
                )
            last = self.progress.phase + 1 == len(self.phases)
            if last and self._may_go_on():
                snapshot.save(self, self.progress)
            if self.learner.average is not None:
                self.learner.average.keep()
                self.learner.average = None  # it is the network now
            if self.kept:
                self.method.load_state_dict(self.kept, strict=False)
                self.kept, self.kept_accuracy = {}, -1.0
                self.chosen = self._tested()
            if not self.phase.pseudo and (last or self.phases[self.progress.phase + 1].pseudo):
                # All processes take part; later the first one judges alone.
                self.final_probs = verdict.final_probs(self.recipe.verdict, self.method, self._look())
                self.notes = self.method.notes()
            if last:
                return
            self.progress = Progress(self.progress.phase + 1, self.progress.total)
            self._enter()

    def _may_go_on(self) -> bool:
        """Whether `jnpl train` may come to the folder of this `jnpl find` later, and teach what it found."""
        saves = self.every.epochs is not None or self.every.seconds is not None
        teaches = second_part(self.recipe, registry.METHODS[self.recipe.method.name]) is not None
        return saves and teaches and self.second is None and self.recipe.verdict.keep == "full"

    def _enter(self) -> None:
        """Begin a phase that is not the first."""
        if self.second is not None and self.phase.pseudo:
            issues = self.judge().is_label_issue
            final = self.final_probs if self.phase.number == 0 else None
            mean = self.books.ledger.mean_probs() if final is None else final.astype(np.float32)
            mean[list(self.prepared.unreadable)] = np.nan
            taught = self._pseudo_method(
                pseudo.targets(
                    self.source.labels,
                    issues,
                    mean,
                    mode=self.second.mode,
                    step=self.phase.number,
                    soft=self.second.soft,
                    by_class=self.second.by_class,
                )
            )
            if self.second.warm and self.phase.number == 0:
                taught.model.load_state_dict(self.method.classifier.state_dict())
            self._install(taught)
            return
        self._aim()
        self.method.begin_stage(self._look())
        if self.phase.fresh:
            self.method.reset_networks(self._network)
            self._empty_books()
        self.learner.replan(self.phase.plan, fresh=self.phase.fresh)

    def _first_of_two(self) -> bool:
        return self.second is not None and self.second.mode == "nlnl" and self.phase.number == 0

    def _pseudo_method(self, targets: Targets) -> Method:
        number = len(self.phases) + self.phase.number  # no stage of the method has begun with this network
        return PseudoLabel(self.task, targets, number)

    def judge(self) -> Findings:
        """The findings of the filter, written once it is done."""
        if self.findings is None:
            self.findings = verdict.judge(
                self.source, self.books, self.recipe.verdict, self.prepared.unreadable, self.final_probs
            )
            if self.fabric.is_global_zero:
                self.findings.save(self.folder.path)
        return self.findings

    def _look(self) -> TrainingSet:
        return TrainingSet(self.feed, self.books.ledger, self.fabric)

    def before_epoch(self) -> None:
        """The method may look around."""
        self.method.epoch = self.progress.epoch
        self.method.begin_epoch(self._look())

    def after_step(self) -> None:
        """Average, tell, save, stop."""
        if self.learner.average is not None:
            self.learner.average.update()
        self.report.step(self.progress, self.learner.optimizer.param_groups[0]["lr"])
        signal = self.wish.signal
        due = self.every.seconds is not None and time.monotonic() - self._saved_at >= self.every.seconds
        if self.fabric.world_size > 1:  # all processes save and stop together, or they wait for each other for ever
            wishes = torch.tensor([float(signal), float(due)], device=self.fabric.device)
            told = torch.as_tensor(self.fabric.all_reduce(wishes, reduce_op="max")).tolist()
            signal, due = int(told[0]), bool(told[1])
        if signal or due:
            snapshot.save(self, self.progress)
            self._saved_at = time.monotonic()
        if signal:
            raise Interrupted(f"stopped at {self._where()}, all saved; the same command goes on from there", signal)

    def after_epoch(self) -> None:
        """Test, log, save, show."""
        epoch, phase = self.progress.epoch, self.phase
        self._share_unreadable()
        line: dict[str, Any] = {"epoch": self.progress.total, "lr": phase.plan.lr_at(epoch), **self._means()}
        if len(self.phases) > 1:
            line = {"epoch": self.progress.total, "stage": phase.name, **line}
        named = self.method.named_buffers()
        share((buffer for name, buffer in named if name not in self.method.per_process_buffers), self.fabric)
        if self.learner.average is not None:
            share(self.learner.average.values.values(), self.fabric)
        line |= self._tested()
        if phase.select and self.validation is not None:
            line["validation_accuracy"] = self._select(self.validation)
        self.lines.append(line)
        if self.fabric.is_global_zero:
            self.folder.log(line)
        if self.board is not None:
            for name, value in line.items():
                if not isinstance(value, str):
                    self.board.add_scalar(name, value, self.progress.total)
        self.report.epoch(line)
        if self.every.epochs is not None and (self.progress.total + 1) % self.every.epochs == 0:
            snapshot.save(self, self.progress.next_epoch())
        if self.observe is not None and self.fabric.is_global_zero:
            self.observe(self)

    def _tested(self) -> dict[str, float]:
        """Test accuracy: that of the network, or the mean of several, and each."""
        if self.feeds.test is None:
            return {}
        with self.learner.evaluated():
            each = accuracy(self.method, self.feeds.test, self.fabric)
        mean = {"test_accuracy": sum(each.values()) / len(each)}
        return mean | ({f"test_accuracy_{name}": value for name, value in each.items()} if len(each) > 1 else {})

    def _select(self, validation: Feed) -> float:
        """Keep the networks' weights if they do better on validation data than any before in this phase."""
        with self.learner.evaluated():
            each = accuracy(self.method, validation, self.fabric)
            mean = sum(each.values()) / len(each)
            if mean > self.kept_accuracy:
                # No dot in a name: state of samples or a counter, not of a network.
                state = self.method.state_dict()
                self.kept = {name: value.clone() for name, value in state.items() if "." in name}
                self.kept_accuracy = mean
        return mean

    def _share_unreadable(self) -> None:
        """Processes that stream a set learn of broken samples each for itself: tell the others."""
        if self.fabric.world_size == 1 or self.prepared.values is not None:
            return
        told: list[dict[int, str]] = [{} for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather_object(told, self.prepared.unreadable)
        for each in told:
            self.prepared.unreadable.update(each)

    def _means(self) -> dict[str, float]:
        sums, samples = snapshot.summed(self, self.progress)
        return {name: value.item() / max(samples, 1) for name, value in sums.items()}

    def elapsed(self) -> float:
        """Seconds of training, those before a resume included."""
        return self.seconds + time.monotonic() - self._clock

    def model_facts(self) -> dict[str, Any]:
        """What model.json says of the network."""
        shape, transform = list(self.feeds.shape), self.feeds.transform_facts()
        return {
            "model": self.model_name,
            "input_shape": shape,
            "sample_shape": list(self.prepared.shape),
            "transform": transform,
            "encoding": self.source.encoding,
        }


def _refuse(recipe: Recipe, second: Second | None, *, weighted: bool) -> None:
    """What cannot work together is told before any data are read."""
    name, method = recipe.method.name, registry.METHODS[recipe.method.name]
    whole = second is not None or method.needs_full_history
    if whole and recipe.verdict.keep == "compact":
        who = "pseudo-labels need" if second is not None else f"{name} needs"
        raise InputError(f"{who} whole predictions of past epochs: verdict.keep = full, got compact")
    if weighted and not method.supports_sample_weights:
        able = ", ".join(each for each, kind in registry.METHODS.items() if kind.supports_sample_weights)
        raise InputError(f"{name} does not heed weights of samples; {able} does")
    if recipe.engine.compile and not method.supports_compile:
        raise InputError(f"{name} does not work with compiled networks: set engine.compile = false")
    if recipe.weights == "required":
        raise InputError("this recipe starts from pretrained weights: name a file with torchvision's keys by --weights")
