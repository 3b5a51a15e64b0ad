"""Where devices are, and the judges on them: this machine, a `bottega serve` elsewhere (`judge/remote.py`), a Ray cluster (`cluster/judges.py`).

A command chooses one of them once; from there on it asks the host for devices, facts, fingerprints and judges, and knows no difference.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.device_facts import device_facts
from bottega.judge.fingerprint import fingerprint
from bottega.judge.judge import Judge
from bottega.judge.machine import Workers, worker_count


class DeviceJudge(Protocol):
    """A judge, wherever it is. Its methods may be called from any thread."""

    @property
    def workers(self) -> int:
        """Verdicts in parallel."""

    @property
    def lanes(self) -> int:
        """How many verdicts to ask for at a time to keep it busy. Of a cluster it changes as machines come and go."""

    def judge(self, task: Task, candidate: Candidate, **options: Any) -> Verdict: ...
    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict: ...
    def fitness(self, task: Task, **options: Any) -> dict[str, Any]: ...
    def ask(self, entry: str, label: str, **arguments: Any) -> dict[str, Any]:
        """What a function of ours finds beside the device, as delivering a kernel needs."""

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class DeviceHost(Protocol):
    """What it has is named as `Settings.device` is: cpu, cuda, cuda:N."""

    def chosen(self, words: str | None) -> tuple[str, ...]:
        """The devices that a user named: several by comma, `all`, or none at all. Of one kind."""

    def workers_of_each(self, workers: Workers, devices: Sequence[str]) -> Workers:
        """What `judge` is to be given for each of these devices, which may share a machine."""

    def is_here(self, device: str) -> bool:
        """Whether it judges on this device of this very machine, which a model may draw on."""

    def judge(self, device: str, workers: Workers = "auto", **defaults: Any) -> DeviceJudge: ...
    def fingerprint(self, device: str) -> dict[str, Any]: ...
    def facts(self, device: str) -> DeviceFacts: ...


class LocalDevices:
    def chosen(self, words: str | None) -> tuple[str, ...]:
        return devices_named(words or "cpu")

    def workers_of_each(self, workers: Workers, devices: Sequence[str]) -> Workers:
        return worker_count(workers, devices[0], len(devices))

    def is_here(self, device: str) -> bool:
        return True

    def judge(self, device: str, workers: Workers = "auto", **defaults: Any) -> Judge:
        return Judge(device, workers=workers, **defaults)

    def fingerprint(self, device: str) -> dict[str, Any]:
        return fingerprint(device)

    def facts(self, device: str) -> DeviceFacts:
        return device_facts(device)


LOCAL = LocalDevices()


def devices_named(words: str) -> tuple[str, ...]:
    """`cpu`, `cuda`, `cuda:0,cuda:1`, or `all` for every GPU of the machine. Devices of one kind, each once."""
    if words == "all":
        count = _gpus()
        if not count:
            raise UsageError("--device all: no NVIDIA GPU is visible here; use --device cpu")
        return tuple(f"cuda:{number}" for number in range(count))
    found = tuple(word.strip() for word in words.split(",") if word.strip())
    named = [device if device != "cuda" else "cuda:0" for device in found]
    if not found or len(set(named)) < len(named):
        raise UsageError(f"--device {words!r}: name devices once each, such as cpu, cuda or cuda:0,cuda:1")
    if len({kind_of(device) for device in found}) > 1:
        raise UsageError(f"--device {words}: times of a CPU and of a GPU do not belong in one run")
    return found


def kind_of(device: str) -> str:
    return device.partition(":")[0]


def maker_of(found: dict[str, Any]) -> str:
    """The device's own name, out of a fingerprint: what must be equal for times to be compared."""
    return str(found.get("gpu") or found.get("cpu") or "").partition(",")[0].strip()


def _gpus() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.strip().isdecimal() for line in told.stdout.splitlines()) if told.returncode == 0 else 0
