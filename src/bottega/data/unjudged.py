"""Kernels that were taught and not judged: breadth for a first round of training, where a device's time does not reach for all.

The build steps end in several ways: products left to the library or written, the network captured or not. The ending that is shown is the
one that was worth most where builds of this language and level were judged. Such an example says `unjudged`, and the data card
counts it.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from dataclasses import dataclass, field

from bottega.data.records import JudgedStep, JudgedTask

OWN = "own"
SHELVED = "shelved_parts"
TURNS = {
    **dict.fromkeys(("own_product", "own_convolution", "own_attention"), OWN),
    **{name: name for name in ("graph_replay", "captured", "convolution_layers", "linear_layers", "norm_layers", SHELVED)},
}
"""Techniques after which a kernel is another way of doing it, not a better version of the same: products of our own are one way."""
LEAST, MOST = 0.5, 2.0
"""A kernel that is wrong is worth as much as one of half the baseline's speed; more than twice its speed is worth no more."""
TRUSTED, DOUBTED, MEASURED = 1.0, 0.9, 1.5
"""The prior speed of an ending before any was judged: vendor products are hard to beat, and the kernel library has been measured."""
BELIEF = 2.0
"""The weight of that prior, in judged builds."""

Ending = tuple[str, ...]
Place = tuple[str, int | None, bool]
"""Language, level, and whether the task convolves."""


@dataclass
class Endings:
    """How fast each ending came out against the baseline, place by place."""

    _speeds: dict[tuple[Place, Ending], list[float]] = field(default_factory=lambda: defaultdict(list))

    def see(self, judged_task: JudgedTask, baseline: str) -> None:
        for build in judged_task.builds:
            last = {ending_of(attempt): attempt.score(baseline) for attempt in build}
            for ending, score in last.items():
                self._speeds[place_of(judged_task), ending].append(min(MOST, max(LEAST, score)))

    def worth(self, place: Place, ending: Ending) -> float:
        """A geometric mean, so that twice as slow weighs as much as twice as fast."""
        speeds = self._speeds.get((place, ending), [])
        believed = MEASURED if ending == (SHELVED,) else DOUBTED if ending else TRUSTED
        logs = sum(math.log(speed) for speed in speeds) + BELIEF * math.log(believed)
        return math.exp(logs / (len(speeds) + BELIEF))

    def chosen(self, judged_task: JudgedTask) -> JudgedStep | None:
        """The kernel to show of a task without verdicts: always the same one, and the shorter of two that are worth the same."""
        last: dict[Ending, JudgedStep] = {}
        for record in judged_task.teacher_records:
            if not record.without:
                last |= {ending_of(attempt): attempt for attempt in judged_task.taught(record) if _parses(attempt.source)}
        place = place_of(judged_task)
        best = max(last, key=lambda ending: (self.worth(place, ending), -len(last[ending].source)), default=None)
        return None if best is None else last[best]


def unjudged(judged_task: JudgedTask) -> bool:
    return not any(judged_task.builds)


def place_of(judged_task: JudgedTask) -> Place:
    return judged_task.language, judged_task.task.level, any("conv" in operator for operator in judged_task.task_record.ops)


def ending_of(attempt: JudgedStep) -> Ending:
    return tuple(sorted({TURNS[name] for name in (*attempt.techniques, attempt.step.technique) if name in TURNS}))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
