"""Where sessions and candidates are started: the fork server of a device, its limits and environment, and the device's lease."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bottega.core.errors import UsageError
from bottega.judge.device_lock import Lease, open_lease
from bottega.judge.memory_estimator import Estimator
from bottega.judge.preload import COMPILES, PRELOADED, PREPARE, REQUIRED, WORKER_MODULES
from bottega.judge.settings import Settings
from bottega.languages import every_language
from bottega.sandbox.fork_server import ForkServer, Sandbox
from bottega.sandbox.limits import Limits

COMPILE_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"
QUICK_CONNECTIONS = "1"
"""Queues between a process and the GPU, of a judge that is quick by default. With the driver's own number, eight, a context takes 127 ms
to make and 52 to end, with one 46 and 19, by one process at a time: more than all else that a quick verdict needs. A module that runs
kernels on several streams at once may gain less by it; a full verdict shows what it gains."""

Workers = int | Literal["auto"]
"""Verdicts in parallel: a number, or as many as cores and memory carry."""
SPINS, FEW_SPINS = "GOMP_SPINCOUNT", "10000"
"""How long threads of OpenMP go on spinning when they have nothing to do: for microseconds, not milliseconds. Work that they do after a call has
returned could not be told from spinning."""
MOST_WORKERS = 16
LANES_A_WORKER = 2
"""More wait for the driver, which makes contexts one after the other."""
CORES_A_WORKER = 4
"""Of a CPU that kernels are timed on: below that a verdict that is being built takes the cores of the one that is tried."""
MOST_WORKERS_ON_CPU = 4
RESERVED_CORES = 4
"""Beside a GPU: for the controller, the runner that is being timed and its supervisor, which all spin meanwhile, and one for threads of the
driver. Tasks are opened and kernels are compiled on the other cores."""
FEWEST_CORES = 12
"""A machine with fewer has none to reserve."""


def worker_count(workers: Workers | str, device: str, devices: int = 1, cores: int | None = None) -> int:
    """How many each of `devices` of a kind gets. On a GPU memory sets a bound of its own as tasks are admitted, so `auto` goes by the cores
    alone. Where there are plenty, those that are reserved for timing count too: verdicts wait for the driver and for slices of the device's time
    more than they compute."""
    if workers == "auto":
        cores = (cores or len(os.sched_getaffinity(0))) // devices
        if device.partition(":")[0] == "cpu":
            return max(1, min(MOST_WORKERS_ON_CPU, cores // CORES_A_WORKER))
        return max(1, min(MOST_WORKERS, cores if cores >= FEWEST_CORES else cores - RESERVED_CORES))
    try:
        count = int(workers)
    except ValueError:
        raise UsageError(f"workers={workers}: give a number, or auto") from None
    if count < 1:
        raise UsageError(f"workers={count}: at least one worker is needed; give a number, or auto")
    return count


@dataclass
class Machine:
    """Where sessions and candidates are started."""

    server: ForkServer
    device: str
    """As processes see it: `cpu` or `cuda`."""
    lease_name: str
    limits: Limits
    environment: dict[str, str] = field(default_factory=dict)
    cache: str = ""
    """A folder that trusted processes may keep compiled baselines in."""
    estimator: Estimator = field(init=False)

    def __post_init__(self) -> None:
        self.estimator = Estimator(self.server, self.limits, self.environment)


def lane_count(workers: int, device: str) -> int:
    """How many verdicts keep so many workers busy: more of them on a GPU, where a large task waits for memory while small ones go on."""
    return workers if device == "cpu" else LANES_A_WORKER * workers


def start_machine(settings: Settings, require_sandbox: bool) -> Machine:
    kind, _, index = settings.device.partition(":")
    environment = {
        "TRITON_CACHE_DIR": "/tmp/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor",
        "TORCH_EXTENSIONS_DIR": "/tmp/torch_extensions",
        "BOTTEGA_BUILD_DIR": "/tmp/build",
        # torch.compile's pool of processes is sized for the whole machine: sixteen sandboxes with one each run into every limit
        COMPILE_THREADS: os.environ.get(COMPILE_THREADS, "1"),
    }
    if kind == "cpu":
        server_environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", SPINS: os.environ.get(SPINS, FEW_SPINS)}
        environment[SPINS] = server_environment[SPINS]
    else:
        server_environment = {"CUDA_VISIBLE_DEVICES": index or "0"}
        if settings.quick and "CUDA_DEVICE_MAX_CONNECTIONS" not in os.environ:
            server_environment["CUDA_DEVICE_MAX_CONNECTIONS"] = QUICK_CONNECTIONS
    if settings.compiled:
        server_environment |= {COMPILES: "1", COMPILE_THREADS: environment[COMPILE_THREADS]}
    languages = every_language()
    server = ForkServer(
        device=kind,
        require_sandbox=require_sandbox,
        environment=server_environment,
        extra_readonly=[folder for language in languages for folder in language.folders],
        preload=(*PRELOADED, *(name for language in languages for name in language.modules), *WORKER_MODULES),
        required=REQUIRED,
        prepare=PREPARE,
        reserved_cores=_reserved_cores(kind),
        variables=[name for language in languages for name in language.variables],
    )
    server.start()
    memory = int(settings.memory_gb * (1 << 30)) or _three_quarters_of_memory()
    limits = Limits(memory_bytes=memory, scratch_bytes=2 << 30, processes=1024)
    return Machine(server, kind, f"{kind}:{index or 0}" if kind != "cpu" else "cpu", limits, environment, _cache_folder())


def _reserved_cores(kind: str) -> int:
    """On a CPU every core is the kernel's, and none is reserved."""
    return RESERVED_CORES if kind != "cpu" and len(os.sched_getaffinity(0)) >= FEWEST_CORES else 0


def _three_quarters_of_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


def _cache_folder() -> str:
    """The folder of compiled baselines, kept between runs; trusted processes write there, candidates never see it."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bottega"
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        root.chmod(0o700)
        folder = root / "baselines"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # the sandbox's user writes here; the folder above keeps everyone else out
    except OSError:
        return tempfile.mkdtemp(prefix="bottega-baselines-")
    return str(folder)


@contextmanager
def holding_lease(machine: Machine, how: str) -> Iterator[None]:
    """The machine's device, as `Lease` has it."""
    descriptors = open_lease(machine.lease_name)
    try:
        with getattr(Lease(descriptors), how)():
            yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def end_sandboxes(machine: Machine, sandboxes: Sequence[Sandbox], at_once: bool = False) -> None:
    """Ending a process that has a GPU's context disturbs a process that is being timed there, as making one does: unless `at_once`, it waits."""
    if not sandboxes:
        return
    with nullcontext() if at_once or machine.device == "cpu" else holding_lease(machine, "starting_or_stopping"):
        for sandbox in sandboxes:
            sandbox.kill()
