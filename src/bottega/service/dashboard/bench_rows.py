"""A benchmark run for looking: its attempts and tasks as indexed rows, laid out as the arrays that the report's figures are computed from."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from bottega.bench.attempt import BenchTask
from bottega.bench.result_arrays import ENDINGS, LEAST, NO_ATTEMPT, NO_KERNEL, ResultArrays
from bottega.core.foreign_text import one_line
from bottega.service.dashboard.event_rows import ACCEPTED, SHORT, VerdictRow, verdict_row
from bottega.service.dashboard.line_index import IndexedLine, LineIndex
from bottega.service.dashboard.reading import list_at, number_at, object_at, read_object, text_at, whole_at

MOST_CELLS = 2_000_000
"""Tasks × samples × turns that are laid out; a wrong number in a line asks for more."""
NOT_BUILT = ("compile_error", "timeout", "invalid_task")


@dataclass(frozen=True, slots=True)
class AttemptRow:
    task: str
    sample: int
    turn: int
    ending: str
    verdict: VerdictRow | None
    candidate: str
    language: str
    tokens: int
    seconds: float
    skills: int
    said: str
    """The beginning of the diagnosis, or why there was no kernel."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    id: str
    name: str
    level: str
    family: str
    trouble: str


def attempt_row(data: dict[str, Any]) -> AttemptRow:
    judged = data.get("verdict")
    verdict = verdict_row(judged, times=False) if isinstance(judged, dict) else None
    said = text_at(judged, "diagnosis", longest=1000) if verdict else text_at(data, "junk", longest=1000)
    return AttemptRow(
        text_at(data, "task", longest=200),
        whole_at(data, "sample"),
        whole_at(data, "turn"),
        verdict.outcome if verdict and verdict.outcome in ENDINGS else NO_KERNEL,
        verdict,
        text_at(data, "candidate", longest=100),
        text_at(data, "language", longest=40),
        whole_at(data, "prompt_tokens") + whole_at(data, "output_tokens"),
        number_at(data, "seconds") or 0.0,
        len(list_at(data, "skills")),
        one_line(said, SHORT),
    )


def task_row(data: dict[str, Any]) -> TaskRow:
    level = data.get("level")
    said = text_at(data, "trouble", longest=1000) or text_at(data, "fitness", longest=1000)
    shown = str(level) if isinstance(level, int) else ""
    name = one_line(text_at(data, "name", longest=1000), 120)
    return TaskRow(
        text_at(data, "id", longest=200), name, shown[:20], text_at(data, "family", longest=80), one_line(said, SHORT)
    )


@dataclass(frozen=True)
class BenchTable:
    """The run as it is now."""

    tasks: tuple[TaskRow, ...]
    lines: dict[str, list[IndexedLine[AttemptRow]]]
    """Of each task its attempts, in the order of sample and turn."""
    samples: int
    turns: int
    baselines: tuple[str, ...]

    def arrays(self, baseline: str) -> ResultArrays:
        """As the figures of the report are computed from; the attempts themselves are not in it."""
        shape = (len(self.tasks), self.samples, self.turns)
        answered, compiled, correct = (np.zeros(shape, dtype=bool) for _ in range(3))
        point, low, high = (np.zeros(shape) for _ in range(3))
        for place, task in enumerate(self.tasks):
            for line in self.lines.get(task.id, ()):
                row = line.row
                at = place, row.sample, row.turn
                answered[at] = True
                if row.verdict is None:
                    continue
                compiled[at] = row.ending not in NOT_BUILT
                correct[at] = row.ending in ACCEPTED
                span = row.verdict.speedup.get(baseline)
                if span is not None:
                    point[at] = span[0]
                    low[at] = span[1] if span[1] is not None and span[1] > 0 else LEAST
                    high[at] = span[2] if span[2] is not None else np.inf
        tasks = tuple(BenchTask(task.id, task.name, None, task.family, "") for task in self.tasks)
        return ResultArrays(tasks, ((),) * len(tasks), answered, compiled, correct, point, low, high)

    def ending(self, task: TaskRow, baseline: str) -> str:
        """What the task came to: its surest right attempt, or else what most attempts came to."""
        rows = [line.row for line in self.lines.get(task.id, ())]
        right = [row for row in rows if row.ending in ACCEPTED]
        if right:
            return max(right, key=lambda row: surely(row, baseline)).ending
        endings = [row.ending for row in rows]
        return max(endings, key=endings.count) if endings else NO_ATTEMPT


def surely(row: AttemptRow, baseline: str) -> float:
    span = row.verdict.speedup.get(baseline) if row.verdict else None
    return (span[1] or 0.0) if span is not None else 0.0


class BenchFiles:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempts = LineIndex[AttemptRow](folder / "attempts.jsonl", attempt_row)
        self.tasks = LineIndex[TaskRow](folder / "tasks.jsonl", task_row)
        self._lock = threading.Lock()
        self._table: tuple[tuple[int, int], BenchTable] | None = None
        self._head: dict[str, Any] = {}

    def refresh(self, most: int) -> None:
        self.tasks.refresh(most)
        self.attempts.refresh(most)

    @property
    def head(self) -> dict[str, Any]:
        if not self._head:  # it is written once
            self._head = read_object(self.folder / "bench.json")
        return self._head

    @property
    def title(self) -> str:
        settings = object_at(self.head, "settings")
        return one_line(text_at(settings, "name", longest=400) or text_at(settings, "model", longest=400), 80)

    @staticmethod
    def begun(head: dict[str, Any]) -> float:
        try:
            return datetime.fromisoformat(text_at(head, "begun", longest=40)).timestamp()
        except (ValueError, OverflowError):
            return 0.0

    def table(self) -> BenchTable:
        with self._lock:
            size = len(self.attempts.lines), len(self.tasks.lines)
            if self._table is None or self._table[0] != size:
                self._table = size, self._laid_out()
            return self._table[1]

    def _laid_out(self) -> BenchTable:
        tasks = {line.row.id: line.row for line in self.tasks.lines}
        settings = object_at(self.head, "settings")
        rows = list(self.attempts.lines)
        for line in rows:  # attempts at what is no task of the run are shown all the same
            if line.row.task not in tasks:
                tasks[line.row.task] = TaskRow(line.row.task, line.row.task or "(no task)", "", "", "is no task of this run")
        most = max(1, MOST_CELLS // max(1, len(tasks)))
        samples = max(
            [1, min(whole_at(settings, "samples"), most), *(line.row.sample + 1 for line in rows if line.row.sample < most)]
        )
        turns_most = max(1, most // samples)
        turns = max(
            [
                1,
                min(whole_at(settings, "turns"), turns_most),
                *(line.row.turn + 1 for line in rows if line.row.turn < turns_most),
            ]
        )
        by_task: dict[str, dict[tuple[int, int], IndexedLine[AttemptRow]]] = {}
        known: dict[str, None] = {}
        for line in rows:
            if line.row.sample < samples and line.row.turn < turns:
                by_task.setdefault(line.row.task, {})[line.row.sample, line.row.turn] = line
            known.update(dict.fromkeys(line.row.verdict.speedup if line.row.verdict else ()))
        asked = [name for name in list_at(settings, "baselines") if isinstance(name, str)]
        baselines = tuple(dict.fromkeys([*(name for name in asked if name in known), *known])) or ("eager",)
        ordered = {task: [found[key] for key in sorted(found)] for task, found in by_task.items()}
        return BenchTable(tuple(tasks.values()), ordered, samples, turns, baselines)

    def figure(self) -> str:
        """fast_1 against the first baseline, over tasks."""
        table = self.table()
        if not table.lines or not table.tasks:
            return ""
        baseline = table.baselines[0]
        fast = sum(
            any((span := line.row.verdict.speedup.get(baseline)) and span[0] > 1 for line in found if line.row.verdict)
            for found in table.lines.values()
        )
        return f"fast_1 {fast / len(table.tasks):.0%} of {len(table.tasks)} tasks"
