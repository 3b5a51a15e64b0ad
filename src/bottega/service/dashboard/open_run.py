"""A run directory held open for looking: its logs as indexes that grow with it, and a line about it for the list of all runs."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bottega.service.dashboard.bench_rows import BenchFiles
from bottega.service.dashboard.discover import LINEAGE, FoundRun, RunFinder
from bottega.service.dashboard.event_rows import EventRow, event_row
from bottega.service.dashboard.html import speed
from bottega.service.dashboard.line_index import MOST_AT_ONCE, IndexedLine, LineIndex
from bottega.service.dashboard.lineage_rows import lineage_row
from bottega.service.dashboard.reading import number_at, read_object, stamp
from bottega.service.dashboard.state import state_of

EVENTS = "events.jsonl"
LOGS_KEPT = 48
"""Logs of steps and samples that stay indexed in one run."""
RUNS_KEPT = 500
COMMANDS = ("optimize", "train", "sft", "bench", "data", "lineage")
SUBLOG = re.compile(r"steps/\d{1,12}|samples/[\w.~-]{1,200}(/[\w.~-]{1,200}){0,3}")
"""Logs inside of a run that may be asked for by name."""


@dataclass(frozen=True)
class RunSummary:
    kind: str
    state: str
    best: str
    """The figure that tells most of it."""
    begun: float
    changed: float
    """When it last grew."""
    what: str
    """What it works on, in a few words."""
    unread: bool = False
    """Whether a part of it is still to be read."""


class OpenRun:
    def __init__(self, found: FoundRun) -> None:
        self.found, self.id, self.folder = found, found.id, found.folder
        name, digest = (LINEAGE, lineage_row) if found.kind == "lineage" else (EVENTS, event_row)
        self.events = LineIndex[EventRow](found.folder / name, digest)
        self.bench = BenchFiles(found.folder) if found.kind == "bench" else None
        self._logs: OrderedDict[str, LineIndex[EventRow]] = OrderedDict()
        self._lock = threading.Lock()
        self.cache: dict[str, tuple[Any, Any]] = {}
        """What was computed from the files, with the state of the files that it was computed from."""

    def log(self, name: str = "") -> LineIndex[EventRow] | None:
        """The run's own log, or one inside of it; None where that may not be asked for or is not there."""
        if not name:
            return self.events.refresh()
        if not SUBLOG.fullmatch(name) or ".." in name:
            return None
        with self._lock:
            known = self._logs.pop(name, None) or LineIndex[EventRow](self.folder / name / EVENTS, event_row)
            self._logs[name] = known
            while len(self._logs) > LOGS_KEPT:
                self._logs.popitem(last=False)
        return known.refresh() if stamp(known.path) is not None else None

    def refresh(self, most: int = MOST_AT_ONCE) -> OpenRun:
        if self.bench is not None:
            self.bench.refresh(most)
        else:
            self.events.refresh(most)
        return self

    @property
    def files(self) -> tuple[Path, ...]:
        """Whose growth is the run's, and whose locks say that it runs."""
        names = {
            "bench": ("attempts.jsonl", "tasks.jsonl", "bench.json", "leaderboard.json"),
            "data": (".judged.db.lock", "judged.db", "judged.db-wal", "card.json"),
            "library": ("library.db", "library.db-wal"),
            "lineage": (LINEAGE, "cards.jsonl"),
        }.get(self.found.kind, (EVENTS, "result.json", "config.json"))
        return tuple(self.folder / name for name in names)

    def tag(self, *more: Path) -> str:
        """Changes when anything does that a page could show."""
        stamps = [stamp(path) for path in (*self.files, *more)]
        return hashlib.sha256(repr((stamps, self.summary().state, self.unread)).encode()).hexdigest()[:24]

    @property
    def unread(self) -> int:
        return self.bench.attempts.unread if self.bench is not None else self.events.unread

    @property
    def kind(self) -> str:
        if self.found.kind != "log":
            return self.found.kind
        words = str(self.first("run_started").facts.get("command", "")).split()
        return next((word for word in words if word in COMMANDS), "log")

    def of_type(self, kind: str) -> list[IndexedLine[EventRow]]:
        return [line for line in self.events.lines if line.row.type == kind]

    def first(self, kind: str) -> EventRow:
        return next((line.row for line in self.events.lines if line.row.type == kind), EventRow(kind, "", 0.0))

    def last(self, kind: str) -> EventRow | None:
        return next((line.row for line in reversed(self.events.lines) if line.row.type == kind), None)

    def summary(self) -> RunSummary:
        """Of what was read so far."""
        changed = max((found.changed_ns / 1e9 for path in self.files if (found := stamp(path)) is not None), default=0.0)
        if self.bench is not None:
            head = self.bench.head
            ended = "finished" if stamp(self.folder / "leaderboard.json") else ""
            state, what = state_of(ended, changed, *self.files[:2]), self.bench.title
            return RunSummary("bench", state, self.bench.figure(), self.bench.begun(head), changed, what, bool(self.unread))
        if self.found.kind in ("data", "library"):
            examples = number_at(read_object(self.folder / "card.json"), "examples") if self.found.kind == "data" else None
            told = f"{examples:,.0f} examples" if examples is not None else ""
            return RunSummary(self.found.kind, state_of("finished", changed, self.files[0]), told, changed, changed, "")
        kind, ended = self.kind, self._ended()
        begun = self.events.lines[0].row.at if self.events.lines else changed
        state = state_of(ended, changed, self.events.path)
        return RunSummary(kind, state, self._best(kind), begun, changed, self._what(kind), bool(self.unread))

    def _ended(self) -> str:
        """How the last session ended; empty where a later one began."""
        for line in reversed(self.events.lines):
            if line.row.type == "run_ended":
                told = str(line.row.facts.get("ended") or "finished")
                return "finished" if told in ("all steps taken", "all turns taken") else told
            if line.row.type == "run_started":
                return ""
        return ""

    def _best(self, kind: str) -> str:
        known = self.cache.get("best")
        if known is None or known[0] != len(self.events.lines):
            known = self.cache["best"] = (len(self.events.lines), self._best_figure(kind))
        return str(known[1])

    def _best_figure(self, kind: str) -> str:
        if kind in ("rl", "sft"):
            measured = [line.row for line in self.events.lines if line.row.type == "measured" and line.row.values]
            names = ("reward_best", "reward") if kind == "rl" else ("nll",)
            for name in names:
                values = [row.values[name] for row in measured if name in row.values]
                if values:
                    told = f"{name} {values[-1]:.3g}"
                    return f"{told} (best {(max if kind == 'rl' else min)(values):.3g})"
            return ""
        if kind == "lineage":
            redone = sum(bool(line.row.facts["verified"]) for line in self.of_type("trip"))
            return f"{len(self.of_type('step'))} steps, {redone} done again"
        spans = [span for line in self.events.lines if line.row.verdict and (span := line.row.verdict.best())]
        faster = [line.row.verdict for line in self.events.lines if line.row.verdict and line.row.verdict.outcome == "faster"]
        if faster:
            return speed(max((span for each in faster if (span := each.best())), key=lambda span: span[1] or 0, default=None))
        return f"none surely faster, {speed(max(spans))}" if spans else ""

    def _what(self, kind: str) -> str:
        if kind in ("rl", "sft"):
            return str(self.first("run_started").facts.get("model", ""))
        if kind == "lineage":
            return str(self.first("run_started").facts.get("kernel", ""))
        return str(self.first("episode_started").facts.get("task") or self.first("run_started").facts.get("command", ""))

    def settings(self) -> dict[str, Any]:
        """What the run was told, as it was written down."""
        if self.bench is not None:
            return self.bench.head
        config = read_object(self.folder / "config.json")
        if config:
            return config
        line = next((line for line in self.events.lines if line.row.type == "run_started"), None)
        return self.events.body(line) if line is not None else {}


class Runs:
    """All runs below the given folders, each opened once."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.finder = RunFinder(folders)
        self._open: OrderedDict[str, OpenRun] = OrderedDict()
        self._lock = threading.Lock()

    def all(self) -> list[OpenRun]:
        return [run for name in self.finder.runs() if (run := self.get(name)) is not None]

    def get(self, name: str) -> OpenRun | None:
        found = self.finder.runs().get(name)
        if found is None:
            return None
        with self._lock:
            known = self._open.pop(name, None)
            run = known if known is not None and known.found == found else OpenRun(found)
            self._open[name] = run
            while len(self._open) > RUNS_KEPT:
                self._open.popitem(last=False)
        return run
