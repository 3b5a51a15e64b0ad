"""Teacher pools: teachers work in sandboxes, because they run a task's code, which may be anybody's.

Each task is taught in a fork of its own, and what comes back is JSON that is looked at: a task says what it likes about itself, and nothing about
another one. One that dies or times out costs one answer. A teacher that only calls a model server needs no process and answers in the event
loop.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import importlib.util
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bottega.compiler.build_step import BuildStep, BuildSteps, Refusal, Teacher
from bottega.compiler.callgraph_tracer import EXAMPLE
from bottega.core.candidate import Candidate
from bottega.core.closing import Closing
from bottega.core.errors import BudgetError, SandboxError, UsageError
from bottega.core.task import Task
from bottega.data.records import TeacherRecord
from bottega.data.teachers import TEACHERS
from bottega.languages import use_language
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, Message, ProtocolError
from bottega.sandbox.fork_server import ForkServer
from bottega.sandbox.forked_answers import LOADING_S, ForkedAnswer, ForkingSandbox, answer_in_forks

ENTRY = "bottega.data.teacher_pool:main"
TASKS_PER_SANDBOX = 200
LONGEST_COMPLAINT = 400
LARGEST_BUILD = 64 << 20
"""Bytes of an answer, all steps together."""
OURS = "bottega."


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


class SandboxTeacherPool(Closing):
    """Sandboxes that each hold one teacher. Use it as a context manager."""

    def __init__(self, teacher_spec: TeacherSpec, processes: int = 2, timeout: float = 120.0) -> None:
        self.timeout = timeout
        self._spec = teacher_spec
        self._idle: list[ForkingSandbox] = []
        self._alive: set[ForkingSandbox] = set()
        """All of them, so that closing ends also those that are at work in a thread."""
        self._lock = threading.Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="teachers")
        try:
            first, told = self._started()
        except BaseException:
            self._threads.shutdown(wait=False)
            raise
        self.teacher, self.varies = str(told.get("teacher"))[:LONGEST_COMPLAINT], told.get("varies") is True
        self._idle.append(first)

    async def teach(self, task: Task, language: str, seed: int = 0, without: frozenset[str] = frozenset()) -> TeacherRecord:
        blank = TeacherRecord(task.id, language, self.teacher, seed, tuple(sorted(without)))
        question = {"task": asdict(task), "language": language, "seed": seed, "without": sorted(without)}
        work: Callable[[], Message] = lambda: self._asked(question)  # noqa: E731
        return _read(blank, await asyncio.get_running_loop().run_in_executor(self._threads, work))

    def close(self) -> None:
        """End every sandbox, also one that is teaching."""
        with self._lock:
            self._closed = True
            self._idle = []
            alive, self._alive = self._alive, set()
        for sandbox in alive:
            sandbox.end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _started(self) -> tuple[ForkingSandbox, Message]:
        """A sandbox, and what its teacher says of itself. Raises `UsageError` where the teacher cannot be had."""
        arguments = {"place": self._spec.place, "options": self._spec.options}
        try:
            sandbox = ForkingSandbox(_server(_import_path(self._spec.place)), ENTRY, arguments, largest=LARGEST_BUILD)
        except SandboxError as error:
            raise UsageError(f"the teacher {self._spec.place} has no sandbox: {error}") from None
        with self._lock:
            self._alive.add(sandbox)
        try:
            told = sandbox.channel.receive(time.monotonic() + LOADING_S + self.timeout)
        except (ChannelClosed, DeadlinePassed, ProtocolError):
            told = {"trouble": f"the teacher {self._spec.place} did not start"}
        if "trouble" in told:
            self._end(sandbox)
            raise UsageError(str(told["trouble"])[:LONGEST_COMPLAINT])
        return sandbox, told

    def _asked(self, question: Message) -> Message:
        while True:
            with self._lock:
                if self._closed:
                    return {"failed": "the teacher pool was closed"}
                sandbox = self._idle.pop() if self._idle else None
            try:
                sandbox = sandbox or self._started()[0]
            except UsageError as error:
                return {"failed": str(error)}
            try:
                answer = sandbox.ask(question, self.timeout)
            except (ChannelClosed, DeadlinePassed, ProtocolError, OSError):
                self._end(sandbox)
                if sandbox.asked > 1:  # an earlier task may have left it like this
                    continue
                return {"failed": "its sandbox was lost"}
            with self._lock:
                keep = sandbox.fit and sandbox.asked < TASKS_PER_SANDBOX and not self._closed
                self._idle += [sandbox] if keep else []
            if not keep:
                self._end(sandbox)
            return answer.found or {"failed": self._ending(answer)}

    def _ending(self, answer: ForkedAnswer) -> str:
        if answer.late:
            return f"gave no answer within {self.timeout:g} seconds"
        killed = os.WTERMSIG(answer.status) if os.WIFSIGNALED(answer.status) else 0
        how = f"signal {signal.Signals(killed).name}" if killed else f"exit code {os.WEXITSTATUS(answer.status)}"
        return f"its process died ({how})"

    def _end(self, sandbox: ForkingSandbox) -> None:
        with self._lock:
            self._alive.discard(sandbox)
        sandbox.end()


@functools.cache
def _server(path: str) -> ForkServer:
    """Which has torch imported once, for all pools of this process. `path`: a folder to import from."""
    added = {"PYTHONPATH": path} if path else {}
    server = ForkServer(preload=("numpy", "torch", "bottega.compiler.draft_compiler"), required=("torch",), environment=added)
    atexit.register(server.close)
    return server


def _import_path(place: str) -> str:
    """The folder of a teacher of a user's own; ours come with Bottega."""
    top = TEACHERS.module(place).partition(".")[0]
    if f"{top}." == OURS:
        return ""
    found = importlib.util.find_spec(top)
    if found is None or not found.origin:
        return str(Path.cwd())
    origin = Path(found.origin).resolve().parent
    return str(origin.parent if found.submodule_search_locations else origin)


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """In the sandbox: make the teacher, and have it teach each task in a fork. What a task's code prints is nobody's business."""
    channel = Channel.from_descriptor(descriptors[0], takes_descriptors=False, largest=LARGEST_BUILD)
    try:
        teacher: Any = TeacherSpec(arguments["place"], arguments["options"]).make()
    except UsageError as error:
        channel.send({"trouble": str(error)})
        return
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if TEACHERS.module(arguments["place"]).startswith(OURS):
        from bottega.compiler.step_compiler import target_languages

        for language in target_languages():  # what the compiler imports on the way is there for all forks then
            with suppress(Exception):
                teacher.build(Task(EXAMPLE), language)
    channel.send({"teacher": teacher.name, "varies": hasattr(teacher, "build")})

    def taught(asked: Message) -> Message:
        given = asked["task"]
        task = Task(**{**given, "tags": tuple(given["tags"])})
        answer = asyncio.run(_taught(teacher, task, asked["language"], asked["seed"], frozenset(asked["without"])))
        if isinstance(answer, BuildSteps):
            return {"steps": [asdict(step) for step in answer.steps]}
        return {"refused": str(answer)} if isinstance(answer, Refusal) else {"failed": answer.text}

    answer_in_forks(channel, taught)


@dataclass(frozen=True)
class _Trouble:
    """Why there is no answer: the teacher's fault, not a refusal."""

    text: str


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


def _filled(blank: TeacherRecord, answer: BuildSteps | Refusal | _Trouble) -> TeacherRecord:
    if isinstance(answer, BuildSteps):
        return replace(blank, build=answer)
    if isinstance(answer, Refusal):
        return replace(blank, refused=str(answer)[:LONGEST_COMPLAINT])
    return replace(blank, failed=answer.text[:LONGEST_COMPLAINT])


def _read(blank: TeacherRecord, answer: Message) -> TeacherRecord:
    """What a sandbox sent. It ran the task's code, so it may be anything."""
    if "steps" in answer:
        try:
            steps = tuple(_step(each, blank.language) for each in answer["steps"])
        except (TypeError, KeyError, ValueError):
            return replace(blank, failed="its answer cannot be read")
        return replace(blank, build=BuildSteps(blank.task_id, blank.language, blank.teacher, steps))
    if "refused" in answer:
        return replace(blank, refused=str(answer["refused"])[:LONGEST_COMPLAINT])
    return replace(blank, failed=str(answer.get("failed"))[:LONGEST_COMPLAINT])


def _step(data: Any, language: str) -> BuildStep:
    candidate, parent = data["candidate"], data["candidate"]["parent"]
    texts = [candidate["source"], candidate["name"], data["technique"], data["summary"], *data["cards"]]
    if not all(isinstance(text, str) for text in texts) or not isinstance(parent, str | None):
        raise TypeError("a step is made of texts")
    for text in texts:
        text.encode()  # what is no Unicode can be kept nowhere
    written = Candidate(candidate["source"], language, candidate["name"], parent)
    return BuildStep(written, data["technique"], tuple(data["cards"]), data["summary"])
