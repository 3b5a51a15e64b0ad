"""Runs the admission gate: samples attempts with and without a card until the gate decides, and stores every attempt.

Every finished attempt is in the library before the next look, under a key made of the proof's own terms; a proof that was killed is
started again with the same terms and takes its finished attempts from there. Winners are judged once more in fresh processes,
and the gate must still hold with the worse of both figures.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from bottega.core.errors import UsageError
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.trial import Trial
from bottega.core.verdict import Verdict
from bottega.skills.gate import Decision, GatePair, Rules, decide, worth
from bottega.skills.library import Library, content_hash

WINNERS = 3
"""How many winning kernels of each task are judged again."""


class AttemptFunction(Protocol):
    def __call__(self, task: Task, skills: Sequence[Skill], seed: int) -> Verdict:
        """Write one kernel with these skills in the prompt and judge it. The same seed draws alike with and without the card."""
        ...


class ConfirmFunction(Protocol):
    def __call__(self, task: Task, verdict: Verdict) -> Verdict:
        """Judge the kernel behind a verdict again, in fresh processes."""
        ...


@dataclass(frozen=True)
class ProofJob:
    round: int
    task: Task
    arm: str
    """`with`, `without` or `again`."""

    @property
    def key(self) -> str:
        return f"{self.round:04d}/{self.task.id}/{self.arm}"


Run = Callable[[Callable[[ProofJob], Verdict], Sequence[ProofJob]], Iterable[Verdict]]
"""How jobs are run: `map`, or an executor's `map` to run them side by side."""


@dataclass(frozen=True)
class Proof:
    """The terms of a proof. Equal terms are the same proof, whenever it is run."""

    skill: Skill
    tasks: tuple[Task, ...]
    """The card's own task first, then siblings."""
    rules: Rules = field(default_factory=Rules)
    beside: tuple[Skill, ...] = ()
    """Cards that both arms get."""
    seed: int = 0
    setting: str = ""
    """What else attempts must share to be counted together: who writes them, where they are judged."""

    def __post_init__(self) -> None:
        if len(self.tasks) < 2 or len({task.id for task in self.tasks}) < len(self.tasks):
            raise UsageError("a card is proved on its own task and at least one sibling; give two tasks or more, all different")

    @property
    def id(self) -> str:
        terms = [content_hash(self.skill), self.skill.version, [task.id for task in self.tasks], asdict(self.rules)]
        terms += [[content_hash(skill) for skill in self.beside], self.seed, self.setting]
        return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()[:24]


def prove(
    library: Library,
    proof: Proof,
    attempt: AttemptFunction,
    confirm: ConfirmFunction,
    *,
    run: Run = map,
    progress: Callable[[Decision], None] | None = None,
) -> Decision:
    """Try a card until the gate decides, then admit or refuse it, with its evidence, in one change.

    A proof that was concluded before is told again and moves nothing: another seed makes a new one.
    """
    if library.get(proof.skill.name).state is SkillState.RETIRED:
        raise UsageError(f"{proof.skill.name} is retired; `bottega skills restore {proof.skill.name}` first, then prove it")
    kept = library.evidence.attempts(proof.id)

    def do(job: ProofJob) -> Verdict:
        if job.key not in kept:
            if job.arm == "again":
                verdict = confirm(job.task, kept[replace(job, arm="with").key])
            else:
                skills = (*proof.beside, proof.skill) if job.arm == "with" else proof.beside
                verdict = attempt(job.task, skills, proof.seed + job.round)
            kept[job.key] = library.evidence.keep_attempt(proof.id, job.key, verdict)
        return kept[job.key]

    own, finished = proof.tasks[0].id, 0
    while True:
        jobs = [ProofJob(finished, task, arm) for task in proof.tasks for arm in ("with", "without")]
        list(run(do, jobs))
        finished += 1
        # By first figures only: a proof that was stopped among its second figures must come to them again.
        pairs = _pairs(proof, kept, finished, again=False)
        decision = decide(pairs, own, proof.rules)
        if decision.step == "admit":
            list(run(do, _winners(proof, pairs)))
            held = decide(_pairs(proof, kept, finished), own, proof.rules)
            if held.step != "admit":
                decision = replace(
                    held, step="refuse", reason=f"its kernels did not hold their speedup when judged again: {held.reason}"
                )
        if progress is not None:
            progress(decision)
        if decision.step != "go on":
            conclude(library, proof, decision, kept, finished)
            return decision


def _pairs(proof: Proof, kept: Mapping[str, Verdict], finished: int, again: bool = True) -> dict[str, list[GatePair]]:
    """What each attempt was worth; with `again`, the worse of both figures where it was judged twice."""

    def value(number: int, task: Task, arm: str) -> float:
        first = worth(kept[ProofJob(number, task, arm).key], proof.rules)
        second = kept.get(ProofJob(number, task, "again").key) if arm == "with" and again else None
        return first if second is None else min(first, worth(second, proof.rules))

    return {
        task.id: [GatePair(value(number, task, "with"), value(number, task, "without")) for number in range(finished)]
        for task in proof.tasks
    }


def _winners(proof: Proof, pairs: Mapping[str, Sequence[GatePair]]) -> list[ProofJob]:
    """For each task, the attempts that gained most by the card."""
    jobs = []
    for task in proof.tasks:
        ranked = sorted(range(len(pairs[task.id])), key=lambda number: -pairs[task.id][number].gain)
        jobs += [ProofJob(number, task, "again") for number in ranked[:WINNERS] if pairs[task.id][number].gain > 0]
    return jobs


def conclude(library: Library, proof: Proof, decision: Decision, kept: Mapping[str, Verdict], finished: int) -> None:
    """Evidence and state in one change: a card is never admitted without what admitted it."""
    admitted = decision.step == "admit"
    trials = [(f"{proof.id}/{task.id}", _trial(proof, task, decision, kept, finished)) for task in proof.tasks]
    with library.store.change("admit" if admitted else "refuse", f"{proof.skill.name}: {decision.reason}") as change:
        fresh = library.evidence.record(change, trials)
        row = change.execute(
            "SELECT hash, state FROM cards WHERE name = ? AND valid_to IS NULL", (proof.skill.name,)
        ).fetchone()
        # The text that was tried is the one that moves; a card that was revised or retired meanwhile stays as it is. Nor does old
        # evidence move anything: what retired a card that was proved before must be disproved by new attempts.
        same = row is not None and row["hash"] == content_hash(proof.skill) and row["state"] != SkillState.RETIRED
        if fresh and same:
            state = SkillState.ADMITTED if admitted else SkillState(row["state"])
            library.move_within(change, proof.skill.name, state, decision.reason)


def _trial(proof: Proof, task: Task, decision: Decision, kept: Mapping[str, Verdict], finished: int) -> Trial:
    pairs = _pairs(proof, kept, finished)[task.id]
    print_of = next((verdict.fingerprint for verdict in kept.values() if verdict.fingerprint), {})
    return Trial(
        skill=proof.skill.name,
        skill_version=proof.skill.version,
        kind="gate",
        task_id=task.id,
        task_name=task.name,
        sibling=task.id != proof.tasks[0].id,
        baseline=proof.rules.baseline,
        device=str(print_of.get("device", "")),
        judge_version=str(print_of.get("judge", "")),
        with_skill=tuple(round(math.exp(pair.with_skill), 6) for pair in pairs),
        without_skill=tuple(round(math.exp(pair.without_skill), 6) for pair in pairs),
        gain=decision.by_task[task.id],
        decision="admitted" if decision.step == "admit" else "refused",
        reason=decision.reason,
    )
