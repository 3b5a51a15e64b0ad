"""Why a server gave no usable answer, and what to do about it. Pure: from status and body to a `Failure`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import BackboneError


class UnreachableError(BackboneError):
    """No answer in time, however often it was asked: the server is down, overloaded, or too slow."""


class RefusedError(BackboneError):
    """The model or its provider's filter declined to answer. The same question will be declined again."""


class ContextError(BackboneError):
    """The prompt leaves no room for an answer. Shorten it: the oldest turns first."""


class GarbageError(BackboneError):
    """Something came back that is no answer: a web page, broken JSON, no choices, no text."""


@dataclass(frozen=True)
class Failure:
    kind: type[BackboneError]
    what: str
    advice: str
    tokens: tuple[int, int] | None = None
    """Prompt and output tokens, where the server billed the failure and said so."""


TOO_LONG = re.compile(
    r"context.?(length|size|window)|maximum (context|model) length|max_model_len|(prompt|input).{0,40}too (long|large)", re.I
)
FILTERED = re.compile(r"content.?(filter|policy|management)", re.I)
BROKE = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
EXCERPT = 300


def excerpt(text: str) -> str:
    """The beginning of a foreign text on one line, without markup, control characters and its last full stop."""
    plain = re.sub(r"<(script|style)\b.*?</\1>|<[^<>]*>", " ", text[:20_000], flags=re.I | re.S)
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())
    return words.rstrip(".") if len(words) <= EXCERPT else words[:EXCERPT] + " …"


def error_message(body: str) -> tuple[str, str]:
    """What an error's body says, and its code or type: servers disagree on where they put either."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return excerpt(body) or "no text", ""
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return excerpt(str(error)), ""
    message = error.get("message") or error.get("detail") or body
    return excerpt(str(message)), f"{error.get('code') or ''} {error.get('type') or ''}"


def from_status(status: int, body: str, key_variable: str) -> Failure:
    """What an HTTP error means. `body` must be free of secrets: the beginning of it is shown."""
    message, code = error_message(body)
    what = f"answered with status {status}: {message}"
    if status == 429 and not any(word in code for word in BROKE):
        return Failure(UnreachableError, what, "Lower the concurrency, or wait.")
    if status == 429:
        return Failure(BackboneError, what, "The account has no credit left: look at it with the provider.")
    if status >= 500 or status == 408:
        advice = "Look at the server's log; a server that is still loading its model needs more time."
        return Failure(UnreachableError, what, advice)
    if status in (401, 403):
        return Failure(BackboneError, what, f"Set {key_variable or 'the key variable'} to a key that may use this model.")
    if FILTERED.search(code) or (status == 400 and FILTERED.search(message)):
        return Failure(RefusedError, what, "The provider's filter declined the prompt: change the task's text or the model.")
    if status in (400, 413, 422) and (status == 413 or TOO_LONG.search(f"{code} {message}")):
        return Failure(ContextError, what, "Shorten the prompt, or say the model's real context so that it is kept to.")
    if status == 404:
        return Failure(BackboneError, what, "Check the model's name, and the base URL: most end in /v1.")
    return Failure(BackboneError, what, "The server does not take this request: check its options (limit field, stop, extra).")
