"""Token completion: ids in, ids and log-probs out. What training needs, because text does not say which tokens were sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bottega.backbone.chat import Message
from bottega.backbone.sampling import Sampling, StopReason


@dataclass(frozen=True)
class TokenRequest:
    prompt_ids: tuple[int, ...]
    sampling: Sampling


@dataclass(frozen=True)
class TokenCompletion:
    output_ids: tuple[int, ...]
    """As sampled, the end-of-turn token included where it was sampled."""
    logprobs: tuple[float, ...]
    """Of each sampled token, at the temperature of sampling (1 where it is 0), without top-p: what a teacher-forced pass gives there."""
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


class TokenBackbone(Protocol):
    name: str
    tokenizer: Tokenizer

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        """One completion for each request, in order. Calls may overlap; their requests share the running batch."""
        ...

    async def close(self) -> None: ...
