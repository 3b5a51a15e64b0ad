"""The summariser: the first and the best kernel of a task in, skill cards out. Every card goes through the library's validation.

A card from here is a proposal, whatever the model calls it; what it gained is what was measured, not what the model says. Typed conditions
that it writes must hold on the task that they were won on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.answers.loose_json import json_values, looks_like_json
from bottega.agents.cards import applies_to_line, card_data, keyed_cards, listed_cards
from bottega.agents.earlier_turn import EarlierTurn, as_written, turn_values
from bottega.agents.prompt_budget import LENGTHS, PromptBudget, fitting
from bottega.agents.prompts import Prompts
from bottega.agents.wording import device_text, header_values
from bottega.backbone.chat import Message
from bottega.core.device import DeviceFacts
from bottega.core.errors import CardError
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.workload import Workload
from bottega.languages import kernel_languages, language_named
from bottega.skills.conditions import conditions_here, unmet
from bottega.skills.validation import admit_data

LONGEST_REFUSAL = 400
MOST_CONDITIONS = 12
MOST_LOOKED_AT = 16
"""Cards of one answer; the rest is not read."""
FORM = "Answer with cards in the form that was asked for, or with none."

_NONE = ("none", "no cards", "no card", "no skills", "nothing", "[]", "null")


@dataclass(frozen=True)
class SummariserInput:
    task: Task
    language: str
    device: DeviceFacts
    first: EarlierTurn
    best: EarlierTurn
    gain: float
    """How many times as fast as the first the best is."""
    known: tuple[dict[str, Any], ...] = ()
    """`Skill.header` of similar cards that exist, most similar first."""
    most: int = 2
    """Proposals that may be made."""
    workload: Workload | None = None
    """Of the task on its device; without it a card with typed conditions is refused, for nobody can check them."""


@dataclass(frozen=True)
class Proposals:
    skills: tuple[Skill, ...] = ()
    """Proposed, and fit for the library."""
    refused: tuple[str, ...] = ()
    """One line for each that was not."""


@dataclass(frozen=True)
class _Plan:
    known: int
    longest: int | None = None
    first: bool = True
    """The source of the first kernel too."""


def messages(given: SummariserInput, prompts: Prompts, budget: PromptBudget | None = None) -> list[Message]:
    """The prompt. Where it does not fit: known cards leave from the last on, then diagnoses shrink, then the first kernel leaves."""
    if prompts.style == "terse":
        given = replace(given, first=as_written(given.first, given.task), best=as_written(given.best, given.task))
    return fitting(list(_plans(given)), lambda plan: _build(given, prompts, plan), budget, "summarise", given.task.source)


def _plans(given: SummariserInput) -> Iterator[_Plan]:
    for known in range(len(given.known), -1, -1):
        yield _Plan(known)
    plan = _Plan(0)
    for longest in LENGTHS:
        plan = _Plan(0, longest)
        yield plan
    yield replace(plan, first=False)


def _build(given: SummariserInput, prompts: Prompts, plan: _Plan) -> list[Message]:
    known = [prompts.piece("summarise", "known", header_values(header)) for header in given.known[: plan.known]]
    changed = changed_lines(given.first.source, given.best.source)
    instead = prompts.shows("summarise", "changed") and len(changed) < len(given.first.source)
    first = turn_values(given.first, "First attempt", plan.first and not instead, plan.longest)
    here = conditions_here(given.workload)[:MOST_CONDITIONS] if given.workload else ()
    best = turn_values(given.best, "Best attempt", True, plan.longest)
    values = {
        "task": fenced(given.task.source, "python"),
        "language": language_named(given.language).title,
        "language_key": given.language,
        "language_keys": ", ".join(f'"{language.name}"' for language in kernel_languages()),
        "device": device_text(given.device),
        "device_kind": given.device.kind,
        "first": prompts.piece("summarise", "turn", first),
        "best": prompts.piece("summarise", "turn", best),
        "changed": fenced(changed, "diff") if instead else "",
        "here": "\n".join(map(applies_to_line, here)),
        "gain": f"{given.gain:.2f}",
        "known": "\n".join(known),
        "most": str(given.most),
    }
    return prompts.messages("summarise", values)


def changed_lines(first: str, best: str) -> str:
    """A diff without context, each place behind the line of its function."""
    old, new = first.splitlines(), best.splitlines()
    lines: list[str] = []
    for kind, one, to, at, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            inside = next((line for line in old[:one][::-1] if line.lstrip().startswith(("def ", "class "))), "")
            lines += [*([inside] if inside and inside not in lines else []), *(f"-{line}" for line in old[one:to])]
            lines += [f"+{line}" for line in new[at:end]]
    return "\n".join(lines)


def parse(text: str, given: SummariserInput) -> Proposals:
    """Cards that pass validation, and why the others were refused. Raises `AnswerError` where no card can be seen at all."""
    answer = answer_text(text)
    if not answer:
        raise AnswerError("empty", f"The answer is empty. {FORM}")
    if answer.strip("`*\"'. \n").lower().removeprefix("json").strip() in _NONE:
        return Proposals()
    found = listed_cards(json_values(answer)) if looks_like_json(answer) else None
    if found is None:
        found = keyed_cards(answer) or None
    if found is None:
        raise AnswerError("no_json" if looks_like_json(answer) else "wrong_form", f"The answer holds no card. {FORM}")
    return _admitted(found, given)


def _admitted(found: list[dict[str, Any]], given: SummariserInput) -> Proposals:
    taken = {str(header["name"]) for header in given.known}
    skills: list[Skill] = []
    refused: list[str] = []
    for number, data in enumerate(found[:MOST_LOOKED_AT], 1):
        card = card_data(data, given.task, given.language, given.device.kind, given.gain)
        name = one_line(str(card.get("name", "")), 64)
        where = f"proposal {number} ({name})" if name else f"proposal {number}"
        try:
            skill = admit_data(card, where)
        except CardError as error:
            refused.append(one_line(str(error), LONGEST_REFUSAL))
            continue
        fault = unmet(skill.applies_to, given.workload or Workload((), given.device))
        if len(skills) >= given.most:
            refused.append(f"{where}: more than the {given.most} that were asked for")
        elif fault:
            refused.append(one_line(f"{where}: applies_to does not hold where the card was won: {fault}", LONGEST_REFUSAL))
        elif skill.name in taken:
            refused.append(f"{where}: a skill of this name exists")
        else:
            taken.add(skill.name)
            skills.append(skill)
    return Proposals(tuple(skills), tuple(refused))
