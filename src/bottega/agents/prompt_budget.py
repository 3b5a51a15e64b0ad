"""A prompt that fits: the fullest of a fixed order of ever shorter prompts whose tokens are within the budget.

Each role lists its own order, since it knows what it can do without; here is only the search, which counts whole prompts and so
depends on no guess about how lengths add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bottega.backbone.chat import Message
from bottega.backbone.ledger import MESSAGE_TOKENS
from bottega.backbone.reply import ContextError

Plan = TypeVar("Plan")

LENGTHS = (600, 300, 120)
"""Characters to which diagnoses shrink, step by step, where a prompt does not fit otherwise."""


@dataclass(frozen=True)
class PromptBudget:
    tokens: int
    """Of the whole prompt, with what a chat template adds for each message."""
    count_tokens: Callable[[str], int]

    def size(self, messages: Sequence[Message]) -> int:
        return sum(self.count_tokens(message.text) + MESSAGE_TOKENS for message in messages)


def fitting(
    plans: Sequence[Plan], build: Callable[[Plan], list[Message]], budget: PromptBudget | None, role: str, task: str
) -> list[Message]:
    """The prompt of the first plan that fits. Plans come fullest first; without a budget the first is taken.

    Raises `ContextError`, which is a `BackboneError`, with the sizes where even the last is too long.
    """
    if budget is None:
        return build(plans[0])
    fullest = build(plans[0])
    if budget.size(fullest) <= budget.tokens:
        return fullest
    barest = build(plans[-1])
    least = budget.size(barest)
    if least > budget.tokens:
        raise ContextError(
            f"the shortest prompt to {role} has {least} tokens, {budget.count_tokens(task)} of them the task, "
            f"and may have {budget.tokens}: take a model with a longer context, a shorter answer, or a smaller task"
        )
    below, fits, found = 0, len(plans) - 1, barest  # plans[below] is too long, plans[fits] is not
    while fits - below > 1:
        middle = (below + fits) // 2
        messages = build(plans[middle])
        if budget.size(messages) <= budget.tokens:
            fits, found = middle, messages
        else:
            below = middle
    return found


def cut_to_length(text: str, longest: int | None) -> str:
    """The beginning of a text, whole lines where that keeps the better part of it."""
    text = text.strip()
    if longest is None or len(text) <= longest:
        return text
    cut = text[: longest - 2]
    for end in ("\n", " "):
        at = cut.rfind(end)
        if at >= longest // 2:
            cut = cut[:at]
            break
    return cut.rstrip() + " …"
