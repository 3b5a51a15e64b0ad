"""Caps on tokens and money. A request reserves its worst case before it is sent and settles with what it really took.

That way requests under way count, and a cap holds however many of them there are. A request that does not fit only because of
others under way waits for them, since most take far less than their worst case; one that will not fit even then is refused.
What a ledger cannot see: a server that ignores the limit it was sent (`Spent.overrun`), and a provider that bills a request
which broke off without an answer (`Spent.unanswered`).
"""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass, field, replace

from bottega.backbone.chat import Usage
from bottega.backbone.pricing import Prices
from bottega.core.errors import BudgetError, UsageError

ROUNDING = 1e-9
"""Money is summed in floating point: a sum that meets its cap exactly still fits."""


@dataclass(frozen=True, eq=False)
class Reservation:
    """What one request may take at most. Told apart by identity: two alike are still two."""

    prompt_tokens: int
    output_tokens: int
    cost: float

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Spent:
    """A ledger at one moment."""

    usage: Usage = field(default_factory=Usage)
    answers: int = 0
    estimated: int = 0
    """Answers whose server told no usage: their tokens and cost are estimates, rather too high than too low."""
    overrun: int = 0
    """Answers that took more than was set aside: the server ignores its limit."""
    unanswered: int = 0
    """Requests that failed or were cancelled without telling a usage. They count as nothing; a provider may see that otherwise."""

    @property
    def tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.output_tokens


class Ledger:
    """Hard caps on tokens and money, for any number of requests at once, from any thread or event loop."""

    def __init__(
        self,
        prices: Prices | None = None,
        *,
        token_cap: int | None = None,
        money_cap: float | None = None,
        spent: Spent | None = None,
    ) -> None:
        """`spent` carries over what an earlier part of the same run took."""
        for cap in (token_cap, money_cap):
            if cap is not None and not (math.isfinite(cap) and cap >= 0):
                raise UsageError(f"a cap on tokens or money is a number from 0 up, not {cap!r}")
        self.prices = prices or Prices()
        if money_cap is not None and self.prices == Prices():
            raise UsageError("a cap on money needs prices: give those of a million prompt and output tokens")
        self.token_cap, self.money_cap = token_cap, money_cap
        self._lock = threading.Lock()
        self._spent = spent or Spent()
        self._open: set[Reservation] = set()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def spent(self) -> Spent:
        return self._spent

    @property
    def reserved(self) -> Usage:
        """What requests under way may still take."""
        with self._lock:
            return sum((Usage(held.prompt_tokens, held.output_tokens, held.cost) for held in self._open), Usage())

    def reserve(self, prompt_tokens: int, output_tokens: int) -> Reservation:
        """Set the worst case of a request aside, or raise `BudgetError` when caps and requests under way leave no room."""
        wanted = Reservation(prompt_tokens, output_tokens, self.prices.cost(prompt_tokens, output_tokens))
        with self._lock:
            self._take(wanted, patient=False)
        return wanted

    async def hold(self, prompt_tokens: int, output_tokens: int) -> Reservation:
        """As `reserve`, but wait while requests under way stand in the way; `BudgetError` once they no longer can be the reason."""
        wanted = Reservation(prompt_tokens, output_tokens, self.prices.cost(prompt_tokens, output_tokens))
        while True:
            with self._lock:
                if self._take(wanted, patient=True):
                    return wanted
                woken = asyncio.Event()
                self._waiting.append((asyncio.get_running_loop(), woken))
            await woken.wait()

    def settle(self, reservation: Reservation, prompt_tokens: int, output_tokens: int, *, estimated: bool = False) -> Usage:
        """Book what a request really took, give the rest of its reservation back, and say what it cost."""
        usage = Usage(prompt_tokens, output_tokens, self.prices.cost(prompt_tokens, output_tokens), estimated)
        over = prompt_tokens + output_tokens > reservation.tokens or usage.cost > reservation.cost + ROUNDING
        with self._lock:
            self._open.discard(reservation)
            before = self._spent
            self._spent = replace(
                before,
                usage=before.usage + usage,
                answers=before.answers + 1,
                estimated=before.estimated + estimated,
                overrun=before.overrun + over,
            )
            self._wake()
        return usage

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back whose request failed. Does nothing when it was settled, so it fits a `finally`."""
        with self._lock:
            if reservation in self._open:
                self._open.discard(reservation)
                self._spent = replace(self._spent, unanswered=self._spent.unanswered + 1)
                self._wake()

    def _take(self, wanted: Reservation, *, patient: bool) -> bool:
        held_tokens, held_cost = sum(held.tokens for held in self._open), sum(held.cost for held in self._open)
        if not self._fits(wanted, held_tokens, held_cost):
            if patient and self._fits(wanted, 0, 0.0):
                return False
            raise BudgetError(self._refusal(wanted))
        self._open.add(wanted)
        return True

    def _fits(self, wanted: Reservation, held_tokens: int, held_cost: float) -> bool:
        tokens, cost = self._spent.tokens + held_tokens + wanted.tokens, self._spent.usage.cost + held_cost + wanted.cost
        enough_tokens = self.token_cap is None or tokens <= self.token_cap
        return enough_tokens and (self.money_cap is None or cost <= self.money_cap + ROUNDING)

    def _wake(self) -> None:
        """Let every waiting request look again; each may live on another loop, and that loop may be gone."""
        waiting, self._waiting = self._waiting, []
        for loop, woken in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken.set)

    def _refusal(self, wanted: Reservation) -> str:
        spent, held = self._spent, sum(other.tokens for other in self._open)
        scarce = self.token_cap is not None and spent.tokens + held + wanted.tokens > self.token_cap
        cap = f"{self.token_cap} tokens" if scarce else f"{self.money_cap:g} in money"
        cost, wanted_cost = (
            f" for {money:.4f}" if self.prices != Prices() else "" for money in (spent.usage.cost, wanted.cost)
        )
        return (
            f"the cap of {cap} leaves no room for another request: {spent.tokens} tokens used{cost} "
            f"in {spent.answers} answers ({spent.estimated} of them estimated), {held} tokens set aside by requests under way, "
            f"and this one may take {wanted.prompt_tokens} + {wanted.output_tokens} tokens{wanted_cost}. "
            "Raise the cap, or ask for shorter answers; what was done so far stands."
        )
