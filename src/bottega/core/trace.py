"""A trace: the turns of one role from first to last, in order; each turn sees the verdicts of those before it."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.core.turn import Role, Turn
from bottega.core.verdict import Verdict


@dataclass(frozen=True)
class Trace:
    id: str
    """Unique in its run."""
    role: Role
    turns: tuple[Turn, ...]
    scheme: int = 0
    """Which of the episode's selections it had; 0 is the empty one."""

    @property
    def trainable(self) -> bool:
        """Every turn has its tokens and log-probs."""
        return bool(self.turns) and all(turn.output_ids is not None and turn.logprobs is not None for turn in self.turns)

    @property
    def verdicts(self) -> tuple[Verdict | None, ...]:
        return tuple(turn.verdict for turn in self.turns)
