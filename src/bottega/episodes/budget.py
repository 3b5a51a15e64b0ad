"""What a run may spend: kernels, tokens, money, time. Asked before each step; a step under way is not cut, except by time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from bottega.core.errors import BudgetError, UsageError
from bottega.core.turn import Turn

NAMES = ("kernels", "tokens", "money", "seconds")


@dataclass(frozen=True)
class BudgetCaps:
    kernels: int | None = None
    tokens: int | None = None
    money: float | None = None
    seconds: float | None = None
    final_seconds: float | None = None
    """After the search, for the last word."""

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"a budget of {value} {name} allows nothing; give more, or leave it out")


@dataclass
class RunBudget:
    caps: BudgetCaps = field(default_factory=BudgetCaps)
    kernels: int = 0
    tokens: int = 0
    money: float = 0.0
    earlier_seconds: float = 0.0
    """What the run took before it was resumed."""
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.monotonic() - self.begun

    def reached(self, names: tuple[str, ...] = NAMES) -> str | None:
        """The cap that is reached, in words."""
        for name in names:
            cap = getattr(self.caps, name)
            if cap is not None and getattr(self, name) >= cap:
                return f"the budget of {cap:g} {name} is spent"
        return None

    def take_kernel(self) -> None:
        """Before a kernel is asked for, so that kernels under way count."""
        reason = self.reached()
        if reason is not None:
            raise BudgetError(reason)
        self.kernels += 1

    def spend(self, turn: Turn) -> None:
        self.tokens += turn.prompt_tokens + turn.output_tokens
        self.money += turn.cost

    def seconds_left(self) -> float | None:
        return None if self.caps.seconds is None else max(0.0, self.caps.seconds - self.seconds)
