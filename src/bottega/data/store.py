"""The store of judged records: one append-only SQLite file. Tables keep their first names (`lectures`: teacher records, `slips`: mutants).

A verdict's key is the task, the candidate, the judge's version and the device with its terms: what is there is never judged again. A
verdict is on the disk before it is reported, so a kill loses only what was under way, and the same command goes on from there.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bottega.compiler.build_step import BuildStep, BuildSteps
from bottega.core.candidate import Candidate
from bottega.core.closing import Closing
from bottega.core.errors import BottegaError, UsageError
from bottega.core.verdict import Verdict
from bottega.data.records import JudgedTask, Mutant, TaskRecord, TeacherRecord, compact_verdict

FILE = "judged.db"
SCHEMA = 1

TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (row INTEGER PRIMARY KEY, at REAL NOT NULL, body TEXT NOT NULL);
CREATE TABLE tasks (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE kernels (id TEXT PRIMARY KEY, language TEXT NOT NULL, source TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE lectures (
  task TEXT NOT NULL, language TEXT NOT NULL, teacher TEXT NOT NULL, seed INTEGER NOT NULL, without TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (task, language, teacher, seed, without)
) WITHOUT ROWID;
CREATE TABLE slips (
  task TEXT NOT NULL, candidate TEXT NOT NULL, parent TEXT NOT NULL, language TEXT NOT NULL, mistake TEXT NOT NULL, cure TEXT NOT NULL,
  PRIMARY KEY (task, candidate)
) WITHOUT ROWID;
CREATE TABLE verdicts (
  task TEXT NOT NULL, candidate TEXT NOT NULL, judge TEXT NOT NULL, device TEXT NOT NULL, body TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (task, candidate, judge, device)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class JudgeSetup:
    """Where verdicts were made: they are compared with each other and with no others."""

    judge: str
    """The judge's version."""
    device: str
    """The device by kind and name, and the terms of judging."""


class JudgedStore(Closing):
    """One process writes at a time; any number may read. Every method may be called from any thread."""

    def __init__(self, folder: Path, *, create: bool = True, write: bool = True) -> None:
        self.folder, self.path = folder, folder / FILE
        self._lock = threading.RLock()
        self._guard: Any = None
        if not create and not self.path.exists():
            raise UsageError(f"{folder}: no judged records there (it has no {FILE}); `bottega data build` makes it")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if write:
                self._guard = open(folder / f".{FILE}.lock", "ab")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{folder}: nothing can be written there: {error.strerror}") from None
        if write:
            try:
                fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._guard.close()
                raise UsageError(f"{folder}: another process is adding to it; wait for it, or give another --out") from None
        try:
            with self._errors():
                self.connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
                self._prepare()
        except BaseException:
            if self._guard is not None:
                self._guard.close()
            raise

    def _prepare(self) -> None:
        found = self.connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {row[0] for row in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if found > SCHEMA:
            raise UsageError(
                f"{self.path}: written by a newer Bottega (schema {found}; this one knows {SCHEMA}); upgrade Bottega"
            )
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            self.connection.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
        elif "verdicts" not in tables:
            raise UsageError(f"{self.path}: is a database of something else; give another --out")

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens it anew, to read: connections cannot be shared."""
        return partial(JudgedStore, create=False, write=False), (self.folder,)

    def close(self) -> None:
        with self._lock:
            self.connection.close()
        if self._guard is not None:
            self._guard.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise BottegaError(f"{self.path}: {_explained(error)}") from None

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: whole, or not at all."""
        with self._lock, self._errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._errors():
            return self.connection.execute(query, arguments).fetchall()

    # What is added.

    def note_run(self, body: dict[str, Any]) -> None:
        with self._change() as change:
            change.execute("INSERT INTO runs (at, body) VALUES (?, ?)", (time.time(), json.dumps(body)))

    def note(self, name: str, body: Any) -> None:
        """Sets a fact about the whole store; a later one replaces it."""
        with self._change() as change:
            change.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(body)))

    def add_task_records(self, task_records: Iterable[TaskRecord]) -> None:
        rows = [(task_record.task.id, json.dumps(task_record.to_json())) for task_record in task_records]
        with self._change() as change:
            change.executemany("INSERT OR IGNORE INTO tasks VALUES (?, ?)", rows)

    def add_teacher_record(self, record: TeacherRecord, *, again: bool = False) -> None:
        """Adds a teacher's answer with all its kernels. `again` replaces one that failed."""
        steps = record.build.steps if record.build else ()
        body = {
            "refused": record.refused,
            "failed": record.failed,
            "steps": [_step_json(step) for step in steps] if record.build else None,
        }
        with self._change() as change:
            _add_kernels(change, (step.candidate for step in steps))
            change.execute(
                f"INSERT OR {'REPLACE' if again else 'IGNORE'} INTO lectures VALUES (?, ?, ?, ?, ?, ?)",
                (*record.key, json.dumps(body)),
            )

    def add_mutants(self, mutants: Iterable[Mutant]) -> None:
        mutants = list(mutants)
        rows = [(s.task_id, s.candidate.id, s.candidate.parent or "", s.candidate.language, s.mistake, s.cure) for s in mutants]
        with self._change() as change:
            _add_kernels(change, (mutant.candidate for mutant in mutants))
            change.executemany("INSERT OR IGNORE INTO slips VALUES (?, ?, ?, ?, ?, ?)", rows)

    def add_verdict(self, judge_setup: JudgeSetup, task_id: str, candidate: Candidate, verdict: Verdict) -> None:
        body = json.dumps(verdict.to_json())
        with self._change() as change:
            _add_kernels(change, (candidate,))
            change.execute(
                "INSERT OR IGNORE INTO verdicts VALUES (?, ?, ?, ?, ?, ?)",
                (task_id, candidate.id, judge_setup.judge, judge_setup.device, body, time.time()),
            )

    # What is there.

    def fact(self, name: str) -> Any:
        rows = self._rows("SELECT body FROM facts WHERE name = ?", name)
        return json.loads(rows[0][0]) if rows else None

    def facts(self, prefix: str) -> list[tuple[str, Any]]:
        """Facts whose names begin so, by the rest of their names."""
        rows = self._rows("SELECT name, body FROM facts WHERE substr(name, 1, ?) = ? ORDER BY name", len(prefix), prefix)
        return [(name[len(prefix) :], json.loads(body)) for name, body in rows]

    def runs(self) -> list[dict[str, Any]]:
        return [{"at": at, **json.loads(body)} for at, body in self._rows("SELECT at, body FROM runs ORDER BY row")]

    def verdict(self, judge_setup: JudgeSetup, task_id: str, candidate_id: str) -> Verdict | None:
        rows = self._rows(
            "SELECT body FROM verdicts WHERE task = ? AND candidate = ? AND judge = ? AND device = ?",
            task_id,
            candidate_id,
            judge_setup.judge,
            judge_setup.device,
        )
        return Verdict.from_json(json.loads(rows[0][0])) if rows else None

    def judged(self, judge_setup: JudgeSetup) -> list[tuple[str, str]]:
        """Tasks and candidates that have a verdict of this bench."""
        rows = self._rows(
            "SELECT task, candidate FROM verdicts WHERE judge = ? AND device = ?", judge_setup.judge, judge_setup.device
        )
        return [(task, candidate) for task, candidate in rows]

    def judge_setups(self) -> dict[JudgeSetup, int]:
        rows = self._rows("SELECT judge, device, count(*) FROM verdicts GROUP BY judge, device ORDER BY count(*) DESC, device")
        return {JudgeSetup(judge, device): number for judge, device, number in rows}

    def teacher_record(self, key: tuple[str, str, str, int, str]) -> TeacherRecord | None:
        rows = self._rows(
            "SELECT body FROM lectures WHERE task = ? AND language = ? AND teacher = ? AND seed = ? AND without = ?", *key
        )
        return self._teacher_record(key, json.loads(rows[0][0])) if rows else None

    def counts(self) -> dict[str, int]:
        tables = ("tasks", "lectures", "kernels", "slips", "verdicts")
        return {name: int(self._rows(f"SELECT count(*) FROM {name}")[0][0]) for name in tables}

    def judged_tasks(self, judge_setup: JudgeSetup) -> Iterator[JudgedTask]:
        """Task by task, so that a store of any size needs little memory. Tasks by id, languages by name."""
        for task_id in self.task_ids():
            yield from self.judged_tasks_of(task_id, judge_setup)

    def task_ids(self) -> list[str]:
        return [task_id for (task_id,) in self._rows("SELECT id FROM tasks ORDER BY id")]

    def judged_tasks_of(self, task_id: str, judge_setup: JudgeSetup) -> Iterator[JudgedTask]:
        query = "SELECT language, teacher, seed, without, body FROM lectures WHERE task = ? ORDER BY language, teacher, seed, without"
        by_language: dict[Any, list[TeacherRecord]] = {}
        for language, teacher, seed, without, body in self._rows(query, task_id):
            key = (task_id, language, teacher, seed, without)
            by_language.setdefault(language, []).append(self._teacher_record(key, json.loads(body)))
        if not by_language:
            return
        task_record = self.task_record(task_id)
        verdicts = {
            candidate: compact_verdict(Verdict.from_json(json.loads(body)))
            for candidate, body in self._rows(
                "SELECT candidate, body FROM verdicts WHERE task = ? AND judge = ? AND device = ?",
                task_id,
                judge_setup.judge,
                judge_setup.device,
            )
        }
        for language, teacher_records in by_language.items():
            yield JudgedTask(task_record, language, tuple(teacher_records), tuple(self._mutants(task_id, language)), verdicts)

    def task_records(self) -> Iterator[TaskRecord]:
        """All that were to be taught, by id."""
        for (body,) in self._rows("SELECT body FROM tasks ORDER BY id"):
            yield TaskRecord.from_json(json.loads(body))

    def taught(self) -> Iterator[TaskRecord]:
        """Tasks that have a teacher record, by id: examples are made of these."""
        for (body,) in self._rows("SELECT body FROM tasks WHERE id IN (SELECT task FROM lectures) ORDER BY id"):
            yield TaskRecord.from_json(json.loads(body))

    def kernel(self, candidate_id: str) -> Candidate:
        rows = self._rows("SELECT source, language FROM kernels WHERE id = ?", candidate_id)
        if not rows:
            raise UsageError(f"{self.path}: holds no kernel {candidate_id}")
        return Candidate(rows[0][0], rows[0][1])

    def task_record(self, task_id: str) -> TaskRecord:
        rows = self._rows("SELECT body FROM tasks WHERE id = ?", task_id)
        if not rows:
            raise UsageError(f"{self.path}: holds no task {task_id}")
        return TaskRecord.from_json(json.loads(rows[0][0]))

    def _mutants(self, task_id: str, language: str) -> list[Mutant]:
        query = """SELECT kernels.source, slips.parent, slips.mistake, slips.cure, slips.language FROM slips
            JOIN kernels ON kernels.id = slips.candidate WHERE task = ? AND slips.language = ? ORDER BY slips.candidate"""
        rows = self._rows(query, task_id, language)
        return [Mutant(task_id, Candidate(source, kind, name, parent), name, cure) for source, parent, name, cure, kind in rows]

    def _teacher_record(self, key: tuple[str, str, Any, int, str], body: dict[str, Any]) -> TeacherRecord:
        task_id, language, teacher, seed, without = key
        named: Any = language
        build = None
        if body["steps"] is not None:
            build = BuildSteps(task_id, named, teacher, tuple(self._step(step) for step in body["steps"]))
        left = tuple(without.split(",")) if without else ()
        return TeacherRecord(task_id, named, teacher, seed, left, build, body["refused"], body["failed"])

    def _step(self, data: dict[str, Any]) -> BuildStep:
        language, source = self._rows("SELECT language, source FROM kernels WHERE id = ?", data["candidate"])[0]
        candidate = Candidate(source, language, data["name"], data["parent"])
        return BuildStep(candidate, data["technique"], tuple(data["cards"]), data["summary"])


def _step_json(step: BuildStep) -> dict[str, Any]:
    candidate = step.candidate
    own = {"candidate": candidate.id, "name": candidate.name, "parent": candidate.parent}
    return {**own, "technique": step.technique, "cards": list(step.cards), "summary": step.summary}


def _add_kernels(change: sqlite3.Connection, candidates: Iterable[Candidate]) -> None:
    rows = [(candidate.id, candidate.language, candidate.source) for candidate in candidates]
    change.executemany("INSERT OR IGNORE INTO kernels VALUES (?, ?, ?)", rows)


def _explained(error: sqlite3.Error) -> str:
    text = str(error)
    if "full" in text or "disk I/O" in text:
        return f"the disk is full or failing ({text}); free some space and run the same command again: nothing reported is lost"
    if "malformed" in text or "not a database" in text:
        return f"is damaged ({text}); give another --out, or put back a copy"
    if "locked" in text:
        return "is held by another process; wait for it"
    if "readonly" in text or "unable to open" in text:
        return f"cannot be written ({text}); give another --out"
    return text
