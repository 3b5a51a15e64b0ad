"""The selector: reads the headers of retrieved cards and picks at most k for a task, or none.

The compact form is one line for each pick, the full form a JSON list; either is read in whatever wrapping it comes. Whether a name
exists is not asked here: `bottega.skills.rerank.selection` counts and drops the ones that do not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.answers.loose_json import json_values, looks_like_json
from bottega.agents.budget import Budget, fitting
from bottega.agents.module_text import task_text
from bottega.agents.prompts import Prompts
from bottega.agents.wording import header_values, language_name
from bottega.backbone.chat import Message
from bottega.core.candidate import Language
from bottega.core.task import Task
from bottega.skills.rerank import Choice

LONGEST_REASON = 300
MOST_LINES = 400
FORM = "Answer with one line for each pick, as name: reason, or with none."

_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)
_LINE = re.compile(
    r"(?:[-*•+]+|\d{1,3}[.):])?\s*[`*\"'“”]*([A-Za-z][\w-]{0,79})[`*\"'“”]*(?:\s*:|\s+[-–—=]+>?(?=\s)|\s*$)(.*)", re.ASCII
)
_NONE = frozenset(("none", "no skills", "no skill", "nothing", "n/a", "null", "empty"))
_LISTS = ("skills", "choices", "selected", "selection", "picks", "names", "cards")


@dataclass(frozen=True)
class SelectorInput:
    task: Task
    headers: tuple[dict[str, Any], ...]
    """`Skill.header` of the retrieved cards, best first."""
    k: int
    device_kind: str
    language: Language
    sketch: str = ""


def messages(given: SelectorInput, prompts: Prompts, budget: Budget | None = None) -> list[Message]:
    """The prompt. Where it does not fit, the worst retrieved cards leave first."""

    def build(count: int) -> list[Message]:
        headers = [prompts.piece("select", "skill", header_values(header)) for header in given.headers[:count]]
        values = {
            "task": fenced(task_text(given.task.source, given.sketch, prompts.style), "python"),
            "sketch": fenced(given.sketch, "") if given.sketch else "",
            "language": language_name(given.language),
            "device": given.device_kind,
            "k": str(given.k),
            "skills": "\n".join(headers),
        }
        return prompts.messages("select", values)

    return fitting(range(len(given.headers), -1, -1), build, budget, "select", given.task.source)


def parse(text: str, k: int) -> tuple[Choice, ...]:
    """At most k choices, each name once. An empty answer is a choice too: no skills."""
    answer = answer_text(text)
    if not answer or _says_none(answer):
        return ()
    found = _from_json(json_values(answer)) if looks_like_json(answer) else None
    if found is None:
        found = _from_lines(answer)
    if found is None:
        raise AnswerError("no_json" if looks_like_json(answer) else "wrong_form", f"The answer names no skill. {FORM}")
    first = {choice.name: choice for choice in reversed(found)}
    return tuple(first[name] for name in dict.fromkeys(choice.name for choice in found))[: max(k, 0)]


def _says_none(text: str) -> bool:
    return len(text) < 40 and text.strip("`*\"'.!-• \n[]()").lower() in _NONE


def _choice(name: object, reason: object = "") -> Choice | None:
    """A choice with its name as cards spell it, if it can be one."""
    if not isinstance(name, str) or len(name) > 200:
        return None
    plain = re.sub(r"[\s-]+", "_", name.strip("`*\"'“” \n").lower())
    if not _NAME.fullmatch(plain) or plain in _NONE:
        return None
    return Choice(plain, one_line(reason, LONGEST_REASON).strip("* ") if isinstance(reason, str) else "")


def _from_json(values: list[Any]) -> list[Choice] | None:
    """Choices of a list, of a list in an object, or of objects that follow each other. None where no form is known."""
    found: list[Choice] = []
    known = False
    for value in values:
        items = value
        if isinstance(value, dict):
            listed = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
            pairs = [{"name": name, "reason": reason} for name, reason in value.items()]
            items = listed if listed is not None else [value] if "name" in value else pairs
        named = [_choice(i.get("name"), i.get("reason", "")) if isinstance(i, dict) else _choice(i) for i in items]
        known = known or not items or any(named)
        found += [choice for choice in named if choice]
    return found if known else None


def _from_lines(text: str) -> list[Choice] | None:
    found: list[Choice] = []
    none = False
    for whole in text.split("\n", MOST_LINES)[:MOST_LINES]:
        line = whole.strip()[: 4 * LONGEST_REASON]
        match = _LINE.fullmatch(line)
        if match is None:
            none = none or _says_none(line)
            continue
        name, reason = match.group(1), match.group(2).strip()
        if name.lower() == "name" and reason:
            name, reason = reason, ""
        if name.lower() in ("reason", "why") and found:
            found[-1] = Choice(found[-1].name, one_line(reason, LONGEST_REASON))
        elif choice := _choice(name, reason):
            found.append(choice)
        else:
            none = none or name.lower() in _NONE
    return found if found or none else None
