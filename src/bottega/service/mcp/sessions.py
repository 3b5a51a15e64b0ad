"""Sessions of the protocol over HTTP belong to the token that opened them, and a token may have a few of them at a time.

The SDK keeps a session's owner and answers others as if there were none; here it is told who asks. Counting is done here: the SDK has one limit
for all, which a single token could use up.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from bottega.service.http_guard import App, Receive, Scope, Send, send_json
from bottega.service.tokens import Token

HEADER = b"mcp-session-id"
IDLE_SECONDS = 600.0
"""A session without a request under way, an open stream included, ends after so long."""
OF_ONE = 32
"""Sessions of one token at a time."""


@dataclass
class _Session:
    owner: str
    under_way: int = 0
    seen: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        return not self.under_way and time.monotonic() - self.seen > IDLE_SECONDS


class OwnedSessions:
    """ASGI, between the guard and the SDK."""

    def __init__(self, app: App) -> None:
        self.app = app
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token: Token | None = scope.get("state", {}).get("token")
        if scope["type"] != "http" or token is None:
            return await self.app(scope, receive, send)
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=token.name, scopes=[]))
        id = next((value.decode("latin-1") for name, value in scope["headers"] if name.lower() == HEADER), "")
        session = self._sessions.get(id)
        if not id and self._count(token.name) >= OF_ONE:
            told = f"this token has {OF_ONE} sessions open; end one of them, or use it"
            return await send_json(send, 429, {"error": told}, (("Retry-After", "60"),))

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._note(id, token.name, scope["method"], message)
            await send(message)

        if session is not None:
            session.under_way += 1
        try:
            await self.app(scope, receive, noted)
        finally:
            if session is not None:
                session.under_way -= 1
                session.seen = time.monotonic()

    def _count(self, owner: str) -> int:
        self._sessions = {id: one for id, one in self._sessions.items() if not one.over}
        return sum(one.owner == owner for one in self._sessions.values())

    def _note(self, id: str, owner: str, method: str, answer: MutableMapping[str, Any]) -> None:
        """A session begins with an answer that names it, and ends with DELETE."""
        if not id and answer["status"] < 400:
            opened = next((value.decode("latin-1") for name, value in answer["headers"] if name.lower() == HEADER), "")
            if opened:
                self._sessions[opened] = _Session(owner)
        elif method == "DELETE" and answer["status"] < 400:
            self._sessions.pop(id, None)
