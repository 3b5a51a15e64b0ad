"""What runs in a Ray worker: the judges of one device. The sandbox is the judge's own, and its processes die with this one.

A request has a key of its content. One that comes again, because its answer was lost on the way, is not judged a second time.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import bottega
from bottega.cluster.request_queue import JudgeName
from bottega.core.errors import BottegaError, JudgeError, SandboxError, TaskError, UsageError
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.device_facts import device_facts
from bottega.judge.fingerprint import fingerprint
from bottega.judge.judge import Judge
from bottega.judge.machine import Workers, lane_count, worker_count

KEPT = 256
"""Answers that are remembered for requests that come again."""
OF_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Ray sets them for its workers. Kernels and their baselines are to find what they find without Ray."""
ERRORS: dict[str, type[BottegaError]] = {
    kind.__name__: kind for kind in (TaskError, UsageError, SandboxError, JudgeError, Cancelled)
}


@dataclass(frozen=True)
class ActorAnswer:
    found: Any = None
    error: str = ""
    """The name of one of `ERRORS`, where there is nothing found."""
    text: str = ""

    @property
    def exception(self) -> BottegaError | None:
        return ERRORS.get(self.error, JudgeError)(self.text) if self.error else None


class JudgeActor:
    """Called by several threads at a time. All judges here share the device, and the driver bounds what they are asked at a time."""

    def __init__(self, kind: str, cores: int, devices: int) -> None:
        """`cores`: of this judge, on a CPU. `devices`: GPUs of the machine, which share its cores."""
        self._device = kind if kind == "cpu" else f"cuda:{_gpu()}"
        _restore_environment()
        self._cores: int | None = cores if kind == "cpu" else None
        self._devices = 1 if kind == "cpu" else devices
        self._workers = 1
        self._lock = threading.Lock()
        self._judges: dict[str, Judge] = {}
        self._answers: OrderedDict[str, Future[ActorAnswer]] = OrderedDict()
        self._under_way: dict[str, Cancellation] = {}

    def hello(self, workers: Workers) -> dict[str, Any]:
        """What the device is, and how many verdicts to ask for at a time."""
        self._workers = worker_count(workers, self._device, self._devices, self._cores)
        return {
            "device": self._device,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "workers": self._workers,
            "lanes": lane_count(self._workers, self._device),
            "fingerprint": fingerprint(self._device),
            "facts": device_facts(self._device).to_json(),
            "code": code_digest(),
        }

    def do(self, key: str, method: str, judge: JudgeName, given: tuple[Any, ...], options: dict[str, Any]) -> ActorAnswer:
        """`Judge.method(*given, **options)` of this judge; once for a key."""
        with self._lock:
            known = self._answers.get(key)
            answer = self._answers.setdefault(key, Future())
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        if known is None:
            answer.set_result(self._answer(key, method, judge, given, options))
        return answer.result()

    def ping(self) -> None:
        """Whether the process is alive: one that is stopped, or stuck in a driver, does not answer."""

    def cancel(self, key: str) -> None:
        """Ends what runs for this request; its answer is then that it was cancelled."""
        with self._lock:
            cancellation = self._under_way.get(key)
        if cancellation is not None:
            cancellation.cancel()

    def close(self, judge: JudgeName) -> None:
        """End this judge's processes."""
        with self._lock:
            opened = self._judges.pop(judge.id, None)
        if opened is not None:
            opened.close()

    def _answer(self, key: str, method: str, judge: JudgeName, given: tuple[Any, ...], options: dict[str, Any]) -> ActorAnswer:
        cancellation = Cancellation()
        with self._lock:
            self._under_way[key] = cancellation
        try:
            call: Callable[..., Any] = getattr(self._judge(judge), method)
            return ActorAnswer(call(*given, **options, cancellation=cancellation))
        except BottegaError as error:
            known = next((name for name, kind in reversed(ERRORS.items()) if isinstance(error, kind)), "JudgeError")
            return ActorAnswer(error=known, text=str(error))
        except Exception as error:
            return ActorAnswer(
                error="JudgeError", text=f"an error in the judge, please report it: {type(error).__name__}: {error}"
            )
        finally:
            with self._lock:
                self._under_way.pop(key, None)

    def _judge(self, judge: JudgeName) -> Judge:
        with self._lock:
            if judge.id not in self._judges:
                self._judges[judge.id] = Judge(self._device, workers=self._workers, **judge.defaults)
            return self._judges[judge.id]


@cache
def code_digest() -> str:
    """Of this machine's Bottega: a checkout may have changed under the same version."""
    root = Path(bottega.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _gpu() -> int:
    """The number of the GPU that Ray gave to this worker, as the driver counts them."""
    import ray

    given = [str(one) for one in ray.get_runtime_context().get_accelerator_ids().get("GPU", [])]
    if len(given) != 1 or not given[0].isdecimal():
        raise UsageError(
            f"Ray gave this judge the GPUs {given}; one with a number is needed (CUDA_VISIBLE_DEVICES=0,1,… by numbers)"
        )
    return int(given[0])


def _restore_environment() -> None:
    """As the worker was started. GPUs are counted without a selection: a judge selects its own for its processes."""
    begun = dict(
        part.partition("=")[::2] for part in Path("/proc/self/environ").read_text(errors="replace").split("\0") if "=" in part
    )
    for name in OF_RAY:
        os.environ.pop(name, None)
        if name in begun and name != "CUDA_VISIBLE_DEVICES":
            os.environ[name] = begun[name]
