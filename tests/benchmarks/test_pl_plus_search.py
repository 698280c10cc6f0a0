"""The search for forms of PL+: its loop is what the method does, and the committed page is what the rows say."""

import numpy as np
import pytest
import torch
from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script
from torch import nn

from jnpl.data.loading.batches import Batch, Rows
from jnpl.losses import complement
from jnpl.methods.base import Task
from jnpl.methods.jnpl_stable import JNPLStable


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/pl_plus_search.py")


class Replayed(JNPLStable):
    """The method with the uniform numbers of the search."""

    def uniforms(self, *_):
        return self.drawn[:, None]


def drawn(labels, seed, classes):
    generator = torch.Generator().manual_seed(seed)
    complements = (labels[:, None] + torch.randint(1, classes, (len(labels), 1), generator=generator)) % classes
    return complements, torch.rand(len(labels), generator=generator)


@pytest.mark.parametrize("progress", [0.0, 0.5])
def test_a_step_of_the_search_is_a_step_of_the_method(script, progress, monkeypatch):
    classes, labels = 5, torch.arange(40) % 5
    complements, uniforms = drawn(labels, 7, classes)
    monkeypatch.setattr(complement, "sample", lambda *_: complements)
    logits = 4 * torch.randn(len(script.FORMS), 40, classes, generator=torch.Generator().manual_seed(0))
    filters = script.Filters([*script.FORMS], labels, classes)
    filters.begin_epoch(progress)
    filters.nl_alone = torch.tensor([progress < each.nl_share for each in filters.settings])  # as if no class were lost
    wanted = 0.0
    for own, settings in zip(logits, filters.settings, strict=True):
        task = Task(lambda _: nn.Linear(1, classes), labels, classes)
        method = Replayed(task, settings)
        method.drawn = uniforms
        method.epoch, method.epochs = round(100 * progress), 100
        method.begin_epoch(None)
        method.model.forward = lambda _, own=own: own
        wanted += method(Batch(torch.zeros(40, 1), labels, torch.arange(40), None, Rows(0, 40, 40), ())).loss.item()
    found = filters.loss(logits, labels, torch.Generator().manual_seed(7)).item()
    assert found == pytest.approx(wanted, rel=1e-5)


def test_a_filter_with_lost_classes_returns_to_nl(script):
    labels = torch.arange(400) % 4
    filters = script.Filters(["p / mean p", "p / mean p, NL if lost"], labels, 4)
    filters.predicted = torch.tensor([[200.0, 100, 95, 5], [200, 100, 95, 5]])
    filters.begin_epoch(0.5)
    assert filters.nl_alone.tolist() == [False, True]
    filters.predicted = torch.tensor([[200.0, 100, 90, 10]] * 2)
    filters.begin_epoch(0.5)
    assert filters.nl_alone.tolist() == [False, False]


def test_results_by_hand(script):
    quality, given, true = np.array([0.9, 0.2, 0.4, 0.8]), np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])
    told = script.judged(quality, given, true, np.array([4, 0]))
    assert told == pytest.approx({"ap": (1 + 2 / 3) / 2, "p_right": 0.65, "p_wrong": 0.5, "lost": 1})


def test_the_committed_page_is_what_the_rows_say(script):
    page = (ROOT / "docs/results/pl-plus.md").read_text("utf-8")
    assert script.page(page) == page
    assert page.count("<!-- results of ") == 5
