"""The loop against loops written by hand: the same weights and the same ledger, bit for bit."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import nn
from torch.nn import functional as F

from jnpl import Ledger
from jnpl.data.loading.augment import CropFlip, Standardize
from jnpl.data.loading.batches import generator_for, order
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import prepare
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError
from jnpl.losses import JNPLLoss
from jnpl.methods import registry
from jnpl.methods.base import Method, StepOutput, Task
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.methods.plain import CE
from jnpl.models.build import build
from jnpl.recipes.schema import Training
from jnpl.training.evaluation import accuracy
from jnpl.training.learner import make_optimizer
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.records import SampleRecords

CPU = torch.device("cpu")
CLASSES = 3


def vectors(samples=50):
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, samples)
    return from_arrays(random.normal(size=(samples, 6)) + labels[:, None], labels)


def images(samples=50, side=8):
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, samples)
    pixels = random.normal(90, 35, (samples, side, side, 3)) + 40 * labels[:, None, None, None]
    return from_arrays(np.clip(pixels, 0, 255).astype(np.uint8), labels)


def a_feed(source, batch_size=16, seed=5):
    transform = (
        CropFlip((0.5, 0.5, 0.5), (1.0, 1.0, 1.0), source.inputs.values.shape[1], padding=2)
        if source.kind == "image"
        else Standardize((0.5,) * 6, (1.5,) * 6)
    )
    return Feed(prepare(source, None, memory_limit=1 << 30), source.labels, transform, batch_size, seed, CPU)


def a_network(source, name=None, seed=0):
    shape = source.inputs.values.shape[1:]
    shape = (shape[2], *shape[:2]) if len(shape) == 3 else shape
    return build(name or ("resnet8" if len(shape) == 3 else "mlp"), num_classes=CLASSES, input_shape=shape, seed=seed)


def run(method, feed, plan, *, progress=None, after_step=lambda: None, after_epoch=lambda: None, optimizer=None, **kw):
    """Train as `jnpl.pipeline` does; -> ledger, progress, optimiser."""
    fabric = Fabric(accelerator="cpu", devices=1, **kw)
    optimizer = optimizer or make_optimizer(method, plan)
    setup, wrapped = fabric.setup(method, optimizer)
    books = SampleRecords(Ledger(len(feed.labels), CLASSES, history=4))
    progress = progress or Position()
    train(setup, wrapped, feed, books, plan, fabric, progress, watching(after_step, after_epoch))
    return SimpleNamespace(ledger=books.ledger, progress=progress, optimizer=optimizer)


def watching(after_step, after_epoch):
    watcher = LoopCallback()
    watcher.after_step, watcher.after_epoch = after_step, after_epoch
    return watcher


def task_of(net, source=None):
    labels = torch.zeros(4, dtype=torch.long) if source is None else torch.from_numpy(source.labels)
    return Task(lambda _: net, labels, CLASSES)


def a_ce(net):
    return CE(task_of(net), CE.Settings())


def same_weights(one, other):
    for name, value in one.state_dict().items():
        assert other.state_dict()[name].equal(value), name


@pytest.mark.parametrize("make", [vectors, images])
@pytest.mark.parametrize("name", ["ce", "jnpl"])
def test_the_loop_is_a_plain_loop(make, name):
    """Two epochs, a last batch of 2, a step in the learning rate: weights, batch norm and ledger the same bits.

    The ledger holds what the network said in training mode about the augmented view, before the update.
    """
    source = make()
    settings = CE.Settings() if name == "ce" else ExtendedJNPL.Settings(pl_weight=0.3)
    plan = Training(epochs=2, lr=0.05, schedule="step", milestones=(1,), batch_size=16)
    feed = a_feed(source)
    method = registry.make(task_of(a_network(source), source), settings)
    told = run(method, feed, plan)

    by_hand = registry.make(task_of(a_network(source), source), settings)
    optimizer = torch.optim.SGD(by_hand.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    probs = np.full((2, 50, CLASSES), np.nan, np.float32)
    by_hand.train()
    for epoch in range(2):
        optimizer.param_groups[0]["lr"] = (0.05, 0.005)[epoch]
        for step, index in enumerate(order(np.arange(50), 16, 5, epoch)):
            generator = generator_for(5, "step", epoch, step)
            uniforms = torch.rand(len(index), 3, generator=generator)
            inputs = feed.transform.train(torch.from_numpy(source.inputs.values)[index], uniforms)
            labels = torch.from_numpy(source.labels)[index]
            logits = by_hand.model(inputs)
            if name == "ce":
                loss = F.cross_entropy(logits, labels)
            else:
                loss = JNPLLoss(CLASSES, pl_weight=0.3)(logits, labels, generator=generator)
            optimizer.zero_grad()
            loss.backward()
            probs[epoch, index] = logits.detach().softmax(1).numpy()
            optimizer.step()
    if name == "ce":  # another formula for the same loss
        for key, value in by_hand.state_dict().items():
            torch.testing.assert_close(method.state_dict()[key], value, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(told.ledger.mean_probs(), probs.mean(0), atol=1e-5)
    else:
        same_weights(method.model, by_hand.model)
        assert (told.ledger.mean_probs() == probs.sum(0) / np.float32(2)).all()
    assert (told.ledger.seen == 2).all()  # every sample once an epoch


class Stranger(Method):
    """A method that the package has never heard of, with a parameter of its own."""

    def __init__(self, model):
        super().__init__(task_of(model))
        self.temperature = nn.Parameter(torch.ones(()))
        self.sizes = []

    def step(self, batch):
        self.sizes.append(len(batch.labels))
        logits = self.model(batch.inputs) * self.temperature
        loss = F.mse_loss(logits, F.one_hot(batch.labels, CLASSES).float())
        return StepOutput(loss, logits, {"temperature": self.temperature, "one": torch.ones(())})


def test_any_method_trains_and_reports():
    source, lines = vectors(), []
    method = Stranger(a_network(source))
    progress = Position()
    plan = Training(epochs=3, lr=0.05, batch_size=16)
    run(method, a_feed(source), plan, progress=progress, after_epoch=lambda: lines.append(progress.means()))
    assert method.sizes == [16, 16, 16, 2] * 3
    assert method.temperature.item() != 1
    assert [set(line) for line in lines] == [{"loss", "temperature", "one"}] * 3
    assert [line["one"] for line in lines] == [1, 1, 1]
    assert lines[2]["loss"] < lines[0]["loss"]
    assert (progress.epoch, progress.step, progress.sums, progress.samples) == (3, 0, {}, 0)


def test_what_is_reported_is_a_mean_over_samples():
    progress = Position()
    for size, loss in ((3, 1.0), (1, 5.0)):
        batch = SimpleNamespace(labels=torch.zeros(size))
        progress.add(batch, StepOutput(torch.tensor(loss), torch.zeros(size, 2), {"x": torch.tensor(loss * 2)}))
    assert progress.means() == {"loss": 2.0, "x": 4.0}
    assert (progress.step, progress.samples) == (2, 4)
    assert Position().means() == {}


@pytest.mark.parametrize("samples", [64, 48, 56, 50, 20, 70], ids=lambda samples: f"{samples} samples")
def test_accumulated_halves_are_a_whole(samples):
    """32 at once or twice 16: an odd number of batches, and partial ones, count by their samples."""
    source = vectors(samples)
    one, two = a_ce(a_network(source)), a_ce(a_network(source))
    steps = [0, 0]

    def count(which):
        return lambda: steps.__setitem__(which, steps[which] + 1)

    run(one, a_feed(source, 32), Training(epochs=2, lr=0.1, batch_size=32), after_step=count(0))
    run(two, a_feed(source, 16), Training(epochs=2, lr=0.1, batch_size=16, accumulate=2), after_step=count(1))
    assert steps[0] == steps[1] == 2 * -(-samples // 32)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(two.state_dict()[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_after_step_is_where_nothing_is_pending():
    """A checkpoint is only made there: no gradient waits to be added up, so none can be lost."""
    source = vectors(70)  # batches of 16: five, the last of 6
    method, seen, progress = a_ce(a_network(source)), [], Position()

    def after_step():
        assert all(weight.grad is None for weight in method.parameters())
        seen.append((progress.epoch, progress.step, progress.samples))

    plan = Training(epochs=2, lr=0.1, batch_size=16, accumulate=2)
    run(method, a_feed(source), plan, progress=progress, after_step=after_step)
    assert seen == [(epoch, *at) for epoch in range(2) for at in ((2, 32), (4, 64), (5, 70))]


@pytest.mark.parametrize("stop", range(1, 7))
def test_from_any_step_on(stop):
    """Stopped after any step, with groups of two batches, and continued from weights, optimiser and position."""
    source, plan = vectors(70), Training(epochs=2, lr=0.1, batch_size=16, accumulate=2)
    through = a_ce(a_network(source))
    wanted = run(through, a_feed(source), plan)

    class Stop(Exception):  # noqa: N818
        pass

    method, progress, left = a_ce(a_network(source)), Position(), [stop]
    optimizer = make_optimizer(method, plan)
    books = SampleRecords(Ledger(70, CLASSES, history=4))
    fabric = Fabric(accelerator="cpu", devices=1)
    setup, wrapped = fabric.setup(method, optimizer)

    def after_step():
        left[0] -= 1
        if left[0] == 0:
            raise Stop

    epochs = []
    stopping = watching(after_step, lambda: epochs.append("a"))
    with pytest.raises(Stop):
        train(setup, wrapped, a_feed(source), books, plan, fabric, progress, stopping)
    again = Position(epoch=progress.epoch, step=progress.step, sums=progress.sums, samples=progress.samples)
    calm = watching(lambda: None, lambda: epochs.append("b"))
    train(setup, wrapped, a_feed(source), books, plan, fabric, again, calm)
    same_weights(through, method)
    assert (books.ledger.mean_probs() == wanted.ledger.mean_probs()).all()
    assert epochs == (["b", "b"] if stop <= 3 else ["a", "b"])  # after_epoch once for every epoch


def test_dropout_follows_the_step_and_not_the_global_generator():
    """Else a resumed run would drop other units than one left in peace (cnn9 has dropout)."""
    source = vectors()
    results = []
    for start in (0, 1):
        net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, CLASSES))
        with torch.no_grad():
            for weight, value in zip(net.parameters(), (0.1, 0.2, 0.3, 0.4), strict=True):
                weight.copy_(torch.linspace(-value, value, weight.numel()).reshape(weight.shape))
        method = a_ce(net)
        torch.manual_seed(start)
        run(method, a_feed(source), Training(epochs=2, lr=0.1, batch_size=16))
        results.append(method)
    first, second = (method.state_dict() for method in results)
    assert all(first[name].equal(second[name]) for name in first)
    assert not first["model.0.weight"].equal(torch.linspace(-0.1, 0.1, 96).reshape(16, 6))  # it did learn


def test_gradients_are_clipped():
    source, norms, before = vectors(), [], {}
    method = a_ce(a_network(source))
    plan = Training(epochs=1, lr=1.0, momentum=0, weight_decay=0, batch_size=16, clip_norm=0.01)

    def after_step():
        moved = [weight.detach() - before[name] for name, weight in method.named_parameters()]
        norms.append(torch.cat([value.flatten() for value in moved]).norm().item())
        before.update({name: weight.detach().clone() for name, weight in method.named_parameters()})

    before.update({name: weight.detach().clone() for name, weight in method.named_parameters()})
    run(method, a_feed(source), plan, after_step=after_step)
    assert norms == pytest.approx([0.01] * 4, rel=1e-3)


def test_the_learning_rate_of_every_epoch():
    source, seen = vectors(), []
    method = a_ce(a_network(source))
    plan = Training(epochs=4, lr=0.1, schedule="step", milestones=(2, 3), batch_size=64)
    optimizer = make_optimizer(method, plan)
    run(
        method,
        a_feed(source, 64),
        plan,
        optimizer=optimizer,
        after_step=lambda: seen.append(optimizer.param_groups[0]["lr"]),
    )
    assert seen == [0.1, 0.1, 0.01, 0.001]


def test_adams_second_beta_1_by_hand():
    """The authors of Co-teaching set it in the optimiser's groups before an epoch; here one step is an epoch."""
    source = vectors()
    network = build("linear", num_classes=CLASSES, input_shape=(6,), seed=0)
    plan = Training(epochs=5, lr=0.01, optimizer="adam", weight_decay=0.0, batch_size=64, momentum_from=(2, 0.1))
    run(a_ce(network), a_feed(source, 64), plan)
    inputs = (torch.from_numpy(source.inputs.values).double() - 0.5) / 1.5
    given = F.one_hot(torch.from_numpy(source.labels), CLASSES).double()
    weights, first, second = (torch.zeros(CLASSES, 7, dtype=torch.float64) for _ in range(3))
    inputs = torch.cat([inputs, torch.ones(len(inputs), 1)], 1)  # the last column is the bias
    for step, beta in enumerate((0.9, 0.9, 0.1, 0.1, 0.1), 1):
        gradient = ((inputs @ weights.T).softmax(1) - given).T @ inputs / len(inputs)
        first = beta * first + (1 - beta) * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weights -= 0.01 * (first / (1 - beta**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
    trained = torch.cat([network.weight, network.bias[:, None]], 1).double()
    torch.testing.assert_close(trained, weights, atol=1e-5, rtol=1e-4)


def test_sgds_second_momentum_is_in_its_groups():
    source, seen = vectors(), []
    plan = Training(epochs=3, lr=0.1, batch_size=64, momentum_from=(1, 0.5))
    method = a_ce(a_network(source))
    optimizer = make_optimizer(method, plan)
    note = lambda: seen.append(optimizer.param_groups[0]["momentum"])  # noqa: E731
    run(method, a_feed(source, 64), plan, optimizer=optimizer, after_step=note)
    assert seen == [0.9, 0.5, 0.5]


@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_diverging_network_is_told_in_one_line(clip):
    source = vectors()
    method = a_ce(a_network(source))
    plan = Training(epochs=9, lr=1e30, batch_size=16, clip_norm=clip)
    progress = Position()
    with pytest.raises(InputError, match=r"the loss is (nan|inf) in epoch \d, step \d: try a smaller train.lr"):
        run(method, a_feed(source), plan, progress=progress)


def test_a_gradient_that_is_not_finite_is_told_too():
    """Clipping must not end in a traceback."""

    class Odd(Method):
        def step(self, batch):
            logits = self.model(batch.inputs)
            return StepOutput((logits.sum() * 0).sqrt() + 1, logits, {})  # value 1, gradient nan

    source = vectors()
    with pytest.raises(InputError, match="the loss is nan in epoch 0, step 1"):
        run(Odd(task_of(a_network(source))), a_feed(source), Training(epochs=1, lr=0.1, batch_size=16, clip_norm=1.0))


def test_bf16_mixed_runs():
    for source in (vectors(), images(20)):
        lines, progress = [], Position()
        method = registry.make(task_of(a_network(source), source), ExtendedJNPL.Settings())
        told = run(
            method,
            a_feed(source),
            Training(epochs=2, lr=0.05, batch_size=16),
            progress=progress,
            after_epoch=lambda at=progress, to=lines: to.append(at.means()),
            precision="bf16-mixed",
        )
        assert len(lines) == 2
        assert np.isfinite([value for line in lines for value in line.values()]).all()
        assert all(weight.dtype == torch.float32 for weight in method.parameters())
        np.testing.assert_allclose(told.ledger.mean_probs().sum(1), 1, atol=1e-3)


def test_memory_format_does_not_matter():
    source, results = images(), []
    for layout in (torch.contiguous_format, torch.channels_last):
        method = a_ce(a_network(source).to(memory_format=layout))
        results.append(run(method, a_feed(source), Training(epochs=1, lr=0.01, batch_size=16)).ledger.mean_probs())
    np.testing.assert_allclose(*results, atol=1e-3)


@pytest.mark.parametrize("make", [vectors, images])
def test_a_last_batch_of_one_sample(make):
    source = make(33)
    told = run(a_ce(a_network(source)), a_feed(source), Training(epochs=2, lr=0.01, batch_size=16))
    assert (told.ledger.seen == 2).all()


def test_accuracy_is_of_evaluation_mode_and_leaves_the_weights():
    source = images(20)
    method = a_ce(a_network(source))
    feed, fabric = a_feed(source), Fabric(accelerator="cpu", devices=1)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.train()
    found = accuracy(method, feed, fabric)
    assert all(method.state_dict()[name].equal(value) for name, value in before.items())
    method.eval()
    with torch.no_grad():
        inputs = feed.transform.evaluate(torch.from_numpy(source.inputs.values))
        assert found["model"] == (method.model(inputs).argmax(1).numpy() == source.labels).mean()
