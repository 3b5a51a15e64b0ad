"""Training rows: token ids, and for each token the weights with which its log-prob enters the loss.

One row serves both kinds of learning, token by token: `imitation` weighs the plain log-likelihood (SFT has 1 on the answer and 0 on
the prompt), `policy` and `advantage` steer the policy gradient. So SFT and RL share one loss, and may share one batch. Rows are built
from logged turns; turns merge into one row as long as each prompt begins with everything before it, which saves reading it twice
and changes nothing: their advantages stay apart, token by token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bottega.core.trace import Trace

Floats = np.ndarray
STREAMS = ("imitation", "policy", "advantage", "rollout", "old", "reference", "target")


@dataclass(frozen=True, eq=False)
class TrainRow:
    ids: np.ndarray
    imitation: Floats
    """Weight of -log p."""
    policy: Floats
    """1 where the policy gradient acts, 0 elsewhere."""
    advantage: Floats
    rollout: Floats
    """Log-prob when the token was drawn; NaN where it was not drawn."""
    old: Floats
    """The trainer's own log-prob before the first update on this row; NaN means: what it is when the update begins."""
    reference: Floats
    """Log-prob under a reference model; NaN where none is asked."""
    target: Floats
    """What a critic should have expected before the token; NaN where none is asked."""
    answers: int = 1
    """Turns in it: what a length-constant loss divides by, so that merging turns changes nothing."""
    key: str = ""
    spans: tuple[tuple[str, int, int, int], ...] = ()
    """For each of its turns: trace, number of the turn, and where its tokens begin and end."""

    def __post_init__(self) -> None:
        for stream in fields(self):
            if stream.name in STREAMS and len(getattr(self, stream.name)) != len(self.ids):
                raise ValueError(f"{stream.name} has another length than the ids of row {self.key!r}")
        if len(self.ids) and (self.imitation[0] or self.policy[0]):
            raise ValueError(f"row {self.key!r}: nothing comes before its first token, so it cannot be learned")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def learned(self) -> np.ndarray:
        """Which tokens count."""
        return np.asarray((self.imitation != 0) | (self.policy != 0))


def imitation_row(prompt: Sequence[int], answer: Sequence[int], key: str = "") -> TrainRow:
    """SFT: learn the answer, given the prompt."""
    length, begin = len(prompt) + len(answer), len(prompt)
    imitation = np.zeros(length, np.float32)
    imitation[begin:] = 1.0
    nothing, unknown = np.zeros(length, np.float32), np.full(length, math.nan, np.float32)
    ids = np.asarray([*prompt, *answer], np.int32)
    return TrainRow(
        ids, imitation, nothing, nothing, unknown, unknown, unknown, unknown, key=key, spans=((key, 0, begin, length),)
    )


@dataclass(frozen=True)
class PolicyRows:
    rows: list[TrainRow]
    too_long: tuple[tuple[str, int], ...] = ()
    """Turns that are longer than a row may be: trace and number."""
    without_tokens: tuple[str, ...] = ()
    """Traces that cannot be trained on, because a chat server answered."""


def policy_rows(
    traces: Iterable[Trace],
    advantages: Mapping[tuple[str, int], float],
    longest: int,
) -> PolicyRows:
    """RL: rows of all turns that have an advantage. A turn without one may still be read, as part of a prompt."""
    rows: list[TrainRow] = []
    too_long: list[tuple[str, int]] = []
    silent: list[str] = []
    for trace in traces:
        if not trace.trainable or any(turn.prompt_ids is None for turn in trace.turns):
            silent.append(trace.id)
            continue
        open_row: _RowBuilder | None = None
        for number, turn in enumerate(trace.turns):
            prompt, output, drawn = turn.prompt_ids or (), turn.output_ids or (), turn.logprobs or ()
            advantage = advantages.get((trace.id, number))
            if advantage is None or not math.isfinite(advantage) or not output:
                continue
            if len(prompt) + len(output) > longest:
                too_long.append((trace.id, number))
                continue
            if open_row is None or not open_row.begins(prompt):
                if open_row is not None:
                    rows.append(open_row.row())
                open_row = _RowBuilder(trace.id)
            open_row.take(number, prompt, output, drawn, advantage)
        if open_row is not None:
            rows.append(open_row.row())
    return PolicyRows(rows, tuple(too_long), tuple(silent))


class _RowBuilder:
    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.ids: list[int] = []
        self.spans: list[tuple[str, int, int, int]] = []
        self.advantages: list[float] = []
        self.drawn: list[tuple[float, ...]] = []

    def begins(self, prompt: Sequence[int]) -> bool:
        return len(prompt) >= len(self.ids) and list(prompt[: len(self.ids)]) == self.ids

    def take(
        self, number: int, prompt: Sequence[int], output: Sequence[int], drawn: tuple[float, ...], advantage: float
    ) -> None:
        self.ids = [*prompt, *output]
        self.spans.append((self.trace, number, len(prompt), len(self.ids)))
        self.advantages.append(advantage)
        self.drawn.append(drawn)

    def row(self) -> TrainRow:
        length = len(self.ids)
        policy, advantage = np.zeros(length, np.float32), np.zeros(length, np.float32)
        rollout = np.full(length, math.nan, np.float32)
        for (_, _, begin, end), own, drawn in zip(self.spans, self.advantages, self.drawn):
            policy[begin:end], advantage[begin:end], rollout[begin:end] = 1.0, own, drawn
        unknown = np.full(length, math.nan, np.float32)
        return TrainRow(
            np.asarray(self.ids, np.int32), np.zeros(length, np.float32), policy, advantage, rollout, unknown, unknown, unknown,
            answers=len(self.spans), key=f"{self.trace}/{self.spans[0][1]}", spans=tuple(self.spans),
        )  # fmt: skip
