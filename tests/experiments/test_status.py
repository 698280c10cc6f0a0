"""`jnpl.experiments.status`: from files and locks alone."""

import json
import time

import pytest
from tests.helpers.tally import Tally

from jnpl.experiments import results, status
from jnpl.experiments.execute import run_all
from jnpl.internal import locks
from jnpl.internal.errors import InputError

posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks on Windows")


@pytest.fixture
def experiment(tmp_path):
    """A folder with a experiment of seven runs whose processes are imagined."""
    work = tmp_path / "work"
    names = ["done-1", "done-2", "running", "failed", "begun", "new-1", "new-2"]
    for name in names[:5]:
        (work / name).mkdir(parents=True)
        facts = {"command": "id", "start": 1, "began": time.time() - 100, "host": "h", "pid": 1, "parent": 1}
        (work / name / "process.json").write_text(json.dumps(facts))
    for name, took in (("done-1", 20), ("done-2", 40)):
        results.add(tmp_path / results.FILE, {"name": name, "results": {}})
        file = work / name / "process.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "ended": time.time() - 100 + took}))
    (work / "running" / "log").write_text("going on\nepoch 6/45  loss 1\nepoch 7/45  loss 1\nthe epoch 9/45 to come\n")
    (work / "failed" / "failed").write_text("ValueError: no such thing\n")
    facts = {
        "format": "jnpl experiment 1",
        "began": 0.0,
        "engine": "local",
        "jobs": 2,
        "results": "../results.jsonl",
        "runs": names,
    }
    (work / "experiment.json").write_text(json.dumps(facts))
    with locks.take(tmp_path / ".running.lock"):
        yield tmp_path


@posix
def test_runs_are_listed_by_state(experiment):
    progress = status.read(experiment)
    assert progress.done == ["done-1", "done-2"]
    assert progress.running == {"running": pytest.approx(100, abs=5)}
    assert progress.failed == {
        "failed": {"error": "ValueError: no such thing", "log": str(experiment / "work/failed/log")}
    }
    assert (progress.waiting, progress.begun) == (["begun", "new-1", "new-2"], ["begun"])
    assert progress.seconds_left == pytest.approx((3 * 30 + 0) / 2, abs=5)  # the running one is overdue
    assert not progress.at_work
    assert progress.text().split("\n") == [
        "2 of 7 done, 1 running, 3 waiting, 1 failed",
        f"running  running, for {progress.running['running'] / 60:.0f} min, epoch 7 of 45",
        "waiting  begun, begun",
        "waiting  new-1",
        "waiting  new-2",
        f"failed   failed: ValueError: no such thing (see {experiment / 'work/failed/log'})",
        "time left: about 45 s",
        "no experiment is running here: run the same command again to continue",
    ]
    assert json.loads(json.dumps(progress.facts()))["cells"] == 7
    assert status.read(experiment / "work").done == progress.done  # the work folder itself will do


@posix
def test_a_second_command_adds_its_runs(experiment, tally):
    lock, first = locks.join(experiment / "work" / ".experiment.lock")
    with lock:
        assert first
        assert status.read(experiment).at_work
        assert "no experiment" not in status.read(experiment).text()
        specs = [Tally(name="new-2"), Tally(name="other")]
        assert (
            run_all(specs, experiment / results.FILE, experiment / "work", 1, None, lambda _: None, module=tally) == {}
        )
        progress = status.read(experiment)
        assert progress.facts()["cells"] == 8
        assert progress.done == ["done-1", "done-2", "new-2", "other"]
    run_all(specs, experiment / results.FILE, experiment / "work", 1, None, lambda _: None, module=tally)
    assert status.read(experiment).done == ["new-2", "other"]  # alone, the newest call is the experiment


@posix
def test_an_experiment_is_seen_while_it_runs(tmp_path, tally):
    specs = [Tally(name="quick"), Tally(name="broken", fails="it cannot be"), Tally(name="last", steps=3, pause=0.1)]
    seen, file, work = [], tmp_path / results.FILE, tmp_path / "work"

    def say(line):
        if ": " in line:
            seen.append((line, status.read(tmp_path)))

    assert run_all(specs, file, work, 1, None, say, module=tally) == {"broken": "it cannot be"}
    assert [line.split(":")[0] for line, _ in seen] == ["quick", "broken", "last"]
    (_, first), (_, second), (_, third) = seen
    assert first.at_work
    assert (first.done, first.waiting) == (["quick"], ["broken", "last"])
    assert second.failed == {"broken": {"error": "it cannot be", "log": str(work / "broken" / "log")}}
    assert second.seconds_left is not None
    assert (third.done, third.seconds_left) == (["quick", "last"], 0.0)
    assert not status.read(tmp_path).at_work
    run_all([Tally(name="broken"), Tally(name="more")], file, work, None, None, say, module=tally)
    assert json.loads((work / "experiment.json").read_text())["jobs"] == 2  # what None stands for here
    run_all([Tally(name="broken")], file, work, 1, None, say, module=tally)
    assert status.read(tmp_path).failed == {}


def test_where_there_is_no_experiment_one_line_says_so(tmp_path):
    with pytest.raises(InputError, match=r"there is no experiment in .* \(no work/experiment.json\)"):
        status.read(tmp_path)
    strange = '{"format": "jnpl experiment 1", "runs": 5, "results": "r", "engine": "local", "jobs": 1}'
    for text in ("{", "[]", '{"format": "jnpl experiment 9"}', strange):
        (tmp_path / "experiment.json").write_text(text)
        with pytest.raises(
            InputError, match=r"experiment\.json' (cannot be read|cannot be used|is not of an experiment)"
        ):
            status.read(tmp_path)


@posix
def test_before_any_run_is_done_the_running_are_the_measure(experiment):
    (experiment / results.FILE).unlink()
    progress = status.read(experiment)
    assert progress.epochs == {"running": (7, 45)}
    each = 100 * 45 / 7
    assert progress.seconds_left == pytest.approx((5 * each + each - 100) / 2, rel=0.05)  # five wait
