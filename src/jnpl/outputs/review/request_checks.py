"""Which requests the server of a review accepts: the right host, the right origin, the right token, and not too large.

The address that is opened once holds a random token, which is exchanged for a cookie. Every answer forbids scripts,
styles, pictures and connections from elsewhere, framing, and guessing of media types.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    '<!doctype html><html lang="en"><title>Label review</title><link rel="icon" href="/static/icon.svg">'
    '<p><a href="/">Label review</a></p>'
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
    def cookie(self) -> str:
        """NAME=VALUE: the token does not follow from it. Cookies do not know ports, so each server has its own name."""
        name = hashlib.sha256("\0".join(sorted(self.hosts)).encode()).hexdigest()[:8]
        value = hmac.new(self.token.encode(), b"jnpl review cookie", hashlib.sha256).hexdigest()
        return f"jnpl_review_{name}={value}"

    def fits_cookie(self, header: str) -> bool:
        """Return whether the header Cookie, which may hold those of other pages in any form, has the right cookie."""
        right = self.cookie.encode()
        return any(hmac.compare_digest(cookie.strip().encode(), right) for cookie in header.split(";"))


class RequestChecks:
    """An ASGI application around another one, which sees only requests that `Access` allows."""

    def __init__(self, application: ASGIApp, access: Access) -> None:
        self._application, self._access = application, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":  # a WebSocket
            return
        request, seen = Request(scope), 0

        async def limited() -> Message:
            """Return the next part of the body; an empty last one after too much, whatever the header says."""
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            is_too_much = seen > MAX_BODY and message["type"] == "http.request"
            return {"type": "http.request", "body": b"", "more_body": False} if is_too_much else message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["status"] = message["status"] if seen <= MAX_BODY else 413
                headers = MutableHeaders(scope=message)
                headers.setdefault("cache-control", "no-store")
                headers.update(HEADERS)
            await send(message)

        answer = self._refusal(scope["method"], request.headers)
        if answer is None and scope["path"] == "/" and (token := request.query_params.get("token")) is not None:
            answer = self._exchange(token)
        if answer is None and not self._access.fits_cookie(request.headers.get("cookie", "")):
            answer = PlainTextResponse(f"{_CLOSED}\n", 403)
        await (answer or self._application)(scope, limited, with_headers)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a request that must not reach the application."""
        access = self._access
        if headers.get("host", "").lower() not in access.hosts:
            return PlainTextResponse("wrong Host", 421)  # another name for this machine: DNS rebinding
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in access.hosts}:
            return PlainTextResponse("wrong Origin", 403)
        if method not in ("GET", "HEAD"):
            if origin is None and headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return PlainTextResponse("wrong origin", 403)
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return PlainTextResponse("a request is JSON", 415)  # a form of another page cannot send this type
            length = headers.get("content-length", "0")
            if length.isascii() and length.isdigit() and (len(length) > _MAX_DIGITS or int(length) > MAX_BODY):
                return PlainTextResponse(f"a request has at most {MAX_BODY} bytes", 413)
        return None

    def _exchange(self, token: str) -> Response:
        """Exchange the token in the address for a cookie, and lead to the address without it."""
        if not hmac.compare_digest(token.encode(), self._access.token.encode()):
            return PlainTextResponse(f"{_CLOSED}\n", 403)
        cookie = f"{self._access.cookie}; Path=/; HttpOnly; SameSite=Strict"
        # A redirect would not send a strict cookie when the address is opened from another program's link.
        return HTMLResponse(_WELCOME, headers={"set-cookie": cookie, "refresh": "0; url=/"})
