"""Which requests the server of a review accepts: the right host, the right origin, the right token, and not too large.

The address that is opened once holds a random token, which is exchanged for a cookie. Every answer forbids scripts,
styles, pictures and connections from elsewhere, framing, and guessing of media types.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY = 256 * 1024  # bytes of a request
_MAX_DIGITS = 7  # of its length: Python refuses to read thousands of them
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_WELCOME = (
    b'<!doctype html><html lang="en"><title>Label review</title><link rel="icon" href="/static/icon.svg">'
    b'<p><a href="/">Label review</a></p>'
)
_CLOSED = (
    "This page is closed. Open the address that `jnpl review` printed: it contains the token, which is valid as long "
    "as the server runs."
)


@dataclass(frozen=True)
class Access:
    """Who may use the server."""

    token: str  # the secret in the opened address
    hosts: frozenset[str]  # allowed values of the header Host, such as "127.0.0.1:8765"

    @property
    def cookie_name(self) -> str:
        """Cookies do not know ports: two reviews on one machine need two names."""
        return "jnpl_review_" + hashlib.sha256("\0".join(sorted(self.hosts)).encode()).hexdigest()[:8]

    @property
    def cookie(self) -> str:
        """The value of the cookie; the token does not follow from it."""
        return hmac.new(self.token.encode(), b"jnpl review cookie", hashlib.sha256).hexdigest()

    def fits_token(self, token: str) -> bool:
        """Return whether a token is right, in a time that says nothing about it."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def fits_cookie(self, header: str) -> bool:
        """Return whether the header Cookie holds the right cookie."""
        right = f"{self.cookie_name}={self.cookie}".encode()  # cookies of other pages may have any form
        return any(hmac.compare_digest(cookie.strip().encode(), right) for cookie in header.split(";"))


class RequestChecks:
    """An ASGI application around another one, which sees only requests that `Access` allows."""

    def __init__(self, application: Application, access: Access) -> None:
        self._application, self._access = application, access

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a refused request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if (refusal := self._refusal(scope, headers)) is not None:
            await _answer(_with_headers(send), *refusal)
            return
        if scope["path"] == "/" and (token := _token_of(scope)) is not None:
            await self._exchange(token, _with_headers(send))
            return
        if not self._access.fits_cookie(headers.get("cookie", "")):
            await _answer(_with_headers(send), 403, _CLOSED)
            return
        body = _LimitedBody(receive)

        async def answer(message: Message) -> None:
            if body.too_large and message["type"] == "http.response.start":
                message = {**message, "status": 413}
            await _with_headers(send)(message)

        await self._application(scope, body.receive, answer)

    def _refusal(self, scope: Message, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return status and text for a request that must not reach the application."""
        access = self._access
        if headers.get("host", "").lower() not in access.hosts:
            return 421, "wrong Host"  # another name for this machine: DNS rebinding
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in access.hosts}:
            return 403, "wrong Origin"
        if scope["method"] not in ("GET", "HEAD"):
            if origin is None and headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return 403, "wrong origin"
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return 415, "a request is JSON"  # a form of another page cannot send this type
            length = headers.get("content-length", "0")
            if length.isascii() and length.isdigit() and (len(length) > _MAX_DIGITS or int(length) > MAX_BODY):
                return 413, f"a request has at most {MAX_BODY} bytes"
        return None

    async def _exchange(self, token: str, send: Send) -> None:
        """Exchange the token in the address for a cookie, and lead to the address without it."""
        if not self._access.fits_token(token):
            await _answer(send, 403, _CLOSED)
            return
        cookie = f"{self._access.cookie_name}={self._access.cookie}; Path=/; HttpOnly; SameSite=Strict"
        # A redirect would not send a strict cookie when the address is opened from another program's link.
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", b"text/html; charset=utf-8"),
                    (b"set-cookie", cookie.encode()),
                    (b"refresh", b"0; url=/"),
                ],
            }
        )
        await send({"type": "http.response.body", "body": _WELCOME})


def _token_of(scope: Message) -> str | None:
    """Return the token in the address, if there is one."""
    tokens = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("token")
    return None if tokens is None else tokens[0]


class _LimitedBody:
    """The body of a request, which ends after `MAX_BODY` bytes, whatever the header says of its length."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._seen = receive, 0

    @property
    def too_large(self) -> bool:
        return self._seen > MAX_BODY

    async def receive(self) -> Message:
        """Return the next part of the body; an empty last one if there was too much."""
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self.too_large and message["type"] == "http.request":
            return {"type": "http.request", "body": b"", "more_body": False}
        return message


def _with_headers(send: Send) -> Send:
    """Return `send` that adds the headers of every answer."""

    async def extended(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            headers = list(message.get("headers", []))
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                added.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    return extended


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
