"""A model behind any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, or a commercial one.

The official client carries the bytes and asks again after too many requests, server errors and broken connections; limits and the
reading of answers are ours, so that every server's way to fail ends in one typed error. The key is read from an environment variable
when the first request goes out, stays with the client, and is cut out of whatever a server says before any of it is looked at. An
answer is taken whole, not streamed: nothing here could use half of one. Left out: the context length is not asked of the server,
since few tell it.
"""

from __future__ import annotations

import asyncio
import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

from bottega.backbone.chat import ChatCompletion, Message, Sampling, with_tools
from bottega.backbone.ledger import MESSAGE_TOKENS, Ledger, likely_tokens, most_tokens
from bottega.backbone.reply import Failure, Reply, UnreachableError, excerpt, from_status, read_reply
from bottega.backbone.tool_calls import ToolSpec
from bottega.core.errors import BackboneError, UsageError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LimitField = Literal["max_tokens", "max_completion_tokens"]
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


class ServerBackbone:
    """`ChatBackbone` over HTTP. Serves one event loop at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        context: int = 32_768,
        concurrency: int = 8,
        timeout: float = 600.0,
        deadline: float = 1800.0,
        retries: int = 5,
        ledger: Ledger | None = None,
        limit_field: LimitField = "max_tokens",
        template: Mapping[str, Any] | None = None,
        thinking_tokens: int | None = None,
        tools: bool = True,
    ) -> None:
        """`timeout`: seconds without a byte; `deadline`: for one answer with all its retries. `limit_field`: newer commercial models want
        `max_completion_tokens`; other servers may ignore that and never stop. `template` and `thinking_tokens` are asked in the words of vLLM
        and SGLang; whether a budget is kept is the server's matter. `tools`: whether the server calls tools; else a model is told of them in plain
        text."""
        if concurrency < 1 or context < 1:
            raise UsageError(f"concurrency and context must be 1 or more, not {concurrency} and {context}")
        self.name, self.context = endpoint.model, context
        self.endpoint, self.concurrency = endpoint, concurrency
        self.timeout, self.deadline, self.retries = timeout, deadline, retries
        self.ledger = ledger or Ledger()
        self.limit_field, self.calls_tools = limit_field, tools
        arguments = {**(template or {}), **_said({"thinking_budget": thinking_tokens})}
        self._extra = _said({"chat_template_kwargs": arguments or None, "thinking_token_budget": thinking_tokens})
        """What the official client does not know, and servers of open models do."""
        self._line: _Line | None = None

    def __repr__(self) -> str:
        return f"ServerBackbone({self.endpoint.model!r} at {self.endpoint.base_url!r})"

    def count_tokens(self, text: str) -> int:
        return likely_tokens(text)

    async def chat(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> ChatCompletion:
        line, counted = self._open_line(), with_tools(messages, tools)
        async with line.places:
            reservation = await self.ledger.hold(most_tokens(counted), sampling.max_tokens)
            try:
                outcome = await self._ask(line, self._request(messages, sampling, tools))
                if isinstance(outcome, Failure):
                    if outcome.tokens:
                        self.ledger.settle(reservation, *outcome.tokens)
                    raise outcome.kind(f"{self.name} at {self.endpoint.base_url} {outcome.what}. {outcome.advice}")
                told = outcome.tokens if outcome.tokens and (outcome.tokens[1] or not outcome.text) else None
                prompt, output = told or (self._likely(counted), outcome.likely_output)
                usage = self.ledger.settle(reservation, prompt, output, estimated=told is None)
                return ChatCompletion(outcome.text, usage, outcome.stop_reason, outcome.calls)
            finally:
                self.ledger.release(reservation)

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            await line.client.close()

    async def _ask(self, line: _Line, request: dict[str, Any]) -> Reply | Failure:
        """Returns failures instead of raising them: an exception would keep the client's, and all that it holds, as context."""
        import openai

        try:
            async with asyncio.timeout(self.deadline):
                response = await line.client.chat.completions.with_raw_response.create(**request)
                said = response.text
        except (TimeoutError, openai.APITimeoutError):
            advice = "Raise the timeout, lower max_tokens or the concurrency, or look whether the server hangs."
            what = f"did not finish an answer within {min(self.timeout, self.deadline):.3g} s"
            return Failure(UnreachableError, what, advice)
        except openai.APIStatusError as error:
            return from_status(error.status_code, line.key.cut_from(error.response.text), self.endpoint.key_variable)
        except Exception as error:  # the client's connection errors, and those of its HTTP library that it lets through
            why = line.key.cut_from(str(error.__cause__ or error) or type(error).__name__)
            advice = "Is the server running, and is the address right?"
            return Failure(UnreachableError, f"cannot be reached or broke off ({excerpt(why)})", advice)
        reply = read_reply(line.key.cut_from(said) if line.key.is_secret else said)
        return reply if isinstance(reply, Reply) else read_reply(line.key.cut_from(said))

    def _request(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> dict[str, Any]:
        """Temperature and top-p are always sent: vLLM takes what is missing from the model's files, and those differ."""
        request: dict[str, Any] = {"model": self.endpoint.model, "messages": [_sent(message) for message in messages]}
        request[self.limit_field] = sampling.max_tokens
        if tools:
            request["tools"] = [tool.to_json() for tool in tools]
        request |= {"temperature": sampling.temperature, "top_p": 1.0}
        if sampling.seed is not None:
            request["seed"] = sampling.seed
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        return {**request, "extra_body": self._extra} if self._extra else request

    def _likely(self, messages: Sequence[Message]) -> int:
        return sum(self.count_tokens(message.text) + MESSAGE_TOKENS for message in messages)

    def _open_line(self) -> _Line:
        loop = asyncio.get_running_loop()
        if self._line is None or (self._line.loop is not loop and self._line.loop.is_closed()):
            self._line = _Line(self, loop)
        if self._line.loop is not loop:
            raise BackboneError(f"{self!r} is in use by another event loop: open one for each")
        return self._line


def _sent(message: Message) -> dict[str, Any]:
    """A message as servers take it. Half surrogate pairs, which models do write, cannot be sent."""
    sent: dict[str, Any] = {"role": message.role, "content": message.content.encode("utf-8", "replace").decode()}
    if message.calls:
        sent |= {"tool_calls": [call.to_json() for call in message.calls], "content": sent["content"] or None}
    if message.call_id:
        sent["tool_call_id"] = message.call_id
    return sent


def _said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class _Line:
    """The client, its key and its places; they belong to one event loop."""

    def __init__(self, of: ServerBackbone, loop: asyncio.AbstractEventLoop) -> None:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise BackboneError("a model behind a server needs the openai client: pip install 'bottega[server]'") from None
        self.loop, self.places, self.key = loop, asyncio.Semaphore(of.concurrency), of.endpoint.key()
        # without a key the client would look for one by itself, and send it to whatever server this is
        key = self.key.value or "none"
        self.client: AsyncOpenAI = AsyncOpenAI(
            base_url=of.endpoint.base_url, api_key=key, timeout=of.timeout, max_retries=of.retries
        )
