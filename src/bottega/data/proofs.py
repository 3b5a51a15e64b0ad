"""Cards put to the gate with a teacher: kernels with a technique against kernels without it, on a task and on a sibling.

The card is the library's own with the kernel at hand as its example. Every attempt of the gate is a fresh kernel of another seed and a
fresh verdict; nothing is taken from what was judged before, because a figure that is used twice proves nothing. Evidence and state
lie in the library beside the data, and a proof that was stopped goes on from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from bottega.core.candidate import Candidate, Language
from bottega.core.errors import BottegaError, CardError, JudgeError
from bottega.core.skill import Provenance, Skill, State
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.cards import Shelf
from bottega.data.excerpt import excerpt
from bottega.data.judge_stage import Progress
from bottega.data.material import Lesson, apart
from bottega.data.pool import Classroom
from bottega.data.settings import JudgeStage
from bottega.data.store import Bench, Store
from bottega.judge.judge import Judge
from bottega.skills.gate import Decision, Rules, worth
from bottega.skills.library import Library
from bottega.skills.proving import Proof, prove
from bottega.skills.validation import admit_data

FACT = "proof/"
ORIGIN = "teacher"
LEAST_GAIN = 1.1
"""What the step must have gained when it was judged: a gate is dear, and would not admit less."""


@dataclass(frozen=True)
class Claim:
    """A card that seems to have made a kernel faster, and where."""

    card: str
    """The library's card that it comes from."""
    technique: str
    language: Language
    task_id: str
    before: str
    """Candidates without and with it."""
    after: str
    gain: float

    @property
    def name(self) -> str:
        """Of the card in the library beside the data: one for each task."""
        return f"{self.card[:48].rstrip('_')}_{self.task_id[:8]}_{self.language}"


def claims_of(lesson: Lesson, shelf: Shelf, baseline: str) -> list[Claim]:
    """One for each technique of the task: the step that gained most by it, as the gate counts gains. Between two kernels that are slower
    than the module it sees none."""
    found: dict[str, Claim] = {}
    rules = Rules(baseline=baseline)
    for course in lesson.courses:
        by_id = {attempt.id: attempt for attempt in course}
        for attempt in course:
            parent = by_id.get(attempt.step.candidate.parent or "")
            cards = shelf.of(attempt.step.cards, lesson.language)
            if parent is None or not cards or not apart(attempt.verdict, parent.verdict, baseline):
                continue
            gain = math.exp(worth(attempt.verdict, rules) - worth(parent.verdict, rules))
            technique = attempt.step.technique
            if gain >= LEAST_GAIN and (technique not in found or found[technique].gain < gain):
                found[technique] = Claim(cards[0].name, technique, lesson.language, lesson.task.id, parent.id, attempt.id, gain)
    return list(found.values())


def planned(claims: Iterable[Claim], sides: Mapping[str, str], most: int) -> list[tuple[Claim, Claim]]:
    """Claims with a sibling each, of the same side of the split; by turns through the techniques, so that none takes all the places."""
    groups: dict[tuple[str, str, str, str], list[Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.language, claim.technique, claim.card, sides.get(claim.task_id, "train")].append(claim)
    rows: list[list[tuple[Claim, Claim]]] = []
    for key in sorted(groups):
        order = sorted(groups[key], key=lambda claim: hashlib.sha256(f"{claim.task_id}/{claim.technique}".encode()).digest())
        if len(order) > 1:
            rows.append([(claim, order[(place + 1) % len(order)]) for place, claim in enumerate(order)])
    turns = max((len(row) for row in rows), default=0)
    return [row[turn] for turn in range(turns) for row in rows if turn < len(row)][:most]


def adapted(card: Skill, claim: Claim, source: str, before: str, device_kind: str, teacher: str) -> Skill:
    """The library's card with the kernel at hand as its example, where an excerpt of it is short enough."""
    shown = excerpt(source, before, claim.language)
    example = shown if shown and len(shown) <= 3200 else card.example
    made = replace(
        card,
        name=claim.name,
        example=example,
        failures=card.failures,
        languages=(claim.language,),
        devices=(device_kind,),
        provenance=Provenance(ORIGIN, teacher, claim.task_id, round(claim.gain, 4)),
        version=1,
        state=State.PROPOSED,
        reason="",
    )
    return admit_data(made.to_json(), made.name)


@dataclass
class Gate:
    """Everything that proofs need, in one place."""

    store: Store
    library: Library
    classroom: Classroom
    judge: Judge
    bench: Bench
    stage: JudgeStage
    shelf: Shelf
    loop: asyncio.AbstractEventLoop

    def prove(self, claim: Claim, sibling: Claim, pool: ThreadPoolExecutor) -> Decision:
        """Raises what ends the run, and `CardError` where the card is not fit for the library."""
        own, other = self.store.subject(claim.task_id).task, self.store.subject(sibling.task_id).task
        card = adapted(
            self.library.get(claim.card, self.shelf.version),
            claim,
            self.store.kernel(claim.after).source,
            self.store.kernel(claim.before).source,
            self.shelf.device_kind,
            self.classroom.teacher,
        )
        if card.name not in self.library:
            self.library.add(card, f"a claim of {self.classroom.teacher}")
        rounds = self.stage.rounds
        rules = Rules(least_rounds=min(4, rounds), most_rounds=rounds, baseline=self.stage.baseline)
        setting = f"{self.bench.device} {self.bench.judge} {self.classroom.teacher} without {claim.technique}"
        proof = Proof(self.library.get(card.name), (own, other), rules, setting=setting)

        def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
            left = frozenset() if any(skill.name == card.name for skill in skills) else frozenset((claim.technique,))
            return _fair(task, self.judge.judge(task, self._kernel(task, claim.language, seed, left)))

        def confirm(task: Task, verdict: Verdict) -> Verdict:
            return _fair(task, self.judge.judge(task, self.store.kernel(verdict.candidate_id), quick=False))

        decision = prove(self.library, proof, attempt, confirm, run=pool.map)
        told = {"step": decision.step, "reason": decision.reason, "sibling": sibling.task_id, **claim.__dict__}
        self.store.note(f"{FACT}{card.name}", told)
        return decision

    def _kernel(self, task: Task, language: Language, seed: int, without: frozenset[str]) -> Candidate:
        """The last kernel of a course: what the teacher thinks best."""
        key = (task.id, language, self.classroom.teacher, seed, ",".join(sorted(without)))
        lecture = self.store.lecture(key)
        if lecture is None or lecture.failed:
            asked = self.classroom.lecture(task, language, seed, without)
            lecture = asyncio.run_coroutine_threadsafe(asked, self.loop).result()
            self.store.add_lecture(lecture, again=True)
        if lecture.course is None or not lecture.course.steps:
            raise ProofError(
                f"{task.label}: no kernel to compare with: {lecture.refused or lecture.failed or 'an empty course'}"
            )
        return lecture.course.steps[-1].candidate


class ProofError(BottegaError):
    """A card cannot be put to the gate; others can."""


def _fair(task: Task, verdict: Verdict) -> Verdict:
    """A task that did not come up counts for neither side."""
    if verdict.outcome is Outcome.INVALID_TASK:
        raise ProofError(f"{task.label}: the task cannot be judged: {verdict.diagnosis}")
    return verdict


async def prove_all(gate: Gate, sides: Mapping[str, str], progress: Progress) -> dict[str, int]:
    """How many were admitted, refused and skipped."""
    stage, counts = gate.stage, {"admitted": 0, "refused": 0, "skipped": 0}
    claims = [claim for lesson in gate.store.lessons(gate.bench) for claim in claims_of(lesson, gate.shelf, stage.baseline)]
    plan = planned(claims, sides, stage.proofs)
    places = asyncio.Semaphore(max(1, stage.workers // 4))

    pool = ThreadPoolExecutor(max(2, stage.workers), thread_name_prefix="gate")

    async def one(claim: Claim, sibling: Claim) -> None:
        async with places:
            try:
                decision = await asyncio.to_thread(gate.prove, claim, sibling, pool)
            except (ProofError, CardError, JudgeError) as error:
                if "closed" in str(error):
                    raise
                counts["skipped"] += 1
                progress.trouble(f"the card {claim.name} is not proved: {error}")
                return
            counts["admitted" if decision.step == "admit" else "refused"] += 1
            progress.proofs += 1
            progress.changed()

    progress.proofs_planned = len(plan)
    try:
        async with asyncio.TaskGroup() as group:
            for claim, sibling in plan:
                group.create_task(one(claim, sibling))
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # attempts under way end with the judge
    return counts
