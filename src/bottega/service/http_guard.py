"""What every HTTP request passes before anything of it is read: whose it is, whether it is one too many, and how large it may be.

A body is read here, whole, within a size and a time; what stands behind the gate only ever sees complete requests. Without tokens the
server answers only to names of this machine, so that a page in somebody's browser cannot reach it under another name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from bottega.service.limits import RateLimiter
from bottega.service.metrics import ServerMetrics
from bottega.service.tokens import NoTokens, Token, TokenFile

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_TO_ALL = frozenset({"/healthz", "/docs", "/openapi.json"})
BODY_SECONDS = 20.0
"""Within which a body must have come: a slow sender holds nothing but its own connection until then."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OTHER = "other"


class HttpRefusal(Exception):
    """An answer in place of the one that was asked for."""

    def __init__(self, status: int, error: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(error)
        self.status, self.error, self.headers = status, error, headers


class HttpGuard:
    """ASGI. Sets `scope["state"]["token"]` for what stands behind it."""

    def __init__(
        self,
        app: App,
        tokens: TokenFile | NoTokens,
        metrics: ServerMetrics,
        open_to_all: frozenset[str] = OPEN_TO_ALL,
    ) -> None:
        self.app, self.tokens, self.metrics = app, tokens, metrics
        self.open_to_all = open_to_all
        self.rates = RateLimiter()
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no web sockets here: the server closes the connection
        status = 500

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            token = self._let_in(scope)
            with self._counted(token):
                body = await self._body(scope, receive, token)
                await self.app(scope, _replayed(body, receive), counted)
        except HttpRefusal as refusal:
            status = refusal.status
            await send_json(send, refusal.status, {"error": refusal.error}, refusal.headers)
        finally:
            route = getattr(scope.get("route"), "path", None) or OTHER
            self.metrics.count("bottega_requests_total", route=route, status=str(status))

    def _let_in(self, scope: Scope) -> Token | None:
        """Whose request it is; None for what is open to all."""
        headers = _headers(scope)
        self._refuse_strange_hosts(headers)
        token = None
        if scope["path"] not in self.open_to_all:
            token = self._owner(headers)
            if wait := self.rates.wait(token.name, token.limits.requests_per_minute):
                told = f"more than {token.limits.requests_per_minute} requests a minute"
                raise HttpRefusal(429, told, (("Retry-After", str(int(wait) + 1)),))
            if self._under_way[token.name] >= token.limits.connections:
                raise HttpRefusal(429, f"more than {token.limits.connections} requests at a time", (("Retry-After", "2"),))
        scope.setdefault("state", {})["token"] = token
        return token

    @contextmanager
    def _counted(self, token: Token | None) -> Iterator[None]:
        name = "" if token is None else token.name
        self._under_way[name] += 1
        try:
            yield
        finally:
            self._under_way[name] -= 1

    def _owner(self, headers: dict[bytes, bytes]) -> Token:
        owner = self.tokens.owner(_credentials(headers.get(b"authorization", b"")))
        if owner is None:
            told = "a valid token is needed: send it as `Authorization: Bearer TOKEN`"
            raise HttpRefusal(401, told, (("WWW-Authenticate", "Bearer"), ("WWW-Authenticate", 'Basic realm="bottega"')))
        return owner

    def _refuse_strange_hosts(self, headers: dict[bytes, bytes]) -> None:
        if not isinstance(self.tokens, NoTokens):
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.rpartition(":")[0] or host
        if name not in LOOPBACK:
            raise HttpRefusal(403, "this server has no tokens, so it answers to localhost and 127.0.0.1 only")

    async def _body(self, scope: Scope, receive: Receive, token: Token | None) -> bytes:
        if scope["method"] in ("GET", "HEAD", "OPTIONS", "DELETE"):
            return b""
        headers, most = _headers(scope), 0 if token is None else token.limits.body_bytes
        if headers.get(b"content-type", b"").split(b";")[0].strip().lower() != b"application/json":
            raise HttpRefusal(415, "the body must be JSON, with Content-Type: application/json")
        told = f"the request is larger than the {most} bytes that this token may send"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 15:
            raise HttpRefusal(400, "Content-Length is no number")
        if int(length) > most:
            raise HttpRefusal(413, told, (("Connection", "close"),))
        chunks, size = [], 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise HttpRefusal(400, "the connection ended before the request did")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > most:
                        raise HttpRefusal(413, told, (("Connection", "close"),))
                    if not message.get("more_body"):
                        return b"".join(chunks)
        except TimeoutError:
            raise HttpRefusal(408, f"the body did not come within {BODY_SECONDS:g} s", (("Connection", "close"),)) from None


def _headers(scope: Scope) -> dict[bytes, bytes]:
    """Of several of a name the first."""
    return {name.lower(): value for name, value in reversed(scope["headers"])}


def _credentials(header: bytes) -> str:
    """The token of `Bearer TOKEN`, or the password of `Basic`, with which a browser asks."""
    kind, _, rest = header.decode("latin-1").partition(" ")
    if kind.lower() == "basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).decode("latin-1").partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return rest.strip() if kind.lower() == "bearer" else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    first = True

    async def again() -> MutableMapping[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()  # only the end of the connection can follow

    return again


async def send_json(send: Send, status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
    text = json.dumps(value).encode()
    told = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    told += [(name.lower().encode("latin-1"), content.encode("latin-1")) for name, content in headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": text})
