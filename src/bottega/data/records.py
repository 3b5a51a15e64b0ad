"""The records of the first stage: a task, the kernels that teachers wrote for it, mutants of them, and a verdict for each.

Examples are made of these alone. Nothing in them depends on prompts or filters, so examples can be made again with other ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bottega.compiler.build_step import BuildStep, BuildSteps
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.data.operators import operators_of


@dataclass(frozen=True)
class TaskRecord:
    """A task with its operators, families and structure, for filter, split and data card."""

    task: Task
    ops: tuple[str, ...]
    """Operators, sorted, each as often as it occurs."""
    families: tuple[str, ...]
    structure: str = ""
    """How they are put together, where the source of the task says so: a chain, a branch, a residual."""

    @property
    def family(self) -> str:
        return self.families[0] if self.families else "other"

    def to_json(self) -> dict[str, Any]:
        task = {name: getattr(self.task, name) for name in ("source", "name", "origin", "level")}
        return {
            **task,
            "tags": list(self.task.tags),
            "ops": list(self.ops),
            "families": list(self.families),
            "structure": self.structure,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TaskRecord:
        task = Task(data["source"], data["name"], data["origin"], data["level"], tuple(data["tags"]))
        return cls(task, tuple(data["ops"]), tuple(data["families"]), data["structure"])


def task_record_of(task: Task, columns: Mapping[str, Any] | None = None) -> TaskRecord:
    """From what the task's own source of data says about it, or else from its text."""
    told = columns or {}
    families = _words(told.get("families")) or tuple(tag for tag in task.tags if ":" not in tag)
    ops = tuple(sorted(_words(told.get("ops")))) or operators_of(task.source)
    structure = told.get("structure")
    return TaskRecord(task, ops, families, structure if isinstance(structure, str) else "")


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    return tuple(str(word) for word in value) if isinstance(value, list | tuple) else ()


@dataclass(frozen=True)
class TeacherRecord:
    """One answer of a teacher: build steps, or why there are none."""

    task_id: str
    language: str
    teacher: str
    seed: int = 0
    without: tuple[str, ...] = ()
    """Techniques that it had to leave out."""
    build: BuildSteps | None = None
    refused: str = ""
    """What the teacher does not support."""
    failed: str = ""
    """How the teacher itself failed: it died, timed out, or raised."""

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return (self.task_id, self.language, self.teacher, self.seed, ",".join(self.without))


@dataclass(frozen=True)
class Mutant:
    """A correct kernel with one mistake put in, as models make them. Only the judge says whether it is really wrong."""

    task_id: str
    candidate: Candidate
    """Its `parent` is the correct kernel."""
    mistake: str
    cure: str
    """How to fix it, in one sentence."""


UNJUDGED = "unjudged"
NO_VERDICT = Verdict(Outcome.AMBIGUOUS, notes=(UNJUDGED,))
"""The verdict of a kernel that was not judged."""


@dataclass(frozen=True)
class JudgedStep:
    """A kernel of a teacher, with its verdict."""

    step: BuildStep
    verdict: Verdict
    record: TeacherRecord
    techniques: tuple[str, ...] = ()
    """The techniques of all steps up to this one, in order."""
    cards: tuple[str, ...] = ()
    ancestors: tuple[str, ...] = ()
    """Kernels that led to it, oldest first, judged or not."""

    @property
    def id(self) -> str:
        return self.step.candidate.id

    @property
    def source(self) -> str:
        return self.step.candidate.source

    @property
    def outcome(self) -> str:
        return UNJUDGED if self.verdict is NO_VERDICT else self.verdict.outcome.value

    @property
    def accepted(self) -> bool:
        return self.verdict.outcome.accepted

    def speedup(self, baseline: str) -> Speedup | None:
        return self.verdict.speedup.get(baseline) if self.accepted else None

    def score(self, baseline: str) -> float:
        """The speedup that is sure; a correct kernel that was not timed ranks above none at all."""
        speedup = self.speedup(baseline)
        return speedup.low if speedup is not None else 1e-9 if self.accepted else 0.0


@dataclass(frozen=True)
class JudgedTask:
    """One task in one language: everything that was written for it and judged."""

    task_record: TaskRecord
    language: str
    teacher_records: tuple[TeacherRecord, ...]
    mutants: tuple[Mutant, ...] = ()
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By candidate."""

    @property
    def task(self) -> Task:
        return self.task_record.task

    @cached_property
    def builds(self) -> tuple[tuple[JudgedStep, ...], ...]:
        """The judged steps of every complete build, first to last; steps without a verdict are left out."""
        return tuple(self.attempts(record) for record in self.teacher_records if record.build and not record.without)

    def attempts(self, record: TeacherRecord) -> tuple[JudgedStep, ...]:
        """The steps of a build that have a verdict."""
        taught = self.taught(record)
        return tuple(
            replace(one, verdict=verdict) for one in taught if (verdict := self.verdicts.get(one.step.candidate.id)) is not None
        )

    def taught(self, record: TeacherRecord) -> tuple[JudgedStep, ...]:
        """All steps of a build, without verdicts."""
        steps = record.build.steps if record.build else ()
        by_id = {step.candidate.id: step for step in steps}
        found = []
        for step in steps:
            line = list(_line(step, by_id))
            techniques = dict.fromkeys(one.technique for one in line if one.candidate.parent is not None)
            cards = dict.fromkeys(name for one in line for name in one.cards)
            ancestors = tuple(one.candidate.id for one in line[:-1])
            found.append(JudgedStep(step, NO_VERDICT, record, tuple(techniques), tuple(cards), ancestors))
        return tuple(found)


def _line(step: BuildStep, by_id: dict[str, BuildStep]) -> Iterable[BuildStep]:
    """The steps that lead to this one, oldest first."""
    line = [step]
    seen = {step.candidate.id}
    while (parent := line[-1].candidate.parent) in by_id and parent not in seen:
        line.append(by_id[str(parent)])
        seen.add(str(parent))
    return reversed(line)


def best_of(attempts: Iterable[JudgedStep], baseline: str) -> JudgedStep | None:
    """The best kernel that is right, if any; equal ones in the order they came."""
    best: JudgedStep | None = None
    for attempt in attempts:
        if attempt.accepted and (best is None or attempt.score(baseline) > best.score(baseline)):
            best = attempt
    return best


def worth_learning(attempts: Iterable[JudgedStep], baseline: str, share: float = 1.0) -> JudgedStep | None:
    """The shortest right kernel that has at least this share of the best one's speed."""
    right = [attempt for attempt in attempts if attempt.accepted]
    best = best_of(right, baseline)
    if best is None or share >= 1:
        return best
    return min((one for one in right if one.score(baseline) >= share * best.score(baseline)), key=lambda one: len(one.source))


def surely_faster(better: Verdict, worse: Verdict, baseline: str) -> bool:
    """Whether one is surely the faster of two: their intervals do not touch."""
    one, other = better.speedup.get(baseline), worse.speedup.get(baseline)
    return better.outcome.accepted and worse.outcome.accepted and bool(one and other and one.low > other.high)


def gain_over(attempt: JudgedStep, other: JudgedStep, baseline: str) -> float:
    """How many times as fast it is; 0 where that is not known."""
    one, two = attempt.speedup(baseline), other.speedup(baseline)
    return one.point / two.point if one is not None and two is not None and two.point > 0 else 0.0


def compact_verdict(verdict: Verdict) -> Verdict:
    """What examples need of a verdict: thousands are held at a time."""
    return replace(verdict, coverage={}, sandbox={}, fingerprint={}, stages_s={}, error={})
