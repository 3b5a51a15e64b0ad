"""Call graphs of tasks, recorded in sandboxes: the task's code runs there and nowhere else.

A sandbox loads what recording needs, which takes a second, and then forks for every task, which takes hundredths: no task finds what
another one left behind in Python or torch. A reply carries the number of its request; one that does not, or a sandbox that is not left as
it was, costs the sandbox. A call graph goes into prompts: no verdict depends on it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import secrets
import signal
import socket
import threading
import time
from collections import OrderedDict
from typing import Any, NamedTuple

from bottega.compiler.callgraph import CallGraph, Malformed, from_json
from bottega.core.errors import SandboxError, TaskError
from bottega.core.task import Task
from bottega.sandbox.channel import Channel, ChannelClosed, DeadlinePassed, ProtocolError, channel_pair
from bottega.sandbox.fork_server import ForkServer, Limits, Sandbox

ENTRY = "bottega.compiler.callgraph_tracer:main"
TASKS_PER_SANDBOX = 200
REMEMBERED = 4096
LONGEST_SOURCE = 1 << 20
LOADING_S, ANSWERING_S = 60.0, 5.0
"""What a sandbox may take beyond the time of a recording: at first to load torch on a busy machine, later to end what hangs."""
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


class CallGraphTracer:
    """Thread-safe; as many sandboxes as threads that ask at once, and no more than cores."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self._server = ForkServer(preload=("numpy", "torch"), required=("torch",))
        self._idle: list[_Recorder] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._known: OrderedDict[str, CallGraph | None] = OrderedDict()
        self._closed = False

    def __enter__(self) -> CallGraphTracer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def trace(self, task: Task) -> CallGraph | None:
        """None where there is none, for whatever reason."""
        return self.traced(task).graph

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
                self._known[name] = traced.graph
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
            return Traced(self._known[name]) if name in self._known else None

    def _asked(self, source: str) -> Traced:
        if len(source) > LONGEST_SOURCE:
            return Traced(None)
        while True:
            with self._lock:
                if self._closed:
                    return Traced(None, settled=False)
                recorder = self._idle.pop() if self._idle else None
            try:
                recorder = recorder or _Recorder(self._server)
            except (SandboxError, OSError):
                return Traced(None, settled=False)
            try:
                graph = recorder.record(source, self.seconds)
            except (ChannelClosed, DeadlinePassed, ProtocolError, OSError) as error:
                recorder.end()
                if recorder.tasks > 1 and not isinstance(error, DeadlinePassed):  # an earlier task may have left it like this
                    continue
                with self._lock:
                    return Traced(None, settled=not self._closed)
            with self._lock:
                if recorder.tasks < TASKS_PER_SANDBOX and not self._closed:
                    self._idle.append(recorder)
                    return Traced(graph)
            recorder.end()
            return Traced(graph)


class _Recorder:
    """One sandbox and the channel to it."""

    def __init__(self, server: ForkServer) -> None:
        self.tasks = 0
        ours, theirs = channel_pair()
        try:
            self._sandbox: Sandbox = server.spawn(
                ENTRY, fds=[theirs.fileno()], limits=Limits(memory_bytes=8 << 30), output=False, trusted=True
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._end: socket.socket = ours
        self._channel = Channel(ours, takes_descriptors=False)

    def record(self, source: str, seconds: float) -> CallGraph | None:
        self.tasks += 1
        number = secrets.token_hex(8)
        latest = seconds + ANSWERING_S + (LOADING_S if self.tasks == 1 else 0)
        self._end.settimeout(latest)
        self._channel.send({"number": number, "source": source, "seconds": seconds})
        reply = self._channel.receive(time.monotonic() + latest)
        if reply.get("number") != number:
            raise ProtocolError("a reply to nothing that was asked")
        try:
            return from_json(reply.get("graph")) if reply.get("graph") is not None else None
        except Malformed:
            return None

    def end(self) -> None:
        self._sandbox.kill()
        self._sandbox.control.close()
        self._end.close()


@functools.cache
def shared_tracer() -> CallGraphTracer:
    """One for the whole process."""
    tracer = CallGraphTracer()
    atexit.register(tracer.close)
    return tracer


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """In the sandbox: one call graph for each message, until the other end closes or a task leaves a process behind."""
    import torch

    from bottega.compiler.callgraph_recorder import record
    from bottega.sandbox import linux

    torch.set_num_threads(1)
    record(EXAMPLE)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # what a task leaves behind comes to us
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # our memory and descriptors are closed to the tasks
    channel = Channel.from_descriptor(descriptors[0], takes_descriptors=False)
    while True:
        try:
            asked = channel.receive()
        except ChannelClosed:
            return
        graph, alone = _forked(asked["source"], asked["seconds"])
        channel.send({"number": asked["number"], "graph": graph})
        if not alone:
            return


def _forked(source: str, seconds: float) -> tuple[Any, bool]:
    """The graph as JSON, and whether no process of those that recorded it is left."""
    ours, theirs = channel_pair()
    child = os.fork()
    if child == 0:
        _record_and_exit(source, theirs)
    theirs.close()
    graph = None
    with ours, contextlib.suppress(ChannelClosed, DeadlinePassed, ProtocolError):
        graph = Channel(ours, takes_descriptors=False).receive(time.monotonic() + seconds).get("graph")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        alone = False
    except ChildProcessError:
        alone = True
    return graph, alone


def _record_and_exit(source: str, end: socket.socket) -> None:
    """In a process of the task's own; never returns."""
    from bottega.compiler.callgraph_recorder import record
    from bottega.sandbox import linux
    from bottega.sandbox.child import close_all_but

    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        close_all_but([end.fileno()])
        os.setsid()
        graph = None
        with contextlib.suppress(BaseException):
            graph = record(source).to_json()
        Channel(end, takes_descriptors=False).send({"graph": graph})
    finally:
        os._exit(0)
