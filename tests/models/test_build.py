"""Networks by name, factory, place or instance; what the seed decides, and what is told in one line."""

import math
import sys

import pytest
import torch
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.models.build import MODELS, build

NAMES = [
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet8",
    "resnet20",
    "cnn9",
    "preact-resnet18",
    "preact-resnet32",
    "linear",
    "mlp512",
    "mlp",
]


def same(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    return list(mine) == list(theirs) and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_table_names_every_network():
    assert list(MODELS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_table_counts_rightly(name):
    entry = MODELS[name]
    model = build(name, num_classes=10, input_shape=(64,) if MODELS[name].takes_vectors else (3, 32, 32), seed=0)
    assert sum(weight.numel() for weight in model.parameters()) == entry.parameters
    assert entry.description
    assert "\n" not in entry.description


@pytest.mark.parametrize("name", NAMES)
def test_shapes(name):
    model = build(name, num_classes=7, input_shape=(1, 28, 30), seed=0)
    with torch.no_grad():
        assert model.eval()(torch.zeros(3, 1, 28, 30)).shape == (3, 7)


def test_mlp_for_vectors_has_no_flatten():
    model = build("mlp", num_classes=3, input_shape=(5,), seed=0)
    assert model(torch.zeros(2, 5)).shape == (2, 3)
    assert same(model, build("mlp", num_classes=3, input_shape=(5,), seed=0))


@pytest.mark.parametrize("name", ["resnet8", "preact-resnet32", "mlp"])
def test_the_seed_alone_decides(name):
    options = {"num_classes": 4, "input_shape": (3, 8, 8)}
    torch.manual_seed(5)
    first = build(name, seed=11, **options)
    after = torch.rand(3)
    second = build(name, seed=11, **options)
    assert same(first, second)
    assert not same(first, build(name, seed=12, **options))
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(3))  # as if nothing had been built between


def test_seeded_factories_leave_the_global_state_alone():
    def factory(num_classes, input_shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))

    options = {"num_classes": 4, "input_shape": (3, 8, 8)}
    before = torch.get_rng_state()
    first, second = (build(factory, seed=3, **options) for _ in range(2))
    assert same(first, second)
    with pytest.raises(InputError):
        build(lambda num_classes: torch.rand(3), seed=3, **options)
    assert torch.equal(before, torch.get_rng_state())


def test_stems():
    def kernel(side, stem=None):
        model = build("resnet18", num_classes=2, input_shape=(3, side, side), seed=0, stem=stem)
        return model.conv1.kernel_size[0]

    assert [kernel(side) for side in (32, 64, 65, 224)] == [3, 3, 7, 7]
    assert kernel(32, "imagenet") == 7
    assert kernel(224, "cifar") == 3
    with pytest.raises(InputError, match=r"^stem must be one of cifar, imagenet, got 'mnist'$"):
        kernel(32, "mnist")
    for other in ("resnet8", nn.Flatten(), "nowhere"):
        with pytest.raises(InputError, match=r"^a stem is for resnet18, resnet34, resnet50 only, got stem='cifar' for"):
            build(other, num_classes=2, input_shape=(3, 8, 8), seed=0, stem="cifar")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_classes": 1}, r"num_classes must be at least 2, got 1"),
        ({"num_classes": 2.5}, r"num_classes must be a whole number, got 2\.5"),
        (
            {"input_shape": (32, 32)},
            r"input_shape must be \(channels, height, width\) or \(features,\), got \(32, 32\)",
        ),
        ({"input_shape": (3, 0, 32)}, r"input_shape must be .* got \(3, 0, 32\)"),
        ({"input_shape": 64}, r"input_shape must be .* got 64"),
        ({"input_shape": (3, 8.5, 8)}, r"a size of input_shape must be a whole number, got 8\.5"),
        ({"input_shape": (64,)}, r"resnet8 needs images .* got input_shape \(64,\): vectors are for mlp"),
        ({"seed": -1}, r"seed must not be negative, got -1"),
        ({"seed": 2**63}, r"seed must be below 2\*\*63"),
        ({"seed": None}, r"seed must be a whole number, got None"),
        (
            {"name_or_module": "cnn9", "input_shape": (3, 27, 32)},
            r"cnn9 needs .* at least 28 pixels a side, got 27 x 32",
        ),
        ({"name_or_module": "resnet9"}, r"unknown model 'resnet9': choose from resnet18, .*, mlp, or .*module:factory"),
        ({"name_or_module": ""}, r"unknown model ''"),
        ({"name_or_module": 3}, r"the model int must be a factory \(a function or a class\), got int"),
    ],
)
def test_wrong_arguments(change, message):
    options = {"name_or_module": "resnet8", "num_classes": 4, "input_shape": (3, 32, 32), "seed": 0, **change}
    with pytest.raises(InputError, match=rf"^{message}") as caught:
        build(options.pop("name_or_module"), **options)
    assert "\n" not in str(caught.value)


class Own(nn.Module):
    def __init__(self, num_classes=4, width=12):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, inputs):
        return self.fc(self.drop(self.norm(inputs.flatten(1))))


def test_an_instance_comes_back_untouched():
    model = Own()
    model.drop.eval()  # frozen by its owner
    state = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.get_rng_state()
    assert build(model, num_classes=4, input_shape=(3, 2, 2), seed=0) is model
    assert [model.training, model.norm.training, model.drop.training] == [True, True, False]
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(before, torch.get_rng_state())
    assert all(weight.grad is None and weight.requires_grad for weight in model.parameters())


def test_instances_of_other_kinds():
    double = Own().double()
    assert build(double, num_classes=4, input_shape=(12,), seed=0) is double
    bare = nn.Identity()
    assert build(bare, num_classes=3, input_shape=(3,), seed=0) is bare
    meta = Own().to("meta")
    assert build(meta, num_classes=4, input_shape=(12,), seed=0) is meta


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy_modules_take_their_weights_from_the_seed():
    first, second = (build(nn.Sequential(nn.LazyLinear(4)), num_classes=4, input_shape=(6,), seed=9) for _ in range(2))
    assert first[0].weight.shape == (4, 6)
    assert same(first, second)
    first(torch.zeros(2, 6)).sum().backward()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Own(5), r"the model Own must give \(2, 4\) for inputs \(2, 12\), got \(2, 5\)$"),
        (nn.Unflatten(1, (4, 3)), r"the model Unflatten must give \(2, 4\) for inputs \(2, 12\), got \(2, 4, 3\)$"),
        (Own(4, width=5), r"the model Own fails on inputs \(2, 12\): \w+Error: "),
        (nn.LSTM(12, 4), r"the model LSTM must give a tensor of logits, got tuple$"),
    ],
)
def test_instances_that_do_not_fit(model, message):
    with pytest.raises(InputError, match=rf"^{message}") as caught:
        build(model, num_classes=4, input_shape=(12,), seed=0)
    assert "\n" not in str(caught.value)
    assert model.training


def test_factories_are_handed_what_they_take():
    seen = []

    def narrow(num_classes):
        seen.append(num_classes)
        return Own(num_classes)

    def wide(*, num_classes, input_shape=None):
        seen.append(input_shape)
        return Own(num_classes)

    def open_ended(**options):
        seen.append(options)
        return Own(options["num_classes"])

    for factory in (narrow, wide, open_ended, Own):
        assert isinstance(build(factory, num_classes=6, input_shape=(12,), seed=0), Own)
    assert seen == [6, (12,), {"num_classes": 6, "input_shape": (12,)}]


SOURCE = """
from torch import nn
class Room:
    @staticmethod
    def factory(num_classes):
        return nn.Linear(12, num_classes)
def factory(num_classes, input_shape):
    return nn.Linear(*input_shape, num_classes)
def nothing(num_classes):
    return None
def wrong(num_classes):
    return nn.Linear(12, num_classes + 1)
def fails(num_classes):
    raise KeyError("first\\nsecond")
def asks(num_classes, depth):
    return None
number = 3
ready = nn.Linear(12, 4)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, text in (
        ("jnpl_own_net", SOURCE),
        ("jnpl_own_broken", "def ("),
        ("jnpl_own_needs", "import no_such_one"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("jnpl_own_net", "jnpl_own_broken", "jnpl_own_needs"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", ["factory", "Room.factory", "ready"])
def test_dotted_places(name):
    model = build(f"jnpl_own_net:{name}", num_classes=4, input_shape=(12,), seed=0)
    assert (model.in_features, model.out_features) == (12, 4)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no_such_package.nets:factory", r"cannot import 'no_such_package\.nets' of the model .*No module named"),
        ("jnpl_own_broken:factory", r"cannot import 'jnpl_own_broken' of the model .*SyntaxError"),
        ("jnpl_own_needs:factory", r"cannot import 'jnpl_own_needs' of the model .*no_such_one"),
        ("jnpl_own_net:absent", r"'jnpl_own_net' has no 'absent', of the model 'jnpl_own_net:absent'$"),
        ("jnpl_own_net:Room.absent", r"'jnpl_own_net' has no 'Room\.absent'"),
        ("jnpl_own_net:number", r"'jnpl_own_net:number' must be a factory \(a function or a class\), got int$"),
        ("jnpl_own_net:nothing", r"'jnpl_own_net:nothing' must return a torch\.nn\.Module, got NoneType$"),
        ("jnpl_own_net:wrong", r"the model Linear must give \(2, 4\) for inputs \(2, 12\), got \(2, 5\)$"),
        ("jnpl_own_net:fails", r"'jnpl_own_net:fails' failed to make a network of 4 classes: KeyError: "),
        ("jnpl_own_net:asks", r"'jnpl_own_net:asks' failed to make .*missing 1 required .*'depth'"),
        (":factory", r"the model must be named as package\.module:factory, got ':factory'$"),
        ("jnpl_own_net:", r"the model must be named"),
        (".net:factory", r"the model must be named"),
    ],
)
def test_dotted_places_that_fail(given, message):
    with pytest.raises(InputError, match=rf"^{message}") as caught:
        build(given, num_classes=4, input_shape=(12,), seed=0)
    assert "\n" not in str(caught.value)


def test_weights_are_loaded(tmp_path):
    options = {"input_shape": (3, 8, 8), "seed": 1}
    trained = build("resnet8", num_classes=10, **options)
    torch.save(trained.state_dict(), tmp_path / "w.pth")
    again = build("resnet8", num_classes=10, input_shape=(3, 8, 8), seed=2, weights=tmp_path / "w.pth")
    assert same(again, trained)
    fewer = build("resnet8", num_classes=4, weights=str(tmp_path / "w.pth"), **options)
    assert torch.equal(fewer.conv1.weight, trained.conv1.weight)
    with pytest.raises(InputError, match=r"conv1\.weight is \(16, 3, 3, 3\) instead of \(16, 1, 3, 3\)$"):
        build("resnet8", num_classes=10, input_shape=(1, 8, 8), seed=1, weights=tmp_path / "w.pth")
