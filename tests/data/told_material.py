"""Material with verdicts that are told, not measured: the second stage only reads verdicts, so these stand for what a judge may say."""

from __future__ import annotations

from pathlib import Path

from hand_teacher import CARD, LOOPS, Hand, task

from bottega.core.candidate import Candidate
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.data.build import opened_library
from bottega.data.material import Lecture, Slip, subject_of
from bottega.data.mistakes import slips_of
from bottega.data.store import Bench, Store
from bottega.judge.device_facts import device_facts

BENCH = Bench("1", "cpu: told")
POINTS = {"slow": 0.4, "fast": 1.9, "both": 2.6}
__all__ = ["BENCH", "CARD", "tell", "timed", "wrong"]


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
) -> list[Slip]:
    """A store as the first stage leaves it, and the mistakes in it."""
    told = points or POINTS
    slips: list[Slip] = []
    with Store(folder) as store, opened_library(folder, store):
        subjects = [subject_of(task(name)) for name in names]
        store.add_subjects(subjects)
        store.note("device", device_facts("cpu").to_json())
        store.note_run({"command": "told", "teacher": Hand.name, "tasks": list(names), "settings": {"seeds": [0]}})
        for subject in subjects:
            course = Hand().build(subject.task, "cpp")
            store.add_lecture(Lecture(subject.task.id, "cpp", Hand.name, course=course))
            for step in course.steps:
                store.add_verdict(BENCH, subject.task.id, step.candidate, timed(told[step.candidate.name], spread))
            made = slips_of(subject.task, course.steps[-1].candidate, 4)
            slips += made
            store.add_slips(made)
            for slip in made:
                store.add_verdict(BENCH, subject.task.id, slip.candidate, wrong())
    return slips


def candidate_of(name: str, step: int, seed: int = 0) -> Candidate:
    return Hand().build(task(name), "cpp", seed=seed).steps[step].candidate
