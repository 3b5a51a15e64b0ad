"""Caps on tokens and money. A request sets its worst case aside before it is sent and settles with what it really took.

That way requests under way count, and a cap holds however many of them there are. A request that does not fit only because of
others under way waits for them, since most take far less than their worst case; one that will not fit even then is refused.
What a ledger cannot see: a server that ignores the limit it was sent, and a provider that bills a request which broke off without an answer.

Where the model's tokenizer is out of reach there are two counts, never mixed: a likely one for planning, and a bound for caps. A token stands for at
least one byte of text, and some tokenizers do spend one on every digit, so the bytes are the bound, with room for what a chat template adds.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.backbone.chat import Message, Usage
from bottega.core.errors import BudgetError, UsageError

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
    return TEMPLATE_TOKENS + sum(MESSAGE_TOKENS + size(message.text) for message in messages)


ROUNDING = 1e-9
"""Money is summed in floating point: a sum that meets its cap exactly still fits."""


@dataclass(frozen=True, eq=False)
class Reservation:
    """What one request may take at most. Told apart by identity: two alike are still two."""

    worst: Usage


class Ledger:
    """Hard caps on tokens and money, for any number of requests at once, from any thread or event loop."""

    def __init__(
        self,
        prices: Prices | None = None,
        *,
        token_cap: int | None = None,
        money_cap: float | None = None,
        spent: Usage | None = None,
        answers: int = 0,
    ) -> None:
        """`spent` and `answers` carry over what an earlier part of the same run took."""
        for cap in (token_cap, money_cap):
            if cap is not None and not (math.isfinite(cap) and cap >= 0):
                raise UsageError(f"a cap on tokens or money is a number from 0 up, not {cap!r}")
        self.prices = prices or Prices()
        if money_cap is not None and self.prices == Prices():
            raise UsageError("a cap on money needs prices: give those of a million prompt and output tokens")
        self.token_cap, self.money_cap = token_cap, money_cap
        self.spent, self.answers = spent or Usage(), answers
        self._lock = threading.Lock()
        self._open: set[Reservation] = set()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def held(self) -> Usage:
        """What requests under way may still take."""
        return sum((reservation.worst for reservation in self._open), Usage())

    async def hold(self, prompt_tokens: int, output_tokens: int) -> Reservation:
        """Set the worst case of a request aside. Waits while requests under way stand in the way; `BudgetError` once they no longer can be
        the reason."""
        wanted = Reservation(self._usage(prompt_tokens, output_tokens))
        while True:
            with self._lock:
                if self._fits(self.spent + self.held + wanted.worst):
                    self._open.add(wanted)
                    return wanted
                if not self._open or not self._fits(self.spent + wanted.worst):
                    raise BudgetError(self._refusal(wanted.worst))
                woken = asyncio.Event()
                self._waiting.append((asyncio.get_running_loop(), woken))
            await woken.wait()

    def settle(self, reservation: Reservation, prompt_tokens: int, output_tokens: int, *, estimated: bool = False) -> Usage:
        """Book what a request really took, give the rest of its reservation back, and say what it cost."""
        usage = self._usage(prompt_tokens, output_tokens, estimated)
        with self._lock:
            self.spent, self.answers = self.spent + usage, self.answers + 1
        self.release(reservation)
        return usage

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back. Does nothing when it was settled, so it fits a `finally`. Every waiting request looks again; each may live
        on another loop, and that loop may be gone."""
        with self._lock:
            self._open.discard(reservation)
            waiting, self._waiting = self._waiting, []
        for loop, woken in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken.set)

    def _usage(self, prompt_tokens: int, output_tokens: int, estimated: bool = False) -> Usage:
        return Usage(prompt_tokens, output_tokens, self.prices.cost(prompt_tokens, output_tokens), estimated)

    def _fits(self, whole: Usage) -> bool:
        enough_tokens = self.token_cap is None or whole.tokens <= self.token_cap
        return enough_tokens and (self.money_cap is None or whole.cost <= self.money_cap + ROUNDING)

    def _refusal(self, wanted: Usage) -> str:
        scarce = self.token_cap is not None and (self.spent + self.held + wanted).tokens > self.token_cap
        cap = f"{self.token_cap} tokens" if scarce else f"{self.money_cap:g} in money"
        cost, wanted_cost = (f" for {usage.cost:.4f}" if self.prices != Prices() else "" for usage in (self.spent, wanted))
        return (
            f"the cap of {cap} leaves no room for another request: {self.spent.tokens} tokens used{cost} in {self.answers} answers"
            f"{' (some of them estimated)' if self.spent.estimated else ''}, {self.held.tokens} tokens set aside by requests under way, "
            f"and this one may take {wanted.prompt_tokens} + {wanted.output_tokens} tokens{wanted_cost}. "
            "Raise the cap, or ask for shorter answers; what was done so far stands."
        )
