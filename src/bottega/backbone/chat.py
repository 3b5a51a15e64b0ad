"""Chat completion: messages in, text and usage out. What every server speaks, and all that is needed where nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bottega.backbone.sampling import Sampling, StopReason


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


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


class ChatBackbone(Protocol):
    name: str
    context: int
    """How many tokens prompt and answer may have together."""

    async def chat(self, messages: Sequence[Message], sampling: Sampling) -> ChatCompletion:
        """One answer. Raises `BackboneError` when none can be had, and `BudgetError` when the cap is reached."""
        ...

    def count_tokens(self, text: str) -> int:
        """How long a text is for this model; an estimate where the model's tokenizer is out of reach."""
        ...

    async def close(self) -> None: ...
