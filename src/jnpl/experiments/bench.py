"""`jnpl bench`: its cells, and its rows: name, description, and the recipe for a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from jnpl.experiments.cell import Cell, DataPart
from jnpl.internal.errors import InputError
from jnpl.recipes.automatic import mlp_rate
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe, parse_recipe

if TYPE_CHECKING:
    from collections.abc import Callable

CIFAR = ("cifar10", "cifar10n")
WITH_RATE = ("symm", "asymm", "instance")
BASE = "ce"  # the row that costs are compared with
CURVE_TEST = 1_000  # test images after every epoch of it
TABLES = {"digits": (1400, 10), "wine": (133, 3), "breast-cancer": (426, 2), "iris": (112, 3)}  # samples, classes
SHARE = 0.9  # of the epochs of the others, for fast


class Row(NamedTuple):
    """A method with its settings, one line of a table."""

    description: str
    recipe: Callable[[BenchCell], Recipe]
    classify: bool = True  # goes on to a classifier with pseudo-labels, if its method does
    folds: bool = False  # cleanlab: ranked by cross-validated predictions
    true_labels: bool = False  # trained on the true labels, as an upper bound


class BenchCell(Cell):
    """A row of a comparison on one data set, with the size of the training and of the network."""

    row: str = Field(min_length=1, pattern=r"^[a-z0-9-]+$", description="a name of `ROWS`")
    data: Literal["cifar10", "cifar10n", "digits", "wine", "breast-cancer", "iris"]
    images: int | None = Field(None, ge=1, description="training samples; None: all")
    start: int = Field(
        0, ge=0, description="CIFAR: the first training image; above 0, test images are training images from 40,000 on"
    )
    test_images: int | None = Field(None, ge=1, description="the first of the test set; None: all")
    pixels: Literal[16, 32] | None = Field(None, description="CIFAR: 16 are means of 2 x 2")
    net: str = "auto"
    epochs: int = Field(ge=1)
    batch_size: int = Field(64, ge=2)
    padding: int = Field(0, ge=0, description="CIFAR: before the random crop of the rivals; 0: flip only")

    @model_validator(mode="after")
    def _check_combinations(self) -> BenchCell:
        if (self.noise in WITH_RATE) != (self.rate > 0):
            raise ValueError(f"a rate above 0 goes with {', '.join(WITH_RATE)}, got {self.noise!r} with {self.rate:g}")
        if (self.noise == "human") != (self.data == "cifar10n"):
            raise ValueError(f"noise 'human' is that of cifar10n, got {self.noise!r} with {self.data!r}")
        if self.data in CIFAR and self.pixels is None:
            raise ValueError(f"{self.data} needs pixels, 16 or 32")
        if self.data not in CIFAR and (self.pixels is not None or self.start or self.padding):
            values = f"got {self.pixels}, {self.start} and {self.padding} with {self.data!r}"
            raise ValueError(f"pixels, start and padding are for {' and '.join(CIFAR)}, {values}")
        return self

    @property
    def label(self) -> str:
        """The row.

        >>> BenchCell(row="ce", data="digits", noise="symm", rate=0.4, epochs=2, seed=1).name
        'ce-digits-symm40-1-e71bb58a747c'
        """
        return self.row

    def recipe(self) -> Recipe:
        """The recipe of its row, at its size."""
        if self.row not in ROWS:
            raise InputError(f"there is no row {self.row!r}; there are {', '.join(ROWS)}")
        return ROWS[self.row].recipe(self)

    def data_part(self) -> DataPart:
        """The samples by its own settings; tables of numbers are split by its seed."""
        mapping = "cifar10" if self.data == "cifar10" else "pairflip"
        seed = 0 if self.data in CIFAR else self.seed
        return DataPart(
            self.data, self.images, self.start, self.test_images, self.pixels, split_seed=seed, asymmetric=mapping
        )

    def content(self) -> dict[str, Any]:
        """Its settings; the recipe of its row is not part of them."""
        return self.model_dump(mode="json")

    @property
    def with_classifier(self) -> bool:
        """Whether its row trains a classifier after the filter."""
        return ROWS[self.row].classify

    @property
    def test_each_epoch(self) -> int | None:
        """Some test images for cross-entropy, to find its best epoch; none for the other rows."""
        return CURVE_TEST if self.row == BASE else 0


def _plan(cell: BenchCell) -> dict[str, Any]:
    """The training settings that all rows share, except those whose papers have their own."""
    return {
        "epochs": cell.epochs,
        "batch_size": cell.batch_size,
        "optimizer": "sgd",
        "lr": 0.1,
        "schedule": "cosine",
        "momentum": 0.9,
        "weight_decay": 1e-4,
    }


def _recipe(cell: BenchCell, method: dict[str, Any], **own: Any) -> Recipe:
    return parse_recipe(
        {
            "model": cell.net,
            "train": _plan(cell),
            "method": method,
            "data": {"padding": cell.padding, "std": "data"},
            "engine": {"accelerator": "cpu", "workers": 0},
            **own,
        }
    )


def _changed(cell: BenchCell, name: str, changes: dict[str, Any]) -> Recipe:
    """A recipe of the package at the cell's size."""
    every = {
        "model": cell.net,
        "train.epochs": cell.epochs,
        "train.batch_size": cell.batch_size,
        "data.val_size": 0,
        "engine.accelerator": "cpu",
        "engine.workers": 0,
        **changes,
    }
    return load_recipe(name, every)


def _ce(cell: BenchCell) -> Recipe:
    return _recipe(cell, {"name": "ce"})


def _gce(cell: BenchCell) -> Recipe:
    return _recipe(cell, {"name": "gce", "q": 0.7})


def _co_teaching(cell: BenchCell) -> Recipe:
    plan = {**_plan(cell), "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
    ramp = max(1, cell.epochs // 6)
    return _recipe(cell, {"name": "co-teaching", "noise_rate": "oracle", "ramp_epochs": ramp}, train=plan)


def _nlnl(cell: BenchCell) -> Recipe:
    quarter = max(1, cell.epochs // 4)
    half = max(1, cell.epochs - 2 * quarter)  # all in all the cell's epochs, from 3 on
    stages = {
        "nl": {"epochs": half, "lr": 0.1},
        "selnl": {"epochs": quarter, "lr": 0.05},
        "selpl": {"epochs": quarter, "lr": 0.02},
    }
    pseudo = {"mode": "nlnl", "train": {**_plan(cell), "epochs": max(1, cell.epochs // 2)}}  # twice
    return _recipe(cell, {"name": "nlnl", "complements": "exhaustive"}, stages=stages, pseudo=pseudo)


def _jnpl_paper(cell: BenchCell) -> Recipe:
    epochs = cell.epochs
    steps = [round(0.4 * epochs), round(0.6 * epochs)]
    return _changed(
        cell,
        "paper-cifar10",
        {
            "train.milestones": [round(0.8 * epochs)],
            "pseudo.train.epochs": epochs,
            "pseudo.train.milestones": steps,
            "pseudo.train.batch_size": cell.batch_size,
            "data.padding": cell.padding,
        },
    )


def _fast(cell: BenchCell, changes: dict[str, Any] | None = None) -> Recipe:
    """`fast` in nine tenths of the epochs of the others: with its evaluation at the end it costs no more than CE."""
    plan = {"train.epochs": _fast_epochs(cell), "train.lr": _fast_rate(cell)}
    return _changed(cell, "fast", {**plan, **(changes or {})})


def _fast_epochs(cell: BenchCell) -> int:
    return max(2, round(SHARE * cell.epochs))


def _fast_rate(cell: BenchCell) -> float:
    """The learning rate that `jnpl find` would choose."""
    if cell.data in CIFAR or cell.net not in ("mlp", "auto"):
        return load_recipe("fast").train.lr
    return mlp_rate(*TABLES[cell.data], cell.batch_size, _fast_epochs(cell))


def _fast_flip(cell: BenchCell) -> Recipe:
    return _fast(cell, {"data.padding": cell.padding})


def _fast_changed(changes: dict[str, Any]) -> Callable[[BenchCell], Recipe]:
    """`fast` with some settings changed."""
    return lambda cell: _fast(cell, changes)


def _fast_lr_times(times: float) -> Callable[[BenchCell], Recipe]:
    return lambda cell: _fast(cell, {"train.lr": times * _fast_rate(cell)})


def _augmented(rival: Callable[[BenchCell], Recipe]) -> Callable[[BenchCell], Recipe]:
    """A rival with the crops of `fast`."""
    return lambda cell: rival(cell).model_copy(update={"data": _fast(cell).data})


def _long(rival: Callable[[BenchCell], Recipe]) -> Callable[[BenchCell], Recipe]:
    """A rival with the crops of `fast` and as many epochs as both of its parts have."""

    def recipe(cell: BenchCell) -> Recipe:
        fast = _fast(cell)
        stretch = 1.0 if fast.pseudo is None else 1 + fast.pseudo.stretch
        return _augmented(rival)(cell.model_copy(update={"epochs": round(stretch * fast.train.epochs)}))

    return recipe


def _fast_with_ce(cell: BenchCell) -> Recipe:
    """`fast` with cross-entropy in place of NL+ and PL+: what its other settings contribute."""
    return parse_recipe({**_fast(cell).model_dump(exclude={"pseudo"}), "method": {"name": "ce"}})


ROWS = {
    "ce": Row("cross-entropy", _ce),
    "fast": Row("JNPL by the recipe fast", _fast),
    "nlnl": Row("NLNL, all complements, three stages; two steps with pseudo-labels", _nlnl),
    "cleanlab": Row(
        "confident learning: 5-fold cross-validated cross-entropy, then on the labels it keeps", _ce, folds=True
    ),
    "jnpl-paper": Row("JNPL with the paper's settings, its schedule scaled", _jnpl_paper),
    "gce": Row("generalised cross-entropy, q = 0.7", _gce),
    "co-teaching": Row("Co-teaching, which is given the noise rate", _co_teaching),
    "ce-clean": Row("cross-entropy on the true labels", _ce, true_labels=True),
    "ce-augmented": Row("cross-entropy with the crops of fast", _augmented(_ce)),
    "fast-flip": Row("fast with the crops of the others", _fast_flip),
}
CROPS = {
    "nlnl-augmented": Row("NLNL with the crops of fast", _augmented(_nlnl)),
    "cleanlab-augmented": Row("cleanlab with the crops of fast", _augmented(_ce), folds=True),
    "gce-augmented": Row("generalised cross-entropy with the crops of fast", _augmented(_gce)),
    "co-teaching-augmented": Row("Co-teaching with the crops of fast", _augmented(_co_teaching)),
    "ce-clean-augmented": Row(
        "cross-entropy on the true labels with the crops of fast", _augmented(_ce), true_labels=True
    ),
}
LONG = {
    "gce-long": Row("generalised cross-entropy with the crops and all epochs of fast", _long(_gce)),
    "co-teaching-long": Row("Co-teaching with the crops and all epochs of fast", _long(_co_teaching)),
}
ABLATIONS = {
    "fast-filter": Row("fast as it is, the filter alone", _fast, classify=False),
    "fast-ce": Row("cross-entropy in place of NL+ and PL+, all else as fast", _fast_with_ce, classify=False),
    **{
        f"fast-{name}": Row(description, _fast_changed(changes), classify=False)
        for name, description, changes in (
            ("nl", "NL throughout (gamma 0)", {"method.gamma": 0.0, "method.gamma_rise": None}),
            ("nl-plus", "NL+ from the start (gamma 1)", {"method.gamma_rise": None}),
            ("rise", "gamma rises from 0 to 1 over all epochs", {"method.gamma_rise": [0.0, 1.0]}),
            ("rise-half", "gamma rises from 0 to 1 in the first half", {"method.gamma_rise": [0.0, 0.5]}),
            (
                "rise-07",
                "gamma rises from 0 to 0.7 in the first half",
                {"method.gamma": 0.7, "method.gamma_rise": [0.0, 0.5]},
            ),
            ("no-pl", "without PL+", {"method.pl_weight": 0.0}),
            ("pl-early", "PL+ from the start", {"method.pl_start": 0.0}),
            ("pl-strong", "PL+ with ten times its weight", {"method.pl_weight": 0.1}),
            ("pl-batch", "PL+ as a mean over the batch", {"method.pl_mean": "batch"}),
            ("full-weights", "class weights without bounds", {"method.class_weight": "nlnl"}),
            ("no-weights", "without class weights", {"method.class_weight": "none"}),
            ("sampled", "one sampled complement", {"method.complements": "sampled"}),
            ("no-average", "without averaged weights", {"train.average": 0.0}),
            ("history", "ranked by p_y, the mean of the last 10 epochs", {"verdict.score": "history"}),
            ("network", "ranked by p_y of the network at the end", {"verdict.score": "network"}),
            ("cosine", "cosine schedule", {"train.schedule": "cosine"}),
            ("batch-128", "batches of 128", {"train.batch_size": 128}),
            ("no-crop", "without crops", {"data.padding": 0}),
            ("no-guard", "without the guard", {"method.guard": 0.0}),
        )
    },
    **{
        f"fast-lr-{name}": Row(description, _fast_lr_times(times), classify=False)
        for name, description, times in (
            ("low", "half the learning rate", 0.5),
            ("high", "twice the learning rate", 2.0),
        )
    },
}
SECOND_PARTS = {
    f"fast-{name}": Row(description, _fast_changed(changes))
    for name, description, changes in (
        ("hard", "pseudo-labels hard in place of soft", {"pseudo.soft": False}),
        (
            "paper-labels",
            "pseudo-labels as the paper: given labels that are kept, predictions for the others",
            {"pseudo.mode": "paper"},
        ),
        ("fresh", "pseudo-labels teach a new network", {"pseudo.warm": False}),
        ("short", "the second part as long as the first", {"pseudo.stretch": 1.0}),
        ("twice", "the second part twice as long as the first", {"pseudo.stretch": 2.0}),
        ("light", "the second part with the filter's weight decay", {"pseudo.train.weight_decay": 1e-4}),
    )
}
TABLE = tuple(ROWS)  # the rows of a comparison
ROWS |= CROPS | LONG | ABLATIONS | SECOND_PARTS
