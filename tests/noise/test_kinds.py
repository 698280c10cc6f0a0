"""The table of the kinds of noise, and class maps."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

from jnpl import noise
from jnpl.noise.kinds import CIFAR100_SUPERCLASS, class_map


@pytest.mark.parametrize("kind", list(noise.KINDS))
def test_the_table_of_kinds_fits_the_functions(kind):
    entry = noise.KINDS[kind]
    parameters = inspect.signature(getattr(noise, entry.function)).parameters
    assert {"labels", "num_classes", "seed", *entry.arguments} == set(parameters)
    assert "count" not in entry.options or parameters["count"].default == entry.count


def test_the_table_of_kinds_does_not_import_numpy():
    code = "import sys, jnpl.noise.kinds; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


CIFAR10_NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


# The data set's own table (cs.toronto.edu/~kriz/cifar.html); both levels are numbered alphabetically.
CIFAR100_TABLE = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}


def test_cifar10_by_name():
    arrows = {CIFAR10_NAMES[a]: CIFAR10_NAMES[b] for a, b in class_map("cifar10", 10).items()}
    assert arrows == {
        "truck": "automobile",
        "bird": "airplane",
        "deer": "horse",
        "cat": "dog",
        "dog": "cat",
    }


def test_superclasses_are_those_of_the_data_set():
    fine = sorted(name for members in CIFAR100_TABLE.values() for name in members.split())
    coarse = {name: k for k, members in enumerate(CIFAR100_TABLE.values()) for name in members.split()}
    assert list(CIFAR100_TABLE) == sorted(CIFAR100_TABLE)
    assert [coarse[name] for name in fine] == list(CIFAR100_SUPERCLASS)
    assert np.bincount(CIFAR100_SUPERCLASS).tolist() == [5] * 20


def test_cifar100_stays_inside_the_superclass_and_blocks_do_not():
    def inside(name: str) -> int:
        group = CIFAR100_SUPERCLASS
        return sum(group[a] == group[b] for a, b in class_map(name, 100).items())

    assert inside("cifar100") == 100
    assert inside("cifar100-blocks") == 6


def test_cifar100_maps_by_example():
    superclass = class_map("cifar100", 100)
    assert [superclass[k] for k in (0, 51, 53, 57, 83)] == [51, 53, 57, 83, 0]  # apple ... sweet_pepper
    assert [class_map("cifar100-blocks", 100)[k] for k in (0, 4, 99)] == [1, 0, 95]
    assert [class_map("cifar100-next", 100)[k] for k in (0, 4, 99)] == [1, 5, 0]
