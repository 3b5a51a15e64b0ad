"""Call graphs of tasks, recorded in sandboxes: the task's code runs there and nowhere else.

A sandbox loads what recording needs, which takes a second, and then forks for every task, which takes hundredths. A call graph goes into
prompts: no verdict depends on it. Of a task that has none, because it makes too many calls or does what a graph cannot say, the operations that it
begins with are known all the same, so that cards can be found for it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from bottega.compiler.callgraph import CallGraph, Malformed, from_json
from bottega.compiler.workload import operations_from, operations_in, workload_of
from bottega.core.device import DeviceFacts
from bottega.core.errors import SandboxError, TaskError
from bottega.core.task import Task
from bottega.core.workload import Operation, Workload
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, Message, ProtocolError
from bottega.sandbox.fork_server import ForkServer, Limits
from bottega.sandbox.forked_answers import ForkedAnswer, ForkingSandbox, answer_in_forks

ENTRY = "bottega.compiler.callgraph_tracer:main"
TASKS_PER_SANDBOX = 200
REMEMBERED = 4096
LONGEST_SOURCE = 1 << 20
EXAMPLE = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(4, 4, 3)
        self.head = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.head(torch.relu(self.layer(x)).mean((2, 3)) + 1)[:, 0]
def get_inputs():
    return [torch.randn(2, 4, 8, 8)]
def get_init_inputs():
    return []
"""


class Traced(NamedTuple):
    graph: CallGraph | None
    """None where the task has none."""
    settled: bool = True
    """False where the fault need not be the task's, as where no sandbox could be had: it may be asked again."""
    beginning: tuple[Operation, ...] = ()
    """Of a task without a graph, what it was seen to do."""


class CallGraphTracer:
    """Thread-safe; as many sandboxes as threads that ask at once, and no more than cores."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self._server = ForkServer(preload=("numpy", "torch"), required=("torch",))
        self._idle: list[ForkingSandbox] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._known: OrderedDict[str, Traced] = OrderedDict()
        self._closed = False

    def __enter__(self) -> CallGraphTracer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trace(self, task: Task) -> CallGraph | None:
        """None where there is none, for whatever reason."""
        return self.traced(task).graph

    def workload(self, task: Task, device: DeviceFacts | None = None) -> Workload:
        """What a card's conditions are checked against."""
        found = self.traced(task)
        return workload_of(found.graph, device) if found.graph is not None else Workload(found.beginning, device)

    def traced(self, task: Task) -> Traced:
        try:
            name = task.id
        except TaskError:
            return Traced(None)
        if (known := self._remembered(name)) is not None:
            return known
        with self._slots:
            traced = self._remembered(name) or self._asked(task.source)  # another thread may have asked meanwhile
        if traced.settled:
            with self._lock:
                self._known[name] = traced
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
        return traced

    def close(self) -> None:
        with self._lock:
            self._closed = True
            recorders, self._idle = self._idle, []
        for recorder in recorders:
            recorder.end()
        self._server.close()

    def _remembered(self, name: str) -> Traced | None:
        with self._lock:
            return self._known.get(name)

    def _asked(self, source: str) -> Traced:
        if len(source) > LONGEST_SOURCE:
            return Traced(None)
        while True:
            with self._lock:
                if self._closed:
                    return Traced(None, settled=False)
                recorder = self._idle.pop() if self._idle else None
            try:
                recorder = recorder or ForkingSandbox(self._server, ENTRY, limits=Limits(memory_bytes=8 << 30))
            except (SandboxError, OSError):
                return Traced(None, settled=False)
            try:
                traced = _read(recorder.ask({"source": source}, self.seconds))
            except (ChannelClosed, DeadlinePassed, ProtocolError, OSError) as error:
                recorder.end()
                if recorder.asked > 1 and not isinstance(error, DeadlinePassed):  # an earlier task may have left it like this
                    continue
                with self._lock:
                    return Traced(None, settled=not self._closed)
            with self._lock:
                if recorder.fit and recorder.asked < TASKS_PER_SANDBOX and not self._closed:
                    self._idle.append(recorder)
                    return traced
            recorder.end()
            return traced


def _read(answer: ForkedAnswer) -> Traced:
    found = answer.found or {}
    try:
        graph = from_json(found["graph"]) if found.get("graph") is not None else None
    except Malformed:
        graph = None
    return Traced(graph, beginning=operations_from(found.get("beginning") or []) if graph is None else ())


@functools.cache
def shared_tracer() -> CallGraphTracer:
    """One for the whole process."""
    tracer = CallGraphTracer()
    atexit.register(tracer.close)
    return tracer


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """In the sandbox: one call graph for each message."""
    import torch

    from bottega.compiler.callgraph_recorder import record

    def recorded(asked: Message) -> Message:
        graph, beginning = None, list[Any]()
        with contextlib.suppress(BaseException):
            graph = record(asked["source"]).to_json()
        with contextlib.suppress(BaseException):
            beginning = operations_in(record(asked["source"], beginning=True)) if graph is None else []
        return {"graph": graph, "beginning": beginning}

    torch.set_num_threads(1)
    record(EXAMPLE)
    answer_in_forks(Channel.from_descriptor(descriptors[0], takes_descriptors=False), recorded)
