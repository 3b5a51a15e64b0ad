"""The supervisor: the trusted first process of a sandbox. It serves commands on two channels and ends the child with all its descendants.

Everything it reports (exit, output, samples) it observed itself; what the child writes counts only as output.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from bottega.core.held_folder import HeldFolder
from bottega.sandbox import files, inspection, linux, messages, reserved_cores, tree
from bottega.sandbox.child import close_all_but, run_child
from bottega.sandbox.core_places import CorePlaces
from bottega.sandbox.core_time import CoreWatch
from bottega.sandbox.freezer import Freezer
from bottega.sandbox.memory import MOST_DESCRIPTORS, MemoryWatch, TooManyDescriptors
from bottega.sandbox.perf_counters import PerfCounters
from bottega.sandbox.privileges import WRITER_USER, fresh_user
from bottega.sandbox.request import SpawnRequest
from bottega.sandbox.sampler import Sampler
from bottega.sandbox.stopping import ByFreezer, BySignals, Stopper

OUTPUT_KEPT = 8 << 10
_CHUNK = 1 << 16
_ARMED_S = 0.05
_TICK_S = 0.1
_SENDING_S = 2.0
"""How long sending an answer may take; the receiver is trusted, and may be slow on a busy machine."""
_READY, _ERROR = select.POLLIN, select.POLLHUP | select.POLLERR


def run_supervisor(
    request: SpawnRequest, owner: socket.socket, control: socket.socket, fds: Sequence[int], life: int, freezer: Freezer | str
) -> NoReturn:
    """Never returns. `life` reaches its end when the parent dies, whatever the moment. `freezer`: or why there is none."""
    scratch: HeldFolder | None = None
    try:
        group = freezer.descriptors if isinstance(freezer, Freezer) else []
        close_all_but([owner.fileno(), control.fileno(), *fds, life, *group])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the first process of a name space gets no signal that it does not handle
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        if request.mode == "bare":
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        else:
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        user = _user_for(request)
        if request.mode == "bare":
            scratch = HeldFolder("bottega-sandbox-")
            if user is not None:
                os.chown(scratch.path, user, user)
        else:
            nodes = files.device_nodes(request.device)
            files.enter_private_root(
                request.readable, request.writable, nodes, scratch_bytes=request.limits.scratch_bytes, owner=user
            )
        _Supervisor(request, owner, control, life, freezer).supervise(fds, user, scratch.path if scratch else files.SCRATCH)
    except BaseException as error:
        _tell(owner, {"error": f"{type(error).__name__}: {error}"})
    if scratch is not None:
        scratch.close()
    os._exit(0)


def _user_for(request: SpawnRequest) -> int | None:
    """The user that the child becomes. None: it keeps ours."""
    if request.mode == "user" or os.geteuid() != 0:
        return None
    if request.mode == "bare" and not all(_open_to_all(path) for path in request.readable if path.startswith("/")):
        return None  # without a private root, another user could not reach the interpreter
    if not request.writable:
        return fresh_user()
    owner = os.stat(request.writable[0]).st_uid
    user = owner or WRITER_USER
    for folder in request.writable:
        if os.stat(folder).st_uid == 0:
            os.chown(folder, user, user)
    return user


def _open_to_all(path: str) -> bool:
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def _tell(channel: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    _answer(channel, json.dumps(message).encode(), fds)


def _answer(channel: socket.socket, message: bytes, fds: Sequence[int] = ()) -> None:
    """Send it if the peer is there and reads; a supervisor never waits for long."""
    with contextlib.suppress(OSError):
        messages.send(channel, message, _SENDING_S, fds)


class _Supervisor:
    def __init__(
        self, request: SpawnRequest, owner: socket.socket, control: socket.socket, life: int, freezer: Freezer | str
    ) -> None:
        self.request = request
        self.owner = owner
        self.channels = {owner.fileno(): owner, control.fileno(): control}
        self.inboxes = {channel: messages.Inbox() for channel in self.channels}
        self.life = life
        self.tree: tree.Tree = tree.DescendantTree() if request.mode == "bare" else tree.NamespaceTree()
        self.freezer = freezer
        self.stopper: Stopper
        self.poll = select.poll()
        self.tail = b""
        self.frozen = False
        self.counters: PerfCounters | None = None
        self.reason: str | None = None
        self.child = -1
        self.status: int | None = None

    def supervise(self, fds: Sequence[int], user: int | None, scratch: str) -> None:
        lent = frozenset((s.st_dev, s.st_ino) for s in map(os.fstat, fds))
        mounts = () if self.request.mode == "bare" else (files.SCRATCH, files.SHARED_MEMORY)
        self.memory = MemoryWatch(self.request.limits.memory_bytes, mounts, lent)
        self.output, output = os.pipe()
        status, child_status = os.pipe()
        child_go, go = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            run_child(self.request, fds, output=output, status=child_status, go=child_go, user=user, scratch=scratch)
        for descriptor in (output, child_status, child_go, *fds):
            os.close(descriptor)
        told = json.loads(_read_all(status) or b'{"error": "the child died before it was confined"}')
        os.close(status)
        missing = told.get("missing", {})
        if self.request.mode == "user" and os.geteuid() == 0:
            missing["privileges"] = "runs as the caller's own user, root, without capabilities"
        if "error" not in told and not (missing and self.request.require_sandbox):
            self.sampler = Sampler(self.child)
            counts = self.request.device == "cpu"  # a process on a GPU has many threads to ask
            self.cores = CoreWatch(self.child, counts, own_numbers=self.request.mode != "bare")
            self.places = CorePlaces(self.child)
            self.out_of_memory_kills = _out_of_memory_kills()
            self.stopper = self._choose_stopper()
            self._report_ready(missing)
            os.write(go, b"g")
            os.close(go)
            self._loop()
        else:
            _tell(self.owner, {"missing": missing, **told})
            tree.end(self.tree)

    def _choose_stopper(self) -> Stopper:
        if isinstance(self.freezer, str):
            return BySignals(self.tree, self.freezer)
        try:
            self.freezer.add(self.child)
        except OSError as error:
            return BySignals(self.tree, f"no freezer: {error.strerror}")
        return ByFreezer(self.freezer)

    def _report_ready(self, missing: dict[str, str]) -> None:
        try:
            me = [os.pidfd_open(os.getpid())]
        except OSError:
            me = []
        _tell(self.owner, {"ready": True, "missing": missing, "stopped_by": self.stopper.name}, me)
        for descriptor in me:
            os.close(descriptor)

    def _loop(self) -> None:
        for descriptor in (*self.channels, self.life, self.output):
            self.poll.register(descriptor, _READY)
        os.set_blocking(self.output, False)
        ended = -1
        with contextlib.suppress(OSError):
            ended = os.pidfd_open(self.child)
            self.poll.register(ended, _READY)
        next_tick = time.monotonic() + _TICK_S
        while self.status is None and self.reason is None:
            for descriptor, _ in self.poll.poll(max(0.0, next_tick - time.monotonic()) * 1000):
                if descriptor in self.channels:
                    self._serve_command(self.channels[descriptor])
                elif descriptor == self.output:
                    self._drain_output()
                elif descriptor == self.life:
                    self.reason = "killed"
                elif descriptor == ended:
                    self._reap()
            if (now := time.monotonic()) >= next_tick:
                self._tick()
                after = time.monotonic()
                next_tick = after + max(_TICK_S, 4 * (after - now))  # checking many processes must not become the main load
        self._finish()

    def _serve_command(self, channel: socket.socket) -> None:
        command = self._receive(channel)
        if command == b"arm":
            command = self._spin_for_command(channel)
        if command is not None:
            self._execute(command, channel)

    def _receive(self, channel: socket.socket, flags: int = 0) -> bytes | None:
        """A command; empty when the channel is closed, None when more of it is to come. BlockingIOError only where `flags` ask for it."""
        try:
            packet = channel.recv(messages.PACKET + 1, flags)
            return self.inboxes[channel.fileno()].take(packet) if packet else b""
        except BlockingIOError:
            raise
        except (OSError, messages.MalformedMessage):
            return b""

    def _spin_for_command(self, channel: socket.socket) -> bytes | None:
        """Spin for the next command instead of sleeping: waking up takes longer, and varies more."""
        until = time.monotonic() + _ARMED_S
        while time.monotonic() < until:
            try:
                return self._receive(channel, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        return None

    def _execute(self, command: bytes, channel: socket.socket) -> None:
        if command == b"thaw":
            self.stopper.start()
            self.cores.thawed()
            self.frozen = False
        elif command == b"freeze":
            self.cores.asked()
            spent = self.cores.look(self.tree.processes())
            self.frozen = self.stopper.stop()
            spent = self.cores.stopped(spent, self.tree.processes())
            self.places.place(self.cores.at_rest(self.tree.processes(), self.stopper.seen))
            _answer(channel, (b"ok " if self.frozen else b"busy ") + spent.to_bytes())
        elif command == b"still":
            _answer(channel, b"still" if self.frozen and self.cores.still(self.tree.processes()) else b"moved")
        elif command.startswith(b"read-memory "):
            _answer(channel, self._read_memory(command.partition(b" ")[2]))
        elif command.startswith(b"overwrite-memory "):
            _answer(channel, self._overwrite_memory(command.partition(b" ")[2]))
        elif command == b"memory":
            with contextlib.suppress(TooManyDescriptors):  # the next look at the limits ends it
                _answer(channel, b"%d" % self.memory.held(self.tree.processes()))
        elif command in (b"all-cores", b"few-cores"):
            reserved_cores.allow([0, *reserved_cores.threads_of(self.tree.processes())], everywhere=command == b"all-cores")
        elif command == b"sample-start":
            if self.sampler.unavailable is None:
                self.sampler.start()
        elif command in (b"sample-resume", b"sample-pause"):
            (self.counters or self.sampler).count(command == b"sample-resume")
        elif command == b"sample-stop":
            _tell(channel, self.sampler.stop())
        elif command == b"count-start":
            self.counters = PerfCounters(reserved_cores.threads_of(self.tree.processes()))
        elif command == b"count-stop":
            counters, self.counters = self.counters, None
            _tell(channel, counters.stop() if counters is not None else {})
        elif command == b"kill" or (not command and channel is self.owner):
            self.reason = "killed"
        elif not command:
            self.poll.unregister(channel.fileno())

    def _read_memory(self, packed: bytes) -> bytes:
        try:
            if not self.frozen:
                raise inspection.Unreadable("the sandbox is not stopped")
            return b"ok " + inspection.read(self.child, inspection.unpack(packed))
        except (inspection.Unreadable, struct.error) as error:
            return b"unreadable " + str(error).encode()

    def _overwrite_memory(self, packed: bytes) -> bytes:
        try:
            if not self.frozen:
                raise inspection.Unreadable("the sandbox is not stopped")
            inspection.overwrite(self.child, inspection.unpack(packed))
            return b"ok"
        except (inspection.Unreadable, struct.error) as error:
            return b"unreadable " + str(error).encode()

    def _drain_output(self) -> bool:
        """One chunk at most, so that a flood of output does not delay a command. False: nothing more for now."""
        try:
            chunk = os.read(self.output, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            with contextlib.suppress(KeyError):
                self.poll.unregister(self.output)
            return False
        self.tail = (self.tail + chunk)[-OUTPUT_KEPT:]
        return True

    def _reap(self) -> None:
        """Reap ended processes; orphans of the sandbox are the supervisor's children."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.child:
                    self.status = status

    def _tick(self) -> None:
        self._reap()
        if self.frozen or self.status is not None:
            return  # others may be timed now, and whoever is stopped must not be able to have its supervisor work
        if self.sampler.running:
            self.sampler.drain()
        try:
            used = self.memory.excess(self.tree.processes())
        except TooManyDescriptors:
            self.reason = "memory"
            self.tail += f"\n[the sandbox holds more than {MOST_DESCRIPTORS} descriptors]\n".encode()
            return
        if used is not None:
            self.reason = "memory"
            limit = self.request.limits.memory_bytes
            self.tail += f"\n[the sandbox used {used >> 20} MiB of memory; its limit is {limit >> 20} MiB]\n".encode()

    def _finish(self) -> None:
        self.tree.signal(signal.SIGKILL)
        deadline = time.monotonic() + 5
        while self.status is None and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.0005)
        for _ in range(2 * (1 << 20) // _CHUNK):  # no more than a pipe can hold
            if not self._drain_output():
                break
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else None
        killed_by = -code if code is not None and code < 0 else None
        if self.reason is None:
            short_of_memory = killed_by == signal.SIGKILL and _out_of_memory_kills() != self.out_of_memory_kills
            self.reason = "memory" if short_of_memory else "exited" if killed_by is None else "signalled"
        tree.end(self.tree)
        output = self.tail[-OUTPUT_KEPT:].decode("utf-8", "replace")
        exit_code = code if killed_by is None else None
        _tell(self.owner, {"exit": {"code": exit_code, "signal": killed_by, "reason": self.reason, "output": output}})


def _read_all(descriptor: int) -> bytes:
    data = b""
    while chunk := os.read(descriptor, _CHUNK):
        data += chunk
    return data


def _out_of_memory_kills() -> int:
    with contextlib.suppress(OSError), open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
