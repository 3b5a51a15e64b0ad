"""A model behind any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, or a commercial one.

The official client carries the bytes; retries, limits and the reading of answers are ours, so that each attempt is counted once
and every server's way to fail ends in one typed error. The key is read from an environment variable when the first request goes
out, stays with the client, and is cut out of whatever a server says before any of it is looked at. An answer is taken whole,
not streamed: nothing here could use half of one. Left out: the context length is not asked of the server, since few tell it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from bottega.backbone.chat import ChatCompletion, Message
from bottega.backbone.endpoint import Endpoint
from bottega.backbone.failures import Failure, GarbageError, UnreachableError, excerpt, from_status
from bottega.backbone.ledger import Ledger
from bottega.backbone.pricing import MESSAGE_TOKENS, TEMPLATE_TOKENS, likely_tokens, most_tokens
from bottega.backbone.reply import Reply, read_reply
from bottega.backbone.retry import Patience
from bottega.backbone.sampling import Sampling
from bottega.core.errors import BackboneError, UsageError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LimitField = Literal["max_tokens", "max_completion_tokens"]
MOST_BYTES = 32 * 2**20
"""No answer is longer than this; a server that sends more is broken and would fill the memory."""


class ServerBackbone:
    """`ChatBackbone` over HTTP. Serves one event loop at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        context: int = 32_768,
        concurrency: int = 8,
        patience: Patience | None = None,
        ledger: Ledger | None = None,
        limit_field: LimitField = "max_tokens",
        extra: Mapping[str, object] | None = None,
        counter: Callable[[str], int] | None = None,
    ) -> None:
        """`limit_field`: newer commercial models want `max_completion_tokens`; other servers may ignore that and never stop.
        `extra`: further fields of the request, as `chat_template_kwargs`. `counter`: the model's own token count, if at hand."""
        if concurrency < 1 or context < 1:
            raise UsageError(f"concurrency and context must be 1 or more, not {concurrency} and {context}")
        self.name, self.context = endpoint.model, context
        self.endpoint, self.concurrency = endpoint, concurrency
        self.patience, self.ledger = patience or Patience(), ledger or Ledger()
        self.limit_field, self.extra = limit_field, dict(extra or {})
        self.attempts = 0
        """How often the server was asked, retries included."""
        self._counter = counter
        self._line: _Line | None = None

    def __repr__(self) -> str:
        return f"ServerBackbone({self.endpoint.model!r} at {self.endpoint.base_url!r})"

    def count_tokens(self, text: str) -> int:
        return self._counter(text) if self._counter else likely_tokens(text)

    async def chat(self, messages: Sequence[Message], sampling: Sampling) -> ChatCompletion:
        line = self._open_line()
        async with line.places:
            reservation = await self.ledger.hold(self._bound(messages), sampling.max_tokens)
            try:
                outcome = await self._insist(line, self._request(messages, sampling))
                if isinstance(outcome, Failure):
                    if outcome.tokens:
                        self.ledger.settle(reservation, *outcome.tokens)
                    raise outcome.kind(f"{self.name} at {self.endpoint.base_url} {outcome.what}. {outcome.advice}")
                told = outcome.tokens if outcome.tokens and (outcome.tokens[1] or not outcome.text) else None
                prompt, output = told or (self._likely(messages), outcome.likely_output)
                usage = self.ledger.settle(reservation, prompt, output, estimated=told is None)
                return ChatCompletion(outcome.text, usage, outcome.stop_reason)
            finally:
                self.ledger.release(reservation)

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.client.close()

    async def _insist(self, line: _Line, request: dict[str, Any]) -> Reply | Failure:
        """Ask until there is an answer, a failure that stays, or no time left."""
        end = time.monotonic() + self.patience.deadline
        attempt = 0
        while True:
            attempt += 1
            self.attempts += 1
            outcome = await self._attempt(line, request, min(self.patience.timeout, end - time.monotonic()))
            if isinstance(outcome, Reply) or not outcome.retry:
                return outcome
            pause = self.patience.pause(attempt, outcome.pause, random.random())
            if attempt == self.patience.attempts:
                return replace(outcome, what=f"{outcome.what} (asked {attempt} times)")
            if time.monotonic() + pause >= end:
                late = f"the next pause of {pause:.3g} s would pass the deadline of {self.patience.deadline:g} s"
                return replace(outcome, what=f"{outcome.what} (asked {attempt} times; {late})")
            await asyncio.sleep(pause)

    async def _attempt(self, line: _Line, request: dict[str, Any], limit: float) -> Reply | Failure:
        """Ask once. Returns failures instead of raising them: an exception would keep the client's, and all that it holds, as context."""
        import openai

        try:
            async with asyncio.timeout(limit):
                async with line.client.chat.completions.with_streaming_response.create(**request) as response:
                    body = bytearray()
                    async for piece in response.iter_bytes():
                        body += piece
                        if len(body) > MOST_BYTES:
                            what = f"sent more than {MOST_BYTES >> 20} MiB for one answer"
                            return Failure(GarbageError, what, "Check the base URL, and that the server keeps to its limit.")
        except (TimeoutError, openai.APITimeoutError):
            advice = "Raise the timeout, lower max_tokens or the concurrency, or look whether the server hangs."
            return Failure(UnreachableError, f"did not finish an answer within {limit:.3g} s", advice, retry=True)
        except openai.APIStatusError as error:
            said = line.key.cut_from(error.response.text)
            return from_status(error.status_code, error.response.headers, said, self.endpoint.key_variable)
        except Exception as error:  # the client's connection errors, and those of its HTTP library that it lets through
            why = line.key.cut_from(str(error.__cause__ or error) or type(error).__name__)
            advice = "Is the server running, and is the address right?"
            return Failure(UnreachableError, f"cannot be reached or broke off ({excerpt(why)})", advice, retry=True)
        said = body.decode("utf-8", "replace")
        reply = read_reply(line.key.cut_from(said) if line.key.is_secret else said)
        return reply if isinstance(reply, Reply) else read_reply(line.key.cut_from(said))

    def _request(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        """Temperature and top-p are always sent: vLLM takes what is missing from the model's files, and those differ."""
        clean = [{"role": m.role, "content": m.content.encode("utf-8", "replace").decode()} for m in messages]
        request: dict[str, Any] = {"model": self.endpoint.model, "messages": clean, self.limit_field: sampling.max_tokens}
        request |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        if self.extra:
            request["extra_body"] = self.extra
        return request

    def _likely(self, messages: Sequence[Message]) -> int:
        return sum(self.count_tokens(message.content) + MESSAGE_TOKENS for message in messages)

    def _bound(self, messages: Sequence[Message]) -> int:
        return self._likely(messages) + TEMPLATE_TOKENS if self._counter else most_tokens(messages)

    def _open_line(self) -> _Line:
        loop = asyncio.get_running_loop()
        if self._line is None or (self._line.loop is not loop and self._line.loop.is_closed()):
            self._line = _Line(self.endpoint, self.patience.timeout, self.concurrency, loop)
        if self._line.loop is not loop:
            raise BackboneError(f"{self!r} is in use by another event loop: open one for each")
        return self._line


class _Line:
    """The client, its key and its places; they belong to one event loop."""

    def __init__(self, endpoint: Endpoint, timeout: float, concurrency: int, loop: asyncio.AbstractEventLoop) -> None:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise BackboneError("a model behind a server needs the openai client: pip install 'bottega[server]'") from None
        self.loop, self.places, self.key = loop, asyncio.Semaphore(concurrency), endpoint.key()
        # without a key the client would look for one by itself, and send it to whatever server this is
        key = self.key.value or "none"
        self.client: AsyncOpenAI = AsyncOpenAI(base_url=endpoint.base_url, api_key=key, timeout=timeout, max_retries=0)
