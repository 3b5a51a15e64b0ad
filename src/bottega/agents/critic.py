"""The critic: a kernel, its verdict and its profile in, the one thing to change next out. It writes no kernel.

Two modes, as CudaForge has them: a kernel that was not accepted is to be corrected, one that was is to be made faster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from bottega.agents.answers.answer import AnswerError, answer_text, one_line
from bottega.agents.answers.fences import fenced
from bottega.agents.earlier_turn import EarlierTurn
from bottega.agents.prompt_budget import LENGTHS, PromptBudget, cut_to_length, fitting
from bottega.agents.prompts import Prompts
from bottega.agents.wording import device_text, goal
from bottega.backbone.chat import Message
from bottega.core.device import DeviceFacts
from bottega.core.task import Task
from bottega.languages import language_named

Mode = Literal["correct", "speed"]
LONGEST = 260
"""Characters of one line: 35 words."""
FORM = "Answer with three lines: problem: ..., method: ..., plan: ..."
FIELDS = ("problem", "method", "plan")
_LINE = re.compile(rf"^[-*#> \t]*({'|'.join(FIELDS)})\**[ \t]*:\**[ \t]*(.+)$", re.I | re.M)


@dataclass(frozen=True)
class CriticInput:
    task: Task
    language: str
    device: DeviceFacts
    kernel: EarlierTurn
    accepted: bool
    profile: dict[str, Any]
    """Of the verdict; empty where it has none."""
    baseline: str = "eager"
    target: float | None = None

    @property
    def mode(self) -> Mode:
        return "speed" if self.accepted else "correct"


def messages(given: CriticInput, prompts: Prompts, budget: PromptBudget | None = None) -> list[Message]:
    """The prompt. Where it does not fit, the diagnosis gets shorter."""

    def build(longest: int | None) -> list[Message]:
        values = {
            "task": fenced(given.task.source, "python"),
            "language": language_named(given.language).title,
            "device": device_text(given.device),
            "goal": f"Goal: {goal(given.baseline, given.target)}",
            "ask": prompts.piece("criticise", given.mode, {}),
            "source": fenced(given.kernel.source, "python"),
            "outcome": given.kernel.outcome_text,
            "diagnosis": cut_to_length(given.kernel.diagnosis, longest or len(given.kernel.diagnosis)),
            "profile": profile_text(given.profile),
        }
        return prompts.messages("criticise", values)

    return fitting([None, *LENGTHS], build, budget, "criticise", given.task.source)


def profile_text(profile: dict[str, Any]) -> str:
    """A line for each figure that is known, one for all hardware counters, and one for each kernel."""
    elsewhere = ("kernels", "bottleneck", "counters", "not_counted")
    lines = [f"{name}: {value}" for name, value in profile.items() if name not in elsewhere and value is not None]
    if counters := profile.get("counters"):
        lines.append("counters " + ", ".join(f"{name} {value:g}" for name, value in counters.items()))
    for kernel in profile.get("kernels", ()):
        lines.append("kernel " + ", ".join(f"{name} {value}" for name, value in kernel.items() if value not in (None, "")))
    return "\n".join(lines)


def parse(text: str) -> str:
    """The advice as a paragraph. Raises `AnswerError` where the answer names nothing to do."""
    answer = answer_text(text)
    found: dict[str, str] = {}
    for match in _LINE.finditer(answer):
        found.setdefault(match.group(1).lower(), one_line(match.group(2), LONGEST))
    if not (found.get("method") or found.get("plan")):
        raise AnswerError("wrong_form", f"The answer says nothing to do. {FORM}")
    return " ".join(f"{name.capitalize()}: {found[name]}" for name in FIELDS if name in found)
