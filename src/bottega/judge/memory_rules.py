"""Who may have memory of a device next: the rules of the ledger, as functions of its entries and of what the GPU says.

A request that fits is granted, so that small tasks go on while a large one waits; but not past an older request that has waited for long and
could be served. So no request starves, and none waits for one that only foreign processes block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

RESERVE_BYTES = 256 << 20
"""Never given away: what the driver takes for itself as processes come and go."""
AGEING_SECONDS = 3.0
"""Younger ones go past an older one for so long."""
MUCH_SMALLER, MUCH_SMALLER_SECONDS = 8, 20.0
"""Those that want less than an eighth of it for longer: they hardly change when it gets its memory."""
EMPTY_SHARE, EMPTY_BYTES = 0.08, 3 << 29
"""A GPU of which no more than this share, or 1.5 GiB, is taken counts as empty: drivers and desktops hold a little of it always."""
WHOLE_WAIT_SECONDS = 10.0
"""How long one who wants the whole GPU waits for persistent claims to shrink and other processes to go, once everybody else has gone."""


@dataclass(frozen=True)
class LedgerEntry:
    """One slot of the ledger."""

    slot: int
    state: Literal["waiting", "held"]
    size: int
    ticket: int
    since: float
    """On the monotonic clock, which all processes of a machine share."""
    whole: bool = False
    """Wants all of the GPU, beside persistent claims only."""
    persistent: bool = False
    """Does not end by itself, such as a model in memory; it may shrink."""
    name: str = ""
    process: int = 0


@dataclass(frozen=True)
class LedgerState:
    """The ledger at a moment."""

    entries: tuple[LedgerEntry, ...]
    total: int
    foreign_bytes: int
    """Bytes that are taken on the GPU by processes without a claim."""
    now: float

    @property
    def held(self) -> list[LedgerEntry]:
        return [entry for entry in self.entries if entry.state == "held"]

    @property
    def waiting(self) -> list[LedgerEntry]:
        """Oldest first."""
        return sorted((entry for entry in self.entries if entry.state == "waiting"), key=lambda entry: entry.ticket)

    def room_beside(self, held: Sequence[LedgerEntry], me: LedgerEntry) -> int:
        return self.total - RESERVE_BYTES - self.foreign_bytes - sum(entry.size for entry in held if entry.slot != me.slot)

    def room(self, me: LedgerEntry) -> int:
        """What `me` could have now. May be negative."""
        return self.room_beside(self.held, me)

    def best_room(self, me: LedgerEntry) -> int:
        """What `me` could have once everybody has gone who will."""
        return self.room_beside([entry for entry in self.held if entry.persistent], me)


def shortage(state: LedgerState, me: LedgerEntry) -> int:
    """Bytes that others would have to give back before `me` fits; 0 when it does."""
    if me.whole:
        return sum(entry.size for entry in state.held if not entry.persistent and entry.slot != me.slot)
    return max(0, me.size - state.room(me))


def is_blocked(state: LedgerState, me: LedgerEntry) -> bool:
    """Whether waiting for other claims to end is of no use: processes without a claim, or persistent claims, hold what `me` needs."""
    best = state.best_room(me)
    return not counts_as_empty(state.total, best) if me.whole else best < me.size


def counts_as_empty(total: int, room: int) -> bool:
    """Whether one who has `room` has the GPU to itself."""
    return total - RESERVE_BYTES - room <= max(int(EMPTY_SHARE * total), EMPTY_BYTES)


def fits(state: LedgerState, me: LedgerEntry) -> bool:
    return shortage(state, me) == 0 and not (me.whole and is_blocked(state, me))


def must_yield(state: LedgerState, me: LedgerEntry) -> bool:
    """Whether an older request has waited too long for `me` to go first."""
    return any(
        other.ticket < me.ticket
        and state.now - other.since > _patience(other, me)
        and (other.whole or not is_blocked(state, other))
        for other in state.waiting
        if other.slot != me.slot
    )


def _patience(older: LedgerEntry, me: LedgerEntry) -> float:
    much_smaller = not older.whole and MUCH_SMALLER * me.size <= older.size
    return MUCH_SMALLER_SECONDS if much_smaller else AGEING_SECONDS


def can_grant(state: LedgerState, me: LedgerEntry) -> bool:
    return fits(state, me) and not must_yield(state, me)


def bytes_to_free(state: LedgerState) -> int:
    """What would have to be given back for the first one in the queue that could be served."""
    return next((shortage(state, one) for one in state.waiting if one.whole or not is_blocked(state, one)), 0)
