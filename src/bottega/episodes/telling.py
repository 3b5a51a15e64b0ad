"""What later prompts are told of a turn: its verdict, or why there is none."""

from __future__ import annotations

from bottega.agents.feedback import UNUSABLE, earlier_turn_of_verdict
from bottega.agents.history import EarlierTurn
from bottega.agents.writer import WriterAnswer
from bottega.core.turn import Turn


def earlier_turn_of(turn: Turn, baseline: str) -> EarlierTurn:
    if turn.verdict is None:
        return EarlierTurn("", turn.summary, turn.fault, UNUSABLE, None)
    return earlier_turn_of_verdict(WriterAnswer(turn.source, turn.summary), turn.verdict, baseline)
