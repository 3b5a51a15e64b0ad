"""What optimisations have to do with each other, learned from the order of steps: a pure function of what was tried.

B *requires* A where A could be taken out only after B was, or where B could be put in again, or pays, only after A. A and B *conflict* where each is
right alone, and both together are wrong or surely slower than the better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bottega.core.skill import Relations
from bottega.lineage.step import Attempt, Step
from bottega.skills.relations import feature_name, names_of


@dataclass(frozen=True)
class PairAttempt:
    """Two optimisations put into the plain kernel together."""

    first: str
    second: str
    together: Attempt
    better_alone: Attempt
    """Of the two that were put in alone, the faster one."""

    @property
    def conflict(self) -> str:
        """Why they conflict; empty where they do not."""
        if not self.together.correct:
            return f"together they came out {self.together.outcome}"
        both, alone = self.together.effect, self.better_alone.effect
        if both is not None and alone is not None and both.high < alone.low:
            return f"together {both.text}, one alone {alone.text}"
        return ""


def learned(steps: Sequence[Step], needed: dict[int, tuple[str, ...]], pairs: Sequence[PairAttempt]) -> dict[int, Relations]:
    """For each step's number. `needed`: what had to be put in, with its value, before it could be put in again."""
    conflicts = {(pair.first, pair.second) for pair in pairs if pair.conflict}
    conflicts |= {(second, first) for first, second in conflicts}
    found = {}
    for step in steps:
        own = step.feature
        before = needed.get(step.number, ())
        opened = [name for name in step.opened if name not in names_of(before)]
        requires = [name for name in (*opened, *before) if feature_name(name) != own]
        against = [other for one, other in sorted(conflicts) if one == own and other != own]
        found[step.number] = Relations(
            tuple(dict.fromkeys(requires)),
            (step.provided[:120],),
            tuple(name for name in dict.fromkeys(against) if name not in names_of(requires)),
        )
    return found
