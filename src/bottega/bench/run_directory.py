"""A benchmark run's folder: append-only, every line on the disk before it is counted, no attempt in it twice.

bench.json         settings, hashes, fingerprint, when it was begun, with which known runs
tasks.jsonl        a line for each task, and another whenever more is known of it: the last one counts
attempts.jsonl     a line for each attempt; task, sample and turn are its key
kernels/ID.py      every kernel that was judged, by the hash of its text
samples/           the log of each sample that the backbone wrote: every answer and verdict, so that a killed sample goes on
library/           the starter set of skills, where that was asked for
leaderboard.json   the record, once the run is whole

Attempts enter `attempts.jsonl` when their sample is whole, so that what is counted are whole samples. What a killed run had written and
judged of a half sample is in that sample's own log: it is taken from there when the run goes on, neither lost nor counted twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from bottega.bench.attempt import CELLS, BenchAttempt, BenchRun, BenchTask, Key, Log, attempt_of, task_of
from bottega.core.append_log import AppendLog, read_lines
from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.closing import Closing
from bottega.core.errors import BottegaError, UsageError
from bottega.core.files import encoded, json_text, read_regular, strict, write_atomic

BENCH, TASKS, ATTEMPTS, KERNELS, SAMPLES, LIBRARY = (
    "bench.json",
    "tasks.jsonl",
    "attempts.jsonl",
    "kernels",
    "samples",
    "library",
)
LEADERBOARD = "leaderboard.json"
SCHEMA = 1


def read_run(folder: Path, log: Log | None = None) -> BenchRun:
    """A run as it is, whole or not. A last line that was cut is left out and said; other damage is a `UsageError` with file and line."""
    head = read_head(folder)
    tasks: dict[str, BenchTask] = {}
    for _, row in read_lines(folder / TASKS, task_of, log):
        tasks[row.id] = row
    attempts: dict[Key, BenchAttempt] = {}
    seen: dict[Key, int] = {}
    for number, attempt in read_lines(folder / ATTEMPTS, attempt_of, log):
        where = f"{folder / ATTEMPTS}: line {number}"
        if not tasks:
            raise UsageError(
                f"{folder / TASKS}: holds no task, and yet there are attempts; put back a copy, or begin another run"
            )
        if attempt.task not in tasks:
            raise UsageError(f"{where} is an attempt at {attempt.task}, which is no task of this run; remove the line")
        if attempt.key in seen:
            raise UsageError(f"{where} holds the same attempt as line {seen[attempt.key]}; remove one of them")
        seen[attempt.key], attempts[attempt.key] = number, attempt
    asked = head["settings"]
    samples = max([asked.get("samples", 1), *(sample + 1 for _, sample, _ in seen)])
    turns = max([asked.get("turns", 1) + asked.get("drafts", 0), *(turn + 1 for _, _, turn in seen)])
    if len(tasks) * samples * turns > CELLS:
        raise UsageError(
            f"{folder}: speaks of {samples} samples of {turns} turns for each of {len(tasks)} tasks, which no run has; "
            f"look for a wrong number in {BENCH} and {ATTEMPTS}"
        )
    return BenchRun(folder, head["settings"], head["fingerprint"], tuple(tasks.values()), tuple(attempts.values()))


def read_head(folder: Path) -> dict[str, Any]:
    """`bench.json`."""
    path = folder / BENCH
    try:
        head = json.loads(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{folder}: no benchmark run is there (it has no {BENCH})") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is damaged ({error}); put back a copy, or begin another run") from None
    if not isinstance(head, dict) or not all(
        isinstance(head.get(part), dict) for part in ("settings", "fingerprint", "hashes")
    ):
        raise UsageError(f"{path}: is no head of a benchmark run; put back a copy, or begin another run")
    if not isinstance(head.get("schema"), int) or head["schema"] > SCHEMA:
        raise UsageError(f"{path}: written by a newer Bottega (schema {head.get('schema')}; this one knows {SCHEMA})")
    for name in ("samples", "turns", "drafts"):
        value = head["settings"].get(name, 1)
        if type(value) is not int or value < 0:
            raise UsageError(f"{path}: is damaged ({name} is {value!r}); put back a copy, or begin another run")
    return head


def read_kernel(folder: Path, candidate: str) -> str:
    """A kernel's text. Raises `UsageError` where it is missing or is not the text that its name says."""
    path = folder / KERNELS / f"{candidate}.py"
    try:
        content = read_regular(path, 4 * SOURCE_LIMIT)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest()[:16] != candidate:
        raise UsageError(f"{path}: is not the kernel that was judged; its text was changed")
    return content.decode("utf-8", "surrogatepass")


class Recorder(Closing):
    """The one process that writes a run. What it holds in memory is what is on the disk."""

    def __init__(self, folder: Path, log: Log | None = None) -> None:
        self.folder = folder
        with contextlib.ExitStack() as opened:
            self._logs = {name: AppendLog(folder / name) for name in (ATTEMPTS, TASKS)}
            opened.callback(self.close)
            run = read_run(folder, log)
            for each in self._logs.values():
                each.cut_partial_line()
            opened.pop_all()
        self.settings, self.fingerprint = run.settings, run.fingerprint
        self.tasks = {task.id: task for task in run.tasks}
        self.attempts = {attempt.key: attempt for attempt in run.attempts}

    def close(self) -> None:
        for log in self._logs.values():
            log.close()

    @property
    def run(self) -> BenchRun:
        return BenchRun(self.folder, self.settings, self.fingerprint, tuple(self.tasks.values()), tuple(self.attempts.values()))

    def add(self, attempt: BenchAttempt, source: str = "") -> bool:
        """Keep an attempt and its kernel; False where it is there already."""
        if attempt.key in self.attempts:
            return False
        if attempt.candidate:
            self.keep_kernel(attempt.candidate, source)
        self._logs[ATTEMPTS].append(strict(attempt.to_json()))
        self.attempts[attempt.key] = attempt
        return True

    def note(self, task: BenchTask) -> None:
        """What is now known of a task."""
        if self.tasks.get(task.id) != task:
            self._logs[TASKS].append(strict(task.to_json()))
            self.tasks[task.id] = task

    def keep_kernel(self, candidate: str, source: str) -> None:
        """A kernel's text, where it is not there yet."""
        path = self.folder / KERNELS / f"{candidate}.py"
        if path.exists():
            return
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomic(path, source.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise BottegaError(f"{path}: cannot be written ({error.strerror}); {_AGAIN}") from None


_AGAIN = "the run stops here, and the same command goes on with it"


def begin(folder: Path, head: dict[str, Any]) -> None:
    """The head of a new run, in a folder that is new or empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(not _is_rest_of_head(path.name) for path in folder.iterdir())
    except OSError as error:
        raise UsageError(f"{folder}: no run can be kept there: {error.strerror}") from None
    if filled:
        raise UsageError(f"{folder}: is not empty, and holds no benchmark run to go on with; give another --out")
    _create(folder / BENCH, encoded(json_text({"schema": SCHEMA, "kind": "bench", **head})))


def _is_rest_of_head(name: str) -> bool:
    """Whether a killed process left this of a head that it was writing: hidden, and named after it."""
    return name.startswith(".") and name.lstrip(".").startswith(f"{BENCH}.")


def _create(path: Path, content: bytes) -> None:
    """Whole or not at all, and only where nothing is: of two processes that begin the same run, one does."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_atomic(temporary, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.rename(temporary, path)
    except FileExistsError:
        raise UsageError(
            f"{path.parent}: another process has just begun a run there; wait for it, or give another --out"
        ) from None
    except OSError as error:
        raise BottegaError(f"{path}: cannot be written ({error.strerror}); {_AGAIN}") from None
    finally:
        temporary.unlink(missing_ok=True)
