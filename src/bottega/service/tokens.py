"""Tokens of those who may use a server: a TOML file with a salted hash and limits for each name, and never the token itself.

A token is 256 random bits behind its name, so one fast hash is enough, and finding its row costs one comparison in constant time. The file
is read again when it changes: a name that is deleted from it is shut out with the next request, and while it cannot be read everybody is.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.files import write_atomic
from bottega.core.settings import checked, flat
from bottega.service.limits import OF_LOOPBACK, TokenLimits

LOG = logging.getLogger(__name__)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}")
LONGEST = 200
"""Characters of a token; longer ones are not even hashed."""
RELOAD_SECONDS = 1.0
_SECRETS = ("salt", "hash")


@dataclass(frozen=True)
class Token:
    name: str
    salt: str
    hash: str
    limits: TokenLimits

    def fits(self, text: str) -> bool:
        return hmac.compare_digest(_hashed(self.salt, text), self.hash)


ANYONE = Token("local", "", "", OF_LOOPBACK)
"""Whoever reaches a server that has no tokens, on its own machine."""


class NoTokens:
    """In place of a file where there is none."""

    def owner(self, text: str) -> Token | None:
        return ANYONE

    def limits_of(self, name: str) -> TokenLimits | None:
        return ANYONE.limits

    def revoked(self, name: str) -> bool:
        return False


_NOBODY = Token("", "0" * 32, "0" * 64, TokenLimits())


class TokenFile:
    """Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._looked = time.monotonic()
        self._tokens = read_tokens(path)
        self.trouble = ""
        """Why nobody is let in: the file is gone, or cannot be read."""

    def owner(self, text: str) -> Token | None:
        """Whose token this is. As long for an unknown name as for a wrong token."""
        if len(text) > LONGEST or not text.isascii():
            return None
        token = self._current().get(text.partition(".")[0], _NOBODY)
        return token if token.fits(text) and token is not _NOBODY else None

    def limits_of(self, name: str) -> TokenLimits | None:
        """None for a name that the file does not have, and for every name while it cannot be read."""
        token = self._current().get(name)
        return None if token is None else token.limits

    def revoked(self, name: str) -> bool:
        return name not in self._current() and not self.trouble

    def _current(self) -> Mapping[str, Token]:
        with self._lock:
            if time.monotonic() - self._looked > RELOAD_SECONDS:
                self._looked = time.monotonic()
                stamp = _stamp(self.path)
                if stamp != self._stamp or self.trouble:
                    try:
                        self._tokens, self._stamp, self.trouble = read_tokens(self.path), stamp, ""
                    except UsageError as error:
                        if str(error) != self.trouble:
                            LOG.warning("nobody is let in until the token file can be read: %s", error)
                        self._tokens, self._stamp, self.trouble = {}, stamp, str(error)
            return self._tokens


def read_tokens(path: Path) -> dict[str, Token]:
    """By name. Raises `UsageError` where the file cannot be read, or a row is not as it should be."""
    return {name: _token(path, name, row) for name, row in _rows(path).items()}


def add_token(path: Path, name: str, limits: TokenLimits) -> str:
    """A new token for a name that has none, as text: it is written down nowhere else. Makes the file where there is none."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a token: letters, digits and -, at most 40")
    old = path.read_bytes() if path.exists() else b""
    if name in (read_tokens(path) if old else {}):
        raise UsageError(f"{path}: {name} has a token already; delete its table there to give another one")
    token, salt = f"{name}.{secrets.token_urlsafe(32)}", secrets.token_hex(16)
    lines = [f"[{name}]", f'salt = "{salt}"', f'hash = "{_hashed(salt, token)}"']
    chosen = limits.model_dump(exclude_defaults=True)
    lines += [f"{key} = {str(value).lower()}" for key, value in flat(chosen)]
    before = old.rstrip() + b"\n\n" if old.strip() else b""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, before + "\n".join([*lines, ""]).encode())
        path.chmod(0o600)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    return token


def _rows(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: the token file cannot be read: {error}; make one with `bottega serve --token-file {path} --add-token NAME`"
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is no TOML: {error}") from None
    return found


def _token(path: Path, name: str, row: Any) -> Token:
    source = f"{path}: [{name}]"
    if not NAME.fullmatch(name) or not isinstance(row, dict):
        raise UsageError(f"{source}: is no table of a token")
    salt, hashed = (row.get(key) for key in _SECRETS)
    if not isinstance(salt, str) or not isinstance(hashed, str) or not re.fullmatch(r"[0-9a-f]{64}", hashed):
        raise UsageError(f"{source}: salt and hash are missing; add tokens with `bottega serve --add-token NAME`")
    limits = checked(TokenLimits, {key: value for key, value in row.items() if key not in _SECRETS}, source)
    return Token(name, salt, hashed, limits)


def _hashed(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}\0{text}".encode()).hexdigest()


def _stamp(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
