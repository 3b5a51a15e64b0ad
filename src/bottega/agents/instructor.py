"""The instructor: an instruction with its credit in, a variation of it out. It lets the prompts of an evolution evolve along with its kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.prompt_budget import PromptBudget, fitting
from bottega.agents.prompts import Prompts
from bottega.agents.wording import device_text
from bottega.backbone.chat import Message
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.languages import language_named

LONGEST = 300
"""Characters of an instruction: 40 words."""
FORM = "Answer with one line: instruction: ..."
_LINE = re.compile(r"^[-*#> \t]*instruction\**[ \t]*:\**[ \t]*(\S.+)$", re.I | re.M)


@dataclass(frozen=True)
class InstructorInput:
    task: Task
    language: str
    device: DeviceFacts
    instruction: str
    credit: str
    """What came of it, in words."""
    others: Sequence[str] = ()


def messages(given: InstructorInput, prompts: Prompts, budget: PromptBudget | None = None) -> list[Message]:
    """The prompt. Where it does not fit, the others leave, and then the task."""

    def build(shown: tuple[bool, bool]) -> list[Message]:
        task, others = shown
        values = {
            "task": fenced(given.task.source, "python") if task else "",
            "language": language_named(given.language).title,
            "device": device_text(given.device),
            "instruction": given.instruction or "(none: the writer got no instruction)",
            "credit": given.credit,
            "others": "\n".join(f"- {text}" for text in given.others if text) if others else "",
        }
        return prompts.messages("instruct", values)

    return fitting([(True, True), (True, False), (False, False)], build, budget, "instruct", given.task.source)


def parse(text: str) -> str:
    """The new instruction. Raises `AnswerError` where there is none."""
    found = _LINE.search(answer_text(text))
    if found is None:
        raise AnswerError("wrong_form", f"The answer holds no instruction. {FORM}")
    return one_line(found[1].strip("`\"' "), LONGEST)
