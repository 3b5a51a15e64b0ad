"""Cost of a run: tokens, money and seconds; mean and median for each task, and total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bottega.bench.attempt import BenchAttempt


@dataclass(frozen=True)
class Amount:
    total: float = 0.0
    mean: float = 0.0
    """For a task that was attempted."""
    median: float = 0.0


@dataclass(frozen=True)
class Spending:
    tasks: int
    """That were attempted."""
    answers: int
    prompt_tokens: Amount
    output_tokens: Amount
    money: Amount
    seconds: Amount

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def spending(attempts: Sequence[Sequence[BenchAttempt]]) -> Spending:
    rows = [row for row in attempts if row]
    return Spending(
        tasks=len(rows),
        answers=sum(1 + attempt.redrawn for row in rows for attempt in row),
        prompt_tokens=_amount([sum(attempt.prompt_tokens for attempt in row) for row in rows]),
        output_tokens=_amount([sum(attempt.output_tokens for attempt in row) for row in rows]),
        money=_amount([sum(attempt.money for attempt in row) for row in rows]),
        seconds=_amount([sum(attempt.seconds for attempt in row) for row in rows]),
    )


def _amount(values: Sequence[float]) -> Amount:
    if not values:
        return Amount()
    return Amount(float(sum(values)), sum(values) / len(values), float(median(values)))
