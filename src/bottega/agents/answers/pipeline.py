"""The way of a writer's answer from the model's text to the source that is judged: parse, repair, link, lint.

There is one such way. Training, the admission gate and deployment differ by their `AnswerPolicy` alone. Lint runs last, on the source that is
judged, and reports only what is certain to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bottega.agents import writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.network_repair import complete_network
from bottega.compiler.link import linked
from bottega.compiler.source.check import RULES, check
from bottega.compiler.source.finding import Finding
from bottega.core.errors import UsageError

Repair = Callable[[str, AnswerContext], str]
REPAIRS: dict[str, Repair] = {"networks": complete_network}
"""Rewrites of a source before it is linked, in the order in which they are applied. Each returns the source unchanged where it has nothing to do."""


@dataclass(frozen=True)
class AnswerPolicy:
    """What is done to an answer."""

    link: bool = True
    """Whether names of the task's file that the answer uses are inlined."""
    library: bool = True
    """Whether functions of the kernel library that it uses are inlined, too. Only with `link`."""
    repairs: tuple[str, ...] = ()
    """Names in `REPAIRS`."""
    lint: tuple[str, ...] = ()
    """Names in `RULES` of the static check."""
    resamples: int = 0
    """How many more answers may be sampled while the last one is certain to fail."""

    def __post_init__(self) -> None:
        for kind, names, known in (("repair", self.repairs, REPAIRS), ("lint rule", self.lint, RULES)):
            for name in names:
                if name not in known:
                    raise UsageError(f"unknown {kind} {name!r}; use some of {', '.join(known)}")
        if self.resamples < 0:
            raise UsageError(f"resamples must be 0 or more, not {self.resamples}")

    def without(self, *names: str) -> AnswerPolicy:
        """The same with these repairs and lint rules left out."""
        if unknown := [name for name in names if name not in REPAIRS and name not in RULES]:
            raise UsageError(f"unknown repair or lint rule {unknown[0]!r}; use some of {', '.join((*REPAIRS, *RULES))}")
        repairs, lint = (tuple(name for name in all_names if name not in names) for all_names in (self.repairs, self.lint))
        return replace(self, repairs=repairs, lint=lint)


TRAINING = AnswerPolicy()
"""A policy that is trained must see its own mistakes: nothing is repaired, nothing is sampled again."""
ADMISSION = TRAINING
"""The gate measures what a card is worth to the model as it is trained."""
DEPLOYMENT = AnswerPolicy(repairs=tuple(REPAIRS), lint=RULES, resamples=3)


def policy_for(resamples: int) -> AnswerPolicy:
    """Of `optimize` and `bench`: who allows no other sample sees the model's own answers, as in training."""
    return replace(DEPLOYMENT, resamples=resamples) if resamples else TRAINING


@dataclass(frozen=True)
class Answer:
    source: str
    """What is judged; empty where the text holds no code."""
    summary: str = ""
    """What the model says about it."""
    findings: tuple[Finding, ...] = ()
    repairs: tuple[str, ...] = ()
    """Names of the repairs that changed it."""
    fault: str = ""
    """Why there is no source, in words for the next prompt."""

    @property
    def fails(self) -> bool:
        """Whether it is known, without a verdict, that it fails."""
        return bool(self.fault or self.findings)


def read(text: str, context: AnswerContext, policy: AnswerPolicy) -> Answer:
    """One answer as it will be judged. A text without code is an answer with a fault."""
    try:
        written = writer.parse(text)
    except AnswerError as error:
        return Answer("", fault=str(error))
    source, changed = written.source, []
    for name, repair in REPAIRS.items():
        if name in policy.repairs and (after := repair(source, context)) != source:
            source = after
            changed.append(name)
    if policy.link:
        source = linked(source, context.task_source, policy.library)
    found = check(source) if policy.lint else ()
    return Answer(source, written.summary, tuple(one for one in found if one.rule in policy.lint), tuple(changed))
