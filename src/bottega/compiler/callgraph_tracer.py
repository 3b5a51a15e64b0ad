"""Sketches of tasks, drawn in cells: the task's code runs there and nowhere else. A task that cannot be sketched has an empty one.

A cell loads what drawing needs, which takes a second, and then forks for every task, which takes hundredths: no task finds what another
one left behind in Python or torch. An answer carries the number of its question; one that does not, or a cell that is not left as it
was, costs the cell. What comes back is a text for a prompt: it decides nothing.
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
from typing import Any

from bottega.core.errors import SandboxError, TaskError
from bottega.core.task import Task
from bottega.sandbox.fork_server import Cell, ForkServer, Limits
from bottega.sandbox.wire import Channel, DeadlinePassed, Departed, ProtocolBroken, channel_pair

ENTRY = "bottega.compiler.callgraph_tracer:main"
SKETCHES_EACH = 200
REMEMBERED = 4096
LONGEST_SOURCE = 1 << 20
LONGEST = 16_384
"""Characters; a longer text is no sketch."""
LOADING_S, ANSWERING_S = 60.0, 5.0
"""What a cell may take over the time of a drawing: for the first, to load torch on a busy machine, and for any, to end what hangs."""
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


class Sketcher:
    """Safe to use from several threads; as many cells as threads that ask at once, and no more than cores."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds = seconds
        self._server = ForkServer()
        self._idle: list[_Table] = []
        self._lock = threading.Lock()
        self._seats = threading.BoundedSemaphore(os.cpu_count() or 1)
        self._known: OrderedDict[str, str] = OrderedDict()
        self._closed = False

    def __enter__(self) -> Sketcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sketch(self, task: Task) -> str:
        """Empty where there is none, for whatever reason."""
        return self.drawn(task) or ""

    def drawn(self, task: Task) -> str | None:
        """None where the fault need not be the task's, as where no cell could be had: it may be asked again."""
        try:
            name = task.id
        except TaskError:
            return ""
        known = self._remembered(name)
        if known is not None:
            return known
        with self._seats:
            known = self._remembered(name)  # another thread may have asked meanwhile
            drawn = self._asked(task.source) if known is None else known
        with self._lock:
            if drawn is not None:
                self._known[name] = drawn
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return drawn

    def close(self) -> None:
        with self._lock:
            self._closed = True
            tables, self._idle = self._idle, []
        for table in tables:
            table.end()
        self._server.close()

    def _remembered(self, name: str) -> str | None:
        with self._lock:
            return self._known.get(name)

    def _asked(self, source: str) -> str | None:
        if len(source) > LONGEST_SOURCE:
            return ""
        while True:
            with self._lock:
                if self._closed:
                    return None
                table = self._idle.pop() if self._idle else None
            try:
                table = table or _Table(self._server)
            except (SandboxError, OSError):
                return None
            try:
                drawn = table.draw(source, self.seconds)
            except (Departed, DeadlinePassed, ProtocolBroken, OSError) as error:
                table.end()
                if table.drawn > 1 and not isinstance(error, DeadlinePassed):  # an earlier task may have left it like this
                    continue
                with self._lock:
                    return None if self._closed else ""
            with self._lock:
                if table.drawn < SKETCHES_EACH and not self._closed:
                    self._idle.append(table)
                    return drawn
            table.end()
            return drawn


class _Table:
    """One cell and the channel to it."""

    def __init__(self, server: ForkServer) -> None:
        self.drawn = 0
        ours, theirs = channel_pair()
        try:
            self._cell: Cell = server.spawn(
                ENTRY, fds=[theirs.fileno()], limits=Limits(memory_bytes=8 << 30), output=False, trusted=True
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._end: socket.socket = ours
        self._channel = Channel(ours, takes_descriptors=False)

    def draw(self, source: str, seconds: float) -> str:
        self.drawn += 1
        number = secrets.token_hex(8)
        latest = seconds + ANSWERING_S + (LOADING_S if self.drawn == 1 else 0)
        self._end.settimeout(latest)
        self._channel.send({"number": number, "source": source, "seconds": seconds})
        reply = self._channel.receive(time.monotonic() + latest)
        drawn = reply.get("sketch")
        if reply.get("number") != number or not isinstance(drawn, str):
            raise ProtocolBroken("an answer to nothing that was asked")
        return drawn if len(drawn) <= LONGEST else ""

    def end(self) -> None:
        self._cell.kill()
        self._cell.reins.close()
        self._end.close()


@functools.cache
def shared_sketcher() -> Sketcher:
    """One for the whole process."""
    sketcher = Sketcher()
    atexit.register(sketcher.close)
    return sketcher


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """In the cell: one sketch for each message, until the other end closes or a task leaves a process behind."""
    import torch

    from bottega.compiler.callgraph import sketch_of
    from bottega.sandbox import linux

    torch.set_num_threads(1)
    sketch_of(EXAMPLE)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # what a task leaves behind comes to us
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # our memory and descriptors are closed to the tasks
    channel = Channel.from_descriptor(descriptors[0], takes_descriptors=False)
    while True:
        try:
            asked = channel.receive()
        except Departed:
            return
        drawn, alone = _forked(asked["source"], asked["seconds"])
        channel.send({"number": asked["number"], "sketch": drawn})
        if not alone:
            return


def _forked(source: str, seconds: float) -> tuple[str, bool]:
    """The sketch, and whether nobody of those who drew it is left."""
    ours, theirs = channel_pair()
    child = os.fork()
    if child == 0:
        _draw_and_leave(source, theirs)
    theirs.close()
    drawn = None
    with ours, contextlib.suppress(Departed, DeadlinePassed, ProtocolBroken):
        drawn = Channel(ours, takes_descriptors=False).receive(time.monotonic() + seconds).get("sketch")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        alone = False
    except ChildProcessError:
        alone = True
    return drawn if isinstance(drawn, str) and len(drawn) <= LONGEST else "", alone


def _draw_and_leave(source: str, end: socket.socket) -> None:
    """In a process of the task's own; never returns."""
    from bottega.compiler.callgraph import sketch_of
    from bottega.sandbox import linux
    from bottega.sandbox.child import close_all_but

    try:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)
        close_all_but([end.fileno()])
        os.setsid()
        drawn = ""
        with contextlib.suppress(BaseException):
            drawn = sketch_of(source)
        Channel(end, takes_descriptors=False).send({"sketch": drawn})
    finally:
        os._exit(0)
