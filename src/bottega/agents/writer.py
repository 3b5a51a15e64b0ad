"""The writer: task, device, skills and earlier turns in, a candidate's whole source out.

What changes from turn to turn stands at the end of the prompt, so that prompts of one trace share their beginning.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bottega.agents.answers.answer import answer_text, one_line
from bottega.agents.answers.fences import fenced, outside
from bottega.agents.answers.parse import candidate_source
from bottega.agents.earlier_turn import EarlierTurn, as_written, turn_values
from bottega.agents.module_text import task_text
from bottega.agents.prompt_budget import LENGTHS, PromptBudget, fitting
from bottega.agents.prompts import Prompts
from bottega.agents.wording import device_text, goal, precision_rule, skill_values
from bottega.backbone.chat import Message
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.library.index import kernel_library
from bottega.compiler.network_rule import has_replaceable_layers
from bottega.compiler.source.text import parsed
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.languages import language_named

__all__ = ["EarlierTurn", "WriterAnswer", "WriterInput", "messages", "parse"]

LONGEST_SUMMARY = 600

_SUMMARY = re.compile(r"^[#*_ \t]*summary[*_ \t]*:[*_ \t]*", re.I | re.M)


@dataclass(frozen=True)
class WriterInput:
    task: Task
    language: str
    device: DeviceFacts
    skills: tuple[Skill, ...] = ()
    past: tuple[EarlierTurn, ...] = ()
    """Oldest first."""
    best: EarlierTurn | None = None
    """The best so far, of this trace or of another one."""
    callgraph: CallGraph | None = None
    """What the module calls and with which shapes; empty where that is not known. A terse prompt for Triton does not show a network's."""
    precision: str = "fp32"
    baseline: str = "eager"
    target: float | None = None
    """The speedup that is asked for, if one is."""
    instruction: str = ""
    """What a search strategy asks of this one kernel."""


@dataclass(frozen=True)
class WriterAnswer:
    source: str
    summary: str
    """What the model says about it, one paragraph; may be empty."""


@dataclass(frozen=True)
class _Plan:
    """What a prompt shows."""

    turns: tuple[int, ...]
    best: bool
    """The best, where it is none of the turns."""
    cards: int
    """How many skills, and how many of these with their example."""
    examples: int
    longest: int | None = None
    sources: bool = True


def messages(given: WriterInput, prompts: Prompts, budget: PromptBudget | None = None) -> list[Message]:
    """The prompt. Where it does not fit: the oldest turns leave, then examples of skills and whole skills from the last on, then
    diagnoses shrink, then the best and the latest turn leave. The task stays as it is."""
    if prompts.style == "terse":
        past, best = (as_written(one, given.task) for one in given.past), given.best
        given = replace(given, past=tuple(past), best=as_written(best, given.task) if best else None)
        if language_named(given.language).kernel_library and has_replaceable_layers(given.callgraph):
            given = replace(given, callgraph=None)
    return fitting(list(_plans(given)), lambda plan: _build(given, prompts, plan), budget, "write", given.task.source)


def parse(text: str) -> WriterAnswer:
    """The last block that defines ModelNew, and what was said around it. Raises `AnswerError` where there is none."""
    answer = answer_text(text)
    source, found = candidate_source(answer)
    said = outside(answer, found)
    marked = [match.end() for match in _SUMMARY.finditer(said)]
    summary = one_line(said[marked[-1] :] if marked else said, LONGEST_SUMMARY)
    return WriterAnswer(source, summary or _docstring(source))


def _docstring(source: str) -> str:
    tree = parsed(source)
    told = ast.get_docstring(tree) if tree else None
    return one_line(told.strip().split("\n")[0], LONGEST_SUMMARY) if told else ""


def _best_turn(given: WriterInput) -> int | None:
    """Which of the past turns is the best."""
    places = [number for number, past in enumerate(given.past) if past == given.best]
    return places[-1] if places else None


def _plans(given: WriterInput) -> Iterator[_Plan]:
    here = _best_turn(given)
    latest = len(given.past) - 1
    count = len(given.skills)
    plan = _Plan(tuple(range(len(given.past))), given.best is not None and here is None, count, count)
    yield plan
    for number in range(latest):
        if number != here:
            plan = replace(plan, turns=tuple(turn for turn in plan.turns if turn != number))
            yield plan
    for kept in reversed(range(count)):
        plan = replace(plan, examples=kept)
        yield plan
    for kept in reversed(range(count)):
        plan = replace(plan, cards=kept)
        yield plan
    for longest in LENGTHS:
        plan = replace(plan, longest=longest)
        yield plan
    plan = replace(plan, turns=plan.turns[-1:], best=False)
    yield plan
    yield replace(plan, sources=False)
    yield replace(plan, turns=())


def _build(given: WriterInput, prompts: Prompts, plan: _Plan) -> list[Message]:
    turns = [
        prompts.piece("write", "turn", turn_values(given.past[n], f"Attempt {n + 1}", plan.sources, plan.longest))
        for n in plan.turns
    ]
    cards = [
        prompts.piece("write", "skill", skill_values(skill, given.language, example=number < plan.examples))
        for number, skill in enumerate(given.skills[: plan.cards])
    ]
    values = {
        "task": fenced(task_text(given.task.source, given.callgraph, prompts.style), "python"),
        "callgraph": fenced(given.callgraph.text, "") if given.callgraph else "",
        "language": language_named(given.language).title,
        "guide": prompts.guide(given.language),
        "parts": ", ".join(kernel_library().own()) if language_named(given.language).kernel_library else "",
        "device": device_text(given.device),
        "precision": precision_rule(given.precision),
        "goal": goal(given.baseline, given.target),
        "skills": "\n\n".join(cards),
        "past": "\n\n".join(turns),
        "best": _best_text(given, prompts, plan),
        "instruction": given.instruction,
    }
    return prompts.messages("write", values)


def _best_text(given: WriterInput, prompts: Prompts, plan: _Plan) -> str:
    """Named where its turn is shown, shown where it is of another trace."""
    here = _best_turn(given)
    if given.best is None or (here is None and not plan.best) or (here is not None and here not in plan.turns):
        return ""
    if here is not None:
        return f"Best so far: attempt {here + 1}, {given.best.outcome_text}."
    return prompts.piece("write", "turn", turn_values(given.best, "Best so far", True, plan.longest))
