"""The judge's side of the fork server: start it, spawn cells, wait for them, kill them. Imports no torch; safe to use from threads.

The server is a fresh interpreter with a scrubbed environment, so nothing of the judge's memory is ever in a cell.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from bottega.core.errors import SandboxError, UsageError
from bottega.sandbox.environment import scrubbed
from bottega.sandbox.files import readable_paths
from bottega.sandbox.handle import SPAWN_TIMEOUT_S, Cell, CellExit
from bottega.sandbox.limits import Limits
from bottega.sandbox.report import SandboxReport
from bottega.sandbox.request import MODES, Mode, Order

__all__ = ["Cell", "CellExit", "ForkServer", "Limits", "SandboxReport"]

_START_TIMEOUT_S = 120.0
_MOST_FDS = 240
_LARGEST_HELLO = 1 << 18


class ForkServer:
    def __init__(
        self,
        *,
        device: str = "cpu",
        require_sandbox: bool = False,
        extra_readonly: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        modes: Sequence[Mode] = MODES,
        freezer: bool = True,
    ) -> None:
        """`environment` is added to what is passed on of our own. `modes` are tried in this order, the first whole one is used.
        Without `freezer`, cells are stopped by signals as on a machine that has none."""
        self.device = device
        self.require_sandbox = require_sandbox
        self.sandbox = SandboxReport({})
        """What every cell gets on this machine; known after `start`."""
        self._extra_readonly = tuple(extra_readonly)
        self._environment = scrubbed(os.environ, environment or {})
        self._modes = tuple(modes)
        self._freezer = freezer
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
        trusted: bool = False,
    ) -> Cell:
        """Run `entry` ("package.module:function") as `function(fds, arguments)` in a cell of its own.

        `writable`: folders of the host that it may write to, for trusted roles only; a folder of root's is given to the cells' user.
        `trusted`: a role of ours, which may hand descriptors to others, close its memory to them, and set alarms.
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
            trusted=trusted,
            freezer=self._freezer,
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
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the server)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "bottega.sandbox.fork_server", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                # OpenBLAS would start threads when it is imported; libraries look for home then, and must find the inmate's.
                env={**self._environment, "OPENBLAS_NUM_THREADS": "1", "HOME": "/tmp/home", "TMPDIR": "/tmp"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        self._orders = ours
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        hello = ours.recv(_LARGEST_HELLO) if poll.poll(_START_TIMEOUT_S * 1000) else b""
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
                entry="bottega.sandbox.child:nothing",
                arguments=pickle.dumps({}),
                mode=mode,
                device=self.device,
                limits=Limits(),
                environment=self._environment,
                readable=self._readable,
                writable=(),
                output=True,
                require_sandbox=False,
                freezer=self._freezer,
                refused=self._refused,
            )
            try:
                cell = self._fill(trial, ())
            except SandboxError as error:
                refused.append(str(error))
                continue
            self.sandbox = cell.sandbox
            ended = cell.wait(SPAWN_TIMEOUT_S)
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
                    if self._orders is None:
                        raise SandboxError("the fork server was closed while a cell was being ordered; make a new one")
                    socket.send_fds(self._orders, [b"spawn"], passed, socket.MSG_NOSIGNAL)
            except OSError as error:
                raise SandboxError(f"the fork server is gone ({error.strerror}): {self._last_words()}; spawn again") from None
        told = cell.introduction()
        missing = told.get("missing", {})
        if "ready" not in told:
            cell.kill()
            detail = told.get("error") or "a required part is missing: " + str(SandboxReport.from_missing(missing))
            raise SandboxError(f"the sandbox did not start: {detail}")
        cell.sandbox = SandboxReport.from_missing(missing, told.get("stopped_by", ""))
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
    from bottega.sandbox.server import serve

    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))


if __name__ == "__main__":
    main()
