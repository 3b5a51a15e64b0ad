"""Repairs: rewrites of an answer, each a function of the source and its context that returns the source unchanged where it has nothing to do.

Those before linking call library functions or task classes, which linking then brings in; those after it must know every name of the file.
"""

from __future__ import annotations

from collections.abc import Callable

from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.repairs.long_rows import split_long_rows
from bottega.agents.answers.repairs.networks import complete_network
from bottega.agents.answers.repairs.operands import correct_operands
from bottega.agents.answers.repairs.spelling import clamp_dimensions, correct_spelling

Repair = Callable[[str, AnswerContext], str]

BEFORE_LINK: dict[str, Repair] = {"networks": complete_network, "operands": correct_operands}
AFTER_LINK: dict[str, Repair] = {
    "spelling": correct_spelling,
    "dimensions": clamp_dimensions,
    "long_rows": split_long_rows,
}
REPAIRS: dict[str, Repair] = {**BEFORE_LINK, **AFTER_LINK}
"""All of them by name, in the order in which they are applied."""
GUESSES = frozenset({"dimensions"})
"""Repairs that may be wrong: an answer that needed one is worth judging only where no sample is better."""
