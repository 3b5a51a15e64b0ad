"""Kernels that were taught and not judged: breadth for a first round of training, where a device's time does not reach for all.

A course ends in several ways: products left to the library or written, the network captured or not. The ending that is shown is the
one that came nearest to the best where courses of this language and level were judged, or a shorter one that is nearly as good. Such an
example says `unjudged`, and the data card counts it.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from dataclasses import dataclass, field

from bottega.learn.cold_start.material import Attempt, Lesson

TURNS = frozenset(
    ("own_product", "own_convolution", "graph_replay", "captured", "convolution_layers", "linear_layers", "norm_layers")
)
"""Techniques after which a kernel is another way of doing it, not a better version of the same."""
SLOWEST = 0.1
"""A kernel that was wrong, or slower than this share of the best, counts as this."""
TRUSTED, DOUBTED = 0.9, 0.7
"""What is believed of an ending before any was judged: the library's products are hard to beat."""
BELIEF = 2.0
"""How many judged courses that belief is worth."""

Ending = tuple[str, ...]


@dataclass
class Endings:
    """How near each ending came to the best of its course, by language and level."""

    _shares: dict[tuple[str, int | None, Ending], list[float]] = field(default_factory=lambda: defaultdict(list))

    def see(self, lesson: Lesson, baseline: str) -> None:
        for course in lesson.courses:
            scores: dict[Ending, float] = {}
            for attempt in course:
                ending = ending_of(attempt)
                scores[ending] = max(scores.get(ending, 0.0), attempt.score(baseline))
            top = max(scores.values(), default=0.0)
            if top > 0:
                for ending, score in scores.items():
                    self._shares[lesson.language, lesson.task.level, ending].append(max(score / top, SLOWEST))

    def expected(self, language: str, level: int | None, ending: Ending) -> float:
        """The share of the best speed that it is likely to have: a geometric mean, so that being twice as slow weighs as twice as fast."""
        shares = self._shares.get((language, level, ending), [])
        belief = DOUBTED if ending else TRUSTED
        logs = sum(math.log(share) for share in shares) + BELIEF * math.log(belief)
        return math.exp(logs / (len(shares) + BELIEF))

    def chosen(self, lesson: Lesson, concise: float) -> Attempt | None:
        """The kernel to show of a lesson without verdicts, always the same one for the same task."""
        last: dict[Ending, Attempt] = {}
        for lecture in lesson.lectures:
            if not lecture.without:
                last |= {ending_of(attempt): attempt for attempt in lesson.taught(lecture) if _parses(attempt.source)}
        if not last:
            return None
        likely = {ending: self.expected(lesson.language, lesson.task.level, ending) for ending in last}
        enough = min(concise, 1.0) * max(likely.values())
        return min((last[ending] for ending in last if likely[ending] >= enough), key=lambda attempt: len(attempt.source))


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
