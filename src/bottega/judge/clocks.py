"""One time from two clocks. The worker's (inner) clock is precise and forgeable; the controller's (outer) clock is neither. Pure functions.

The outer clock also counts waking the worker. The trusted baseline, run in the same way on the same inputs, shows how much that is: outer minus
inner. The candidate is charged its outer time minus that. Delivering the outputs is timed separately and counts one way only: a delivery that
takes longer than the baseline's contains postponed work and is charged; a quicker one earns nothing.

On a busy machine one runner may wait for a core in call after call while the other does not. That is charged too, but does not count as a forged
clock. A GPU that other processes use is theirs for milliseconds at a time, possibly in every call of one runner and in none of the other's. Then
nothing is subtracted from the outer clock, and no clock is called forged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from statistics import median

from bottega.core.verdict import NO_UPPER_END, Speedup
from bottega.judge.crowd import UNKNOWN
from bottega.judge.statistics import hodges_lehmann, interval, quickest_quarter, width

GROSS = 0.4
"""A claim that with confidence leaves out more than this share of the outer time is called forged. Smaller differences need no name: the
interval contains the outer clock in any case."""
LEAST_NS = 1000.0
FLOOR_NS = 10_000.0
"""Two processes differ by microseconds, whatever they run. And hostile code may leave out what an honest worker has a GPU do besides
the module: an event where its clock starts, the flag that the call is over, now and then an early read. Leaving out all of it saved 8 µs
when measured."""
OWN_FLOOR_NS = 2000.0
"""The same for code that is trusted, by the worker's clock."""
LARGEST_RATIO = NO_UPPER_END
SHARED_NS = 1_250_000.0
"""A call on a GPU lasts as long as the hold, the module, and the switch between processes: the last takes 0.3 ms on an idle H200. Where it is
longer by more than this, the device was used by others, whose time slices were measured as 2.4 ms."""
STOLEN_SHARE, WOKEN_NS = 0.03, 30_000.0
"""Of the baseline's time, and how long a woken thread waits: smaller differences between two processes occur on any machine."""
CROWDED = 200
"""Thousandths of a core: where others have less, they are not why a call waits."""
FORGED_ABOVE_MS = 0.25
"""Differences below this may be a slow launch or a thread that had to be woken."""


@dataclass(frozen=True)
class TimedPair:
    """One round: both runners on the same contents. Nanoseconds."""

    baseline_outer: int
    baseline_inner: int
    candidate_outer: int
    candidate_inner: int
    baseline_delivery: int = 0
    candidate_delivery: int = 0
    candidate_waited: int = 0
    """How long the candidate's call was ready to go on and had no core, as the operating system counts it. May be too much: waiting in
    the middle of the call is on both clocks. It is an excuse, and earns nothing."""
    candidate_waited_delivery: int = 0
    """The same for a delivery, in which other threads of the candidate may take part."""
    candidate_ran: int = 0
    """How long the candidate's first thread was on a core in the call, by the same count; 0 where a GPU does the work."""
    baseline_beside: int = 0
    """The same of the baseline's, outside of its call: to wake up, to hand over its outputs and to describe them."""
    baseline_waited: int = 0
    """How long some thread of the baseline's call was ready and had no core, as the operating system counts it; 0 beside a GPU."""
    baseline_worked: int = 0
    """How long the baseline's first thread was on a core in its call."""
    restrided: bool = False
    """The candidate returned another layout than the reference: changing it is part of its delivery, and is charged, but is no lie."""
    held: int = 0
    """How long the controller held a GPU in each of the two calls, before the call could begin; 0 on a CPU."""
    baseline_avoidable: int = 0
    """What the baseline's worker did beside its module while the outer clock ran. The candidate's does the same if it is honest; code that has
    replaced it may leave all of that out, and spend the time on the work that it claims not to need. 0 on a GPU."""
    baseline_ahead: int = 0
    """What the baseline's threads ran while it made the views of its inputs, and from its last message on while they were being stopped: an
    honest worker only goes to sleep then."""
    candidate_ahead: int = 0
    """The same of the candidate's, which may work ahead."""
    candidate_unseen: int = 0
    """From the candidate's last message until that count began."""
    candidate_others: int = 0
    """What the candidate's other threads ran in all: as much of it may lie in those moments."""
    cores: int = 0
    """How many a call may use; 0 on a GPU."""
    baseline_late: int = 0
    """For how long a GPU did something else while the baseline was being stopped, which leaves nothing behind: others' work. 0 on a CPU."""
    baseline_enqueued: int = 0
    """How long the host took to launch the baseline's work on a GPU."""
    baseline_core: int = 0
    """`CallRecord.core_ns` of the baseline."""
    candidate_core: int = 0
    crowd: int = UNKNOWN
    """Thousandths of a core that others have had since these rounds began."""


@dataclass(frozen=True)
class Timing:
    speedup: Speedup
    baseline_ms: float
    candidate_ms: float
    forged: str
    """Empty, or how far the candidate's claim is from what the controller saw."""
    clock: str
    """Which clock the times come from: `inner` when both agree, else `outer`."""
    waited: str = ""
    """Empty, or how long the candidate waited for a core, where that is why the clocks are far apart."""
    shared: str = ""
    """Empty, or how long a call waited for others on the device."""
    stolen: str = ""
    """Empty, or how long the baseline waited for a core that others had."""


def overhead(pairs: Sequence[TimedPair]) -> float:
    return median(pair.baseline_outer - pair.baseline_inner for pair in pairs)


def postponed(pairs: Sequence[TimedPair]) -> tuple[float, float]:
    """How much longer the candidate's delivery takes than the baseline's: the estimate, and the lower end of its interval."""
    centre, low, _ = hodges_lehmann([pair.candidate_delivery - pair.baseline_delivery for pair in pairs])
    return max(centre, 0.0), max(low, 0.0)


def without_waiting(pairs: Sequence[TimedPair]) -> list[TimedPair]:
    """The least outer time, had the candidate not waited for cores. The baseline's calls stay as they were."""
    return [
        replace(
            pair,
            candidate_outer=pair.candidate_outer - pair.candidate_waited,
            candidate_delivery=pair.candidate_delivery - pair.candidate_waited_delivery,
        )
        for pair in pairs
    ]


def stolen(pairs: Sequence[TimedPair]) -> float:
    """How much longer the baseline waited for a core than the candidate did, by the operating system's count: time that other
    processes had, and that makes no candidate faster. Both wait a little when they are woken, so only the difference counts: of whole turns, and
    on a crowded machine of what their first threads waited within the call, since others may share one's core for seconds and leave the other's
    alone. Where nobody else is, threads wait for each other there, which is the module's own time."""
    turns = [pair.baseline_waited - max(pair.candidate_waited, pair.candidate_waited_delivery) for pair in pairs]
    if not is_crowded(pairs):
        return max(0.0, hodges_lehmann(turns)[0] - WOKEN_NS)
    calls = [_baseline_lost(pair) - _candidate_lost(pair) for pair in pairs]
    return max(0.0, hodges_lehmann(turns)[0] - WOKEN_NS, hodges_lehmann(calls)[0] - WOKEN_NS)


def delayed(pairs: Sequence[TimedPair]) -> float:
    """The same of the candidate, within its calls: it makes no candidate slower."""
    more = [_candidate_lost(pair) - _baseline_lost(pair) for pair in pairs]
    return max(0.0, hodges_lehmann(more)[0] - WOKEN_NS) if is_crowded(pairs) else 0.0


def _baseline_lost(pair: TimedPair) -> int:
    """How long the baseline's call waited: no longer than its first thread was on no core."""
    return min(pair.baseline_waited, max(0, pair.baseline_inner - pair.baseline_worked))


def _candidate_lost(pair: TimedPair) -> int:
    """The same of the candidate, whichever of its threads waited. A first thread that sleeps while another one works has lost nothing by that."""
    waited = max(pair.candidate_waited, pair.candidate_waited_delivery)
    return min(waited, max(0, pair.candidate_outer - pair.candidate_ran))


def is_crowded(pairs: Sequence[TimedPair]) -> bool:
    """Whether others have so much of a CPU's cores that calls wait for them."""
    return pairs[-1].cores > 0 and pairs[-1].crowd >= CROWDED


def charged(pairs: Sequence[TimedPair]) -> float:
    """What a call of the candidate takes by the controller's clock."""
    return max(median(pair.candidate_outer for pair in pairs) - _cost(pairs), LEAST_NS)


def worked(pairs: Sequence[TimedPair]) -> float:
    """For how long a call of the candidate had its thread on a core."""
    return median(pair.candidate_ran - pair.baseline_beside for pair in pairs)


def ahead(pairs: Sequence[TimedPair]) -> float:
    """How long it would take on as many cores what the candidate's threads ran where the baseline's only made views and went to sleep: work for
    a call that needs none of its inputs."""
    more = median(pair.candidate_ahead - pair.baseline_ahead for pair in pairs)
    return max(0.0, more) / max(1, pairs[0].cores - 1)


def unseen(pairs: Sequence[TimedPair]) -> float:
    """How much more of that there may be: its other threads may have begun when the last message was sent."""
    return median(min(pair.candidate_unseen, pair.candidate_others) for pair in pairs)


def _cost(pairs: Sequence[TimedPair]) -> float:
    return overhead(pairs) - postponed(pairs)[1]  # what was with confidence postponed is no overhead: it is charged


def combine(pairs: Sequence[TimedPair], floor: float, own_code: bool = False) -> Timing:
    """The time that counts is never below what the controller's clock allows, nor what the candidate's thread was on a core for; nor is the
    baseline's above what it was on one for. Of code that is trusted (`own_code`) the worker's clock counts, where nobody else uses the device."""
    base = median(max(pair.baseline_inner, 1) for pair in pairs)
    timing = _no_less_than_worked(_combine(pairs, floor, own_code), pairs, base * math.exp(-floor))
    late = delayed(pairs) / (timing.candidate_ms * 1e6)
    if late >= STOLEN_SHARE:
        high = timing.speedup.high / max(1 - late, 1 / LARGEST_RATIO)
        no_end = max(timing.speedup.high, LARGEST_RATIO * math.exp(floor))
        timing = replace(timing, speedup=replace(timing.speedup, high=min(high, no_end)))
    share = stolen(pairs) / base
    if share < STOLEN_SHARE:
        return timing
    left, speedup = max(1.0 - share, 1 / LARGEST_RATIO), timing.speedup
    low, point = speedup.low * left, speedup.point * left
    slower = Speedup(point if low > 1 else min(point, 1.0), low, speedup.high)
    return replace(timing, speedup=slower, stolen=f"{stolen(pairs) / 1e6:.3g} ms a call")


def _no_less_than_worked(timing: Timing, pairs: Sequence[TimedPair], base: float) -> Timing:
    """A worker that reports its return and works on, while the message travels or before it is stopped, hides that from both clocks, but not from
    the operating system's count."""
    speedup = timing.speedup
    if not all(pair.candidate_ran for pair in pairs):
        return timing
    most = base / max(worked(pairs) - FLOOR_NS, base / LARGEST_RATIO)
    if most >= speedup.low:
        return timing
    return replace(timing, speedup=Speedup(min(speedup.point, max(most, 1.0)), most, speedup.high))


def _combine(pairs: Sequence[TimedPair], floor: float, own_code: bool) -> Timing:
    baseline = [float(max(pair.baseline_inner, 1)) for pair in pairs]
    claimed = [float(max(pair.candidate_inner, 1)) for pair in pairs]
    least = OWN_FLOOR_NS if own_code else FLOOR_NS
    inner, outer = interval(baseline, claimed, floor + least / median(baseline)), outer_interval(pairs, floor)
    baseline_ms, claimed_ms, charged_ms = median(baseline) / 1e6, median(claimed) / 1e6, charged(pairs) / 1e6
    if is_shared(pairs):
        united = Speedup(min(inner.point, max(outer.low, 1.0)), min(inner.low, outer.low), max(inner.high, outer.high))
        late = max(overhead(pairs) - median(pair.held for pair in pairs), 0.0)
        return Timing(united, baseline_ms, claimed_ms, "", "outer", shared=f"{late / 1e6:.3g} ms a turn")
    if own_code:
        return Timing(inner, baseline_ms, claimed_ms, "", "inner")
    apart, forged, waited = _gross(pairs), "", ""
    restrided = any(pair.restrided for pair in pairs)
    if restrided:
        apart = False
    elif _worked_longer(pairs):
        forged = f"the candidate's process claims {claimed_ms:.4g} ms a call; it was on a core for {worked(pairs) / 1e6:.4g} ms"
    elif apart and _gross(without_waiting(pairs)):
        forged = f"the candidate's process claims {claimed_ms:.4g} ms a call; the controller's clock saw {charged_ms:.4g} ms"
    elif apart:
        waited = f"{median(pair.candidate_waited for pair in pairs) / 1e6:.3g} ms a call"
    if forged or (outer.high < inner.low and not waited):
        return Timing(outer, baseline_ms, charged_ms, forged, "outer")
    doubted = waited or restrided or outer.point < inner.low or ahead(pairs) > FLOOR_NS or not _is_better_known(inner, outer)
    point = min(inner.point, outer.point) if doubted else inner.point
    united = Speedup(point, min(inner.low, outer.low), max(inner.high, outer.high))
    return Timing(united, baseline_ms, charged_ms if waited else claimed_ms, "", "outer" if waited else "inner", waited)


def _is_better_known(inner: Speedup, outer: Speedup) -> bool:
    """Whether the point may be the worker's alone: where both clocks say that the candidate is faster, and its own is the more precise one. A worker
    that shaves some calls and not others moves the centre, and neither end far enough to be noticed: its interval becomes wide."""
    if min(inner.low, outer.low) <= 1 or inner.point > outer.high:
        return False
    return inner.point * outer.low <= inner.low * outer.point


def is_shared(pairs: Sequence[TimedPair]) -> bool:
    """Whether others use the GPU: the baseline's calls are late, or the candidate's are shorter than any call could make them."""
    if not all(pair.held for pair in pairs):
        return False
    if overhead(pairs) > median(pair.held for pair in pairs) + SHARED_NS:
        return True
    seen = [pair.candidate_outer - (pair.baseline_outer - pair.baseline_inner) for pair in pairs]
    return hodges_lehmann(seen)[2] < -FLOOR_NS


def floor_width(pairs: Sequence[TimedPair], floor: float, own_code: bool = False) -> float:
    """How wide the interval would be if all rounds had been alike."""
    typical = TimedPair(*(round(median(values)) for values in zip(*map(astuple, pairs))))
    return width(combine([typical] * len(pairs), floor, own_code).speedup)


def outer_interval(pairs: Sequence[TimedPair], floor: float) -> Speedup:
    """The speedup by the controller's clock alone.

    Waking costs both runners alike, so it cancels in the difference of the two calls of a round; the baseline's own time, which is
    trusted, turns differences back into a ratio. For a call that is shorter than the clock's jitter this interval is
    wide. Postponed work is charged at the low end where it is probable, and elsewhere where it is sure. The microseconds
    of the floor are added to the difference, where they were saved: as a share of a short call they would not cover it. So is, at the low end,
    what a worker need not do, and what its other threads may have done unseen. What they were seen to do ahead is added everywhere.

    Where the device was shared, waking may have cost one runner alone, so the candidate is charged all of its call.
    """
    differences = [pair.candidate_outer - pair.baseline_outer for pair in pairs]
    centre, low, high = hodges_lehmann(differences)
    second = quickest_quarter([p.candidate_outer for p in pairs]) - quickest_quarter([p.baseline_outer for p in pairs])
    low, high = min(low, second), max(high, second)
    probably, surely = postponed(pairs)
    centre, low, high = centre + surely, low + surely, high + probably
    base = float(max(median(pair.baseline_inner for pair in pairs), 1))

    def ratio(difference: float) -> float:
        return base / max(base + difference, base / LARGEST_RATIO)

    if is_shared(pairs):
        longest = hodges_lehmann([pair.candidate_outer for pair in pairs])[2] + probably
        return Speedup(
            ratio(centre), base / max(longest, base / LARGEST_RATIO) * math.exp(-floor), LARGEST_RATIO * math.exp(floor)
        )
    centre += ahead(pairs)
    saved = FLOOR_NS + median(pair.baseline_avoidable for pair in pairs) + ahead(pairs) + unseen(pairs)
    return Speedup(ratio(centre), ratio(high + saved) * math.exp(-floor), ratio(low - FLOOR_NS) * math.exp(floor))


def _gross(pairs: Sequence[TimedPair]) -> bool:
    """Whether the claim surely leaves out a large part. A busy machine spreads a call's overhead widely; a forged clock shifts all calls."""
    if len(pairs) < 6:
        return False
    claimed = [float(max(pair.candidate_inner, 1)) for pair in pairs]
    seen, cost = charged(pairs), _cost(pairs)
    if seen - median(claimed) <= FORGED_ABOVE_MS * 1e6:
        return False
    excess = [(pair.candidate_outer - pair.candidate_inner) - (pair.baseline_outer - pair.baseline_inner) for pair in pairs]
    surely = hodges_lehmann(excess)[1] + postponed(pairs)[1]
    shares = sorted(claim / max(pair.candidate_outer - cost, LEAST_NS) for claim, pair in zip(claimed, pairs))
    return surely > GROSS * seen or shares[int(0.9 * len(shares))] < 1 - GROSS


def _worked_longer(pairs: Sequence[TimedPair]) -> bool:
    """Whether the candidate's thread was on a core for much longer than its calls are said to have lasted, most of them. No machine is so
    busy that a call takes less time than the work in it; and where a call had to wait, part of a lie is true by chance."""
    if len(pairs) < 6 or not all(pair.candidate_ran for pair in pairs):
        return False
    excess = [pair.candidate_ran - pair.baseline_beside - pair.candidate_inner for pair in pairs]
    return median(excess) > max(GROSS * worked(pairs), FORGED_ABOVE_MS * 1e6)
