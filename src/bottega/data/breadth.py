"""How broad a set of examples is: for each axis how many values there are, how many they are worth when weighed, and the largest share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bottega.data.example import Example

AXES: dict[str, Callable[[Example], Iterable[str]]] = {
    "role": lambda example: [example.role],
    "kind": lambda example: [example.kind],
    "language": lambda example: [example.language],
    "level": lambda example: [str(example.level or "none")],
    "family": lambda example: [example.family],
    "outcome": lambda example: [turning(example)],
    "operators": lambda example: [" ".join(example.ops)],
    "technique": lambda example: example.techniques,
    "structure": lambda example: [f"{example.role} {example.cluster}"],
    "task": lambda example: [example.task_id],
}


def turning(example: Example) -> str:
    """From what to what the answer leads."""
    return f"{example.outcome_before} to {example.outcome}" if example.outcome_before else example.outcome


@dataclass(frozen=True)
class Breadth:
    values: int
    effective: float
    """The number of equally frequent values that would have the same entropy."""
    entropy: float
    """In bits."""
    largest: str
    largest_share: float


def breadth(counts: Counter[str]) -> Breadth:
    total = sum(counts.values())
    if not total:
        return Breadth(0, 0.0, 0.0, "", 0.0)
    entropy = -sum(count / total * math.log2(count / total) for count in counts.values())
    name, most = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return Breadth(len(counts), 2**entropy, max(0.0, entropy), name, most / total)


def counts_of(examples: Sequence[Example], axis: str) -> Counter[str]:
    return Counter(value for example in examples for value in AXES[axis](example))


def coverage(examples: Sequence[Example]) -> dict[str, Breadth]:
    return {axis: breadth(counts_of(examples, axis)) for axis in AXES}


def report(before: Sequence[Example], after: Sequence[Example]) -> list[dict[str, Any]]:
    """A row for each axis, with both."""
    one, other = coverage(before), coverage(after)
    return [{"axis": axis, "before": _rounded(one[axis]), "after": _rounded(other[axis])} for axis in AXES]


def _rounded(of: Breadth) -> dict[str, Any]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(of).items()}
