"""Operators that make a child from its parents, after EvoEngineer: each says how many parents it shows, what else, and what it asks for.

The next operator is drawn by yield: one whose children improve on their parents is drawn more often, and none is ever given up.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TraverseOperator:
    name: str
    parents: int
    """Kernels that are shown, with their verdicts."""
    ask: str
    insights: bool = False
    """Whether what earlier children taught is shown, in place of kernels."""


OPERATORS = (
    TraverseOperator("initial", 0, ""),
    TraverseOperator("repair", 1, "Make this kernel right first; its speed does not matter yet."),
    TraverseOperator("mutate", 1, "Change the one thing in this kernel that costs most time, and leave the rest as it is."),
    TraverseOperator(
        "tune", 1, "Keep the structure of this kernel. Change numbers only: tiles, blocks, unrolling, threads, warps, stages."
    ),
    TraverseOperator(
        "crossover", 2, "Both kernels are right. Join what makes each of them fast, by their verdicts, in one kernel."
    ),
    TraverseOperator("simplify", 1, "Take out of this kernel what its speed does not need; it may not get slower."),
    TraverseOperator(
        "redesign", 1, "Do it in another way than this kernel: another algorithm, loop order or division of work."
    ),
    TraverseOperator("insight", 0, "Write a kernel of your own that uses what was learned:", insights=True),
)
BY_NAME = {operator.name: operator for operator in OPERATORS}


@dataclass
class OperatorYield:
    tried: int = 0
    right: int = 0
    improved: int = 0
    """Surely faster than the best of its parents; of those without parents, than the baseline."""

    @property
    def weight(self) -> float:
        """The expected share of improvements, from a flat prior."""
        return (self.improved + 1) / (self.tried + 2)


def usable(right: int, failed: int, insights: bool) -> list[TraverseOperator]:
    """Of an archive with so many right kernels, or with a failed one only."""
    if not right:
        return [BY_NAME["repair" if failed else "initial"]]
    names = ["mutate", "tune", "simplify", "redesign"]
    names += ["crossover"] if right > 1 else []
    names += ["insight"] if insights else []
    return [BY_NAME[name] for name in names]


def drawn_operator(
    choices: Sequence[TraverseOperator], yields: Mapping[str, OperatorYield], draw: random.Random
) -> TraverseOperator:
    weights = [yields[one.name].weight if one.name in yields else OperatorYield().weight for one in choices]
    return draw.choices(choices, weights)[0]
