"""When an episode has had enough: the target is reached, memory allows no more, or nothing gets better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.core.errors import UsageError
from bottega.episodes.node import SearchNode, best_of


@dataclass(frozen=True)
class Stopping:
    target: float | None = None
    """A speedup that is enough; its lower bound counts."""
    roofline: float = 1.1
    """Within this factor of the time that memory traffic alone takes, there is nothing left to gain. 0 never stops here."""
    patience: int | None = None
    """Kernels in a row that bring nothing, after which the episode ends."""
    repeats: int | None = None
    """Answers in a row that are kernels which were judged before, after which the model has nothing new to say."""
    progress: float = 1.02
    """A kernel brings something when it is better than the best before it by this factor."""

    def __post_init__(self) -> None:
        if self.target is not None and not (math.isfinite(self.target) and self.target > 0):
            raise UsageError(f"a target is a factor above 0, not {self.target:g}")
        if self.patience is not None and self.patience < 1:
            raise UsageError(f"patience is at least one kernel, not {self.patience}")

    def reason(self, nodes: Sequence[SearchNode], baseline: str) -> str | None:
        """Over the nodes in the order in which they were judged."""
        best = best_of(nodes, baseline)
        if best is not None and best.verdict is not None:
            if self.target is not None and best.score(baseline) >= self.target:
                return f"target: {best.score(baseline):.2f}x is at least {self.target:g}x"
            floor, own = best.verdict.times_ms.get("floor"), _sure_time(best, baseline)
            if self.roofline and floor and own and own <= floor * self.roofline and best.score(baseline) > 1:
                return f"roofline: {own:.4g} ms, and memory traffic alone takes {floor:.4g} ms"
        if self.repeats is not None and _repeated(nodes) >= self.repeats:
            return f"the last {_repeated(nodes)} answers repeat earlier ones"
        if self.patience is not None and self._idle(nodes, baseline) >= self.patience:
            return f"no progress in {self.patience} kernels"
        return None

    def _idle(self, nodes: Sequence[SearchNode], baseline: str) -> int:
        best, idle = 0.0, 0
        for node in nodes:
            score = node.score(baseline)
            idle = (
                0 if score > best * self.progress else idle + (not node.author)
            )  # a draft sets the mark, and tries no patience
            best = max(best, score)
        return idle


def _repeated(nodes: Sequence[SearchNode]) -> int:
    """How many of the last answers in a row are texts that were there before."""
    seen: set[str] = set()
    count = 0
    for node in nodes:
        count = count + 1 if node.turn.source in seen and not node.author else 0
        seen.add(node.turn.source)
    return count


def _sure_time(node: SearchNode, baseline: str) -> float | None:
    """What a kernel surely takes no more than: a busy machine's point estimate may lie below what memory allows."""
    times = node.verdict.times_ms if node.verdict is not None else {}
    own, whole = times.get("candidate"), times.get(baseline)
    return max(own, whole / node.score(baseline)) if own is not None and whole is not None else own
