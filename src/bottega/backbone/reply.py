"""Reads what a chat-completions endpoint sent back. Servers differ and break in many ways, so nothing is taken on trust."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, TypeGuard

from bottega.backbone.chat import StopReason
from bottega.backbone.ledger import likely_tokens
from bottega.backbone.tool_calls import ToolCall, calls_text, read_tool_calls
from bottega.core.errors import BackboneError


class UnreachableError(BackboneError):
    """No answer in time, however often it was asked: the server is down, overloaded, or too slow."""


class NoServerError(UnreachableError):
    """No server that draws answers is left: whoever needs answers must stop, and go on when there is one."""


class BusyError(UnreachableError):
    """The server is well and takes no more requests now."""


class ForgottenError(UnreachableError):
    """The server does not know the model that it was given: it has been started anew since."""


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
        return Failure(BusyError, what, "Lower the concurrency, or wait.")
    if status == 429:
        return Failure(BackboneError, what, "The account has no credit left: look at it with the provider.")
    if status >= 500 or status == 408:
        advice = "Look at the server's log; a server that is still loading its model needs more time."
        return Failure(BusyError if status == 503 else UnreachableError, what, advice)
    if status in (401, 403):
        return Failure(BackboneError, what, f"Set {key_variable or 'the key variable'} to a key that may use this model.")
    if FILTERED.search(code) or (status == 400 and FILTERED.search(message)):
        return Failure(RefusedError, what, "The provider's filter declined the prompt: change the task's text or the model.")
    if status in (400, 413, 422) and (status == 413 or TOO_LONG.search(f"{code} {message}")):
        return Failure(ContextError, what, "Shorten the prompt, or say the model's real context so that it is kept to.")
    if status == 404:
        return Failure(BackboneError, what, "Check the model's name, and the base URL: most end in /v1.")
    if re.search(r"\btools?\b|tool.choice", message, re.I):
        advice = "The server calls no tools: begin it with tool calling, or put ?tools=no behind the model's address."
        return Failure(BackboneError, what, advice)
    return Failure(BackboneError, what, "The server does not take this request: check its options (limit field, stop, extra).")


BROKEN_OFF = ("abort", "error")
"""Finish reasons of vLLM, SGLang and routers for answers that the server gave up on."""


@dataclass(frozen=True)
class Reply:
    text: str
    stop_reason: StopReason
    tokens: tuple[int, int] | None
    """Prompt and output tokens as the server counts them, reasoning included; None where it does not say."""
    likely_output: int
    """What the output would come to, reasoning included, where the server does not count."""
    calls: tuple[ToolCall, ...] = ()
    """Of tools; an answer that calls some may have no text."""


def read_reply(body: str) -> Reply | Failure:
    """An answer, or what is wrong with it. `body` must be free of secrets: the beginning of it may be shown."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        if body.lstrip()[:1] == "<":
            what = f"sent a web page instead of an answer: {excerpt(body)}"
            return Failure(GarbageError, what, "Check the base URL: most end in /v1.")
        what = f"sent something that is no JSON: {excerpt(body) or 'nothing at all'}"
        return Failure(GarbageError, what, "Check the base URL, and the server's log.")
    if not isinstance(parsed, dict):
        return Failure(GarbageError, f"sent JSON that is no object: {excerpt(body)}", "Check the base URL.")
    tokens = _tokens(parsed.get("usage"))
    choices = parsed.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return _without_choices(parsed, body, tokens)
    return _from_choice(first, first["message"], tokens)


def _from_choice(choice: dict[str, Any], message: dict[str, Any], tokens: tuple[int, int] | None) -> Reply | Failure:
    finish, text = choice.get("finish_reason"), _text(message.get("content"))
    refusal = message.get("refusal")
    if finish == "content_filter" or (isinstance(refusal, str) and refusal):
        reason = excerpt(str(refusal)) if refusal else "its filter cut the answer"
        advice = "Asking again will not help: change the task's text or the model."
        return Failure(RefusedError, f"declined to answer: {reason}", advice, tokens=tokens)
    if finish in BROKEN_OFF:
        what = f"gave the answer up (finish_reason {finish!r})"
        return Failure(UnreachableError, what, "Look at the server's log.", tokens=tokens)
    thinking = next((said for name in ("reasoning_content", "reasoning") if (said := _text(message.get(name)))), "")
    calls = read_tool_calls(message.get("tool_calls"))
    if text is None and (calls or finish == "length"):
        text = ""  # the limit came while the model was still thinking, or the answer is its calls: nothing is wrong with the server
    if text is None:
        what = f"sent an answer without text (finish_reason {finish!r}{', only reasoning' if thinking else ''})"
        return Failure(
            GarbageError, what, "Check that the model is a chat model and the server's chat template fits it.", tokens=tokens
        )
    likely = likely_tokens(text) + likely_tokens(thinking) + likely_tokens(calls_text(calls)) + 1
    return Reply(text, "length" if finish == "length" else "stop", tokens, likely, calls)


def _without_choices(parsed: dict[str, Any], body: str, tokens: tuple[int, int] | None) -> Failure:
    """Routers put the errors of servers behind them into an answer with status 200."""
    if not parsed.get("error"):
        what = f"sent JSON without an answer in it (choices): {excerpt(body)}"
        return Failure(GarbageError, what, "Check that the base URL is that of an OpenAI-compatible server.", tokens=tokens)
    message, _ = error_message(body)
    code = parsed["error"].get("code") if isinstance(parsed["error"], dict) else None
    passing = isinstance(code, int) and (code in (408, 429) or code >= 500)
    kind = UnreachableError if passing else GarbageError
    return Failure(kind, f"sent an error in place of an answer: {message}", "Look at the server's log.", tokens=tokens)


def _text(content: object) -> str | None:
    """The text of a message, which some servers send in parts. Half surrogate pairs are replaced: they cannot be stored or sent."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str)) if parts else None
    return content.encode("utf-8", "replace").decode() if isinstance(content, str) else None


def _tokens(usage: object) -> tuple[int, int] | None:
    """Prompt and output tokens. Where a total leaves more for the output than its own count, reasoning was left out of that."""
    if not isinstance(usage, dict):
        return None
    prompt, output, total = (usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if not _count(prompt) or not _count(output):
        return None
    return prompt, max(output, total - prompt) if _count(total) else output


def _count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
