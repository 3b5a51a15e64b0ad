"""Which model, where, and under which key. A key is named by its environment variable and never part of anything that is printed."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from bottega.core.errors import BackboneError, UsageError

SECRET_LENGTH = 16
"""Keys from here on are cut out of answers too. Shorter ones are stand-ins such as `EMPTY`, and may be words of a kernel."""


class Key:
    """A secret that knows how to be left out. It prints as stars, and nothing but the client may look inside."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "***"

    @property
    def is_secret(self) -> bool:
        return len(self.value) >= SECRET_LENGTH

    def cut_from(self, text: str) -> str:
        """A text without the key, in any of the spellings in which a server may echo it."""
        spellings = {self.value, self.value.replace("/", "\\/"), quote(self.value, safe=""), html.escape(self.value)} - {""}
        for spelling in sorted(spellings, key=len, reverse=True):
            text = text.replace(spelling, "***")
        return text


@dataclass(frozen=True)
class Endpoint:
    base_url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable. A server that wants no key works without it. Empty: none is sent, whatever is set."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable:
            raise UsageError("a server's base URL starts with http:// or https:// and names a host: http://localhost:8000/v1")
        if parts.username or parts.password or parts.query:
            raise UsageError(
                "a server's base URL must not hold a password or a query: put the key into an environment variable"
            )
        if not self.model:
            raise UsageError(f"the server at {self.base_url} needs the name of a model")

    def key(self) -> Key:
        """Read now, and kept by no one but the client. One that no HTTP header can hold is refused: the client would show it."""
        value = os.environ.get(self.key_variable, "").strip() if self.key_variable else ""
        if not (value.isascii() and value.isprintable()) or " " in value:
            raise BackboneError(f"the key in {self.key_variable} has blanks or letters that no key has: set it again")
        return Key(value)
