"""What an answer costs, and how long a text may be where the model's tokenizer is out of reach. Pure functions.

Two counts, never mixed: a likely one for planning, and a bound for caps. A token stands for at least one byte of text, and some
tokenizers do spend one on every digit, so the bytes are the bound, with room for what a chat template writes around messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.backbone.chat import Message
from bottega.core.errors import UsageError

PIECE = re.compile(r"[A-Za-z]{1,6}|\n[ \t]*|[ \t]{2,}|[\x00-\x1f!-@\[-`{-\x7f]")
"""What tokenizers make of ASCII text: parts of words, indentation, single digits and signs; a blank goes with the word after it."""
TEMPLATE_TOKENS = 128
"""What a chat template may add once: begin of text, a default system prompt, today's date."""
MESSAGE_TOKENS = 8
"""What a chat template adds for each message: role and turn marks."""


@dataclass(frozen=True)
class Prices:
    """A price list, in whatever currency it is quoted. Discounts for cached prompts are left out: a cap must hold without them."""

    prompt_per_million: float = 0.0
    output_per_million: float = 0.0
    """Reasoning counts as output: every provider bills it so."""

    def __post_init__(self) -> None:
        for price in (self.prompt_per_million, self.output_per_million):
            if not (math.isfinite(price) and price >= 0):
                raise UsageError(f"a price per million tokens is a number from 0 up, not {price!r}")

    def cost(self, prompt_tokens: int, output_tokens: int) -> float:
        return (prompt_tokens * self.prompt_per_million + output_tokens * self.output_per_million) / 1_000_000


def size(text: str) -> int:
    """UTF-8 bytes. Half of a surrogate pair, which models do write, counts as the mark that replaces it."""
    return len(text.encode("utf-8", "replace"))


def likely_tokens(text: str) -> int:
    """About how many tokens a text has; for code rather too many than too few.

    Against SmolLM2's tokenizer (49,152 tokens) on 26 files of Python, C++, CUDA, TOML and English of this repository and of torch's
    headers: 1.00 to 1.19 times the true count, where bytes over three give 0.64 to 1.30. Larger vocabularies need fewer tokens.
    """
    beyond_ascii = size(text) - len(text.encode("ascii", "ignore"))
    return sum(1 for _ in PIECE.finditer(text)) + math.ceil(beyond_ascii / 2)


def most_tokens(messages: Sequence[Message]) -> int:
    """More tokens than this a conversation does not have, whatever the tokenizer."""
    return TEMPLATE_TOKENS + sum(MESSAGE_TOKENS + size(message.content) for message in messages)
