"""The judge's side of the fork server: start it, spawn cells, wait for them, kill them. Imports no torch; safe to use from threads.

The server is a fresh interpreter with a scrubbed environment, so nothing of the judge's memory is ever in a cell.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import JudgeError, SandboxError, UsageError
from bottega.judge.keeper import LARGEST_MESSAGE
from bottega.judge.sandbox.environment import scrubbed
from bottega.judge.sandbox.files import readable_paths
from bottega.judge.sandbox.limits import Limits
from bottega.judge.sandbox.order import MODES, Mode, Order
from bottega.judge.sandbox.report import SandboxReport

__all__ = ["Cell", "CellExit", "ForkServer", "Limits", "SandboxReport"]

_START_TIMEOUT_S = 120.0
_SPAWN_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_MOST_FDS = 240


@dataclass(frozen=True)
class CellExit:
    code: int | None
    signal: int | None
    reason: str
    """`exited`, `signalled`, `killed` (by us), `memory` (over its limit), `lost` (the warden vanished)."""
    output: str
    """The end of what it wrote to standard output and standard error, 8 KiB at most. Never to be trusted."""


class Cell:
    """One sandboxed process tree. Dropping the object ends the tree, as does the death of this process."""

    def __init__(self, control: socket.socket, reins: socket.socket) -> None:
        self.sandbox = SandboxReport({})
        self.reins = reins
        """Hand it to a trusted process, which wraps it in a `Keeper`."""
        self._control = control
        self._lock = threading.Lock()
        self._replies: list[bytes] = []
        self._exit: CellExit | None = None
        self._warden = -1

    def kill(self) -> None:
        """End the whole tree. Returns when it is gone, or when waiting any longer is of no use."""
        if self._exit is None:
            with contextlib.suppress(OSError):
                self._control.send(b"kill", socket.MSG_NOSIGNAL)
            if self.wait(_END_TIMEOUT_S) is None:
                self._end_warden()
                self.wait(1.0)
        with self._lock:
            if self._exit is None:
                self._exit = CellExit(None, signal.SIGKILL, "lost", "")

    def wait(self, timeout: float | None) -> CellExit | None:
        """How it ended, once the whole tree is gone. None: it still runs after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._exit is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._pump(left) and self._exit is None:
                return None
        return self._exit

    def freeze(self) -> bool:
        """Stop every process of the cell. True: every thread was seen at rest."""
        return self._ask(b"freeze") == b"ok"

    def thaw(self) -> None:
        self._control.send(b"thaw", socket.MSG_NOSIGNAL)

    def sample_start(self) -> None:
        self._control.send(b"sample-start", socket.MSG_NOSIGNAL)

    def sample_stop(self) -> dict[str, Any]:
        """Where the tree's CPU time went: `{"samples", "lost", "by_file"}`, or `{"unavailable": why}`."""
        return dict(json.loads(self._ask(b"sample-stop")))

    def _ask(self, command: bytes) -> bytes:
        deadline = time.monotonic() + _END_TIMEOUT_S
        try:
            self._control.send(command, socket.MSG_NOSIGNAL)
        except OSError:
            raise JudgeError(f"the cell is gone: {command.decode()} could not be sent") from None
        while time.monotonic() < deadline:
            self._pump(0.01)  # short: another thread in wait() may take the reply from the channel
            with self._lock:
                if self._replies:
                    return self._replies.pop(0)
            if self._exit is not None:
                raise JudgeError(f"the cell ended ({self._exit.reason}) before it answered {command.decode()}")
        raise JudgeError(f"the warden of the cell did not answer {command.decode()}; kill the cell")

    def _pump(self, timeout: float | None) -> bool:
        """Take in one message. False: none came in time."""
        poll = select.poll()
        with self._lock:
            if self._exit is not None:
                return True
            poll.register(self._control, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return False
        with self._lock:
            if self._exit is not None:
                return True
            try:
                message = self._control.recv(LARGEST_MESSAGE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                message = b""
            if not message:
                self._exit = CellExit(None, None, "lost", "")
            elif message.startswith(b'{"exit"'):
                self._exit = CellExit(**json.loads(message)["exit"])
            else:
                self._replies.append(message)
                return True
            self._await_warden()
        return True

    def _introduction(self) -> dict[str, Any]:
        """The warden's first message, with its pidfd. Raises SandboxError when it never comes."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        if not poll.poll(_SPAWN_TIMEOUT_S * 1000):
            raise SandboxError(f"the sandbox did not start within {_SPAWN_TIMEOUT_S:g} s; is the machine overloaded?")
        try:
            packet, fds, _, _ = socket.recv_fds(self._control, LARGEST_MESSAGE, 1)
        except OSError:
            packet, fds = b"", []
        if fds:
            self._warden = fds[0]
            weakref.finalize(self, os.close, self._warden)
        return dict(json.loads(packet)) if packet else {"error": "it ended before it said anything"}

    def _await_warden(self) -> None:
        """The first process of a name space is gone only after everyone else in it."""
        if self._warden != -1:
            poll = select.poll()
            poll.register(self._warden, select.POLLIN)
            if not poll.poll(_END_TIMEOUT_S * 1000):
                self._end_warden()
                poll.poll(1000)

    def _end_warden(self) -> None:
        if self._warden != -1:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._warden, signal.SIGKILL)


class ForkServer:
    def __init__(
        self,
        *,
        device: str = "cpu",
        require_sandbox: bool = False,
        extra_readonly: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        modes: Sequence[Mode] = MODES,
    ) -> None:
        """`environment` is added to what is passed on of our own. `modes` are tried in this order, the first whole one is used."""
        self.device = device
        self.require_sandbox = require_sandbox
        self.sandbox = SandboxReport({})
        """What every cell gets on this machine; known after `start`."""
        self._extra_readonly = tuple(extra_readonly)
        self._environment = scrubbed(os.environ, environment or {})
        self._modes = tuple(modes)
        self._mode: Mode = "bare"
        self._refused = ""
        self._readable: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._log: Any = None
        self._cells: weakref.WeakSet[Cell] = weakref.WeakSet()
        self._closed = False

    def start(self) -> None:
        """Start the server and find out what the machine gives. Does nothing while it runs; starts it again when it has died."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            if self._closed:
                raise SandboxError("the fork server is closed; make a new one")
            self._stop_process()
            self._launch()
            try:
                self._choose_mode()
            except BaseException:
                self._stop_process()
                raise

    def spawn(
        self,
        entry: str,
        *,
        fds: Sequence[int] = (),
        arguments: dict | None = None,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        writable: Sequence[str] = (),
        output: bool = True,
    ) -> Cell:
        """Run `entry` ("package.module:function") as `function(fds, arguments)` in a cell of its own.

        `writable`: folders of the host that it may write to, for trusted roles only; a folder of root's is given to the cells' user.
        """
        if len(fds) > _MOST_FDS:
            raise UsageError(f"{len(fds)} descriptors for one cell; at most {_MOST_FDS} can be passed")
        try:
            pickled = pickle.dumps(arguments or {})
        except Exception as error:
            raise UsageError(f"the arguments of {entry} cannot be pickled: {error}") from None
        self.start()
        order = Order(
            entry=entry,
            arguments=pickled,
            mode=self._mode,
            device=self.device,
            limits=limits or Limits(),
            environment={**self._environment, **(environment or {})},
            readable=self._readable,
            writable=tuple(os.path.abspath(path) for path in writable),
            output=output,
            require_sandbox=self.require_sandbox,
            refused=self._refused,
        )
        return self._fill(order, fds)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for cell in list(self._cells):
                cell.kill()
            self._stop_process()

    def __enter__(self) -> ForkServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "bottega.judge.forkserver", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env={**self._environment, "OPENBLAS_NUM_THREADS": "1"},  # OpenBLAS would start threads when it is imported
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        self._orders = ours
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        hello = ours.recv(LARGEST_MESSAGE) if poll.poll(_START_TIMEOUT_S * 1000) else b""
        if not hello:
            said = self._last_words()
            self._stop_process()
            raise SandboxError(f"the fork server did not start: {said}")
        told = json.loads(hello)
        self._readable = readable_paths(told["path"], self._environment, self._extra_readonly)
        if "torch" in told["absent"]:
            self._stop_process()
            raise SandboxError(f"the fork server cannot import torch with {sys.executable}; install torch there")

    def _choose_mode(self) -> None:
        """Try a cell in each mode, best first; the last one always works, with what it lacks in its report."""
        refused: list[str] = []
        for mode in self._modes:
            if mode == "root" and os.geteuid() != 0:
                continue
            self._mode, self._refused = mode, "; ".join(refused)
            trial = Order(
                entry="bottega.judge.sandbox.inmate:nothing",
                arguments=pickle.dumps({}),
                mode=mode,
                device=self.device,
                limits=Limits(),
                environment=self._environment,
                readable=self._readable,
                writable=(),
                output=True,
                require_sandbox=False,
                refused=self._refused,
            )
            try:
                cell = self._fill(trial, ())
            except SandboxError as error:
                refused.append(str(error))
                continue
            self.sandbox = cell.sandbox
            ended = cell.wait(_SPAWN_TIMEOUT_S)
            cell.kill()
            if ended is None or ended.code != 0:
                refused.append(f"the trial cell ended with {ended}")
                continue
            if self.require_sandbox and not self.sandbox.complete:
                raise SandboxError(f"this machine cannot give the whole sandbox, which was required: {self.sandbox}")
            return
        raise SandboxError(f"no sandbox could be started on this machine: {'; '.join(refused)}")

    def _fill(self, order: Order, fds: Sequence[int]) -> Cell:
        ours, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reins, warden_reins = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cell = Cell(ours, reins)
        order_file = os.memfd_create("order", os.MFD_CLOEXEC)
        with control, warden_reins, os.fdopen(order_file, "r+b") as file:
            pickle.dump(order, file)
            file.seek(0)
            passed = [order_file, control.fileno(), warden_reins.fileno(), *fds]
            try:
                with self._lock:
                    assert self._orders is not None
                    socket.send_fds(self._orders, [b"spawn"], passed, socket.MSG_NOSIGNAL)
            except OSError as error:
                raise SandboxError(f"the fork server is gone ({error.strerror}): {self._last_words()}; spawn again") from None
        told = cell._introduction()
        missing = told.get("missing", {})
        if "ready" not in told:
            cell.kill()
            detail = told.get("error") or "a required part is missing: " + str(SandboxReport.from_missing(missing))
            raise SandboxError(f"the sandbox did not start: {detail}")
        cell.sandbox = SandboxReport.from_missing(missing)
        self._cells.add(cell)
        return cell

    def _last_words(self) -> str:
        if self._log is None or self._log.closed:
            return "it is closed"
        self._log.seek(0)
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def _stop_process(self) -> None:
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


def main() -> None:
    from bottega.judge.sandbox.server import serve

    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))


if __name__ == "__main__":
    main()
