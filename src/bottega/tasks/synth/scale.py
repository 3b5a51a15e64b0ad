"""The batch of a task: scaled until the cost model meets the time that is aimed at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bottega.tasks.synth.costs import OperatorCost, TimeTarget

ROUNDS = 6
FIRST_BATCH = 4
LARGEST_BATCH = 65536


@dataclass(frozen=True)
class Scaled:
    source: str
    milliseconds: float
    batch: int


def scaled(
    source_of: Callable[[int], str],
    target: TimeTarget,
    dtype: str,
    aim: float,
    flavour: str,
    largest: int = LARGEST_BATCH,
    known: Sequence[OperatorCost] = (),
) -> Scaled | None:
    """None where no batch gives a time within the device's window. `known` are the costs of the first batch."""
    from bottega.tasks.synth.cost_mode import source_costs

    batch, seen = FIRST_BATCH, (0, 0.0)
    for _ in range(ROUNDS):
        source = source_of(batch)
        costs = known if known and batch == FIRST_BATCH else source_costs(source)
        fixed = target.launch_ms * len(costs)
        took = target.milliseconds(costs, dtype)
        held = max((one.bytes for one in costs), default=0.0)
        grows = max(took - fixed, 1e-6)
        slope = 1.0
        if seen[0] and abs(math.log(grows / seen[1])) > 1e-3:
            slope = min(4.0, max(0.3, math.log(grows / seen[1]) / math.log(batch / seen[0])))
        wanted = batch * (max(aim - fixed, 0.2 * aim) / grows) ** (1 / slope)
        if held > target.largest_bytes or 0.6 * aim > took:
            wanted = min(wanted, batch * target.largest_bytes / max(held, 1.0))
        new = max(2, min(rounded(min(wanted, 1 << 28), flavour), largest))
        fits = held <= target.largest_bytes
        if new == batch or (fits and 0.6 * aim <= took <= 1.6 * aim):
            break
        batch, seen = new, (batch, grows)
    else:
        return None
    return Scaled(source, took, batch) if fits and target.shortest_ms < took < 0.6 * target.longest_ms else None


def rounded(value: float, flavour: str) -> int:
    """As people write it: a power of two, a round number, or an odd one."""
    if value < 4:
        return max(1, round(value))
    if flavour == "power":
        return int(2 ** round(math.log2(value)))
    if flavour == "odd":
        return max(3, int(value) | 1)
    step = int(10 ** max(0, math.floor(math.log10(value)) - 1) * (4 if value < 40 else 2 if value < 400 else 1))
    return max(step, round(value / step) * step)
