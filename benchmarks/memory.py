"""Peak memory of one verdict, all its processes together, over the floor I + O (bytes of inputs and outputs), by size.

A judge is started for each row, so that no task that waits for candidates is counted, and judges one candidate: the task's own model.
The aim is at most 4 (I + O) + W + 2 GiB, W being what the reference itself needs beyond inputs and outputs (parameters and
intermediates, by fake tensors). A device's memory is read every few milliseconds through NVIDIA's management library by a thread of
this process, which never touches the device; on a CPU it is what the kernel says of the process tree (shared pages by share).
`contexts` is the peak of a verdict on next to nothing.

    PYTHONPATH=src python3 benchmarks/memory.py --device cuda
    PYTHONPATH=src python3 benchmarks/memory.py --device cuda --sizes-gb 12.8,25.6 --kinds elementwise,norm
    PYTHONPATH=src python3 benchmarks/memory.py --device cpu --largest-gb 0.3
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from figure import Device, launch, show, where
from large_tasks import Bytes, measured
from pairs import twin

from bottega.core.errors import BottegaError, UsageError
from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.judge.nvml import gpu_memory, gpu_processes
from bottega.sandbox.fork_server import ForkServer, Sandbox

MB, GB, GIB = 10**6, 10**9, 2**30
LADDER_GB = (0.016, 0.128, 1.0, 4.0, 12.8, 25.6, 51.2)
ROLES = ("referee", "eager", "candidate", "judge", "ready")
"""`ready`: processes that wait for the next candidates, beside the one that is judged."""
CPU_PAUSE_S, GPU_PAUSE_S = 0.02, 0.003

_HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
_NOTHING = "\n\n\ndef get_init_inputs():\n    return []\n"
_PLAIN = "    def forward(self, x):\n        return {0}\n\n\ndef get_inputs():\n    return [torch.randn({1})]" + _NOTHING
_CONV = """    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn({0}, 32, 128, 128)]


def get_init_inputs():
    return [32]
"""
_MATMUL = (
    """    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn({0}, 1024), torch.randn(1024, 1024)]"""
    + _NOTHING
)
KINDS: dict[str, Callable[[int], str]] = {
    "elementwise": lambda floor: _HEAD + _PLAIN.format("F.softplus(x)", f"{_rows(floor, 2 * 8192)}, 8192"),
    "reduction": lambda floor: _HEAD + _PLAIN.format("x.sum(dim=1)", f"{_rows(floor, 16384)}, 16384"),
    "norm": lambda floor: _HEAD + _PLAIN.format("F.layer_norm(x, (4096,))", f"{_rows(floor, 2 * 4096)}, 4096"),
    "matmul": lambda floor: _HEAD + _MATMUL.format(_rows(floor, 2 * 1024)),
    "conv": lambda floor: _HEAD + _CONV.format(_rows(floor, 2 * 32 * 128 * 128)),
}
"""From I + O in bytes to a task's text."""


@dataclass
class Peak:
    """The most that was seen at one moment, and who held it then."""

    total: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    samples: int = 0


@dataclass(frozen=True)
class Row:
    kind: str
    floor: int
    workspace: int
    """With parameters."""
    peak: int
    parts: dict[str, int]
    """By process, at the moment of the peak; empty where the driver does not tell."""
    outcome: str
    seconds: float
    samples: int

    @property
    def own(self) -> int:
        """The peak without processes that wait for the next candidates."""
        return self.peak - self.parts.get("ready", 0)

    @property
    def bound(self) -> int:
        return 4 * self.floor + self.workspace + 2 * GIB


def main(
    device: Device = "cpu",
    largest_gb: Annotated[
        float, typer.Option(min=0.001, help="The largest I + O of the ladder; larger rungs are left out.")
    ] = 12.8,
    sizes_gb: Annotated[str, typer.Option(help="I + O in GB by comma, instead of the ladder.")] = "",
    kinds: Annotated[str, typer.Option(help=f"By comma, some of {', '.join(KINDS)}.")] = ",".join(KINDS),
    seconds: Annotated[float, typer.Option(min=1, help="Begin no further row after so long.")] = 480.0,
) -> None:
    chosen = [each.strip() for each in kinds.split(",") if each.strip()]
    if unknown := set(chosen) - set(KINDS):
        raise UsageError(f"--kinds: {', '.join(sorted(unknown))} is none of {', '.join(KINDS)}")
    try:
        sizes = [float(each) for each in sizes_gb.split(",") if each.strip()] or [
            each for each in LADDER_GB if each <= largest_gb
        ]
    except ValueError:
        raise UsageError(f"--sizes-gb {sizes_gb}: give numbers by comma, such as 1,12.8") from None
    watched = watch_spawns()
    begun, rows = time.monotonic(), []
    base = verdict_of("elementwise", 2 * MB, device, watched)
    _progress(base)
    try:
        for size in sizes:
            for kind in chosen:
                if time.monotonic() - begun < seconds:
                    rows.append(verdict_of(kind, round(size * GB), device, watched))
                    _progress(rows[-1])
    except KeyboardInterrupt:
        print("\ninterrupted: what follows is what there was", file=sys.stderr)
    left = len(sizes) * len(chosen) - len(rows)
    _told(device, base, rows, left)


def verdict_of(kind: str, floor: int, device: str, watched: list[tuple[str, Sandbox]]) -> Row:
    task = Task(KINDS[kind](floor), name=f"{kind}_{floor}", origin=f"{kind} of {floor / GB:g} GB")
    known: Bytes = measured(task.source)
    begun, outcome = time.monotonic(), ""
    watched.clear()
    sampler = Sampler(device, watched)
    with sampler, Judge(device, quick=True) as judge:
        try:
            verdict = judge.judge(task, twin(task))
            outcome = verdict.outcome.value
            if not verdict.outcome.accepted:
                print(f"{task.origin}: {verdict.outcome.value}: {verdict.diagnosis.splitlines()[:1]}", file=sys.stderr)
        except BottegaError as error:
            outcome = f"no verdict: {error}"
    peak, both = sampler.peak, known.inputs + known.outputs
    seconds = round(time.monotonic() - begun, 2)
    return Row(kind, both, known.workspace + known.parameters, peak.total, peak.parts, outcome, seconds, peak.samples)


def watch_spawns() -> list[tuple[str, Sandbox]]:
    """Every sandbox that is started from now on, with its role; which one a process belongs to is seen by its parents."""
    started: list[tuple[str, Sandbox]] = []
    spawn = ForkServer.spawn

    def watching(self: ForkServer, entry: str, **options: Any) -> Sandbox:
        sandbox = spawn(self, entry, **options)
        unbounded = getattr(options.get("limits"), "file_bytes", 0) >= 1 << 42  # a task's own processes, not a candidate's
        started.append(("referee" if "controller" in entry else "eager" if unbounded else "candidate", sandbox))
        return sandbox

    ForkServer.spawn = watching  # type: ignore[method-assign]
    return started


class Sampler:
    """A thread that keeps the peak from entering to leaving."""

    def __init__(self, device: str, watched: list[tuple[str, Sandbox]]) -> None:
        self.peak = Peak()
        kind, _, index = device.partition(":")
        self._index = int(index or 0) if kind == "cuda" else None
        self._watched = watched
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._start = settled(self._index) if self._index is not None else 0

    def __enter__(self) -> Sampler:
        if self._index is not None and gpu_memory(self._index) is None:
            raise UsageError(
                "NVIDIA's management library (libnvidia-ml.so.1) does not answer here, and nothing else tells a device's memory"
            )
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(CPU_PAUSE_S if self._index is None else GPU_PAUSE_S):
            total, parts = self._sample()
            self.peak.samples += 1
            if total > self.peak.total:
                self.peak.total, self.peak.parts = total, parts if parts is not None else self._by_role()

    def _sample(self) -> tuple[int, dict[str, int] | None]:
        """The sum; its parts too, where they come with it."""
        if self._index is not None:
            return used_bytes(self._index) - self._start, None
        parts = self._summed(resident)
        return sum(parts.values()), parts

    def _by_role(self) -> dict[str, int]:
        """Looked up only where there is a new peak: it takes longer than a reading."""
        told = dict(gpu_processes(self._index or 0))
        found = self._summed(lambda pid: told.get(pid, 0))
        return {role: size for role, size in found.items() if size}

    def _summed(self, size_of: Callable[[int], int]) -> dict[str, int]:
        parents = parents_of_all()
        watched = enumerate(list(self._watched))
        roots = {pid: f"{role} {number}" for number, (role, sandbox) in watched if (pid := pid_of(sandbox))}
        sizes: dict[str, int] = {}
        for pid in parents:
            root = role_of(pid, parents, roots)
            if root:
                sizes[root] = sizes.get(root, 0) + size_of(pid)
        return by_role(sizes)


def by_role(sizes: dict[str, int]) -> dict[str, int]:
    """From bytes of each sandbox, named by role and number. The candidate is the largest of its kind."""
    found = dict.fromkeys(ROLES, 0)
    for root, size in sizes.items():
        found[root.partition(" ")[0]] += size
    largest = max((size for root, size in sizes.items() if root.startswith("candidate")), default=0)
    return {**found, "candidate": largest, "ready": found["candidate"] - largest}


def used_bytes(index: int) -> int:
    told = gpu_memory(index)
    return told[1] if told is not None else 0


def settled(index: int, patience: float = 5.0) -> int:
    """Bytes in use once they no longer fall: contexts of the row before may still be ending."""
    used, until = used_bytes(index), time.monotonic() + patience
    while time.monotonic() < until:
        time.sleep(0.5)
        now = used_bytes(index)
        if now >= used:
            return now
        used = now
    return used


def role_of(pid: int, parents: dict[int, int], roots: dict[int, str]) -> str:
    """Of the nearest ancestor that has one; `judge` for other children of this process; empty for strangers and for this process itself."""
    own = os.getpid()
    while pid > 1:
        if pid in roots:
            return roots[pid]
        above = parents.get(pid, 0)
        if above == own:
            return "judge"
        pid = above
    return ""


def parents_of_all() -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                text = Path(f"/proc/{entry.name}/stat").read_text(encoding="utf-8", errors="replace")
                found[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    return found


def resident(pid: int) -> int:
    """Bytes; what several processes map counts by share where the kernel tells, so that shared arenas count once."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def pid_of(sandbox: Sandbox) -> int:
    """Of a sandbox's first process; 0 when it is gone."""
    descriptor = getattr(sandbox, "_supervisor", -1)
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
            if line.startswith("Pid:"):
                return max(0, int(line.split()[1]))
    return 0


def _rows(floor: int, width: int) -> int:
    return max(1, floor // (4 * width))


def _progress(row: Row) -> None:
    print(
        f"{row.kind} of {row.floor / GB:.3g} GB: {row.outcome}, peak {row.peak / GB:.2f} GB, {row.seconds:.0f} s, {row.samples} readings",
        file=sys.stderr,
        flush=True,
    )  # fmt: skip


def _told(device: str, base: Row, rows: list[Row], left: int) -> None:
    table = []
    for row in rows:
        parts = ", ".join(f"{role} {size / GB:.2f}" for role, size in row.parts.items() if size > 5 * MB)
        over = "" if row.own <= row.bound else " over"
        beyond = (row.peak - base.peak) / max(1, row.floor)
        table.append(
            [row.kind, f"{row.floor / GB:.3g}", f"{row.workspace / GB:.2f}", f"{row.peak / GB:.2f}", f"{row.peak / row.floor:.2f}",
             f"{beyond:.2f}", f"{row.bound / GB:.2f}{over}", parts or "not told", row.outcome[:24]]
        )  # fmt: skip
    columns = (
        "kind",
        "I + O",
        "W",
        "peak",
        "of I + O",
        "less contexts",
        "bound",
        "by process at the peak",
        "outcome",
    )
    within = sum(row.own <= row.bound for row in rows)
    remarks = [
        where(device),
        f"GB; contexts and idle processes take {base.peak / GB:.2f}; {within} of {len(rows)} rows stay within 4 (I + O) + W + 2 GiB, "
        "without the processes that are ready for other verdicts",
    ]
    if left:
        remarks.append(f"{left} rows were not begun; give more --seconds, or fewer --kinds")
    show(f"peak memory of one quick verdict, on {device}", columns, table, remarks)


if __name__ == "__main__":
    launch(main)
