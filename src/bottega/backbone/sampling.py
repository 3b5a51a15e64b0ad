"""How one answer is sampled. The same for both protocols, so that a run can move from one to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StopReason = Literal["stop", "length", "cancelled"]
"""`stop`: the model ended its answer, or a stop string came; `length`: the limit cut it; `cancelled`: we did."""


@dataclass(frozen=True)
class Sampling:
    max_tokens: int = 2048
    temperature: float = 1.0
    """0 takes the likeliest token each time."""
    top_p: float = 1.0
    seed: int | None = None
    """The same seed, prompt and weights give the same answer, whatever else is in the batch."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer; they are not part of it."""
