"""`jnpl mcp`, with the SDK's own client: over stdio as an agent starts it, and in this process."""

import asyncio
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import many_findings

import jnpl
from jnpl.cli.mcp import make_server
from jnpl.run_folder import RunFolder

mcp = pytest.importorskip("mcp")
TOOLS = ["find", "summary", "suspects"]


def conversation(server, *calls):
    """The tools of a server, and for each call (is it an error, the contents, the progress)."""

    async def talk():
        answers = []
        async with mcp.Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            for name, arguments in calls:
                steps = []

                async def note(_done, _total, message, steps=steps):
                    steps.append(message)

                answer = await client.call_tool(name, arguments, progress_callback=note)
                answers.append((bool(answer.is_error), answer.content, steps))
        return tools, answers

    return asyncio.run(talk())


def text(answer):
    return answer[1][0].text


def facts(answer):
    assert not answer[0], text(answer)
    return json.loads(text(answer))


@pytest.fixture
def folder(tmp_path):
    """A folder with a run without a training: 200 samples of 3 classes."""
    many_findings(200, 3, 0.3, class_names=["cat", "=dog", "eel"], threshold="auto").save(tmp_path / "run")
    return tmp_path


def test_an_agent_finds_decides_and_applies_over_stdio(tmp_path):
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    vectors = random.normal(size=(120, 130)) + 4 * labels[:, None] * (np.arange(130) < 5)
    given = labels.copy()
    given[[3, 70]] = 1 - given[[3, 70]]
    np.savez(tmp_path / "data.npz", x=vectors.astype(np.float32), y=given)
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "jnpl", "mcp", str(tmp_path), "--allow-decisions", "--reviewer", "curator"],
        env={"PYTHONPATH": str(Path(jnpl.__file__).parent.parent), "HOME": os.environ.get("HOME", str(tmp_path))},
    )
    tools, answers = conversation(
        server,
        ("find", {"data": "data.npz", "run": "run"}),
        ("summary", {"run": "run"}),
        ("suspects", {"run": "run", "limit": 2}),
        ("decide", {"run": "run", "decisions": [{"id": 3, "action": "relabel", "label": "0"}]}),
        ("apply", {"run": "run", "out": "fixed.csv"}),
        ("apply", {"run": "run", "out": "fixed.csv"}),
        ("find", {"data": "data.npz", "run": "other", "label_column": "nope"}),
    )
    assert tools == [*TOOLS, "decide", "apply"]
    found, summary, listed, decided, applied = map(facts, answers[:5])
    assert any("120 samples" in line for line in answers[0][2])  # told while it runs
    assert (found["samples"], summary["classes"]) == (120, {"0": 60, "1": 60})
    assert {row["id"] for row in listed["suspects"]} == {3, 70}
    assert decided["recorded"] == 1
    assert (applied["changed"], applied["reviewed"]) == (1, 1)
    table = pd.read_csv(tmp_path / "fixed.csv")
    assert table.loc[table["changed"], "id"].tolist() == [3]
    assert [answer[0] for answer in answers[5:]] == [True, True]
    assert "is there already" in text(answers[5])
    assert "label-column" in text(answers[6]) or "label_column" in text(answers[6])
    assert not (tmp_path / "other").exists()


def test_without_permission_nothing_is_decided(folder):
    before = {path.name: path.read_bytes() for path in (folder / "run").iterdir()}
    tools, answers = conversation(
        make_server(folder), ("decide", {"run": "run", "decisions": []}), ("suspects", {"run": "run"})
    )
    assert tools == TOOLS
    assert (answers[0][0], text(answers[0])) == (True, "Unknown tool: decide")
    assert facts(answers[1])["total"] > 0
    assert {path.name: path.read_bytes() for path in (folder / "run").iterdir()} == before


def test_decisions_are_those_of_the_review(folder):
    _, answers = conversation(make_server(folder), ("suspects", {"run": "run", "limit": 200}))
    listed = facts(answers[0])["suspects"]
    one, two, three, *_ = [row["id"] for row in listed]
    given = {row["id"]: row["given_label"] for row in listed}
    choose = [{"id": one, "action": "relabel", "label": given[one]}, {"id": two, "action": "drop"}]
    _, answers = conversation(
        make_server(folder, reviewer="curator"),
        ("decide", {"run": "run", "decisions": choose}),
        ("decide", {"run": "run", "decisions": [{"id": str(two), "action": "unsure"}]}),
        ("decide", {"run": "run", "decisions": [{"id": three, "action": "keep"}, {"id": "x", "action": "keep"}]}),
        ("suspects", {"run": "run"}),
        ("summary", {"run": "run"}),
    )
    counts = facts(answers[1])["counts"]
    assert counts["actions"] == {"keep": 1, "relabel": 0, "drop": 0, "unsure": 1}  # its own label is kept
    assert answers[2][0]  # all or none
    left = facts(answers[3])
    assert left["total"] == counts["suspects"] == facts(answers[4])["issues"]
    assert one not in [row["id"] for row in left["suspects"]]
    from jnpl.outputs.review.decisions import as_rows, open_store

    run = RunFolder(folder / "run")
    store = open_store(run)
    assert {row["reviewer"] for row in as_rows(store, run.findings)} == {"curator"}
    store.close()


def test_suspects_are_filtered_paged_and_pictured(folder, monkeypatch):
    run = RunFolder(folder / "run")
    worst = run.findings.worst_positions(5).tolist()
    png = b"\x89PNG\r\n\x1a\n"
    monkeypatch.setattr(RunFolder, "thumbnails", lambda _: dict.fromkeys(worst[1:3], png))
    _, answers = conversation(
        make_server(folder),
        ("suspects", {"run": "run", "given_label": "=dog", "limit": 3}),
        ("suspects", {"run": "run", "offset": 1, "limit": 2, "pictures": True}),
    )
    dogs, page = map(facts, answers)
    assert {row["given_label"] for row in dogs["suspects"]} == {"=dog"}
    assert 3 <= dogs["total"] < page["total"]
    assert [row["id"] for row in page["suspects"]] == worst[1:3]
    assert page["pictures"] == [str(at) for at in worst[1:3]]
    assert [(block.type, block.mime_type) for block in answers[1][1][1:]] == [("image", "image/png")] * 2


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("find", {"data": "../x", "run": "r"}, "is not inside"),
        ("find", {"data": "run", "run": "/tmp/r"}, "is not inside"),
        ("find", {"data": "nope.csv", "run": "r"}, "there is no 'nope.csv'"),
        ("find", {"data": "", "run": "r"}, "is not inside"),
        ("find", {"data": "--help", "run": "r"}, "there is no '--help'"),
        ("find", {"data": "run", "run": "r", "quality": "great"}, "quality: Input should be"),
        ("summary", {"run": "nope"}, "holds no findings"),
        ("summary", {}, "run: Field required"),
        ("suspects", {"run": "run", "limit": 0}, "limit: Input should be greater"),
        ("suspects", {"run": "run", "given_label": "fish"}, "there is no class 'fish'; the run has cat, =dog, eel"),
        ("decide", {"run": "run", "decisions": [{"id": 0, "action": "keep", "label": "cat"}]}, "goes with relabel"),
        ("decide", {"run": "run", "decisions": [{"id": 0, "action": "relabel"}]}, "goes with relabel"),
        ("decide", {"run": "run", "decisions": [{"id": 0, "action": "delete"}]}, "decisions.0.action"),
        ("decide", {"run": "run", "decisions": [{"id": 0, "action": "keep"}] * 2}, "decided twice"),
        ("apply", {"run": "run", "out": "../x.csv"}, "is not inside"),
        ("apply", {"run": "run", "min_confidence": 2}, "min-confidence"),
        ("apply", {"run": "nope"}, "holds no findings"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(folder, tool, arguments, message):
    before = sorted(folder.rglob("*"))
    _, (answer,) = conversation(make_server(folder, reviewer="agent"), (tool, arguments))
    assert answer[0]
    assert message in text(answer)
    assert "\n" not in text(answer)
    assert [path for path in sorted(folder.rglob("*")) if path not in before and "sqlite" not in path.name] == []


def test_a_root_that_is_no_folder_is_refused(refused, tmp_path):
    (tmp_path / "file").touch()
    assert "ROOT must be a folder, got 'file'" in refused("mcp", "file")
