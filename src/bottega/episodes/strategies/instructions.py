"""Prompts that evolve: a small population of instructions for the writer, with credit for those whose children were kept.

An instruction is chosen by its credit and by how seldom it was tried (UCB1), which needs no chance. After each generation the one with the least
credit makes room for a variation of the best, written by the model or taken from a fixed list. The empty instruction begins as one of them, so that
asking for nothing stays in the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

POPULATION = 4
FEWEST = 2
"""Children of an instruction before it may be replaced."""
EXPLORATION = 0.5
LIST = (
    "",
    "Fuse everything into as few kernels as possible: no intermediate result goes to memory.",
    "Count the bytes that must move, and make every access contiguous and as wide as the machine's vectors.",
    "Use the whole device: split the longest dimension where there are fewer pieces than cores or multiprocessors.",
    "Keep what is used again in registers, shared memory or cache: tile for it.",
    "Give each thread or program more independent work: unroll, and hide latency behind it.",
    "Make the arithmetic of the inner loop cheaper: hoist what does not change, fuse multiply and add, avoid divisions and branches.",
    "Specialise for the shapes of this task: constants in place of variables, and no check that these shapes never need.",
    "Take the fewest passes over the data that the formula allows.",
    "Change the order of the loops, or the layout in which intermediate values are kept.",
)
"""The first ones begin the population; the others take the place of instructions that bring nothing."""


@dataclass
class Instruction:
    number: int
    text: str
    mutated_from: int | None = None
    by: str = "list"
    tried: int = 0
    right: int = 0
    kept: int = 0
    """Children that were the best of their kind when they came."""
    retired: bool = False

    @property
    def credit(self) -> float:
        return (self.kept + 1) / (self.tried + 2)

    @property
    def credit_text(self) -> str:
        return f"{self.tried} kernels were written with it, {self.right} were right and {self.kept} the best of their kind."


@dataclass
class InstructionPopulation:
    every: list[Instruction] = field(default_factory=lambda: [Instruction(n, text) for n, text in enumerate(LIST[:POPULATION])])

    @property
    def active(self) -> list[Instruction]:
        return [one for one in self.every if not one.retired]

    def choose(self, pending: Sequence[int]) -> Instruction:
        """The best by credit and curiosity; `pending` are numbers of those that children under way have."""

        def rank(one: Instruction) -> tuple[float, int]:
            tried = one.tried + pending.count(one.number)
            total = sum(each.tried for each in self.active) + len(pending)
            credit = (one.kept + 1) / (tried + 2)
            return credit + EXPLORATION * math.sqrt(math.log(total + 1) / (tried + 1)), -one.number

        return max(self.active, key=rank)

    def best_and_worst(self) -> tuple[Instruction, Instruction] | None:
        """None while nothing is known yet that sets one below the others."""
        best = max(self.active, key=lambda one: (one.credit, -one.number))
        tested = [one for one in self.active if one.tried >= FEWEST and one.credit < best.credit]
        return (best, min(tested, key=lambda one: (one.credit, one.number))) if tested else None

    def next_of_list(self) -> str | None:
        known = {one.text for one in self.every}
        return next((text for text in LIST if text not in known), None)

    def replace(self, worst: int, text: str, best: int, by: str) -> Instruction:
        self.every[worst].retired = True
        self.every.append(made := Instruction(len(self.every), text, best, by))
        return made
