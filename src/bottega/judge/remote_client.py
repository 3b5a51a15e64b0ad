"""HTTP to a judge's server with the standard library alone, so that a laptop needs nothing installed for it.

Every request is idempotent there: the same content has the same id. So whatever was lost on the way is simply sent again, with pauses that
grow, until the server has been silent for `patience` seconds. One that has not answered at all yet may have a wrong address.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bottega.core.errors import JudgeError, UsageError
from bottega.core.foreign_text import one_line

TOKEN, TOKEN_FILE = "BOTTEGA_TOKEN", "BOTTEGA_TOKEN_FILE"
PATIENCE = 600.0
FIRST_PATIENCE = 20.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
CONNECT_SECONDS = 20.0
LARGEST_ANSWER = 64 << 20
AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses that say nothing about the request itself."""


class NotFound(JudgeError):
    """The server knows no such id (any more)."""


def token_from_environment() -> str | None:
    """The token that the environment gives or names a file for; None where it does neither."""
    if token := os.environ.get(TOKEN, "").strip():
        return token
    named = os.environ.get(TOKEN_FILE, "")
    if not named:
        return None
    try:
        return Path(named).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{TOKEN_FILE}={named}: cannot be read: {error}") from None


class ServerClient:
    """Every method may be called from any thread. `close` ends the waiting of all of them."""

    def __init__(self, url: str, token: str | None = None, patience: float = PATIENCE) -> None:
        split = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = split.port
        except ValueError:
            port, split = None, split._replace(scheme="")
        if split.scheme not in ("http", "https") or not split.hostname or split.username or split.query or split.fragment:
            raise UsageError(f"{url!r} is no server's address: write http://HOST:PORT or https://HOST")
        self.url = f"{split.scheme}://{split.netloc}{split.path.rstrip('/')}"
        self._make = http.client.HTTPSConnection if split.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._path = split.hostname, port, split.path.rstrip("/")
        self._token, self._patience = token, patience
        self._closed = threading.Event()
        self._answered = False

    def close(self) -> None:
        self._closed.set()

    def ask(self, method: str, path: str, body: Any = None, wait: float = 0.0) -> dict[str, Any]:
        """The answer's JSON object; `wait` is how long the server may take on purpose. Raises `UsageError` for what will never work (a wrong
        token, a refused request), `NotFound`, and `JudgeError` for a server that is silent or broken."""
        sent = None if body is None else json.dumps(body).encode()
        last_contact, pause, trouble = time.monotonic(), FIRST_PAUSE, ""
        while not self._closed.is_set():
            try:
                status, after, text = self._once(method, path, sent, wait)
            except (OSError, http.client.HTTPException) as error:
                trouble = f"{type(error).__name__}: {error}"
            else:
                if status not in AGAIN:
                    self._answered = True
                    return self._answer(status, text)
                trouble = f"it answers {status}: {_reason(text)}"
                if status in (429, 503):  # busy, not silent
                    self._answered = True
                    last_contact, pause = time.monotonic(), max(pause, after)
            if not self._answered and time.monotonic() - last_contact > min(FIRST_PATIENCE, self._patience):
                raise JudgeError(
                    f"{self.url}: nothing answers there ({one_line(trouble)}); is `bottega serve` up, and is that its address?"
                )
            if time.monotonic() - last_contact > self._patience:
                raise JudgeError(f"{self.url}: the server does not answer since {self._patience:g} s ({one_line(trouble)})")
            self._closed.wait(pause * random.uniform(0.5, 1.0))
            pause = min(LONGEST_PAUSE, 2 * pause)
        raise JudgeError("this judge was closed")

    def try_once(self, method: str, path: str) -> None:
        """Ask, whether or not it is heard: for what is a courtesy."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self._once(method, path, None, 0.0, connect=2.0)

    def _once(
        self, method: str, path: str, body: bytes | None, wait: float, connect: float = CONNECT_SECONDS
    ) -> tuple[int, float, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._make(self._host, self._port, timeout=connect + wait)
        try:
            connection.request(method, self._path + path, body=body, headers=headers)
            answer = connection.getresponse()  # redirections are not followed: the token is for this server
            return answer.status, _seconds(answer.getheader("Retry-After")), answer.read(LARGEST_ANSWER)
        finally:
            connection.close()

    def _answer(self, status: int, text: bytes) -> dict[str, Any]:
        if status == 404:
            raise NotFound(f"{self.url}: {_reason(text)}")
        if status in (401, 403):
            raise UsageError(
                f"{self.url}: {_reason(text)} (the token is read from {TOKEN}, or from the file that {TOKEN_FILE} names)"
            )
        if not 200 <= status < 300:
            raise UsageError(f"{self.url} refuses it ({status}): {_reason(text)}")
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"{self.url}: answers, but not as `bottega serve` does; is that its address?")
        return found


def _reason(text: bytes) -> str:
    try:
        found = json.loads(text)
        return one_line(str(found["error"]), 500)
    except (ValueError, KeyError, TypeError):
        return one_line(text[:500].decode(errors="replace")) or "no reason given"


def _seconds(text: str | None) -> float:
    try:
        return min(60.0, max(0.0, float(text or 0)))
    except ValueError:
        return 0.0
