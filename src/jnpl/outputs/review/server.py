"""The web server of a review: FastAPI behind `RequestChecks`, on one address, until it is interrupted."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from jnpl.internal.errors import InputError
from jnpl.outputs.review.decisions import Action, ConflictError, NewDecision
from jnpl.outputs.review.ranking import Filter
from jnpl.outputs.review.request_checks import Access, RequestChecks
from jnpl.outputs.review.review_session import FORMATS, ReviewSession
from jnpl.outputs.review.samples import LARGE, SMALL

if TYPE_CHECKING:
    from jnpl.outputs.audit_session import AuditSession

DEFAULT_PORT = 8765
MAX_BATCH = 1000  # decisions of one request
MAX_PAGE = 200  # samples of one answer
_FILES = {
    "review.css": ("jnpl.outputs.review", "page/review.css", "text/css"),
    "review.js": ("jnpl.outputs.review", "page/review.js", "text/javascript"),
    "sample.js": ("jnpl.outputs.review", "page/sample.js", "text/javascript"),
    "audit.js": ("jnpl.outputs.review", "page/audit.js", "text/javascript"),
    "icon.svg": ("jnpl.outputs.review", "page/icon.svg", "image/svg+xml"),
    "report.css": ("jnpl.outputs.report", "report.css", "text/css"),  # colours, letters and tables of the report
}
_MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "label-studio": "application/json"}
_ANY = ("0.0.0.0", "[::]")  # noqa: S104 - addresses that the user may give
_HTTP_PORT = 80  # browsers leave it out of Host and Origin
_SHUTDOWN = 3  # seconds for requests that are under way


class TabBody(BaseModel):
    """A request of a tab of the browser: to undo its last batch, or to learn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tab: str = Field(min_length=1, max_length=64)


class DecisionBody(BaseModel):
    """A decision as the page sends it; `seen` is the number of the decision that the page showed, 0 for none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    position: int = Field(ge=0)
    action: Action
    label: int | Annotated[str, Field(pattern=r"^(-|\d{1,5}(,\d{1,5})*)$", max_length=60_000)] | None = None
    seen: int = Field(ge=0)


class DecideBody(TabBody):
    """A batch of decisions."""

    reviewer: str = Field(min_length=1, max_length=80)
    decisions: list[DecisionBody] = Field(min_length=1, max_length=MAX_BATCH)


class AnswerBody(TabBody):
    """The answer to one label of an audit: the right class number, or -1 for wrong, -2 for unsure."""

    reviewer: str = Field(min_length=1, max_length=80)
    position: int = Field(ge=0)
    label: int = Field(ge=-2)


class MoreBody(TabBody):
    """A request for more labels to check."""

    count: int = Field(ge=1, le=MAX_BATCH)


class PageQuery(Filter):
    """A page of a list."""

    offset: int = Field(0, ge=0)
    limit: int = Field(24, ge=1, le=MAX_PAGE)


class SampleQuery(Filter):
    """A sample, by position or by its place in a list."""

    position: int | None = Field(None, ge=0)
    index: int | None = Field(None, ge=0)


def make_app(
    session: ReviewSession,
    audit: AuditSession | None,
    access: Access,
    *,
    title: str,
    reviewer: str,
    home: Literal["review", "audit"] = "review",
) -> RequestChecks:
    """Return the application of a review, and of an audit if the run can have one; `home` is the page that opens first.

    `reviewer` is the name that decisions have unless the page gives another one.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        session.samples.start()
        yield
        session.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    _add_errors(app, session)
    _add_files(app, session, home)
    _add_answers(app, session, title, reviewer)
    if audit is not None:
        _add_audit(app, audit, session, {"title": title, "reviewer": reviewer, "classes": session.names})
    return RequestChecks(app, access)


def _add_errors(app: FastAPI, session: ReviewSession) -> None:
    @app.exception_handler(InputError)
    def wrong(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"error": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(ConflictError)
    def conflict(_: Request, error: ConflictError) -> JSONResponse:
        decisions = [session.shown_decision(decision) for decision in error.decisions]
        return JSONResponse({"error": str(error), "conflicts": decisions, "positions": error.positions}, 409)


def _add_files(app: FastAPI, session: ReviewSession, home: str) -> None:
    def page(name: str) -> Response:
        content = (resources.files("jnpl.outputs.review") / f"page/{name}.html").read_bytes()
        return Response(content, media_type="text/html; charset=utf-8")

    for path, name in (("/", home), ("/review", "review"), ("/audit", "audit")):
        app.get(path)(partial(page, name))

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in _FILES:
            return PlainTextResponse("no such file", 404)
        package, path, kind = _FILES[name]
        return Response((resources.files(package) / path).read_bytes(), media_type=f"{kind}; charset=utf-8")

    @app.get("/image/{position}")
    def image(position: int, *, small: bool = False) -> Response:
        if not 0 <= position < len(session.findings.ids):
            return PlainTextResponse("no such sample", 404)
        picture = session.samples.picture(position, SMALL if small else LARGE)
        if picture is None:
            return PlainTextResponse("no picture", 404)
        headers = {"cache-control": "private, max-age=3600"}
        return Response(picture[0], media_type=picture[1], headers=headers)

    @app.get("/export/{kind}")
    def export(kind: str) -> Response:
        if kind not in FORMATS:
            return PlainTextResponse("no such format", 404)
        headers = {"content-disposition": f'attachment; filename="decisions{FORMATS[kind]}"'}
        return Response(session.export(kind), media_type=_MEDIA[kind], headers=headers)


def run_facts(session: ReviewSession, title: str, reviewer: str) -> dict[str, Any]:
    """Return what the page asks for first."""
    samples = session.samples
    return {
        "title": title,
        "reviewer": reviewer,
        "kind": samples.kind,
        "classes": session.names,
        "tags": session.tag_names,
        "samples": len(session.findings.ids),
        "lists": {
            "duplicates": None if samples.duplicate_groups is None else int((samples.duplicate_groups >= 0).sum()),
            "outliers": None if samples.outliers is None else int(samples.outliers.sum()),
        },
        "groups": [{"column": column, "group": name, "samples": count} for column, name, count in session.groups],
        "noise": session.noise_sentence(),
        "status": session.status(),
    }


def _add_answers(app: FastAPI, session: ReviewSession, title: str, reviewer: str) -> None:
    app.get("/api/status")(session.status)
    app.get("/api/examples/{position}")(session.examples)
    app.get("/api/pairs")(session.pairs)

    @app.get("/api/run")
    def run() -> dict[str, Any]:
        return run_facts(session, title, reviewer)

    @app.get("/api/list")
    def listed(query: Annotated[PageQuery, Query()]) -> dict[str, Any]:
        return session.page(query, query.offset, query.limit)

    @app.get("/api/sample")
    def sample(query: Annotated[SampleQuery, Query()]) -> dict[str, Any]:
        return session.sample(query, query.position, query.index)

    @app.get("/api/similar/{position}")
    def similar(position: int, limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 24) -> dict[str, Any]:
        return session.similar(position, limit)

    @app.post("/api/decide")
    def decide(body: DecideBody) -> dict[str, Any]:
        wanted = [
            NewDecision(new.position, new.action, session.label_of(new.label), new.seen) for new in body.decisions
        ]
        return session.decide(wanted, reviewer=body.reviewer, tab=body.tab)

    @app.post("/api/undo")
    def undo(body: TabBody) -> dict[str, Any]:
        return session.undo(body.tab)

    @app.post("/api/learn")
    def learn(_: TabBody) -> dict[str, Any]:
        return session.learn()


def _add_audit(app: FastAPI, audit: AuditSession, session: ReviewSession, shown: dict[str, Any]) -> None:
    def state() -> dict[str, Any]:
        """Return what the page shows: the next label to check, or the result, which is no secret when all are."""
        facts = audit.facts()
        item = next((at for at in facts.positions if at not in facts.labels), None)
        now = shown | {"drawn": len(facts.positions), "answered": len(facts.labels)}
        if item is None:
            return now | {"item": None, "result": audit.result()}
        return now | {"item": session.blind(item)}

    @app.get("/api/audit")
    def read() -> dict[str, Any]:
        session.samples.wait()
        return state()

    @app.post("/api/audit/answer")
    def answer(body: AnswerBody) -> dict[str, Any]:
        facts = audit.answer([(body.position, body.label)], body.reviewer)
        if len(facts.labels) == len(facts.positions):
            audit.apply()
        return state()

    @app.post("/api/audit/undo")
    def undo(_: TabBody) -> dict[str, Any]:
        audit.undo()
        return state()

    @app.post("/api/audit/more")
    def more(body: MoreBody) -> dict[str, Any]:
        audit.extend(body.count)
        return state()


@dataclass(frozen=True)
class Address:
    """A socket that listens, and how browsers call it."""

    listening: socket.socket
    host: str

    @property
    def port(self) -> int:
        """The port that was asked for, or the free one that was found."""
        return int(self.listening.getsockname()[1])

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the header Host: the name that was given; for this machine also its other names."""
        names = {self.host}
        if is_local(self.host) or self.host in _ANY:
            names |= {"127.0.0.1", "localhost", "[::1]"}
        if self.host in _ANY:
            names |= {socket.gethostname(), socket.getfqdn()}
            with suppress(OSError):
                addresses = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
                names |= {str(info[4][0]) for info in addresses}
        ports = (f":{self.port}", "") if self.port == _HTTP_PORT else (f":{self.port}",)
        return frozenset(f"{name.lower()}{port}" for name in names for port in ports)

    def link(self, token: str) -> str:
        """The address to open."""
        host = socket.gethostname() if self.host in _ANY else self.host
        return f"http://{host}:{self.port}/?token={quote(token, safe='')}"


def is_local(host: str) -> bool:
    """Return whether only programs on this machine can reach a host.

    >>> is_local("127.0.0.1"), is_local("localhost"), is_local("0.0.0.0")
    (True, True, False)
    """
    return host in ("127.0.0.1", "localhost", "[::1]", "::1")


def listen(host: str, port: int | None) -> Address:
    """Return a listening socket; without a port, on 8765 or, if that is taken, on any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    name = host.strip("[]")
    try:
        try:
            listening = socket.create_server((name, DEFAULT_PORT if port is None else port), family=family)
        except OSError:
            if port is not None:
                raise
            listening = socket.create_server((name, 0), family=family)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port or 0}: {error.strerror or error}") from error
    return Address(listening, f"[{name}]" if family == socket.AF_INET6 else host)


def serve(app: Any, address: Address, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests that are under way are answered first."""
    import uvicorn  # noqa: PLC0415 - part of the extra, as FastAPI is

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN,
        ws="none",
    )
    server = Server(config)

    def stop(_number: int, _frame: Any) -> None:
        server.force_exit, server.should_exit = server.should_exit, True  # the second signal does not wait

    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]  # which would raise the signal again at the end
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run([address.listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        address.listening.close()
