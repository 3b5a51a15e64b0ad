"""What later prompts are told of a turn: its verdict, or why there is none."""

from __future__ import annotations

from bottega.agents.feedback import UNUSABLE, past_of_verdict
from bottega.agents.history import Past
from bottega.agents.writer import Written
from bottega.core.turn import Turn


def past_of(turn: Turn, baseline: str) -> Past:
    if turn.verdict is None:
        return Past("", turn.summary, turn.fault, UNUSABLE, None)
    return past_of_verdict(Written(turn.source, turn.summary), turn.verdict, baseline)
