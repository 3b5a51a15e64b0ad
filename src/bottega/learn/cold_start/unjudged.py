"""Kernels that were taught and not judged: breadth for a first round of training, where a device's time does not reach for all.

A course ends in several ways: products left to the library or written, the network captured or not. Which ending is shown is drawn
by how often each won where courses were judged. Such an example says `unjudged`, and the data card counts it.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass, field

from bottega.learn.cold_start.material import Attempt, Lesson, worth_learning

TURNS = frozenset(
    ("own_product", "own_convolution", "graph_replay", "captured", "convolution_layers", "linear_layers", "norm_layers")
)
"""Techniques after which a kernel is another way of doing it, not a better version of the same."""

Ending = tuple[str, ...]


@dataclass
class Endings:
    """How often each ending was there, and how often it was the one worth learning."""

    offered: Counter[Ending] = field(default_factory=Counter)
    won: Counter[Ending] = field(default_factory=Counter)

    def see(self, lesson: Lesson, baseline: str, concise: float) -> None:
        for course in lesson.courses:
            best = worth_learning(course, baseline, concise)
            if best is not None:
                self.offered.update({ending_of(attempt) for attempt in course})
                self.won[ending_of(best)] += 1

    def weight(self, ending: Ending) -> float:
        """Between 0 and 1; an ending that was never seen is as good as a coin."""
        return (self.won[ending] + 0.5) / (self.offered[ending] + 1)

    def drawn(self, lesson: Lesson) -> Attempt | None:
        """The kernel to show of a lesson without verdicts, always the same one for the same task."""
        last: dict[Ending, Attempt] = {}
        for lecture in lesson.lectures:
            if not lecture.without:
                last |= {ending_of(attempt): attempt for attempt in lesson.taught(lecture) if _parses(attempt.source)}
        if not last:
            return None
        point = int.from_bytes(hashlib.sha256(lesson.task.id.encode()).digest()[:8], "big") / 2**64
        point *= sum(self.weight(ending) for ending in last)
        for ending, attempt in last.items():
            point -= self.weight(ending)
            if point <= 0:
                return attempt
        return attempt


def unjudged(lesson: Lesson) -> bool:
    return not any(lesson.courses)


def ending_of(attempt: Attempt) -> Ending:
    return tuple(sorted(TURNS.intersection((*attempt.techniques, attempt.step.technique))))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
