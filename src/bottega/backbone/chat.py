"""The two protocols of a backbone. Chat completion: messages in, text and usage out; what every server speaks. Token completion: ids in, ids and
log-probs out; what training needs, because text does not say which tokens were sampled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bottega.backbone.tool_calls import ToolCall, ToolSpec

StopReason = Literal["stop", "length", "cancelled"]
"""`stop`: the model ended its answer; `length`: the limit cut it; `cancelled`: we did."""


@dataclass(frozen=True)
class Sampling:
    max_tokens: int = 2048
    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    seed: int | None = None
    """The same seed, prompt and weights give the same answer, whatever else is in the batch."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer: its text ends before the first of them, its tokens with the one that completed it."""


def before_stop(text: str, stop: Sequence[str]) -> str:
    """A text up to the first stop string in it."""
    return text[: min((at for each in stop if (at := text.find(each)) >= 0), default=len(text))]


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant", "tool"]
    """`tool` only for backbones that call tools."""
    content: str
    calls: tuple[ToolCall, ...] = ()
    """Of tools, in an assistant's message."""
    call_id: str = ""
    """The call that a tool's message answers."""

    @property
    def text(self) -> str:
        """Content and calls, for counting."""
        return self.content + json.dumps([call.to_json() for call in self.calls]) if self.calls else self.content


def with_tools(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[Message]:
    """For counting: the definitions of the tools as one more message."""
    if not tools:
        return messages
    return [*messages, Message("system", json.dumps([tool.to_json() for tool in tools]))]


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    """In the currency of the price list that was given; 0 where there is none."""
    estimated: bool = False
    """Whether any of it was guessed, because a server did not count."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.output_tokens + other.output_tokens,
            self.cost + other.cost,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True)
class ChatCompletion:
    text: str
    usage: Usage
    stop_reason: StopReason
    calls: tuple[ToolCall, ...] = ()


class ChatBackbone(Protocol):
    name: str
    context: int
    """How many tokens prompt and answer may have together."""

    async def chat(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> ChatCompletion:
        """One answer, which may call the tools if it has some. Raises `BackboneError` when none can be had, and `BudgetError` when the cap is
        reached."""
        ...

    def count_tokens(self, text: str) -> int:
        """How long a text is for this model; an estimate where the model's tokenizer is out of reach."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class TokenRequest:
    prompt_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True)
class TokenCompletion:
    output_ids: tuple[int, ...]
    """As sampled, the end-of-turn token included where it was sampled."""
    logprobs: tuple[float, ...]
    """Of each sampled token at the temperature of sampling (1 where it is 0): what a teacher-forced pass gives there."""
    stop_reason: StopReason
    policy_version: int
    """Which weights drew it: raised by every update."""


class Tokenizer(Protocol):
    """Text to ids and back, and the model's own way to write a conversation."""

    context: int
    """How many tokens prompt and answer may have together."""

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """Without special tokens."""
        ...

    def conversation(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation, ready for the model's next answer."""
        ...

    def mark(self, text: str) -> list[int]:
        """As `encode`, for text of ours: what spells a special token is one."""
        ...


class TokenBackbone(Protocol):
    name: str
    tokenizer: Tokenizer

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        """One completion for each request, in order. Calls may overlap; their requests share the running batch."""
        ...

    async def close(self) -> None: ...
