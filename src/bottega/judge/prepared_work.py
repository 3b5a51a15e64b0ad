"""Work that was done before the timed calls and serves only so many of them: a stock of zeroed outputs, made at construction or in a warm-up call.

No clock sees it, and no output is wrong. Whoever makes a stock in some of its timed calls pays for it in their mean, where that is above the
median by more than the baseline's is: the same inputs may take both longer. And a stock takes memory: whoever holds more than the baseline, or
returns outputs that take long to write, of which a stock may lie in place of the heap's reserve, is called so often that any stock is used up
(`many_calls`), and what its calls take longer then is charged. Packed weights, tables and imported libraries take memory too; nothing of them is
used up, and nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bottega.judge.clocks import FLOOR_NS, TimedPair

NOTICED_SHARE = 0.125
"""Of a call, beside the microseconds by which intervals are widened anyway: what could be prepared for it in less memory than is moved in that
time gains less."""
SMALL_BYTES = 32 << 20
SLACK, SLACK_OF_DELIVERY, SLACK_NS = 0.15, 0.05, 20_000.0
"""By how much the mean of a few calls exceeds the median of others on a busy machine: of a call, and of what a worker does beside it."""
FEWEST_CALLS = 8


@dataclass(frozen=True)
class PreparedWork:
    """What may have been prepared."""

    unit: float
    """Bytes that one call would use up."""
    calls: int
    """How many it would last for."""

    @classmethod
    def suspected(cls, more_memory: int, reserve: int, output_bytes: int, call_s: float, rate: float) -> PreparedWork | None:
        """`more_memory`: bytes that the candidate holds and the baseline does not. `reserve`: of its heap, where a stock may lie too. `rate`:
        bytes a second."""
        unit = max(output_bytes, (NOTICED_SHARE * call_s + FLOOR_NS / 1e9) * rate, 1.0)
        if more_memory < 2 * unit + SMALL_BYTES and output_bytes < unit / 2:
            return None
        return cls(unit, math.ceil((max(0, more_memory) + reserve) / unit))

    @property
    def calls_to_make(self) -> int:
        """As many as use it up, and some after that: who then fills it again pays for all of it in one of these calls."""
        return self.calls + FEWEST_CALLS

    def hidden_ns(self, before: Sequence[TimedPair], after_ns: Sequence[int]) -> float:
        """How much longer a call takes in the long run than the rounds `before` show: when any stock is used up, or in the mean where it is filled
        again. `after_ns`: what further calls took on a core. Of a few calls, which may be all that there was time for, one may be an accident:
        then what each of them took longer."""
        if not after_ns:
            return 0.0
        usual = fmean(pair.candidate_core for pair in before)  # what their mean is above their median is charged already
        used_up = after_ns[self.calls :]
        of_all = fmean(after_ns) if len(after_ns) >= FEWEST_CALLS else min(after_ns)
        longest = max(of_all, fmean(used_up) if len(used_up) >= FEWEST_CALLS else 0.0)
        return _noticed(before, longest - usual)

    def unknown_ns(self, calls: int, rate: float) -> float:
        """What may be hidden where so many calls were too few to tell."""
        return 2 * self.unit / rate * 1e9 if calls < self.calls + FEWEST_CALLS else 0.0


def amortised_ns(pairs: Sequence[TimedPair], again: Sequence[TimedPair] = ()) -> float:
    """How much longer the mean call takes than the usual one, where the baseline's does not: one call of nine does the work of all. `again`: further
    rounds, in which an accident does not come again, and a stock may have been used up."""
    theirs = [max(pair.baseline_core - pair.baseline_beside, 1) for pair in (*pairs, *again)]
    uneven = max(1.0, fmean(theirs) / median(theirs))
    usual = median(pair.candidate_core for pair in pairs)
    beside = median(pair.baseline_beside for pair in pairs)
    mean = fmean(pair.candidate_core for pair in (*pairs, *again))
    return _noticed(pairs, mean - usual - (uneven - 1) * max(usual - beside, 0))


def _noticed(pairs: Sequence[TimedPair], more: float) -> float:
    """It, unless it may be an accident."""
    beside = median(pair.baseline_beside for pair in pairs)
    call = max(median(pair.candidate_core for pair in pairs) - beside, 0)
    return more if more > SLACK * call + SLACK_OF_DELIVERY * beside + SLACK_NS else 0.0


def charge(row: dict[str, Any], hidden_ns: float, unknown_ns: float = 0.0) -> None:
    """Add it to the calls of a candidate that would be called faster. Not at the high end, since it may be less; what is not known only at the
    low end."""
    point, low, high = row["speedup"]
    if not hidden_ns + unknown_ns or low <= 1:
        return
    base_ns = row["baseline_ms"] * 1e6
    row["speedup"] = [base_ns / (base_ns / point + hidden_ns), base_ns / (base_ns / low + hidden_ns + unknown_ns), high]
    if hidden_ns:
        row["prepared"] = f"{hidden_ns / 1e6:.3g} ms a call"
    else:
        row["unknown"] = f"{unknown_ns / 1e6:.3g} ms a call"
