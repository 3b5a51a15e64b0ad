"""Cards put to the gate with a teacher: kernels with a technique against kernels without it, on a task and on a sibling.

The card is the library's own with the kernel at hand as its example. Every attempt of the gate has another seed, for teachers that vary,
and a fresh verdict; nothing is taken from what was judged before, because a figure that is used twice proves nothing. Evidence and state
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

from bottega.core.candidate import Candidate
from bottega.core.errors import BottegaError, CardError, JudgeError, NoJudgeError
from bottega.core.skill import Provenance, Skill, SkillState
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.cards import CardIndex
from bottega.data.excerpt import excerpt
from bottega.data.judge_stage import Progress
from bottega.data.records import JudgedTask, surely_faster
from bottega.data.settings import JudgeStage
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.teacher_pool import TeacherPool
from bottega.judge.device_host import DeviceJudge
from bottega.skills.gate import Decision, Rules, worth
from bottega.skills.library import Library
from bottega.skills.proving import Proof, prove
from bottega.skills.validation import admit_data

FACT = "proof/"
ORIGIN = "teacher"
LEAST_GAIN = 1.1
"""What the step must have gained when it was judged: a gate is dear, and would not admit less."""


@dataclass(frozen=True)
class CardClaim:
    """A card that seems to have made a kernel faster, and where."""

    card: str
    """The library's card that it comes from."""
    technique: str
    language: str
    task_id: str
    before: str
    """Candidates without and with it."""
    after: str
    gain: float

    @property
    def name(self) -> str:
        """Of the card in the library beside the data: one for each task."""
        return f"{self.card[:48].rstrip('_')}_{self.task_id[:8]}_{self.language}"


def claims_of(judged_task: JudgedTask, card_index: CardIndex, baseline: str) -> list[CardClaim]:
    """One for each technique of the task: the step that gained most by it, as the gate counts gains. Between two kernels that are slower
    than the module it sees none."""
    found: dict[str, CardClaim] = {}
    rules = Rules(baseline=baseline)
    for build in judged_task.builds:
        by_id = {attempt.id: attempt for attempt in build}
        for attempt in build:
            parent = by_id.get(attempt.step.candidate.parent or "")
            cards = card_index.of(attempt.step.cards, judged_task.language)
            if parent is None or not cards or not surely_faster(attempt.verdict, parent.verdict, baseline):
                continue
            gain = math.exp(worth(attempt.verdict, rules) - worth(parent.verdict, rules))
            technique = attempt.step.technique
            if gain >= LEAST_GAIN and (technique not in found or found[technique].gain < gain):
                found[technique] = CardClaim(
                    cards[0].name, technique, judged_task.language, judged_task.task.id, parent.id, attempt.id, gain
                )
    return list(found.values())


def planned(claims: Iterable[CardClaim], sides: Mapping[str, str], most: int) -> list[tuple[CardClaim, CardClaim]]:
    """Claims with a sibling each, of the same side of the split; by turns through the techniques, so that none takes all the places."""
    groups: dict[tuple[str, str, str, str], list[CardClaim]] = defaultdict(list)
    for claim in claims:
        groups[claim.language, claim.technique, claim.card, sides.get(claim.task_id, "train")].append(claim)
    rows: list[list[tuple[CardClaim, CardClaim]]] = []
    for key in sorted(groups):
        order = sorted(groups[key], key=lambda claim: hashlib.sha256(f"{claim.task_id}/{claim.technique}".encode()).digest())
        if len(order) > 1:
            rows.append([(claim, order[(place + 1) % len(order)]) for place, claim in enumerate(order)])
    turns = max((len(row) for row in rows), default=0)
    return [row[turn] for turn in range(turns) for row in rows if turn < len(row)][:most]


def adapted(card: Skill, claim: CardClaim, source: str, before: str, device_kind: str, teacher: str) -> Skill:
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
        state=SkillState.PROPOSED,
        reason="",
    )
    return admit_data(made.to_json(), made.name)


@dataclass
class CardGate:
    """Everything that proofs need, in one place."""

    store: JudgedStore
    library: Library
    teacher_pool: TeacherPool
    judge: DeviceJudge
    judge_setup: JudgeSetup
    stage: JudgeStage
    card_index: CardIndex
    loop: asyncio.AbstractEventLoop

    def prove(self, claim: CardClaim, sibling: CardClaim, pool: ThreadPoolExecutor) -> Decision:
        """Raises what ends the run, and `CardError` where the card is not fit for the library."""
        own, other = self.store.task_record(claim.task_id).task, self.store.task_record(sibling.task_id).task
        card = adapted(
            self.library.get(claim.card, self.card_index.version),
            claim,
            self.store.kernel(claim.after).source,
            self.store.kernel(claim.before).source,
            self.card_index.device.kind,
            self.teacher_pool.teacher,
        )
        if card.name not in self.library:
            self.library.add(card, f"a claim of {self.teacher_pool.teacher}")
        rounds = self.stage.rounds
        rules = Rules(least_rounds=min(4, rounds), most_rounds=rounds, baseline=self.stage.baseline)
        setting = f"{self.judge_setup.device} {self.judge_setup.judge} {self.teacher_pool.teacher} without {claim.technique}"
        proof = Proof(self.library.get(card.name), (own, other), rules, setting=setting)

        def attempt(task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
            left = frozenset() if any(skill.name == card.name for skill in skills) else frozenset((claim.technique,))
            return _fair(task, self.judge.judge(task, self._kernel(task, claim.language, seed, left)))

        def confirm(task: Task, verdict: Verdict) -> Verdict:
            return _fair(task, self.judge.judge(task, self.store.kernel(verdict.candidate_id), quick=False))

        decision = prove(self.library, proof, attempt, confirm, run=pool.map)
        fact = {"step": decision.step, "reason": decision.reason, "sibling": sibling.task_id, **claim.__dict__}
        self.store.note(f"{FACT}{card.name}", fact)
        return decision

    def _kernel(self, task: Task, language: str, seed: int, without: frozenset[str]) -> Candidate:
        """The last kernel of a build: the best one that the teacher knows."""
        key = (task.id, language, self.teacher_pool.teacher, seed, ",".join(sorted(without)))
        record = self.store.teacher_record(key)
        if record is None or record.failed:
            asked = self.teacher_pool.teach(task, language, seed, without)
            record = asyncio.run_coroutine_threadsafe(asked, self.loop).result()
            self.store.add_teacher_record(record, again=True)
        if record.build is None or not record.build.steps:
            raise ProofError(f"{task.label}: no kernel to compare with: {record.refused or record.failed or 'no step'}")
        return record.build.steps[-1].candidate


class ProofError(BottegaError):
    """A card cannot be put to the gate; others can."""


def _fair(task: Task, verdict: Verdict) -> Verdict:
    """A task that did not come up counts for neither side."""
    if verdict.outcome is Outcome.INVALID_TASK:
        raise ProofError(f"{task.label}: the task cannot be judged: {verdict.diagnosis}")
    return verdict


async def prove_all(gate: CardGate, sides: Mapping[str, str], progress: Progress) -> dict[str, int]:
    """How many were admitted, refused and skipped."""
    stage, counts = gate.stage, {"admitted": 0, "refused": 0, "skipped": 0}
    claims = [
        claim
        for judged_task in gate.store.judged_tasks(gate.judge_setup)
        for claim in claims_of(judged_task, gate.card_index, stage.baseline)
    ]
    plan = planned(claims, sides, stage.proofs)
    places = asyncio.Semaphore(max(1, stage.workers // 4))

    pool = ThreadPoolExecutor(max(2, stage.workers), thread_name_prefix="gate")

    async def one(claim: CardClaim, sibling: CardClaim) -> None:
        async with places:
            try:
                decision = await asyncio.to_thread(gate.prove, claim, sibling, pool)
            except (ProofError, CardError, JudgeError) as error:
                if isinstance(error, NoJudgeError) or "closed" in str(error):
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
