"""The queue of a server: tokens take turns, and within one token the highest priority comes first, then the oldest.

So a token with a thousand requests delays one with a single request by at most one verdict for each other token. Pure; what is in it is
also in the store, from which it is filled again after a restart.
"""

from __future__ import annotations

import bisect
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Waiting:
    rank: tuple[int, int] = field(init=False, default=(0, 0))
    """By which it is ordered: priority downwards, then the time of its arrival."""
    id: str = field(compare=False)
    token: str = field(compare=False)
    devices: frozenset[str] = field(compare=False)
    """Any of which may judge it."""
    priority: int = field(compare=False, default=0)


class FairQueue:
    def __init__(self) -> None:
        self._of: OrderedDict[str, list[Waiting]] = OrderedDict()
        """By token; the next one whose turn it is stands first."""
        self._ids: dict[str, Waiting] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def put(self, one: Waiting) -> None:
        if one.id in self._ids:
            return
        object.__setattr__(one, "rank", (-one.priority, next(self._numbers)))
        bisect.insort(self._of.setdefault(one.token, []), one)
        self._ids[one.id] = one

    def take(self, device: str, may: Callable[[str], bool] = lambda token: True) -> Waiting | None:
        """The next one that this device may judge, of a token that may have something judged now; its token is last in line then."""
        for token, line in self._of.items():
            if not may(token):
                continue
            for one in line:
                if device in one.devices:
                    self._of.move_to_end(token)
                    self.remove(one.id)
                    return one
        return None

    def remove(self, id: str) -> bool:
        one = self._ids.pop(id, None)
        if one is None:
            return False
        line = self._of[one.token]
        line.remove(one)
        if not line:
            del self._of[one.token]
        return True

    def tokens(self) -> tuple[str, ...]:
        return tuple(self._of)

    def ids(self, token: str) -> tuple[str, ...]:
        return tuple(one.id for one in self._of.get(token, ()))

    def count(self, token: str) -> int:
        return len(self._of.get(token, ()))

    def length(self, device: str) -> int:
        """Of those that this device may judge."""
        return sum(device in one.devices for one in self._ids.values())

    def ahead(self, id: str) -> int:
        """How many come before it, if nobody comes later: as many of its own token's as there are, and of each other's as many turns."""
        one = self._ids[id]
        tokens = list(self._of)
        place, turn = self._of[one.token].index(one), tokens.index(one.token)
        others = ((number, len(self._of[token])) for number, token in enumerate(tokens) if token != one.token)
        return place + sum(min(length, place + (number < turn)) for number, length in others)
