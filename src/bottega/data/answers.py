"""Answers in the words that the prompts ask for, each read back with the parser that reads a model's: what it does not get back is a bug.

The terse and compact styles are for small models, which learn these very strings; the full style is what a large model was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bottega.agents import selector, summariser, writer
from bottega.agents.answers.answer import AnswerError, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.cards import applies_to_line
from bottega.agents.module_text import without_prose
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.strip import stripped
from bottega.core.errors import BottegaError
from bottega.core.skill import Skill
from bottega.data.call_order import with_call_comments

LONGEST_SUMMARY = 400


class UnreadableAnswer(BottegaError):
    """An answer of ours does not parse back to what it was made of: a bug here. The example is reported and not written."""


def written(
    source: str, summary: str, style: str, thought: str = "", task_source: str = "", callgraph: CallGraph | None = None
) -> str:
    """One line and the file; in the full style a thought, the file, and the summary behind it; in the terse one what of the file the
    task does not have, in the order of its call graph where one is given."""
    said = "" if style == "terse" else one_line(summary, LONGEST_SUMMARY) or "One kernel for the whole task."
    if style == "terse":
        source = without_prose(stripped(source, task_source))
        source = with_call_comments(source, callgraph) if callgraph else source
    block = fenced(source, "python")
    if style == "terse":
        answer = block
    elif style == "full":
        thinking = one_line(thought or said, LONGEST_SUMMARY)
        answer = f"{thinking}\n\n{block}\n\nSummary: {said}"
    else:
        answer = f"{said}\n{block}"
    try:
        read = writer.parse(answer)
    except AnswerError as error:
        raise UnreadableAnswer(f"the writer's answer is not read: {error}") from None
    if read.source != source.strip("\n") + "\n" or (said and read.summary != said):
        raise UnreadableAnswer("the writer's answer is read as another kernel or summary")
    return answer


def selected(cards: Sequence[Skill], k: int, style: str) -> str:
    """The chosen cards with a reason each, best first; or none."""
    reasons = [one_line(card.intent, 160) for card in cards]
    if style == "full":
        answer = json.dumps([{"name": card.name, "reason": reason} for card, reason in zip(cards, reasons)], ensure_ascii=False)
    else:
        answer = "\n".join(f"{card.name}: {reason}" for card, reason in zip(cards, reasons)) or "none"
    try:
        read = selector.parse(answer, k)
    except AnswerError as error:
        raise UnreadableAnswer(f"the selector's answer is not read: {error}") from None
    if [choice.name for choice in read] != [card.name for card in cards]:
        raise UnreadableAnswer("the selector's answer is read as another selection")
    return answer


def summarised(card: Skill, given: summariser.SummariserInput, style: str) -> str:
    """One card in the form that was asked for."""
    answer = json.dumps([_fields(card)], ensure_ascii=False) if style == "full" else _keyed(card)
    try:
        read = summariser.parse(answer, given)
    except AnswerError as error:
        raise UnreadableAnswer(f"the summariser's answer is not read: {error}") from None
    if len(read.skills) != 1:
        raise UnreadableAnswer(f"the summariser's card is refused: {'; '.join(read.refused) or 'none was found'}")
    if _text(read.skills[0]) != _text(card):
        raise UnreadableAnswer("the summariser's card is read as another card")
    return answer


def _fields(card: Skill) -> dict[str, Any]:
    content = card.content()
    content.pop("schema")
    return content


def _keyed(card: Skill) -> str:
    lines = [f"name: {card.name}", f"intent: {card.intent}", f"scope: {card.scope}", f"tags: {', '.join(card.tags)}"]
    lines += [f"{kind}: {text}" for kind, text in card.conditions.items()]
    lines += [f"applies_to: {applies_to_line(card.applies_to)}"] if card.applies_to else []
    lines += [f"anchor: {card.anchor}", f"technique:\n{card.technique.strip()}", f"effect: {card.effect}"]
    lines += ["failures:", *(f"- {failure}" for failure in card.failures)]
    lines += ["example:", fenced(card.example, "")]
    return "\n".join(lines)


def _text(card: Skill) -> dict[str, Any]:
    """What both must say; white space at the ends is nobody's."""
    content = card.content()
    return {name: value.strip() if isinstance(value, str) else value for name, value in content.items()}
