"""A budget for thinking: a model that is still thinking when it is spent is made to answer.

Thoughts that were cut become part of the prompt: nobody drew the mark that ends them, so that there is no log-prob of it, and training
learns the answer given the thoughts. Thoughts that ended by themselves are part of the answer. Earlier turns' thoughts are in no prompt: an
episode shows a later turn the kernel, its summary and the diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bottega.backbone.chat import Sampling, TokenBackbone, TokenCompletion, TokenRequest

OPEN, CLOSE = "<think>", "</think>"
GIVE_UP = f"\n{CLOSE}\n\n"
TAIL = 16
"""Tokens of a prompt that are looked at: a template may open the thoughts itself."""


@dataclass(frozen=True)
class Thought:
    cut: tuple[int, ...]
    """Thoughts that were broken off, with the mark that ends them; empty where none were."""
    answer: TokenCompletion


def template_arguments(thinking: bool | None, template: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of a chat template: `enable_thinking` where it is said, and what else the template knows, such as `reasoning_effort`."""
    return {**({} if thinking is None else {"enable_thinking": thinking}), **(template or {})}


def is_thinking(before: str, text: str) -> bool:
    """Whether an answer that begins with `text`, after a prompt that ends with `before`, has opened its thoughts and not closed them."""
    opened = before.rstrip().endswith(OPEN) or text.lstrip().startswith(OPEN)
    return opened and CLOSE not in text


async def complete_within(backbone: TokenBackbone, prompt: Sequence[int], sampling: Sampling, budget: int | None) -> Thought:
    """One answer, of which at most `budget` tokens are thoughts."""
    asked, tokenizer = tuple(prompt), backbone.tokenizer
    if budget is None or budget >= sampling.max_tokens:
        (answer,) = await backbone.complete([TokenRequest(asked, sampling)])
        return Thought((), answer)
    (first,) = await backbone.complete([TokenRequest(asked, replace(sampling, max_tokens=budget))])
    if first.stop_reason != "length":
        return Thought((), first)
    thinking = is_thinking(tokenizer.decode(asked[-TAIL:]), tokenizer.decode(first.output_ids))
    cut = (*first.output_ids, *tokenizer.mark(GIVE_UP)) if thinking else ()
    so_far = asked + (cut or first.output_ids)
    left = min(sampling.max_tokens - budget, tokenizer.context - len(so_far))
    if left < 1:
        return Thought((), first)
    seed = None if sampling.seed is None else sampling.seed + 1  # else the same noise would come again
    (rest,) = await backbone.complete([TokenRequest(so_far, replace(sampling, max_tokens=left, seed=seed))])
    if thinking:
        return Thought(cut, rest)
    whole = replace(rest, output_ids=first.output_ids + rest.output_ids, logprobs=first.logprobs + rest.logprobs)
    return Thought((), replace(whole, policy_version=first.policy_version))
