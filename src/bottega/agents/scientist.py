"""The scientist: kernels with their times and a notebook in, experiments with predicted effects out. It writes no kernel and sees no profile."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.prompt_budget import PromptBudget, fitting
from bottega.agents.prompts import Prompts
from bottega.agents.wording import bullets, device_text, goal
from bottega.backbone.chat import Message
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.languages import language_named
from bottega.skills.relations import relations_text

MOST_BROKEN = 1_000
"""Brackets that open no JSON: each costs a look at the text before it."""
LONGEST = 300
LARGEST_FACTOR = 100.0
FORM = 'Answer with one JSON object a line: {"base": ..., "reference": ..., "change": ..., "predict": 1.3, "novelty": 5}'


@dataclass(frozen=True)
class TimedKernel:
    """What the scientist sees of a kernel."""

    name: str
    time: str
    """`0.12 ms, 1.40x of eager`, or how it failed."""
    source: str


@dataclass(frozen=True)
class PlanInput:
    task: Task
    language: str
    device: DeviceFacts
    kernels: Sequence[TimedKernel]
    """The best first."""
    notebook: Sequence[str]
    """One line for each experiment, oldest first."""
    count: int
    baseline: str = "eager"
    target: float | None = None
    skills: Sequence[Skill] = ()
    """Optimisations to choose from, in the order in which they go into a kernel."""


@dataclass(frozen=True)
class Experiment:
    base: str
    reference: str
    change: str
    predict: float | None = None
    """The base's time over the time that is expected; None where nothing was predicted."""
    novelty: float = 0.0


def messages(given: PlanInput, prompts: Prompts, budget: PromptBudget | None = None) -> list[Message]:
    """The prompt. Where it does not fit, sources leave from the slowest kernel on, then the oldest half of the notebook, and again."""

    def build(shown: tuple[int, int]) -> list[Message]:
        sources, lines = shown
        kernels = [
            prompts.piece(
                "plan",
                "kernel",
                {"name": one.name, "time": one.time, "source": fenced(one.source, "python") if place < sources else ""},
            )
            for place, one in enumerate(given.kernels)
        ]
        values = {
            "task": fenced(given.task.source, "python"),
            "language": language_named(given.language).title,
            "device": device_text(given.device),
            "goal": goal(given.baseline, given.target),
            "kernels": "\n\n".join(kernels),
            "skills": bullets([_known(skill) for skill in given.skills]) or "(none)",
            "notebook": "\n".join(given.notebook[-lines:] if lines else ()) or "(empty)",
            "count": str(given.count),
        }
        return prompts.messages("plan", values)

    count, entries = len(given.kernels), len(given.notebook)
    plans = [(sources, entries) for sources in reversed(range(count + 1))]
    while entries:
        entries //= 2
        plans.append((0, entries))
    return fitting(plans, build, budget, "plan", given.task.source)


def _known(skill: Skill) -> str:
    relations = relations_text(skill.relations)
    return f"{skill.name}: {skill.intent}" + (f" It {relations}." if relations else "")


def parse(text: str, known: Sequence[str], most: int) -> list[Experiment]:
    """The experiments, at most so many. A base that is no kernel of ours is the first of them. Raises `AnswerError` where there is none."""
    found: list[Experiment] = []
    for row in _objects(answer_text(text)):
        if len(found) == most:
            break
        change = one_line(str(row.get("change") or ""), LONGEST)
        if change and change not in [one.change for one in found]:
            base, reference = str(row.get("base") or ""), str(row.get("reference") or "")
            base = base if base in known else known[0]
            reference = reference if reference in known and reference != base else ""
            novelty = _number(row.get("novelty"))
            found.append(Experiment(base, reference, change, _factor(row.get("predict")), min(10.0, max(0.0, novelty or 0.0))))
    if not found:
        raise AnswerError("wrong_form", f"The answer plans nothing. {FORM}")
    return found


def _objects(answer: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text, also those of a list and those over several lines. An answer of brackets alone is given up."""
    decoder, broken, at = json.JSONDecoder(), 0, answer.find("{")
    while at >= 0 and broken < MOST_BROKEN:
        try:
            row, end = decoder.raw_decode(answer, at)
        except (json.JSONDecodeError, RecursionError):
            end, broken = at + 1, broken + 1
        else:
            yield row
        at = answer.find("{", end)


def _number(value: Any) -> float | None:
    try:
        number = float(str(value).strip().removesuffix("x"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _factor(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 1 / LARGEST_FACTOR <= number <= LARGEST_FACTOR else None
