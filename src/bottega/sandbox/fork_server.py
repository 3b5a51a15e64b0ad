"""The client of the fork server: start it, spawn sandboxes, wait for them, kill them. Safe to use from threads.

The server is a fresh interpreter with a scrubbed environment, so that no sandbox holds anything of the caller's memory.
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
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from bottega.core.errors import SandboxError, UsageError
from bottega.sandbox.environment import scrubbed
from bottega.sandbox.files import readable_paths
from bottega.sandbox.handle import SPAWN_TIMEOUT_S, Sandbox, SandboxExit
from bottega.sandbox.limits import Limits
from bottega.sandbox.report import SandboxReport
from bottega.sandbox.request import MODES, Mode, SpawnRequest
from bottega.sandbox.server import IMPORT_SECONDS, LARGEST_PACKET, SPAWN

__all__ = ["ForkServer", "Limits", "Sandbox", "SandboxExit", "SandboxReport"]

_START_TIMEOUT_S = 120.0
_MOST_FDS = 240
_LARGEST_HELLO = 1 << 18
_IMPORT_PATIENCE_S = 3 * IMPORT_SECONDS
"""What has been imported in a fork within its time is imported once more."""
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow's, which comes with pandas and scikit-learn
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # whether there is a GPU is asked without its driver
}
"""These libraries would start threads, or a GPU's driver, when they are imported."""


class _Killed(SandboxError):
    """The server ended by SIGKILL before it was of use."""


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
        preload: Sequence[str] = (),
        required: Sequence[str] = (),
        prepare: str = "",
        reserved_cores: int = 0,
        variables: Sequence[str] = (),
    ) -> None:
        """`environment` is added to what is passed on of our own, which includes names that begin with one of `variables`. `modes` are
        tried in this order; the first complete one is used. Without `freezer`, sandboxes are stopped by signals as on a machine that has
        none. `preload`: modules that every child finds imported; those in `required` must be importable. `prepare`: `module:function`, called
        once after the imports. `reserved_cores`: how many cores sandboxes do not use until they are granted them."""
        self.device = device
        self.require_sandbox = require_sandbox
        self.report = SandboxReport({})
        """What every sandbox gets on this machine; known after `start`."""
        self._extra_readonly = tuple(extra_readonly)
        self._environment = scrubbed(os.environ, environment or {}, tuple(variables))
        self._modes = tuple(modes)
        self._freezer = freezer
        self._preload, self._required, self._prepare = tuple(preload), tuple(required), prepare
        self._reserved_cores = reserved_cores
        self._mode: Mode = "bare"
        self._refused = ""
        self._readable: tuple[str, ...] = ()
        self._lock = threading.RLock()
        self._imported: set[str] = set()
        """What the server that runs was asked to import since it began."""
        self._left_alone: set[str] = set()
        """What a server was lost over when it was to import it."""
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._log: Any = None
        self._sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()
        self._closed = False

    def start(self) -> None:
        """Start the server and find out what the machine gives. Does nothing while it runs; starts it again when it has died."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            if self._closed:
                raise SandboxError("the fork server is closed; make a new one")
            self._stop_process()
            try:
                self._begin()
            except _Killed:  # by a system that is out of memory, say
                self._begin()

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
        hidden: bool = False,
    ) -> Sandbox:
        """Run `entry` ("package.module:function") as `function(fds, arguments)` in a sandbox of its own.

        `writable`: folders of the host that it may write to, for trusted code only; a folder of root's is given to the sandboxes' user.
        `trusted`: code of our own, which may pass descriptors to other processes, close its memory to them, and set timers. `hidden`: code
        of our own that leaves what is foreign to its forks; it is closed to them, and its filter is theirs.
        """
        if len(fds) > _MOST_FDS:
            raise UsageError(f"{len(fds)} descriptors for one sandbox; at most {_MOST_FDS} can be passed")
        try:
            pickled = pickle.dumps(arguments or {})
        except Exception as error:
            raise UsageError(f"the arguments of {entry} cannot be pickled: {error}") from None
        self.start()
        request = SpawnRequest(
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
            hidden=hidden,
            freezer=self._freezer,
            reserved_cores=self._reserved_cores,
            refused=self._refused,
        )
        return self._spawn(request, fds)

    def import_for_children(self, names: Sequence[str]) -> None:
        """Have modules imported before anything else is spawned, so that not every child has to. What cannot be imported, or not without threads or a
        device, is left to the children, with its whole package. Returns when it is done: who spawns meanwhile waits for the lock, and a sandbox's
        time limit does not run."""
        packages: dict[str, list[str]] = {}
        for name in names:
            packages.setdefault(name.partition(".")[0], []).append(name)
        for package, wanted in packages.items():
            self.start()
            with self._lock:
                fresh = [name for name in wanted if name not in self._imported]
                if fresh and package not in self._left_alone and (why := self._import(fresh)):
                    self._left_alone.add(package)
                    print(
                        f"bottega: each process imports {package} by itself, which takes seconds: {why}",
                        file=sys.stderr,
                        flush=True,
                    )

    def _import(self, names: list[str]) -> str:
        """Why it could not be; empty where it is done."""
        packet = json.dumps(names).encode()
        if len(packet) > LARGEST_PACKET or self._requests is None:
            return "too many modules"
        answer = b""
        with contextlib.suppress(OSError):
            self._requests.send(packet, socket.MSG_NOSIGNAL)
            poll = select.poll()
            poll.register(self._requests, select.POLLIN)
            answer = self._requests.recv(2 * LARGEST_PACKET) if poll.poll(_IMPORT_PATIENCE_S * 1000) else b""
        if not answer:  # who spawns next starts it again
            self._stop_process()
            return "the fork server was lost over it"
        if not (why := str(json.loads(answer))):
            self._imported.update(names)
        return why

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for sandbox in list(self._sandboxes):
                sandbox.kill()
            self._stop_process()

    def __enter__(self) -> ForkServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> None:
        try:
            self._launch()
            self._choose_mode()
        except SandboxError as error:
            killed = self._was_killed()
            self._stop_process()
            raise _Killed(f"the fork server was killed while it started: {error}") if killed else error from None
        except BaseException:
            self._stop_process()
            raise

    def _was_killed(self) -> bool:
        """Whether the server ended by a signal that it cannot have sent itself."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(1.0) == -signal.SIGKILL
        return False

    def _launch(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the server)
        with theirs:
            arguments = [theirs.fileno(), os.getpid(), self._preload, self._prepare]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "bottega.sandbox.fork_server", json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                # Libraries look for the home folder when they are imported, and must find the child's.
                env={**self._environment, **_WITHOUT_THREADS, "HOME": "/tmp/home", "TMPDIR": "/tmp"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        self._requests, self._imported = ours, set()
        poll = select.poll()
        poll.register(ours, select.POLLIN)
        hello = ours.recv(_LARGEST_HELLO) if poll.poll(_START_TIMEOUT_S * 1000) else b""
        if not hello:
            raise SandboxError(f"the fork server did not start: {self._last_output()}")
        told = json.loads(hello)
        self._readable = readable_paths(told["path"], self._environment, self._extra_readonly)
        absent = [name for name in self._required if name in told["absent"]]
        if absent:
            raise SandboxError(f"the fork server cannot import {absent[0]} with {sys.executable}; install {absent[0]} there")

    def _choose_mode(self) -> None:
        """Try a sandbox in each mode, best first; the last one always works, and its report names what it lacks."""
        refused: list[str] = []
        for mode in self._modes:
            if mode == "root" and os.geteuid() != 0:
                continue
            self._mode, self._refused = mode, "; ".join(refused)
            trial = SpawnRequest(
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
                sandbox = self._spawn(trial, ())
            except SandboxError as error:
                refused.append(str(error))
                continue
            self.report = sandbox.report
            ended = sandbox.wait(SPAWN_TIMEOUT_S)
            sandbox.kill()
            if ended is None or ended.code != 0:
                refused.append(f"the trial sandbox ended with {ended}")
                continue
            if self.require_sandbox and not self.report.complete:
                raise SandboxError(f"this machine cannot give the whole sandbox, which was required: {self.report}")
            return
        raise SandboxError(f"no sandbox could be started on this machine: {'; '.join(refused)}")

    def _spawn(self, request: SpawnRequest, fds: Sequence[int]) -> Sandbox:
        ours, owner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, supervisor_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sandbox = Sandbox(ours, control)
        request_file = os.memfd_create("request", os.MFD_CLOEXEC)
        with owner, supervisor_end, os.fdopen(request_file, "r+b") as file:
            pickle.dump(request, file)
            file.seek(0)
            passed = [request_file, owner.fileno(), supervisor_end.fileno(), *fds]
            try:
                with self._lock:
                    if self._requests is None:
                        raise SandboxError("the fork server was closed while a sandbox was being requested; make a new one")
                    socket.send_fds(self._requests, [SPAWN], passed, socket.MSG_NOSIGNAL)
            except OSError as error:
                raise SandboxError(f"the fork server is gone ({error.strerror}): {self._last_output()}; spawn again") from None
        told = sandbox.startup_report()
        missing = told.get("missing", {})
        if "ready" not in told:
            sandbox.kill()
            detail = told.get("error") or "a required part is missing: " + str(SandboxReport.from_missing(missing))
            raise SandboxError(f"the sandbox did not start: {detail}")
        sandbox.report = SandboxReport.from_missing(missing, told.get("stopped_by", ""))
        self._sandboxes.add(sandbox)
        return sandbox

    def _last_output(self) -> str:
        if self._log is None or self._log.closed:
            return "it is closed"
        self._log.seek(0)
        lines = [line for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it wrote nothing"

    def _stop_process(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None


def main() -> None:
    from bottega.sandbox.server import serve

    descriptor, parent, preload, prepare = json.loads(sys.argv[1])
    serve(socket.socket(fileno=descriptor), parent, preload, prepare)


if __name__ == "__main__":
    main()
