"""Work that was done before the timed calls and serves only so many of them: a stock of zeroed outputs, made at construction or in a warm-up call.

No clock sees it, and no output is wrong. Whoever makes a stock in some of its timed calls pays for it in their mean. And a stock takes memory:
whoever holds more than the baseline, or returns its outputs from ever new addresses, is called so often that any stock is used up, and what its
calls take longer then is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bottega.judge.clocks import TimedPair

NOTICED_SHARE = 0.125
"""Of a call: what could be prepared for it in less memory than is moved in that time gains less."""
SMALL_BYTES = 32 << 20
MOST_ADDRESSES = 4
"""An allocator gives the same memory again once it is free, but for outputs that are kept."""
SLACK, SLACK_NS = 0.15, 20_000.0
"""By how much the mean of a few calls exceeds the median of others on a busy machine."""
LONGEST_SECONDS = 4.0


@dataclass(frozen=True)
class PreparedWork:
    """What may have been prepared."""

    unit: float
    """Bytes that one call would use up."""
    calls: int
    """How many it would last for."""

    @classmethod
    def suspected(
        cls, more_memory: int, reserve: int, places: Sequence[tuple[int, ...]], output_bytes: int, call_s: float, rate: float
    ) -> PreparedWork | None:
        """`more_memory`: bytes that the candidate holds and the baseline does not. `reserve`: of its heap, where a stock may lie too. `rate`:
        bytes a second."""
        unit = max(output_bytes, NOTICED_SHARE * call_s * rate, 1.0)
        elsewhere = output_bytes >= unit / 2 and len(set(places)) > max(MOST_ADDRESSES, len(places) / 3)
        if more_memory < 2 * unit + SMALL_BYTES and not elsewhere:
            return None
        return cls(unit, math.ceil((max(0, more_memory) + reserve) / unit))

    def rounds(self, round_s: float) -> int:
        """How many more are worth having: as many again as would use it up."""
        return max(8, min(2 * self.calls, int(LONGEST_SECONDS / max(round_s, 1e-4))))

    def hidden_ns(self, before: Sequence[TimedPair], after: Sequence[TimedPair], rate: float) -> float:
        """How much longer a call takes in the long run than the rounds `before` show. `after`: further rounds."""
        if len(after) <= self.calls:  # they were too few
            return 2 * self.unit / rate * 1e9
        return _surplus_ns(before, after) * len(after) / (len(after) - self.calls)


def amortised_ns(pairs: Sequence[TimedPair]) -> float:
    """How much longer the mean call takes than the usual one, where that is no accident: one call of nine does the work of all."""
    return _surplus_ns(pairs, pairs)


def _surplus_ns(before: Sequence[TimedPair], after: Sequence[TimedPair]) -> float:
    usual = median(map(core_ns, before))
    more = fmean(map(core_ns, after)) - usual
    return more if more > SLACK * usual + SLACK_NS else 0.0


def core_ns(pair: TimedPair) -> float:
    """What a call of the candidate took by the operating system's count, which waiting for a core does not change."""
    return pair.candidate_ran + pair.candidate_others / max(1, pair.cores - 1) if pair.candidate_ran else pair.candidate_inner


def charge(row: dict[str, Any], hidden_ns: float) -> None:
    """Add it to the calls of a candidate that would be called faster. Not at the high end: it may be less."""
    point, low, high = row["speedup"]
    if not hidden_ns or low <= 1:
        return
    base_ns = row["baseline_ms"] * 1e6
    row["speedup"] = [*(base_ns / (base_ns / each + hidden_ns) for each in (point, low)), high]
    row["prepared"] = f"{hidden_ns / 1e6:.3g} ms a call"
