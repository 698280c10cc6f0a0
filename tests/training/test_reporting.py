"""Plain lines where nobody watches, a bar on a terminal, silence when asked; stdout stays clean."""

import io
import time

import pytest
import torch
from rich.console import Console

from jnpl.training.loop import Position
from jnpl.training.reporting import Reporter

LINE = {"epoch": 0, "lr": 0.1, "loss": 1.23456, "test_accuracy": 0.5}


@pytest.fixture
def report():
    reporter = Reporter()
    reporter.console = Console(file=io.StringIO(), force_terminal=False, width=40, highlight=False)
    return reporter


def told(reporter):
    return reporter.console.file.getvalue()


def test_it_speaks_on_stderr(capsys):
    Reporter().note("a long line [with brackets] " + "x" * 200)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "jnpl: a long line [with brackets] " + "x" * 200 + "\n"


def test_a_line_an_epoch(report):
    position = Position(sums={"loss": torch.tensor(2.0)}, samples=2, step=1)
    with report.training(3, 5, position):
        report.step(position, 0.1)
        report.epoch(LINE)
        report.epoch({**LINE, "epoch": 1})
    assert told(report).splitlines() == [
        "epoch 1/3  lr 0.1  loss 1.235  test_accuracy 0.5",
        "epoch 2/3  lr 0.1  loss 1.235  test_accuracy 0.5",
    ]


def test_silence(report):
    report.quiet(True)
    with report.training(3, 5, Position()):
        report.note("hello")
        report.epoch(LINE)
    assert told(report) == ""


def test_a_bar_on_a_terminal_from_where_the_run_stands(report):
    report.console = Console(file=io.StringIO(), force_terminal=True, width=200)
    position = Position(epoch=1, step=2, sums={"loss": torch.tensor(8.0)}, samples=1_000_000)
    with report.training(4, 5, position):
        bar, task = report._bar, report._bar.tasks[0]
        assert (task.completed, task.total) == (7, 20)
        position.step += 1
        position.samples += 10
        time.sleep(0.01)
        report.step(position, 0.25)
        assert task.completed == 8
        assert "epoch 2/4" in task.description
        assert "lr 0.25" in task.description
        # The speed is this process's own: a resumed epoch does not count what was seen before.
        assert float(task.description.split()[-1].removesuffix("/s").replace(",", "")) <= 1000
        report.epoch(LINE)
        assert report._bar is bar
    assert report._bar is None
    assert "epoch 1/4" not in told(report)


def test_the_bar_goes_when_a_run_is_interrupted(report):
    report.console = Console(file=io.StringIO(), force_terminal=True, width=200, highlight=False)
    with pytest.raises(ZeroDivisionError), report.training(4, 5, Position()):
        _ = 1 / 0
    assert report._bar is None
    report.epoch(LINE)
    assert "epoch 1/4" in told(report)


def test_few_words_for_those_who_want_no_more(report):
    report.verbose = False
    report.choices = ["network: mlp"]
    report.note("12 samples")
    with report.training(3, 5, Position()):
        for epoch in range(3):
            report.epoch({**LINE, "epoch": epoch, "nl_plus": 0.3, "selected": 0.5})
    assert told(report).splitlines() == [
        "jnpl: 12 samples",
        "epoch 1/3  loss 1.235  test_accuracy 0.5",
        "epoch 3/3  loss 1.235  test_accuracy 0.5",
    ]


@pytest.mark.parametrize(
    ("kind", "work"), [("judging", "judging the labels"), ("searching", "looking for duplicates and outliers")]
)
def test_a_share_counts_up_and_reaches_its_end(report, monkeypatch, kind, work):
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with getattr(report, kind)() as show:
        for share in (0.0, 0.2, 0.596, 0.999, 1.0):
            show(share)
    lines = told(report).splitlines()
    assert lines[-1] == f"jnpl: {work}, 100% done"
    shares = [int(line.removeprefix(f"jnpl: {work}, ").removesuffix("% done")) for line in lines]
    assert shares == sorted(shares)
    assert shares.count(100) == 1
    assert len(shares) > 1


def test_quick_work_has_no_lines_and_stopped_work_no_end(report, monkeypatch):
    with report.searching() as show:
        show(1.0)
    assert told(report) == ""
    monkeypatch.setattr("jnpl.training.reporting._LINE_EVERY", 0.0)
    with pytest.raises(TypeError), report.searching() as show:
        _ = 1 / show(0.5)
    assert told(report) == "jnpl: looking for duplicates and outliers, 50% done\n"
