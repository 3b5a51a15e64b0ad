"""Teacher pools: teachers run in worker processes, because they run a task's code, which may crash, hang or use up the memory.

A process that dies or times out costs one answer; another replaces it. A teacher that only calls a model server needs no process and
answers in the event loop.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol

from bottega.compiler.build_step import BuildSteps, Refusal, Teacher
from bottega.core.errors import BudgetError, UsageError
from bottega.core.task import Task
from bottega.data.process_lock import ended, start
from bottega.data.records import TeacherRecord
from bottega.data.teachers import TEACHERS
from bottega.languages import use_language

TASKS_PER_PROCESS = 200
"""A process is replaced after so many: what foreign code leaves behind does not pile up."""
LONGEST_COMPLAINT = 400


class TeacherPool(Protocol):
    @property
    def teacher(self) -> str:
        """Name and version of the teacher."""
        ...

    @property
    def varies(self) -> bool:
        """Whether the teacher can leave a technique out."""
        ...

    async def teach(self, task: Task, language: str, seed: int = 0, without: frozenset[str] = frozenset()) -> TeacherRecord: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class TeacherSpec:
    """How a process makes its teacher: its name or `module:Class`, and what the class takes."""

    place: str
    options: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Teacher:
        kind = TEACHERS.load(self.place)
        try:
            made: Teacher = kind(**self.options)
        except TypeError as error:
            raise UsageError(f"the teacher {self.place} cannot be had: {error}") from None
        return made


class InProcessTeacherPool:
    """A teacher in this process."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher

    @property
    def teacher(self) -> str:
        return self._teacher.name

    @property
    def varies(self) -> bool:
        return hasattr(self._teacher, "build")

    async def teach(self, task: Task, language: str, seed: int = 0, without: frozenset[str] = frozenset()) -> TeacherRecord:
        blank = TeacherRecord(task.id, language, self.teacher, seed, tuple(sorted(without)))
        return _filled(blank, await _taught(self._teacher, task, language, seed, without))

    def close(self) -> None:
        ends = getattr(self._teacher, "close", None)
        if ends is not None:
            ends()


class ProcessTeacherPool:
    """Processes that each hold one teacher. Use it as a context manager."""

    def __init__(self, teacher_spec: TeacherSpec, processes: int = 2, timeout: float = 120.0, memory_gb: float = 0.0) -> None:
        self.timeout = timeout
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([TEACHERS.module(teacher_spec.place)])  # torch is imported once, not by each
        self._arguments = (teacher_spec, int(memory_gb * (1 << 30)))
        self._idle: list[_TeacherProcess] = []
        self._alive: set[_TeacherProcess] = set()
        """All processes, so that closing ends also those that are at work in a thread."""
        self._lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="teachers")
        first = self._new_worker()
        try:
            self.teacher, self.varies = first.introduced(timeout)
        except BaseException:
            first.end()
            self._threads.shutdown(wait=False)
            raise
        self._idle.append(first)

    def __enter__(self) -> ProcessTeacherPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def teach(self, task: Task, language: str, seed: int = 0, without: frozenset[str] = frozenset()) -> TeacherRecord:
        blank = TeacherRecord(task.id, language, self.teacher, seed, tuple(sorted(without)))
        work: Callable[[], Any] = lambda: self._asked((task, language, seed, without))  # noqa: E731
        return _filled(blank, await asyncio.get_running_loop().run_in_executor(self._threads, work))

    def close(self) -> None:
        """End every process, also one that is teaching."""
        with self._lock:
            self._closed = True
            workers, self._idle = self._idle, []
        for worker in [*workers, *self._alive]:
            worker.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _new_worker(self) -> _TeacherProcess:
        return _TeacherProcess(self._context, self._arguments, self._alive)

    def _asked(self, question: Any) -> Any:
        with self._lock:
            if self._closed:
                return _Trouble("the teacher pool was closed")
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = self._new_worker()
            try:
                worker.introduced(self.timeout)
            except UsageError as error:
                worker.end()
                return _Trouble(str(error))
        answer = worker.ask(question, self.timeout)
        with self._lock:
            if worker.fit and not self._closed:
                self._idle.append(worker)
                return answer
        worker.end()
        return answer


@dataclass(frozen=True)
class _Trouble:
    """Why there is no answer: the teacher's fault, not a refusal."""

    text: str


class _TeacherProcess:
    """One process and the pipe to it."""

    def __init__(self, context: Any, arguments: tuple[Any, ...], alive: set[_TeacherProcess]) -> None:
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_teach, args=(theirs, os.getpid(), *arguments), daemon=True)
        start(self._process)
        theirs.close()
        self._alive = alive
        self._taught = 0
        self._busy = True
        self.fit = True
        alive.add(self)

    def introduced(self, timeout: float) -> tuple[str, bool]:
        """The teacher's name, and whether it varies."""
        answer = self._received(max(timeout, 60.0))
        if isinstance(answer, _Trouble):
            raise UsageError(answer.text)
        name, varies = answer
        return str(name), bool(varies)

    def ask(self, question: Any, timeout: float) -> Any:
        try:
            self._pipe.send(question)
        except (OSError, ValueError):
            self.fit = False
            return _Trouble("its process died before it began")
        answer = self._received(timeout)
        self._taught += 1
        self.fit = self.fit and self._taught < TASKS_PER_PROCESS
        return answer

    def _received(self, timeout: float) -> Any:
        self._busy = True
        try:
            if self._pipe.poll(timeout):
                answer = self._pipe.recv()
                self._busy = False
                return answer
            self.fit = False
            return _Trouble(f"gave no answer within {timeout:g} seconds")
        except (EOFError, OSError):
            self.fit = False
            code = ended(self._process, 5)
            how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
            return _Trouble(f"its process died ({how})")

    def end(self) -> None:
        """One that waits for a question leaves by itself when there is nobody to ask it; any other is killed."""
        self._alive.discard(self)
        if not self._busy:
            with suppress(OSError):
                self._pipe.close()
            ended(self._process, 2)
        with suppress(OSError):  # the whole session: also what a task's code has started
            if self._process.pid and os.getpgid(self._process.pid) == self._process.pid:
                os.killpg(self._process.pid, signal.SIGKILL)
        if ended(self._process, 0) is None:
            self._process.kill()
        ended(self._process, 5)
        with suppress(OSError):  # a thread that still waited for an answer may have met the end of the pipe first
            self._pipe.close()


def _teach(pipe: Connection, parent: int, teacher_spec: TeacherSpec, memory: int) -> None:
    """The life of a teaching process. What the task's code prints is nobody's business."""
    os.setsid()  # what the task's code starts can then be ended with this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream, usual in ((sys.stdout, 1), (sys.stderr, 2)):
        os.dup2(quiet, stream.fileno() if stream else usual)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        teacher = teacher_spec.make()
        if "torch" in sys.modules:  # imported before this process was forked, so the environment comes too late for it
            sys.modules["torch"].set_num_threads(1)
        pipe.send((teacher.name, hasattr(teacher, "build")))
    except UsageError as error:
        pipe.send(_Trouble(str(error)))
        return
    while True:
        try:
            task, language, seed, without = pipe.recv()
        except EOFError:
            return
        pipe.send(asyncio.run(_taught(teacher, task, language, seed, without)))


def leave_with(parent: int) -> None:
    """A parent that was killed closes no pipe that another child has inherited: look whether it is there."""
    while os.path.exists(f"/proc/{parent}"):
        threading.Event().wait(1.0)
    os._exit(0)


async def _taught(
    teacher: Any, task: Task, language: str, seed: int, without: frozenset[str]
) -> BuildSteps | Refusal | _Trouble:
    try:
        use_language(language)
        if without:
            if not hasattr(teacher, "build"):
                return Refusal(f"{teacher.name} cannot leave out {', '.join(sorted(without))}")
            build: BuildSteps = teacher.build(task, language, without=without, seed=seed)
            return build
        return await teacher.teach(task, language, seed)  # type: ignore[no-any-return]
    except Refusal as refusal:
        return refusal
    except BudgetError:
        raise  # the budget is spent: that ends the run, and is no fault of this task
    except Exception as error:  # a task's code raises what it likes, and a teacher has bugs
        return _Trouble(f"{type(error).__name__}: {error}"[:LONGEST_COMPLAINT])


def _filled(blank: TeacherRecord, answer: Any) -> TeacherRecord:
    if isinstance(answer, BuildSteps):
        return replace(blank, build=answer)
    if isinstance(answer, Refusal):
        return replace(blank, refused=str(answer)[:LONGEST_COMPLAINT])
    return replace(blank, failed=str(getattr(answer, "text", answer))[:LONGEST_COMPLAINT])
