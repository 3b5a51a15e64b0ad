"""Which steps of a build are judged: all, the ends of its branches, or a number, so that more tasks fit the time."""

from __future__ import annotations

from collections.abc import Sequence

from bottega.compiler.build_step import BuildStep
from bottega.core.errors import UsageError

ALL, ENDS = "all", "ends"


def checked_steps(text: str) -> str:
    if text in (ALL, ENDS) or (text.isdecimal() and int(text) > 0):
        return text
    raise UsageError(f"steps {text!r}: use all, ends, or a number of kernels for each task")


def chosen_steps(steps: Sequence[BuildStep], which: str) -> tuple[BuildStep, ...]:
    """In the build's own order. `ends`: first attempts, the last kernel of each branch, and the one before it."""
    if which == ALL:
        return tuple(steps)
    ranked = _by_importance(steps)
    wanted = {id(step) for step in (ranked if which == ENDS else _spread(steps, ranked, int(which)))}
    return tuple(step for step in steps if id(step) in wanted)


def _by_importance(steps: Sequence[BuildStep]) -> list[BuildStep]:
    """The ends of a build, the most important first."""
    by_id = {step.candidate.id: step for step in steps}
    parents = {step.candidate.parent for step in steps}
    first = [step for step in steps if step.candidate.parent not in by_id]
    last = [step for step in steps if step.candidate.id not in parents]
    before = [by_id[step.candidate.parent] for step in last if step.candidate.parent in by_id]
    return list({id(step): step for step in (*first, *reversed(last), *reversed(before))}.values())


def _spread(steps: Sequence[BuildStep], ranked: Sequence[BuildStep], number: int) -> Sequence[BuildStep]:
    """The ends as far as they go, then others at even distances."""
    others = [step for step in steps if all(step is not one for one in ranked)]
    more = max(0, number - len(ranked))
    spread = [others[place * len(others) // more] for place in range(min(more, len(others)))] if more < len(others) else others
    return [*ranked[:number], *spread]
