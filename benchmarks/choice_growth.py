"""Cards from what was tried so far: statements are proposed by one half of the tasks and admitted by the other.

A statement says of a function, a data type and a range of one size that a choice beats the rule's. For each function (or group of functions) and
choice the surest one of the half that proposes is kept; several choices may be stated of the same places, and the selector or the surest bound
decides. The gate admits what the other half bears out: the interval of the gain, over resampled tasks, lies above 1.
(The library's own gate bounds a mean of repeated trials by a confidence sequence; here a task has one measurement of each choice.)
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from choice_cards import ChoiceCard
from choice_sweep import SURE, interval
from choice_tasks import DTYPES, FUSED

from bottega.compiler.choice_gains import LIKE_FUNCTIONS
from bottega.compiler.choice_places import ChoicePlace

FEWEST = 4
"""Tasks of a half on which a statement rests, and is admitted."""


@dataclass(frozen=True)
class Tried:
    """One choice at one place of one task, and the log of what it gains."""

    task: str
    place: ChoicePlace
    dtype: str
    choice: str
    gain: float


@dataclass(frozen=True)
class Proposal:
    card: ChoiceCard
    proposed_by: int
    """The half."""
    claimed: float
    """Mean of the logs of what its own half gains."""
    gains: tuple[float, ...]
    """Logs, of the tasks of the other half."""
    low: float | None
    """Log of the lower end of their interval; None where they are too few."""

    @property
    def evidence(self) -> str:
        """With what the other half says of it, for tasks of neither half."""
        mean = math.exp(sum(self.gains) / len(self.gains)) if self.gains else 1.0
        sure = f", surely: {math.exp(self.low):.2f}x" if self.low is not None else ""
        return f"{self.text}, others {len(self.gains)}: {mean:.2f}x{sure}"

    @property
    def text(self) -> str:
        return f"{' or '.join(self.card.dtypes)} {self.card.where}: {self.card.choice} ({math.exp(self.claimed):.2f}x)"


def half_of(task: str) -> int:
    return int(hashlib.sha256(f"growth {task}".encode()).hexdigest(), 16) % 2


def proposals(tried: Sequence[Tried], device: str, half_of: Callable[[str], int] = half_of) -> Iterator[Proposal]:
    """Of each half, with what the other half says of it."""
    by_choice: dict[tuple[tuple[str, ...], str], list[Tried]] = defaultdict(list)
    for one in tried:
        for functions in _functions(one.place.function):
            by_choice[functions, one.choice].append(one)
    for half in (0, 1):
        for (functions, choice), some in by_choice.items():
            found = _surest([one for one in some if half_of(one.task) == half])
            if found is None:
                continue
            dtypes, size, low, high = found
            card = ChoiceCard(device, functions, dtypes, {size: (low, high)} if size else {}, choice)
            by_task: dict[str, list[float]] = defaultdict(list)
            for one in some:
                if card.holds(one.place, one.dtype, device):
                    by_task[one.task].append(one.gain)
            means = {task: sum(gains) / len(gains) for task, gains in by_task.items()}
            own = [gain for task, gain in means.items() if half_of(task) == half]
            others = tuple(gain for task, gain in means.items() if half_of(task) != half)
            sure = math.log(interval([math.exp(gain) for gain in others])[0]) if len(others) >= FEWEST else None
            yield Proposal(card, half, sum(own) / len(own), others, sure)


def admitted(tried: Sequence[Tried], device: str) -> list[Proposal]:
    """Those whose interval lies above 1 on the tasks that did not propose them, the surest first."""
    return sorted((one for one in proposals(tried, device) if (one.low or 0) > 0), key=lambda one: -(one.low or 0))


def _functions(function: str) -> Iterator[tuple[str, ...]]:
    yield (function,)
    yield from (group for group in LIKE_FUNCTIONS if function in group)
    if function.startswith(FUSED):
        yield tuple(f"{FUSED} of {kind}" for kind in ("product", "convolution", "attention"))


def _surest(some: Sequence[Tried]) -> tuple[tuple[str, ...], str, int, int] | None:
    """Data types and range by which most is surely won."""
    best: tuple[float, tuple[tuple[str, ...], str, int, int] | None] = (0.0, None)
    for dtypes in (DTYPES, *((name,) for name in DTYPES)):
        own = [one for one in some if one.dtype in dtypes]
        gains = np.array([one.gain for one in own]) - math.log(SURE)
        for size in ("", *dict.fromkeys(name for one in own for name in one.place.sizes)):
            powers = np.array([one.place.sizes.get(size, 0).bit_length() - 1 if size else 0 for one in own])
            steps = sorted({*powers.tolist()} - {-1})
            for at, low in enumerate(steps):
                for high in steps[at:]:
                    within = gains[(powers >= low) & (powers <= high)]
                    if len(within) >= FEWEST:
                        score = len(within) * (within.mean() - within.std(ddof=1) / math.sqrt(len(within)))
                        if score > best[0] + 1e-9:
                            ends = (1 << int(low), (2 << int(high)) - 1) if size else (0, 0)
                            best = score, (dtypes, size, *ends)
    return best[1]
