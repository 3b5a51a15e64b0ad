"""One server that takes token ids and gives token ids with their log-probs: vLLM's completions route, or any that returns ids in its way.

Text would not do: tokenised again it may come out as other tokens than were drawn, and those could not be learned from. Answers run on an event
loop; what has the server change its weights is asked from plain threads, and may take minutes.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from bottega.backbone.chat import StopReason, TokenCompletion, TokenRequest
from bottega.backbone.reply import BROKEN_OFF, Failure, ForgottenError, GarbageError, UnreachableError, excerpt, from_status
from bottega.backbone.server import Endpoint, Key
from bottega.core.errors import BackboneError

CONTROL_TIMEOUT = 600.0
"""Seconds that a server may take to load weights."""
HEALTH_TIMEOUT = 5.0
RESTART_SECONDS = 5.0
"""No server is back sooner after it was killed. One that was idle for longer is asked whether it is still the same process."""
SURE = 0.01
"""By so much a log-prob may be above 0, by rounding."""
NO_IDS = "Only answers with their ids can be learned from: vLLM 0.26 and newer give them (return_token_ids, and log-probs)."


@dataclass(eq=False)
class TokenServer:
    address: str
    """Without a path: http://HOST:8000."""
    key_variable: str = "OPENAI_API_KEY"
    model: str = ""
    """What it is asked for: the model's name there, or that of an adapter."""
    alive: bool = True
    version: int = -1
    """Of its weights; -1 before it was given any."""
    brought: int = 0
    """How often it was given weights."""
    in_flight: int = 0
    started: str = ""
    """When its process began, by its own metrics, as it was last given weights; empty where it does not tell. One that is started anew has other
    weights than it was given, and nothing else would show it."""
    heard: float = 0.0
    """When it last answered."""
    _key: Key = field(init=False)

    def __post_init__(self) -> None:
        self.address = self.address.rstrip("/").removesuffix("/v1")
        self._key = Endpoint(self.address, "any", self.key_variable).key()

    async def complete(
        self, client: httpx.AsyncClient, request: TokenRequest, ends: Sequence[int], context: int, vocabulary: int | None = None
    ) -> TokenCompletion:
        """Raises `UnreachableError` where another server may do better, and another `BackboneError` where none will."""
        body = self._body(request, ends, context)
        self.in_flight += 1
        try:
            response = await client.post(f"{self.address}/v1/completions", json=body, headers=self._headers())
        except (httpx.HTTPError, OSError) as error:
            told = self._key.cut_from(str(error)) or type(error).__name__
            raise UnreachableError(f"{self.address} cannot be reached or broke off ({excerpt(told)})") from None
        finally:
            self.in_flight -= 1
        self.heard = time.monotonic()
        if response.status_code == 404:
            raise ForgottenError(f"{self.address} does not know {self.model}: it was started anew, or has no /v1/completions")
        text = self._key.cut_from(response.text)
        found = read_completion(response.status_code, text, self.version, self.key_variable, body["max_tokens"], vocabulary)
        if isinstance(found, Failure):
            raise found.kind(f"{self.address} {found.what}. {found.advice}")
        return found

    async def healthy(self, client: httpx.AsyncClient) -> bool:
        try:
            response = await client.get(f"{self.address}/health", headers=self._headers(), timeout=HEALTH_TIMEOUT)
        except (httpx.HTTPError, OSError):
            return False
        return response.status_code == 200

    async def same(self, client: httpx.AsyncClient) -> bool:
        """Whether it is well, and still the process that was given its weights."""
        if not await self.healthy(client):
            return False
        try:
            response = await client.get(f"{self.address}/metrics", headers=self._headers(), timeout=HEALTH_TIMEOUT)
        except (httpx.HTTPError, OSError):
            return True
        return not self.started or start_of(response.text) in ("", self.started)

    @property
    def rested(self) -> bool:
        """Whether it may have been started anew without anybody noticing."""
        return self.in_flight == 0 and time.monotonic() - self.heard > RESTART_SECONDS

    # from any thread

    def note_start(self) -> None:
        try:
            told = httpx.get(f"{self.address}/metrics", headers=self._headers(), timeout=HEALTH_TIMEOUT).text
        except (httpx.HTTPError, OSError):
            told = ""
        self.started, self.heard = start_of(told), time.monotonic()

    def is_up(self) -> bool:
        try:
            return bool(httpx.get(f"{self.address}/health", headers=self._headers(), timeout=HEALTH_TIMEOUT).status_code == 200)
        except (httpx.HTTPError, OSError):
            return False

    def models(self) -> list[str]:
        """Names of what it serves."""
        return [str(each["id"]) for each in self.asked("GET", "/v1/models").get("data", [])]

    def asked(
        self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None, missing: bool = False
    ) -> dict[str, Any]:
        """A route beside completions. Raises `UnreachableError` where it cannot be had; `missing`: a route that is not there is `{}`."""
        try:
            response = httpx.request(
                method, f"{self.address}{path}", json=body, params=query, headers=self._headers(), timeout=CONTROL_TIMEOUT
            )
        except (httpx.HTTPError, OSError) as error:
            told = self._key.cut_from(str(error)) or type(error).__name__
            raise UnreachableError(f"{self.address}{path}: cannot be reached or broke off ({excerpt(told)})") from None
        if missing and response.status_code == 404:
            return {}
        if response.status_code != 200:
            told = excerpt(self._key.cut_from(response.text)) or "no text"
            raise UnreachableError(f"{self.address}{path}: answered with status {response.status_code}: {told}")
        try:
            found = response.json() if response.content else {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key.value}"} if self._key.value else {}

    def _body(self, request: TokenRequest, ends: Sequence[int], context: int) -> dict[str, Any]:
        """What shapes the distribution is always sent: servers take what is missing from the model's files, and log-probs would not be ours."""
        sampling = request.sampling
        room = context - len(request.prompt_ids)
        if room < 1:
            raise BackboneError(f"the prompt has {len(request.prompt_ids)} tokens and the context only {context}: shorten it")
        body: dict[str, Any] = {
            "model": self.model, "prompt": list(request.prompt_ids), "max_tokens": min(sampling.max_tokens, room),
            "temperature": sampling.temperature, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
            "logprobs": 1, "return_token_ids": True, "add_special_tokens": False, "skip_special_tokens": False,
            "ignore_eos": True, "stop_token_ids": list(ends),
        }  # fmt: skip
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return {**body, "stop": list(sampling.stop), "include_stop_str_in_output": True} if sampling.stop else body


def start_of(metrics: str) -> str:
    """When a process began, out of its metrics as vLLM and SGLang tell them; empty where that is not among them."""
    found = re.search(r"^process_start_time_seconds(?:\{[^}]*\})?[ \t]+(\S+)", metrics, re.M)
    return found[1] if found else ""


def read_completion(
    status: int, text: str, version: int, key_variable: str, longest: int, vocabulary: int | None = None
) -> TokenCompletion | Failure:
    """An answer, or what is wrong with it. `text` must be free of secrets: the beginning of it may be shown."""
    if status != 200:
        return from_status(status, text, key_variable)
    try:
        choice = json.loads(text)["choices"][0]
        finish = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Failure(GarbageError, f"sent something that is no completion: {excerpt(text) or 'nothing at all'}", "")
    if finish in BROKEN_OFF:
        return Failure(UnreachableError, f"gave the answer up (finish_reason {finish!r})", "Look at the server's log.")
    ids, logprobs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
    if not isinstance(ids, list) or not isinstance(logprobs, list) or len(ids) != len(logprobs) or not _numbers(ids, logprobs):
        return Failure(GarbageError, "sent an answer without the ids of its tokens, or without their log-probs", NO_IDS)
    if not ids or not all(math.isfinite(value) and value <= SURE for value in logprobs):
        return Failure(GarbageError, "sent an answer without tokens, or with log-probs that are none", "Look at its log.")
    if len(ids) > longest or min(ids) < 0 or (vocabulary is not None and max(ids) >= vocabulary):
        what = f"sent {len(ids)} tokens of at most {longest}, with ids from {min(ids)} to {max(ids)}"
        return Failure(GarbageError, what, "It serves another model, or does not keep to max_tokens.")
    reason: StopReason = "length" if finish == "length" else "stop"
    return TokenCompletion(tuple(ids), tuple(map(float, logprobs)), reason, version)


def _numbers(ids: list[Any], logprobs: list[Any]) -> bool:
    whole = all(isinstance(token, int) and not isinstance(token, bool) for token in ids)
    return whole and all(isinstance(value, float | int) for value in logprobs)
