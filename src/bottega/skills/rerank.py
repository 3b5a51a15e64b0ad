"""Reranking: something that reads headers, a model as a rule, picks at most k of the retrieved cards and says why.

Here stands only the protocol and what becomes of an answer: a model names cards that do not exist, or one card twice, and that must
neither fail nor pass unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bottega.core.skill import Skill
from bottega.core.task import Task


@dataclass(frozen=True)
class Choice:
    name: str
    reason: str = ""


class Reranker(Protocol):
    async def __call__(self, task: Task, headers: Sequence[dict[str, Any]], k: int) -> Sequence[Choice]:
        """At most k names out of the headers, each with a reason."""
        ...


@dataclass(frozen=True)
class Selection:
    skills: tuple[Skill, ...]
    reasons: tuple[str, ...]
    unknown: int = 0
    """Names that were not among the headers: dropped."""
    surplus: int = 0
    """Names given twice, or beyond k: dropped."""


def selection(choices: Sequence[Choice], offered: Sequence[Skill], k: int) -> Selection:
    """What remains of an answer."""
    by_name = {skill.name: skill for skill in offered}
    taken: dict[str, str] = {}
    unknown = surplus = 0
    for choice in choices:
        name = choice.name.strip()
        if name not in by_name:
            unknown += 1
        elif name in taken or len(taken) == k:
            surplus += 1
        else:
            taken[name] = choice.reason
    return Selection(tuple(by_name[name] for name in taken), tuple(taken.values()), unknown, surplus)


async def rerank(reranker: Reranker, task: Task, offered: Sequence[Skill], k: int = 3) -> Selection:
    if not offered or k <= 0:
        return Selection((), ())
    return selection(await reranker(task, [skill.header for skill in offered], k), offered, k)
