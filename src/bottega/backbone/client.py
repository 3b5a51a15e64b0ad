"""What agents' callers talk to: one question, one answer, whichever protocol answers it.

The token path keeps the ids and log-probs that training needs, the chat path has none; everything else is the same, so an
episode is written once. Both keep to the context: an answer's limit shrinks to what the prompt leaves, and a prompt that leaves
nothing is an error here, before a server is asked, because servers differ in what they make of it (some cut the prompt silently).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bottega.backbone.chat import ChatBackbone, Message, Sampling, StopReason, TokenBackbone, Usage, before_stop, with_tools
from bottega.backbone.ledger import MESSAGE_TOKENS
from bottega.backbone.reply import ContextError
from bottega.backbone.thinking import complete_within
from bottega.backbone.tool_calls import ToolCall, ToolSpec


@dataclass(frozen=True)
class Generation:
    text: str
    usage: Usage
    stop_reason: StopReason
    prompt_ids: tuple[int, ...] | None = None
    """None, as the three below, where a server speaks text only: such an answer cannot be trained on."""
    output_ids: tuple[int, ...] | None = None
    """As drawn: the end-of-turn token is in it, though not in the text."""
    logprobs: tuple[float, ...] | None = None
    policy_version: int | None = None
    calls: tuple[ToolCall, ...] = ()
    """Of tools, from a server that calls them."""


class Client(Protocol):
    name: str
    context: int
    """How many tokens prompt and answer may have together."""

    async def generate(self, messages: Sequence[Message], sampling: Sampling) -> Generation:
        """One answer. Raises `BackboneError` when none can be had, and `BudgetError` when a cap is reached."""
        ...

    def count_tokens(self, text: str) -> int: ...

    async def close(self) -> None: ...


class ChatClient:
    """Speaks through a `ChatBackbone`. The length of a prompt is as good as the backbone's own count, often an estimate."""

    def __init__(self, backbone: ChatBackbone) -> None:
        self.backbone = backbone
        self.name, self.context = backbone.name, backbone.context
        self.calls_tools = bool(getattr(backbone, "calls_tools", False))
        """Whether `generate` takes tools; a client without this attribute takes none."""

    def count_tokens(self, text: str) -> int:
        return self.backbone.count_tokens(text)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> Generation:
        prompt = sum(self.count_tokens(message.text) + MESSAGE_TOKENS for message in with_tools(messages, tools))
        fitting = fitted(sampling, prompt, self.context, self.name)
        completion = await self.backbone.chat(messages, fitting, *([tools] if tools else []))
        text = before_stop(completion.text, sampling.stop)
        return Generation(text, completion.usage, completion.stop_reason, calls=completion.calls)

    async def close(self) -> None:
        await self.backbone.close()


class TokenClient:
    """Speaks through a `TokenBackbone`: writes the conversation as ids, and reads the drawn ids back as text."""

    def __init__(self, backbone: TokenBackbone, thinking_tokens: int | None = None) -> None:
        """`thinking_tokens`: how long a model may think before it is made to answer; none is no limit but that of the answer."""
        self.backbone, self.thinking_tokens = backbone, thinking_tokens
        self.name, self.context = backbone.name, backbone.tokenizer.context

    def count_tokens(self, text: str) -> int:
        return len(self.backbone.tokenizer.encode(text))

    async def generate(self, messages: Sequence[Message], sampling: Sampling) -> Generation:
        prompt_ids = tuple(self.backbone.tokenizer.conversation(messages))
        fitting = fitted(sampling, len(prompt_ids), self.context, self.name)
        found = await complete_within(self.backbone, prompt_ids, fitting, self.thinking_tokens)
        drawn = found.answer
        return Generation(
            text=before_stop(self.backbone.tokenizer.decode(found.cut + drawn.output_ids), sampling.stop),
            usage=Usage(len(prompt_ids), len(found.cut) + len(drawn.output_ids)),
            stop_reason=drawn.stop_reason,
            prompt_ids=prompt_ids + found.cut,
            output_ids=drawn.output_ids,
            logprobs=drawn.logprobs,
            policy_version=drawn.policy_version,
        )

    async def close(self) -> None:
        await self.backbone.close()


def fitted(sampling: Sampling, prompt_tokens: int, context: int, name: str) -> Sampling:
    """The same sampling with its limit shortened to what the prompt leaves of the context."""
    room = context - prompt_tokens
    if room < 1:
        raise ContextError(
            f"a prompt of about {prompt_tokens} tokens leaves no room for an answer in the context of {name} ({context}): "
            "drop the oldest turns, choose fewer skills, or take a model with a longer context"
        )
    return sampling if sampling.max_tokens <= room else replace(sampling, max_tokens=room)
