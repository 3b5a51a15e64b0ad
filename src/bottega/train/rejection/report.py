"""What rejection sampling dropped and why, so that a shrinking batch is visible in the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Dropped:
    rule: str
    """`coverage` or `mismatch`."""
    trace: str
    turn: int | None
    """None: the whole trace."""
    reason: str
    """A short word, the same for all of a kind."""
    value: float
    """What was looked at."""


@dataclass(frozen=True)
class Rejection:
    looked_at: int
    dropped: tuple[Dropped, ...] = ()

    @property
    def share(self) -> float:
        return len(self.dropped) / self.looked_at if self.looked_at else 0.0

    @property
    def traces(self) -> frozenset[str]:
        """Those that were dropped as a whole."""
        return frozenset(each.trace for each in self.dropped if each.turn is None)

    @property
    def turns(self) -> frozenset[tuple[str, int]]:
        return frozenset((each.trace, each.turn) for each in self.dropped if each.turn is not None)

    def drops(self, trace: str, turn: int) -> bool:
        return trace in self.traces or (trace, turn) in self.turns

    def __str__(self) -> str:
        if not self.dropped:
            return f"nothing dropped of {self.looked_at}"
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(e.reason for e in self.dropped).items()))
        return f"{len(self.dropped)} of {self.looked_at} dropped: {reasons}"
