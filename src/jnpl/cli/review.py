"""`jnpl review`."""

# ruff: noqa: PLC0415 - imports inside commands keep `jnpl --help` quick
import getpass
import html
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from jnpl.cli import options
from jnpl.cli.options import TrustCode
from jnpl.internal.errors import InputError
from jnpl.internal.terminal import visible

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.outputs.audit_session import AuditSession
    from jnpl.run_folder import RunFolder

MIN_TOKEN = 16  # characters


def review(
    run: options.RunArgument,
    *,
    data: Annotated[
        str | None, typer.Option(help="Where the data of the run are now. Default: where they were during the run.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any other than this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port. Default: 8765, or a free one if that is taken.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="JNPL_REVIEW_TOKEN",
            show_envvar=False,
            help="Secret in the address, at least 16 characters. Default: JNPL_REVIEW_TOKEN of the environment, which "
            "other users cannot read in the list of processes; else a random one.",
        ),
    ] = None,
    reviewer: Annotated[str | None, typer.Option(help="Your name beside your decisions. Default: user name.")] = None,
    trust_code: TrustCode = False,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Decide about suspects on a local web page, and let the head learn from it.

    Decisions are kept in review.sqlite in the run folder, each as soon as it is made. jnpl apply RUN writes the labels
    that follow from them, and jnpl find or jnpl train with --review RUN trusts them. Ctrl-C ends the server.
    """
    if sys.stderr.isatty():
        typer.echo(f"opening run {visible(run)} ...", err=True)
    from jnpl.run_folder import RunFolder

    folder = RunFolder(run)
    serve_page(folder, Page(data, host, port, token, reviewer, trust_code, show))
    typer.echo(f"decisions: {folder.decisions}; next: jnpl apply {run}", err=True)


class Page(NamedTuple):
    """How `jnpl review` and `jnpl audit` serve their pages: the options of these commands."""

    data: str | None
    host: str
    port: int | None
    token: str | None
    reviewer: str | None
    trust_code: bool
    show: bool


def serve_page(folder: "RunFolder", page: Page, audit: "AuditSession | None" = None) -> None:
    """Serve the review of a run, or its audit, until it is interrupted."""
    from jnpl.internal.importing import require

    for module in ("fastapi", "uvicorn"):
        require(module, "review")
    from jnpl.outputs.audit_session import AuditSession
    from jnpl.outputs.review.request_checks import Access
    from jnpl.outputs.review.review_session import ReviewSession
    from jnpl.outputs.review.samples import Samples
    from jnpl.outputs.review.server import is_local, listen, make_app, serve

    token, host = page.token, page.host
    if token is None and not is_local(host):
        raise InputError(f"--host {host} can be reached from other machines: choose a secret with --token")
    if token is not None and len(token) < MIN_TOKEN:
        raise InputError(f"--token needs at least {MIN_TOKEN} characters, got {len(token)}")
    secret = secrets.token_urlsafe(24) if token is None else token
    _ = folder.sample_findings, folder.run_facts  # damaged ones are an error before a page is shown
    open_data, reason = data_opener(folder, page.data, trust_code=page.trust_code)
    address = listen(host, page.port)
    link = address.link(secret)
    with ExitStack() as opened:
        opened.callback(address.listening.close)
        session = ReviewSession(folder, Samples(folder, open_data, reason, trust_code=page.trust_code))
        title = folder.run_facts.data or folder.path.resolve().name
        app = make_app(
            session,
            audit or (None if folder.has_tags else AuditSession(folder)),
            Access(secret, address.hosts),
            title=title,
            reviewer=(page.reviewer or user_name())[:80],
            home="review" if audit is None else "audit",
        )

        def ready() -> None:
            what, kept = (
                ("review", "decisions are kept as you make them") if audit is None else ("audit", "answers are kept")
            )
            typer.echo(f"{what}: {link}", err=audit is not None)
            typer.echo(f"{kept}; Ctrl-C ends the server", err=True)
            if page.show:
                import webbrowser

                if not webbrowser.open(opened.enter_context(leading_to(link, folder.path))):
                    typer.echo("jnpl: note: no browser could be opened; open the address above", err=True)

        serve(app, address, ready)


def data_opener(
    run: "RunFolder", data: str | None, *, trust_code: bool = False
) -> "tuple[Callable[[], Source] | None, str | None]":
    """Return a function that opens the data of a run again, or None and the reason."""
    from jnpl.outputs.run_source import RunDataOptions, open_run_data

    facts = run.data_facts
    if facts.options is None:
        how = "its command to add that"
        if facts.command is not None and not facts.command:
            how = "it with `jnpl find` on files: data that Python code has in memory cannot be opened again"
        return None, f"the run folder does not say how its data were opened; repeat {how}"
    stored = {**facts.options, **({} if data is None else {"data": data})}
    RunDataOptions.from_json(stored)  # wrong ones are an error before a page is shown

    def open_data() -> "Source":
        return open_run_data(stored, trust_code=trust_code)

    return open_data, None


@contextmanager
def leading_to(link: str, folder: Path) -> "Iterator[str]":
    """Yield the address of a page that leads to the link and that only this user can read; it is removed at the end.

    The link holds the token, and other users can read the command line of a browser.
    """
    page = folder / f".review-{secrets.token_hex(4)}.html"
    page.touch(mode=0o600, exist_ok=False)
    try:
        target = html.escape(link, quote=True)
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n', "utf-8")
        yield page.resolve().as_uri()
    finally:
        page.unlink(missing_ok=True)


def user_name() -> str:
    """Return the name of the user, for decisions and answers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user without a name
        return "reviewer"
