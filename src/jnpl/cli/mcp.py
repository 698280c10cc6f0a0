"""`jnpl mcp`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer

    from jnpl.judging.findings import Findings
    from jnpl.run_folder import RunFolder

_INSTRUCTIONS = (
    "jnpl finds wrong labels in a data set. Call find once (minutes on large data; the same call continues a run that "
    "was stopped), then summary and suspects. Label quality lies in 0..1, lower is worse. A suspect is not proven "
    "wrong: look at its sample before you decide. Paths are relative to the folder of the server."
)
_MOST = 200  # suspects per call
_PICTURES = 20  # of them with a picture


class AgentDecision(BaseModel):
    """One decision of the tool `decide`."""

    model_config = ConfigDict(extra="forbid")

    id: str | int = Field(description="The id of the sample, as suspects lists it.")
    action: Literal["keep", "relabel", "drop", "unsure"]
    label: str | None = Field(None, description="With relabel: the right class.")


def mcp(
    root: Annotated[Path, typer.Argument(help="The folder of data and runs; nothing outside is read or written.")] = (
        Path()
    ),
    *,
    allow_decisions: Annotated[
        bool,
        typer.Option(
            "--allow-decisions", help="Also offer decide and apply: record decisions, write corrected labels."
        ),
    ] = False,
    reviewer: Annotated[str, typer.Option(help="The name beside the decisions.")] = "agent",
) -> None:
    """Let an agent find wrong labels: an MCP server on standard input and output (extra mcp).

    The tools find, summary and suspects write run folders and nothing else. With --allow-decisions there are decide and
    apply too; data are never changed, corrected labels go to new files.
    """
    require("mcp", "mcp")
    if not root.is_dir():
        raise InputError(f"ROOT must be a folder, got {str(root)!r}")
    make_server(root.resolve(), reviewer=reviewer[:80] if allow_decisions else None).run("stdio")


def make_server(root: Path, *, reviewer: str | None = None) -> "MCPServer[Any]":  # noqa: C901 - a list of tools
    """Return the server of a folder; decisions are allowed in the name of a reviewer."""
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations

    from jnpl._version import __version__
    from jnpl.run_folder import RunFolder

    class OneLineServer(MCPServer[Any]):
        """Answers a mistake with one line."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                raise ToolError(_line(error)) from error.__cause__

    server = OneLineServer("jnpl", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")

    def inside(path: str) -> Path:
        """Return a path below the folder of the server, or raise an InputError."""
        place = (root / path).resolve()
        if not path.strip() or "\0" in path or not place.is_relative_to(root):
            raise InputError(f"{path!r} is not inside {str(root)!r}, the folder of this server")
        return place

    def opened(run: str) -> RunFolder:
        folder = RunFolder(inside(run))
        _ = folder.findings  # no run: an error
        return folder

    async def find(
        context: Context,
        data: str,
        run: str,
        label_column: str | None = None,
        text_column: str | None = None,
        image_column: str | None = None,
        budget: int | None = None,
        quality: Literal["fast", "auto", "best"] = "auto",
    ) -> dict[str, Any]:
        """Find wrong labels: train on DATA and write a run folder.

        DATA is a folder of images with one sub-folder per class, a table (.csv, .tsv, .parquet) or an .npz; RUN a new
        folder. Columns are of a table. budget: how many suspects to list. Returns counts, the estimated share of wrong
        labels and the worst 20 suspects.
        """
        if not (place := inside(data)).exists():
            raise InputError(f"there is no {data!r} in {str(root)!r}")
        options = {
            "--label-column": label_column,
            "--text-column": text_column,
            "--image-column": image_column,
            "--budget": budget,
            "--quality": None if quality == "auto" else quality,
        }
        return await _command(context, root, ["find", "-o", str(inside(run)), *_arguments(options), "--", str(place)])

    def summary(run: str) -> dict[str, Any]:
        """Return what a run says now: samples, suspects left, decided labels, the share of wrong labels in words and
        numbers, accuracies, the classes with their counts, and the most frequent confusions."""
        return _summary(opened(run))

    def suspects(
        run: str,
        limit: Annotated[int, Field(ge=1, le=_MOST)] = 20,
        offset: Annotated[int, Field(ge=0)] = 0,
        given_label: str | None = None,
        suggested_label: str | None = None,
        pictures: bool = False,
    ) -> list[str | Image]:
        """Return undecided suspects as JSON, worst first: id, given and suggested label, label quality, confidence,
        path or excerpt of the sample.

        Filter by given_label and suggested_label. With pictures, the small pictures of the first 20 of them follow, in
        the order of "pictures", a list of ids.
        """
        folder = opened(run)
        table = _suspects(folder, given_label, suggested_label)
        rows = table.iloc[offset : offset + limit]
        stored = folder.thumbnails() if pictures else {}
        shown = [(row["id"], stored[at]) for at, row in rows.iterrows() if at in stored][:_PICTURES]
        answer = {"total": len(table), "offset": offset, "suspects": json.loads(rows.to_json(orient="records"))}
        if pictures:
            answer["pictures"] = [str(name) for name, _ in shown]
        return [json.dumps(answer, ensure_ascii=False), *(Image(data=data, format=_kind(data)) for _, data in shown)]

    def decide(run: str, decisions: list[AgentDecision]) -> dict[str, Any]:
        """Record decisions about samples: keep, relabel (with label), drop or unsure. All are recorded, or none.

        A later decision about a sample replaces the earlier one. People see them in `jnpl review`, with your name.
        """
        return _decide(opened(run), decisions, reviewer or "")

    async def apply(
        context: Context,
        run: str,
        out: str | None = None,
        copy: str | None = None,
        drop: bool = False,
        min_confidence: float | None = None,
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Write corrected labels to a table (OUT, default corrected.csv in the run); the data stay as they are.

        Decisions are used; without any, suggestions that are expected to help. COPY: a new folder for images sorted by
        corrected class. drop: leave out suspects without a better label. min_confidence: also take all suggestions of
        at least this confidence. overwrite: replace the table of an earlier call.
        """
        opened(run)
        options = {
            "--out": None if out is None else str(inside(out)),
            "--copy": None if copy is None else str(inside(copy)),
            "--min-confidence": min_confidence,
        }
        flags = [name for name, wanted in (("--drop", drop), ("--overwrite", overwrite)) if wanted]
        return await _command(context, root, ["apply", *_arguments(options), *flags, "--", str(inside(run))])

    for tool in (find, summary, suspects, *((decide, apply) if reviewer is not None else ())):
        reads = tool in (summary, suspects)
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=False)
        server.add_tool(tool, annotations=hints)
    return server


def _arguments(options: dict[str, Any]) -> list[str]:
    """Return options of a command line, without those that are not given."""
    return [f"{name}={value}" for name, value in options.items() if value is not None]


async def _command(context: "Context[Any, Any]", root: Path, arguments: list[str]) -> dict[str, Any]:
    """Run a command of jnpl in a process of its own, whose lines are told as progress; return its JSON.

    Standard output belongs to the protocol here; and the process ends when the call is cancelled.
    """
    import anyio
    from anyio.streams.text import TextReceiveStream

    command = [sys.executable, "-m", "jnpl", arguments[0], "--json", *arguments[1:]]
    lines, output = [""], list[str]()
    async with (
        await anyio.open_process(command, stdin=DEVNULL, cwd=root) as process,
        anyio.create_task_group() as tasks,
    ):
        pipes = [TextReceiveStream(pipe, errors="replace") for pipe in (process.stdout, process.stderr) if pipe]

        async def read_output() -> None:
            output.extend([part async for part in pipes[0]])

        tasks.start_soon(read_output)
        async for part in pipes[1]:
            lines[-1:] = (lines[-1] + part).split("\n")
            if "\n" in part:
                await context.report_progress(len(lines) - 1, None, lines[-2].removeprefix("jnpl: "))
    if process.returncode != 0:
        last = next((line for line in reversed(lines) if line.strip()), f"jnpl {arguments[0]} failed")
        raise InputError(last.removeprefix("jnpl: "))
    result: dict[str, Any] = json.loads("".join(output))
    return result


def _summary(folder: "RunFolder") -> dict[str, Any]:
    import numpy as np

    from jnpl.cli.summary import facts
    from jnpl.internal.provenance import plain

    findings, stored = folder.findings, folder.run_facts
    counts = np.bincount(findings.given_labels, minlength=findings.num_classes).tolist()
    results = {} if stored.results is None else stored.results.model_dump(exclude_none=True)
    now = {name: value for name, value in facts(folder, 0).items() if name != "suspects"}
    about = {"run": str(folder.path), "data": stored.data, "samples": len(findings.ids)}
    classes = dict(zip(map(str, findings.names), counts, strict=True))
    whole: dict[str, Any] = plain({**results, **about, "classes": classes, **now})
    return whole


def _suspects(folder: "RunFolder", given_label: str | None, suggested_label: str | None) -> Any:
    """Return the rows of the undecided suspects by position, worst first."""
    from jnpl.outputs.review.reviewed_labels import reviewed_run

    findings = reviewed_run(folder).findings
    table = findings.table.iloc[findings.worst_positions(int(findings.is_label_issue.sum()))]
    wanted = {"given_label": given_label, "suggested_label": suggested_label}
    for column, name in wanted.items():
        if name is not None:
            _number_of(name, findings)
            table = table[table[column].astype(str) == name]
    return table.drop(columns=["is_label_issue"])


def _number_of(name: str, findings: "Findings") -> int:
    """Return the number of a class."""
    names = [*map(str, findings.names)]
    if name not in names:
        raise InputError(f"there is no class {name!r}; the run has {', '.join(names[:20])}")
    return names.index(name)


def _decide(folder: "RunFolder", decisions: Sequence[AgentDecision], reviewer: str) -> dict[str, Any]:
    from jnpl.outputs.review.decisions import NewDecision, open_store
    from jnpl.outputs.review.review_session import ReviewSession
    from jnpl.outputs.review.samples import Samples

    findings = folder.findings
    place = {str(name): at for at, name in enumerate(findings.ids.tolist())}
    rows = []
    for decision in decisions:
        if (at := place.get(str(decision.id))) is None:
            raise InputError(f"there is no sample with the id {str(decision.id)!r}")
        if (decision.action == "relabel") != (decision.label is not None):
            raise InputError(f"sample {str(decision.id)!r}: a label goes with relabel, and with no other action")
        rows.append((at, decision.action, None if decision.label is None else _number_of(decision.label, findings)))
    with closing(open_store(folder)) as store:
        seen = {decision.position: decision.number for decision in store.read([row[0] for row in rows])}
    with closing(ReviewSession(folder, Samples(folder, None, "the samples are not shown"))) as session:
        made = session.decide([NewDecision(*row, seen.get(row[0], 0)) for row in rows], reviewer=reviewer, tab="mcp")
    return {"recorded": len(made["decisions"]), "counts": made["counts"]}


def _kind(picture: bytes) -> str:
    from jnpl.internal.pictures import media_type

    return (media_type(picture) or "image/jpeg").partition("/")[2]


def _line(error: Exception) -> str:
    """Return the line for a tool that failed."""
    from jnpl.cli.app import error_line

    cause = error.__cause__
    if isinstance(cause, ValidationError):
        return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in cause.errors())
    message = error_line(cause) if isinstance(cause, Exception) else None
    return " ".join((message or str(error)).split())
