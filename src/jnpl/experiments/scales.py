"""Scales: how much of the paper's data, network and schedule a reproduction takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jnpl.data.datasets import DATASETS
from jnpl.data.sources import cifar, cifarn, clothing1m
from jnpl.data.sources.download import data_root
from jnpl.experiments.features import Features
from jnpl.experiments.features import is_there as images_are_there
from jnpl.experiments.paper import DATA_NAMES, SETTINGS, Setting
from jnpl.experiments.paper_variants import FACTORS, SMALL, STABLE

ScaleName = Literal["paper", "features", "features-full", "small", "tiny"]


@dataclass(frozen=True)
class Scale:
    """Data and size; what it does to a recipe is in `variants`."""

    name: ScaleName
    stands_for: Mapping[str, str]  # data set of the paper -> ours; what is missing is not run at this scale
    images: int | None  # the first of the training set; None: all
    pixels: int | None  # 16: means of 2 x 2; None: as they are
    curve_images: int | None  # the first of the test set, after every epoch; the last epoch is tested on all
    more_seeds: Mapping[Setting | None, int] = field(default_factory=dict)  # of Table 1, where it is not one
    figure_seeds: Mapping[str, int] = field(default_factory=dict)  # experiment -> seeds, where it is not one
    settings: tuple[Setting, ...] = SETTINGS  # of Table 1 and Figure 5
    what: str = ""  # for captions
    features: Features | None = None  # of a pretrained network in place of images
    checkpoint_seconds: float | None = None  # between two within an epoch; None: only at the end of an epoch

    @property
    def paper_schedule(self) -> bool:
        """Whether all have the schedules of their papers, whole or by a common factor."""
        return self.name == "paper" or self.features is not None

    @property
    def beside(self) -> dict[str, str]:
        """What is run beside JNPL as the paper writes it, in every item: variant -> name."""
        both = {"nl-plus": "NL+ alone", STABLE: STABLE}
        return both if self.name == "features" else {} if self.features is None else {"nl-plus": both["nl-plus"]}


_WHOLE = {part: part for part in ("cifar10", "cifar100", "clothing1m")}
_HUMAN = {part: part for part in ("cifar10n", "cifar100n")}
_ON_FEATURES = (
    "EfficientNet-Lite0 (ImageNet, 128 pixels) embeds {views} once; networks see 256 principal components of one of "
    "them at random, in tests their mean. The network of all rows but `fast` is a perceptron with one hidden layer of "
    "512, in batches of 128. Methods, rates and schedules are those of their papers"
)
_TWO_VIEWS = _ON_FEATURES.format(views="each image and its mirror image")
_FOUR_VIEWS = _ON_FEATURES.format(
    views="each image, its mirror image, a random crop of 7/8 of its side and a mirrored one"
)

SCALES: dict[str, Scale] = {
    "paper": Scale(
        "paper",
        _WHOLE,
        images=None,
        pixels=None,
        curve_images=None,
        more_seeds=dict.fromkeys(SETTINGS, 3),
        checkpoint_seconds=300.0,
        what="Scale paper: the paper's data, networks and schedules, as the recipes of the package have them (CIFAR: "
        "45,000 images, ResNet-34; NLNL three stages of 720 epochs, NL+ and JNPL 1,000). The recipe fast chooses its "
        "own network and epochs.",
    ),
    "features": Scale(
        "features",
        {"cifar10": "cifar10", "cifar100": "cifar100", **_HUMAN},
        images=10_000,
        pixels=None,
        curve_images=2_000,
        more_seeds={("symm", 0.4): 3, ("symm", 0.6): 3, ("asymm", 0.4): 3},
        figure_seeds={"fig4": 3},
        features=Features(),
        what=f"Scale features: the first 10,000 training images of CIFAR-10 and of CIFAR-100. {_TWO_VIEWS}, all "
        f"epochs divided by {FACTORS['features']} (JNPL and NL+ 125, NLNL three times 90, their "
        "classifiers and CE 60, Co-teaching and JoCoR 25, NFL+RCE and NCE+RCE 15, on CIFAR-100 25). Accuracy at the "
        "end is that of all 10,000 test images (of CIFAR-100 the 5,000 at hand), curves are of the first 2,000.",
    ),
    "features-full": Scale(
        "features-full",
        {"cifar10": "cifar10"},
        images=None,
        pixels=None,
        curve_images=2_000,
        settings=(("symm", 0.6),),
        features=Features(views=4),
        what=f"Scale features-full: all 50,000 training images of CIFAR-10. {_FOUR_VIEWS}, with all epochs (JNPL "
        "and NL+ 1,000, NLNL three times 720, their classifiers and CE 480). Accuracy at the end is that of all 10,000 "
        "test images, curves are of the first 2,000.",
    ),
    "small": Scale(
        "small",
        {"cifar10": "cifar10", "cifar100": "cifar100"},
        images=5_000,
        pixels=16,
        curve_images=2_000,
        more_seeds={("symm", 0.4): 3, ("asymm", 0.4): 3},
        figure_seeds={"fig3": 3, "fig4": 3},
        checkpoint_seconds=20.0,
        what="Scale small: the first 5,000 training images at 16 pixels, resnet8 (78,042 weights for ten classes), "
        "batches of 64, flips, and crops after two pixels of padding (the paper: four of 32). All nine complements at "
        "once, and NL, SelNL, SelPL, NL+ and JNPL at one "
        f"learning rate, {SMALL.filter_lr:g}, a tenth of it after {SMALL.fall} of {SMALL.filter_epochs} epochs (NLNL: "
        f"{SMALL.filter_epochs // 3} a stage); PL+ begins after a third of them, and beside nine complements its "
        "weight of 0.01 is a ninth of the paper's proportion. Classifiers have "
        f"{SMALL.classify_epochs} epochs (NLNL's twice, fast {SMALL.fast_epochs} and {SMALL.fast_second}). Accuracy at "
        "the end is that of all 10,000 test images, curves are of the first 2,000.",
    ),
    "tiny": Scale(
        "tiny",
        {"cifar10": "digits"},
        images=600,
        pixels=None,
        curve_images=None,
        settings=(("symm", 0.2), ("symm", 0.6), ("asymm", 0.4)),
        checkpoint_seconds=20.0,
        what="Scale tiny: not CIFAR-10 but 600 of scikit-learn's 8 x 8 digits, a perceptron and a few epochs, to try "
        "the program (3 stands for the class cat, 5 for dog). All complements at once. It says nothing of the paper.",
    ),
}


def missing(scale: Scale, root: Path | None) -> dict[str, str]:
    """Data set of the paper -> that it is not there, and how to get it.

    CIFAR-10 is fetched if need be, as by any other command; the others are not, and the items do without them.
    """
    whole = cifar.is_there if scale.features is None else images_are_there
    there = {"cifar100": whole("cifar100", root), "clothing1m": clothing1m.is_there(data_root(root))}
    if scale.features is not None:
        there |= {"cifar10n": cifarn.is_there("cifar10n", root)}
        there |= {"cifar100n": there["cifar100"] and cifarn.is_there("cifar100n", root)}
    return {name: how_to_get(name, scale) for name in there if name not in scale.stands_for or not there[name]}


def how_to_get(name: str, scale: Scale) -> str:
    """One line for a data set that is not there."""
    origin = DATASETS[name].origin
    if name not in scale.stands_for:
        more = "; it is for --scale paper, and its authors give it" if name == "clothing1m" else ""
        return f"{DATA_NAMES[name]} is not part of scale {scale.name}{more} ({origin})"
    if name == "clothing1m":
        place = "put it into DIR/clothing1m, --data-root DIR"
        return f"Clothing1M is not there: ask its authors for it ({origin}) and {place}"
    if name.endswith("n"):
        return (
            f"{DATA_NAMES[name]} is not there: put the images and the human labels ({origin}) into DIR, --data-root DIR"
        )
    place = "put cifar-100-binary.tar.gz, or the folder in it, into DIR, --data-root DIR"
    return f"The images of CIFAR-100 are not there: get the binary version ({origin}) and {place}"
