"""Material with verdicts that are told, not measured: the second stage only reads verdicts, so these stand for what a judge may say."""

from __future__ import annotations

from pathlib import Path

from hand_teacher import CARD, LOOPS, Hand, task

from bottega.core.candidate import Candidate
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.data.build import opened_library
from bottega.data.mistakes import mutants_of
from bottega.data.records import Mutant, TeacherRecord, task_record_of
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.judge.device_facts import device_facts

SETUP = JudgeSetup("1", "cpu: told")
POINTS = {"slow": 0.4, "fast": 1.9, "both": 2.6}
__all__ = ["CARD", "SETUP", "tell", "timed", "wrong"]


def timed(point: float, spread: float = 1.05) -> Verdict:
    low, high = point / spread, point * spread
    outcome = Outcome.FASTER if low > 1 else Outcome.SLOWER if high < 1 else Outcome.AMBIGUOUS
    return Verdict(
        outcome,
        True,
        {"eager": Speedup(point, low, high)},
        {"candidate": 1 / point, "eager": 1.0},
        diagnosis=f"{point}x of eager.",
    )


def wrong(text: str = "On plain inputs: the output is wrong: at [0, 1] expected 1.5, got 0.") -> Verdict:
    return Verdict(Outcome.INCORRECT, diagnosis=text)


def tell(
    folder: Path, names: tuple[str, ...] = tuple(LOOPS), points: dict[str, float] | None = None, spread: float = 1.05
) -> list[Mutant]:
    """A store as the first stage leaves it, and the mistakes in it."""
    told = points or POINTS
    mutants: list[Mutant] = []
    with JudgedStore(folder) as store, opened_library(folder, store):
        task_records = [task_record_of(task(name)) for name in names]
        store.add_task_records(task_records)
        store.note("device", device_facts("cpu").to_json())
        store.note_run({"command": "told", "teacher": Hand.name, "tasks": list(names), "settings": {"seeds": [0]}})
        for task_record in task_records:
            build = Hand().build(task_record.task, "cpp")
            store.add_teacher_record(TeacherRecord(task_record.task.id, "cpp", Hand.name, build=build))
            for step in build.steps:
                store.add_verdict(SETUP, task_record.task.id, step.candidate, timed(told[step.candidate.name], spread))
            made = mutants_of(task_record.task, build.steps[-1].candidate, 4)
            mutants += made
            store.add_mutants(made)
            for mutant in made:
                store.add_verdict(SETUP, task_record.task.id, mutant.candidate, wrong())
    return mutants


def candidate_of(name: str, step: int, seed: int = 0) -> Candidate:
    return Hand().build(task(name), "cpp", seed=seed).steps[step].candidate
