"""What becomes of a selector's answer: a model names cards that do not exist, or one card twice, and that must neither fail nor pass unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bottega.core.skill import Skill
from bottega.skills.relations import conflicting, in_order


@dataclass(frozen=True)
class Choice:
    name: str
    reason: str = ""


@dataclass(frozen=True)
class Selection:
    skills: tuple[Skill, ...]
    reasons: tuple[str, ...]
    unknown: int = 0
    """Names that were not among the headers. Dropped, as are those given twice, beyond k, or of a card that conflicts with one named before."""


def selection(choices: Sequence[Choice], offered: Sequence[Skill], k: int) -> Selection:
    """What remains of an answer, in the order in which the steps go into a kernel."""
    by_name = {skill.name: skill for skill in offered}
    taken: dict[str, str] = {}
    unknown = 0
    for choice in choices:
        name = choice.name.strip()
        if name not in by_name:
            unknown += 1
        elif name not in taken and len(taken) < k and not any(conflicting(by_name[name], by_name[other]) for other in taken):
            taken[name] = choice.reason
    skills = in_order([by_name[name] for name in taken])
    return Selection(tuple(skills), tuple(taken[skill.name] for skill in skills), unknown)
