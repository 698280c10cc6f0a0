"""Recipes hold the paper's numbers; changes are typed; every mistake is one line that names the setting."""

import pytest

from jnpl.internal.errors import InputError
from jnpl.recipes.load import load_default_recipe, load_recipe, parse_changes, recipe_file, recipe_names
from jnpl.recipes.schema import Engine

CIFAR = {
    "model": "resnet34",
    "weights": None,
    "data": {
        "size": None,
        "crop": None,
        "padding": 4,
        "flip": True,
        "std": "one",
        "vectors": "standard",
        "val_size": 5000,
    },
    "train": {"epochs": 1000, "batch_size": 128, "lr": 0.01, "milestones": (800,)},
    "pseudo": {"epochs": 480, "batch_size": 128, "lr": 0.1, "milestones": (192, 288)},
    "num_complements": 1,
}
PAPER = {
    "paper-cifar10": CIFAR,
    "paper-cifar100": {**CIFAR, "num_complements": 110},
    "paper-clothing1m": {
        "model": "resnet50",
        "weights": "required",  # the ImageNet file is the user's
        "data": {
            "size": 256,
            "crop": 224,
            "padding": 0,
            "flip": True,
            "std": "one",
            "vectors": "standard",
            "val_size": 0,
        },
        "train": {"epochs": 40, "batch_size": 64, "lr": 1e-3, "milestones": (30,)},
        "pseudo": {"epochs": 15, "batch_size": 64, "lr": 1e-3, "milestones": (10,)},
        "num_complements": 1,
    },
}
COMMON = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-4, "schedule": "step", "decay": 0.1}
PLAIN = {"clip_norm": None, "accumulate": 1, "average": 0.0, "momentum_from": None, "lr_end": 0.0, "cycle": None}


@pytest.mark.parametrize("name", PAPER)
def test_paper_recipes_are_the_paper(name):
    """METHODS 4.1 and the choices of 4.3, every setting: nothing beside them may creep in."""
    recipe, paper = load_recipe(name), PAPER[name]
    method = {"name": "jnpl", "pl_weight": 0.01, "n": 3, "complements": "sampled", "gamma": 1.0, "class_weight": "none"}
    method |= {
        "pl_target": "predicted",
        "pl_mean": "selected",
        "gamma_rise": None,
        "ce_start": False,
        "ce_fade": "agreement",
        "pl_start": 0.0,
        "guard": 0.0,
        "refine": False,
    }
    assert recipe.model_dump(exclude={"description", "engine"}) == {
        "model": paper["model"],
        "weights": paper["weights"],
        "data": paper["data"],
        "train": {**paper["train"], **COMMON, **PLAIN},
        "stages": {},
        "method": {**method, "num_complements": paper["num_complements"]},
        "verdict": {
            "history": 10,
            "keep": "full",
            "score": "history",
            "calibrate": False,
            "trees": False,
            "threshold": 0.5,
        },
        "pseudo": {
            "mode": "paper",
            "soft": True,
            "class_weight": "none",
            "warm": False,
            "stretch": 1.0,
            "train": {**paper["pseudo"], **COMMON, **PLAIN},
        },
    }
    assert recipe.engine == Engine()


def test_the_recipes_there_are():
    assert {"paper-cifar10", "paper-cifar100", "paper-clothing1m", "small", "fast"} <= set(recipe_names())
    for name in recipe_names():
        recipe = load_recipe(name)
        assert recipe.description
        if name not in PAPER and name not in ("small", "fast", "fast-embeddings", "finetune"):  # METHOD-DATA
            assert name.rpartition("-")[0] == recipe.method.name
            pretrained = name.endswith("clothing1m") and recipe.method.name != "limit"  # whose code starts from nothing
            assert recipe.weights == ("required" if pretrained else None)
    small = load_recipe("small")
    assert (small.model, small.train.epochs, small.train.schedule) == ("auto", 30, "cosine")


def test_a_table_named_after_a_recipe_changes_the_rest_of_its_file():
    recipes = {name: load_recipe(name) for name in ("elr-cifar10", "elr-cifar100", "elr-plus-cifar10")}
    assert {recipe_file(name) for name in recipes} == {"elr.toml"}
    assert [recipe.method.name for recipe in recipes.values()] == ["elr", "elr", "elr-plus"]
    assert [recipe.train.cycle for recipe in recipes.values()] == [10, None, None]
    assert [recipe.train.lr for recipe in recipes.values()] == [0.02, 0.02, 0.02]
    assert recipe_file("small") == "small.toml"
    assert "elr" not in recipe_names()


def test_changes_of_one_call_do_not_reach_the_next():
    assert load_recipe("elr-cifar10", {"train.epochs": 3, "method.beta": 0.1}).train.epochs == 3
    assert (load_recipe("elr-cifar10").train.epochs, load_recipe("elr-cifar10").method.beta) == (150, 0.7)


def test_step_counts_epochs_from_zero():
    """Row 17: epoch index 800, the 801st, is the first with lr / 10."""
    train = load_recipe("paper-cifar10").train
    assert [train.lr_at(epoch) for epoch in (0, 1, 799, 800, 999)] == [0.01, 0.01, 0.01, 0.001, 0.001]
    pseudo = load_recipe("paper-cifar10").pseudo.train
    assert [pseudo.lr_at(epoch) for epoch in (0, 191, 192, 287, 288, 479)] == [0.1, 0.1, 0.01, 0.01, 0.001, 0.001]
    clothing = load_recipe("paper-clothing1m")
    assert [clothing.train.lr_at(epoch) for epoch in (29, 30)] == [1e-3, 1e-4]
    assert [clothing.pseudo.train.lr_at(epoch) for epoch in (9, 10)] == [1e-3, 1e-4]


def test_changes_have_types():
    changes = [
        "train.epochs=1_0",
        "train.lr=1e-3",
        "train.momentum=.5",
        "train.milestones=[3, 5]",
        "train.clip_norm=2",
        "data.flip=false",
        "data.std=data",
        "data.size = 64",
        "method.gamma=0",
        "method.class_weight='nlnl'",
        "pseudo.train.epochs=7",
        "pseudo.soft=False",
        "verdict.threshold=1/c",
        "model=my.module:factory",
        "weights=https://a.b/c.pth#sha256:00",
        "engine.workers=none",
        "engine.devices=auto",
        "engine.precision=32",
    ]
    recipe = load_recipe("paper-cifar10", parse_changes(changes))
    assert (recipe.train.epochs, recipe.train.lr, recipe.train.momentum) == (10, 1e-3, 0.5)
    assert (recipe.train.milestones, recipe.train.clip_norm) == ((3, 5), 2.0)
    assert (recipe.data.flip, recipe.data.std, recipe.data.size) == (False, "data", 64)
    assert (recipe.method.name, recipe.method.gamma, recipe.method.class_weight) == ("jnpl", 0.0, "nlnl")
    assert (recipe.pseudo.train.epochs, recipe.pseudo.soft, recipe.pseudo.train.lr) == (7, False, 0.1)
    assert (recipe.verdict.threshold, recipe.model) == ("1/c", "my.module:factory")
    assert recipe.weights == "https://a.b/c.pth#sha256:00"
    assert (recipe.engine.workers, recipe.engine.devices, recipe.engine.precision) == (None, "auto", "32")
    assert (
        load_recipe("paper-cifar10", parse_changes(["train.clip_norm=1", "train.clip_norm=None"])).train.clip_norm
        is None
    )
    assert load_recipe("paper-cifar10", {"pseudo": None}).pseudo is None
    assert load_recipe("small").pseudo is None
    assert load_recipe("small", {"pseudo.train.epochs": 2, "pseudo.train.lr": 1}).pseudo.train.epochs == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("train.epohcs=3", r"no setting 'train.epohcs'; there are train.epochs, train.batch_size, .*train.average$"),
        ("epochs=3", r"no setting 'epochs'; there are .*train, stages, method, verdict, pseudo, engine$"),
        ("pseudo.train.a=1", r"no setting 'pseudo.train.a'; there are pseudo.train.epochs, .*"),
        (
            "pseudo.a=1",
            r"no setting 'pseudo.a'; there are pseudo.mode, pseudo.soft, pseudo.warm, .*, pseudo.train$",
        ),
        ("train.epochs=1.5", r"setting train.epochs: .*integer.*, got 1.5$"),
        ("train.epochs=0", r"setting train.epochs: .*greater than or equal to 1, got 0$"),
        ("train.epochs=", r"setting train.epochs: .*, got ''$"),
        ("train.epochs=none", r"setting train.epochs: .*, got None$"),
        ("train.lr=nan", r"setting train.lr: .*"),
        ("train.lr=inf", r"setting train.lr: .*finite.*, got inf$"),
        ("train.momentum=1", r"setting train.momentum: .*less than 1, got 1$"),
        ("train.optimizer=lion", r"setting train.optimizer: Input should be 'sgd', 'adam' or 'adamw', got 'lion'$"),
        ("train.milestones=3,5", r"setting train.milestones: .*, got '3,5'$"),
        ("train.milestones=[3, 'a']", r"setting train.milestones: .*integer.*, got 'a'$"),
        (
            "train.milestones=[]",
            r"setting train: milestones go with schedule 'step' or 'hold-linear', got \[\] with 'step'$",
        ),
        ("pseudo.train.schedule=cosine", r"setting pseudo.train: milestones go with .* with 'cosine'$"),
        ("train.epochs.x=1", r"setting 'train.epochs.x': 'epochs' is a value, not a group$"),
        ("train=5", r"setting train: .*, got 5$"),
        ("verdict.threshold=7", r"setting verdict.threshold: .*less than 1, got 7$"),
        ("verdict.threshold=0", r"setting verdict.threshold: .*greater than 0, got 0$"),
        ("verdict.threshold=often", r"setting verdict.threshold: .*, got 'often'$"),
        ("engine.devices=x", r"setting engine.devices: .*, got 'x'$"),
        (
            "engine.precision=64",
            r"setting engine.precision: Input should be '32', 'bf16-mixed' or '16-mixed', got '64'$",
        ),
        ("method.complements=exhaustive", r"setting method: num_complements goes with complements 'sampled', got 1$"),
        ("train.epochs", r"a setting is changed by key=value, such as train.epochs=20, not 'train.epochs'$"),
        ("=3", r"a setting is changed by key=value.*not '=3'$"),
    ],
)
def test_mistakes_are_told_in_one_line(change, told):
    with pytest.raises(InputError, match=f"^{told}") as error:
        load_recipe("paper-cifar10", parse_changes([change]))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_a_recipe_of_ones_own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("[train]\nepochs = 3\nlr = 0.5\n[engine]\nprecision = 32\n", "utf-8")
    assert load_recipe(str(path), {"train.epochs": 4}).train.epochs == 4
    path.write_text("[train\n", "utf-8")
    with pytest.raises(InputError, match=r"the recipe '.*own.toml' is not valid TOML: "):
        load_recipe(str(path))
    path.write_text("model = 'mlp'\n", "utf-8")
    with pytest.raises(InputError, match=r"^setting train: Field required$"):
        load_recipe(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"own.toml' is not valid TOML"):
        load_recipe(str(path))
    with pytest.raises(InputError, match=r"no such recipe file: .*none.toml"):
        load_recipe(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"no recipe 'smal'; there are ce-cifar10, .*small, .*or a .toml file"):
        load_recipe("smal")


def test_another_method_drops_what_is_not_for_it():
    recipe = load_recipe("small", {"train.epochs": 3, "method.q": 0.5, "method.name": "gce"})  # in any order
    assert recipe.method.model_dump(include={"name", "q"}) == {"name": "gce", "q": 0.5}
    assert load_recipe("paper-cifar10", {"method.name": "ce"}).pseudo is None
    assert load_recipe("nlnl-cifar10", {"method.name": "ce"}).stages == {}
    other = load_recipe("fast", {"method.name": "pencil", "verdict.threshold": 0.4})
    assert (other.verdict.score, other.verdict.threshold, other.pseudo) == ("history", 0.4, None)
    same = load_recipe("paper-cifar10", {"method.name": "jnpl"})
    assert same == load_recipe("paper-cifar10")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("stages.foo.epochs=2", "setting stages.foo: the stages of jnpl are train, refine$"),
        ("stages.train.epochs=0", "setting stages.train.epochs: .*, got 0$"),
        ("stages.train.foo=0", "no setting 'stages.train.foo'; there are stages.train.epochs, .*"),
        ("stages.train=3", "setting stages: .*dictionary, got 3$"),
        ("method.q=0.5", "no setting 'method.q'; there are method.name, method.pl_weight, .*"),
        ("method.n=x", "setting method.n: .*integer.*, got 'x'$"),
        ("method=3", "setting method: .*"),
    ],
)
def test_mistakes_in_stages_and_methods(change, told):
    with pytest.raises(InputError, match=f"^{told}"):
        load_recipe("small", parse_changes([change]))


def test_changes_are_not_changed():
    """A table among the changes stays as it is when another change sets one of its values."""
    changes = {"pseudo": {"mode": "paper"}, "pseudo.soft": False}
    for _ in range(2):
        recipe = load_recipe("small", changes)
        assert (recipe.pseudo.mode, recipe.pseudo.soft) == ("paper", False)
    assert changes == {"pseudo": {"mode": "paper"}, "pseudo.soft": False}


def test_texts_among_typed_changes_stay_texts():
    """Only `parse_changes` reads none and numbers from text: a folder may be called 12 or none."""
    recipe = load_recipe("small", {"engine.cache": "12", "weights": "none"})
    assert (str(recipe.engine.cache), recipe.weights) == ("12", "none")


def test_the_default_recipe_depends_on_the_method():
    assert load_default_recipe(None, None, {}) == load_default_recipe(None, "jnpl", {}) == load_recipe("fast")
    assert load_default_recipe(None, "gce", {}) == load_recipe("small", {"method.name": "gce"})
    assert load_default_recipe("paper-cifar10", "ce", {}) == load_recipe("paper-cifar10", {"method.name": "ce"})
