"""The way of a writer's answer from the model's text to the source that is judged: parse, link, repair, lint.

There is one such way. Training, the admission gate and deployment differ by their `AnswerPolicy` alone. Lint runs last, on the source that is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bottega.agents import writer
from bottega.agents.answers.answer import AnswerError
from bottega.agents.answers.context import AnswerContext
from bottega.agents.answers.lint import LINT
from bottega.agents.answers.repairs import AFTER_LINK, BEFORE_LINK, GUESSES, REPAIRS, Repair
from bottega.compiler.link import linked
from bottega.compiler.source.finding import Finding
from bottega.core.errors import UsageError

CLEAN, DOUBTFUL, FAILS = 0, 1, 2
"""Ranks of an answer: nothing was found; it looks wrong, or a repair had to guess; it is certain to fail."""


@dataclass(frozen=True)
class AnswerPolicy:
    """What is done to an answer. Rules that cannot apply to it (see `AnswerContext.follows_callgraph`) leave it alone."""

    link: bool = True
    """Whether names of the task's file that the answer uses are inlined."""
    library: bool = True
    """Whether functions of the kernel library that it uses are inlined, too. Only with `link`."""
    repairs: tuple[str, ...] = ()
    """Names in `REPAIRS`. They are applied in that order."""
    lint: tuple[str, ...] = ()
    """Names in `LINT`."""
    resamples: int = 0
    """How many more answers may be sampled while the last one is not clean."""

    def __post_init__(self) -> None:
        for kind, names, known in (("repair", self.repairs, REPAIRS), ("lint rule", self.lint, LINT)):
            for name in names:
                if name not in known:
                    raise UsageError(f"unknown {kind} {name!r}; use some of {', '.join(known)}")
        if self.resamples < 0:
            raise UsageError(f"resamples must be 0 or more, not {self.resamples}")
        if not (self.link and self.library) and (needing := [name for name in self.repairs if name in AFTER_LINK]):
            raise UsageError(f"the repair {needing[0]!r} needs a linked answer; leave it out, or link task and library")

    def without(self, *names: str) -> AnswerPolicy:
        """The same with these repairs and lint rules left out."""
        if unknown := [name for name in names if name not in REPAIRS and name not in LINT]:
            raise UsageError(f"unknown repair or lint rule {unknown[0]!r}; use some of {', '.join((*REPAIRS, *LINT))}")
        repairs, lint = (tuple(name for name in all_names if name not in names) for all_names in (self.repairs, self.lint))
        return replace(self, repairs=repairs, lint=lint)


TRAINING = AnswerPolicy()
"""A policy that is trained must see its own mistakes: nothing is repaired, nothing is sampled again."""
ADMISSION = TRAINING
"""The gate measures what a card is worth to the model as it is trained."""
DEPLOYMENT = AnswerPolicy(repairs=tuple(REPAIRS), lint=tuple(LINT), resamples=3)


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
    def rank(self) -> int:
        """`CLEAN`, `DOUBTFUL` or `FAILS`: the lower, the better worth judging."""
        if self.fault or any(finding.certain for finding in self.findings):
            return FAILS
        return DOUBTFUL if self.findings or not GUESSES.isdisjoint(self.repairs) else CLEAN


def read(text: str, context: AnswerContext, policy: AnswerPolicy) -> Answer:
    """One answer as it will be judged. A text without code is an answer with a fault."""
    try:
        written = writer.parse(text)
    except AnswerError as error:
        return Answer("", fault=str(error))
    source, early = _repaired(written.source, context, policy, BEFORE_LINK)
    if policy.link:
        source = linked(source, context.task_source, policy.library)
    source, late = _repaired(source, context, policy, AFTER_LINK)
    return Answer(source, written.summary, lint(source, context, policy), (*early, *late))


def lint(source: str, context: AnswerContext, policy: AnswerPolicy) -> tuple[Finding, ...]:
    """What the policy's rules find in a source."""
    checks = dict.fromkeys(LINT[name] for name in LINT if name in policy.lint)
    return tuple(finding for check in checks for finding in check(source, context) if finding.rule in policy.lint)


def _repaired(
    source: str, context: AnswerContext, policy: AnswerPolicy, repairs: dict[str, Repair]
) -> tuple[str, tuple[str, ...]]:
    changed: list[str] = []
    for name, repair in repairs.items():
        if name in policy.repairs and (after := repair(source, context)) != source:
            source = after
            changed.append(name)
    return source, tuple(changed)
