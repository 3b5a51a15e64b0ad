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
        """One for each kernel."""
        return tuple(turn.verdict for turn in self.kernels)

    @property
    def kernels(self) -> tuple[Turn, ...]:
        """The turns without the steps on the way to them; of an agent that came to no kernel the last step, which stands for that failure."""
        return tuple(self.turns[steps[-1]] for steps in self.by_kernel)

    @property
    def by_kernel(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the turns, by the kernel that they lead to, which comes last. An agent's steps after its last kernel lead nowhere and are
        left out, unless it has none at all: then all of them led to nothing."""
        found: list[tuple[int, ...]] = []
        steps: list[int] = []
        for number, turn in enumerate(self.turns):
            steps.append(number)
            if turn.is_kernel:
                found.append(tuple(steps))
                steps = []
        return tuple(found) or ((tuple(steps),) if steps else ())
