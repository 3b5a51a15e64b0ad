"""Calls that cost a device or a model: how many at a time, whose, and for how long. A call that finds no place is told so instead of waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

from bottega.core.errors import UsageError
from bottega.service.tokens import Token
from bottega.service.usage import SecondsUsed

MOST_AT_ONCE = 8


class CallTooLong(UsageError):
    """It was ended, as the token's time for one request was up."""


@dataclass
class Calls:
    most: int = MOST_AT_ONCE
    usage: SecondsUsed | None = None
    """Where seconds are counted; None where there are no tokens."""
    _places: Counter[str] = field(default_factory=Counter)

    def take_place(self, token: Token) -> Callable[[], None]:
        """Gives the function that gives it back. Raises where there is none, where the token has its share of them, or its hour is used up."""
        share = max(1, int(self.most * token.limits.queue_share))
        if self._places.total() >= self.most:
            raise UsageError(f"{self.most} calls are being judged already; wait for one of them, and call again")
        if self._places[token.name] >= share:
            raise UsageError(f"{share} calls of this token are being judged already; wait for one of them, and call again")
        if self.usage is not None and (told := self.usage.used_up(token.name, token.limits)):
            raise UsageError(f"{told}; call again later")
        self._places[token.name] += 1

        def give_back() -> None:
            self._places[token.name] -= 1

        return give_back

    def counting(self, token: Token) -> AbstractContextManager[None]:
        """What passes inside counts as seconds of this token."""
        return nullcontext() if self.usage is None else self.usage.counting(token.name)

    @asynccontextmanager
    async def limit(self, token: Token) -> AsyncIterator[None]:
        """What is inside is cancelled when the token's time for one request is up."""
        most = token.limits.seconds
        try:
            async with asyncio.timeout(most) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise CallTooLong(
                f"it took longer than the {most:g} s that this token has for one request, and was ended"
            ) from None
