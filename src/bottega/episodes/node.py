"""A node: one kernel that was written and judged, and the one that it grew from. Search strategies grow trees of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bottega.core.candidate import Candidate
from bottega.core.event import Wrote
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.languages import candidate_from


@dataclass(frozen=True)
class SearchNode:
    id: str
    parent: str | None
    scheme: int
    turn: Turn
    """The writer's answer, with its verdict."""
    author: str = ""
    """Who wrote a draft; empty for the run's model."""
    by_rule: bool = False
    """No model had a part in it, so that the judge need not expect it to cheat."""

    @property
    def verdict(self) -> Verdict | None:
        return self.turn.verdict

    @property
    def candidate(self) -> Candidate:
        return candidate_from(self.turn.source, name=self.id, parent=self.parent)

    def speedup(self, baseline: str) -> Speedup | None:
        """Nothing unless the kernel is right, honest and timed."""
        verdict = self.verdict
        return verdict.speedup.get(baseline) if verdict is not None and verdict.outcome.accepted else None

    def score(self, baseline: str) -> float:
        """What ranks nodes: the speedup that is sure, 0 for a kernel that cannot be used."""
        speedup = self.speedup(baseline)
        return speedup.low if speedup is not None else 0.0


def is_by_rule(wrote: Wrote, earlier: Iterable[SearchNode]) -> bool:
    """Whether no model had a part in it: a draft, also with other knobs."""
    if not wrote.author or wrote.step:
        return False
    return wrote.parent is None or any(node.id == wrote.parent and node.by_rule for node in earlier)


def ranked(nodes: Iterable[SearchNode], baseline: str) -> list[SearchNode]:
    """Best first; equal ones in the order they came."""
    return sorted(nodes, key=lambda node: -node.score(baseline))


def best_of(nodes: Iterable[SearchNode], baseline: str) -> SearchNode | None:
    """The best kernel that is right, if any."""
    order = ranked(nodes, baseline)
    return order[0] if order and order[0].score(baseline) > 0 else None


def faster(node: SearchNode | None) -> bool:
    return node is not None and node.verdict is not None and node.verdict.outcome is Outcome.FASTER
