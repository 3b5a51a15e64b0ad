"""What a user may choose about judging, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from bottega.core.errors import UsageError
from bottega.judge.baselines import COMPILE_MODES, check_baselines, measured
from bottega.judge.checks import CHECKS
from bottega.judge.variants import PRECISIONS, QUICK_VARIANTS, VARIANTS

LONGEST_TIMEOUT = 86400.0
OF_A_REQUEST = (
    "baselines", "quick", "precision", "require_kernel", "timeout", "task_timeout", "training", "noise_floor", "timed", "profile",
)  # fmt: skip
"""What may be chosen for a verdict over the network. Device, memory and checks, which import code, belong to the server."""


@dataclass(frozen=True)
class Settings:
    device: str = "cpu"
    baselines: tuple[str, ...] = ("eager",)
    """Of `eager`, `compile`, `autotune` and `best`. The first is the one that the outcome speaks of."""
    quick: bool = False
    """Fewer variants, fewer rounds: for training, where a verdict is one of thousands."""
    precision: str = "fp32"
    require_kernel: float | None = None
    """Least share of the work that the candidate's own kernels must do."""
    timeout: float = 120.0
    """Seconds of a candidate's own time: import, compiling, test calls and timed calls together."""
    task_timeout: float = 300.0
    """Seconds that a task may take to come up; and again, that a baseline may take to be compiled."""
    training: bool | None = None
    """Put both models in training (True) or evaluation (False) mode; None leaves them as they build themselves."""
    memory_gb: float = 0.0
    """Memory of a candidate's processes; 0 takes three quarters of the machine's."""
    noise_floor: float | None = None
    """Relative widening of every interval; None takes the device's."""
    own_code: bool = False
    """Whoever asks trusts the candidate, as a draft of the compiler's: then no interval is widened for what hostile code could leave out of a call.
    Everything else is judged as always."""
    timed: bool = True
    profile: bool = False
    """Say where the time goes, too: counted after the timed rounds, and no part of the decision."""
    checks: tuple[str, ...] = ()
    """Further rules for accepted candidates, by name or as `module:function`; see `judge/checks.py`."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", self.device):
            raise UsageError(f"unknown device {self.device!r}; use cpu, cuda or cuda:N")
        check_baselines(self.baselines)
        for name in self.checks:
            CHECKS.check(name)
        if self.precision not in PRECISIONS:
            raise UsageError(f"unknown precision {self.precision!r}; use one of {', '.join(PRECISIONS)}")
        if self.require_kernel is not None and not 0 <= self.require_kernel <= 1:
            raise UsageError(f"a share lies between 0 and 1, not {self.require_kernel}")
        if not all(0 < seconds <= LONGEST_TIMEOUT for seconds in (self.timeout, self.task_timeout)):
            raise UsageError(f"a timeout must be more than 0 seconds and at most {LONGEST_TIMEOUT:g}")
        if not 0 <= self.memory_gb < 1e6:
            raise UsageError(f"memory_gb must not be negative; 0 takes three quarters of the machine's, not {self.memory_gb}")
        if self.noise_floor is not None and not 0 <= self.noise_floor < 1:
            raise UsageError(f"a noise floor lies between 0 and 1, not {self.noise_floor}")

    def to_json(self) -> dict[str, Any]:
        """For a verdict's fingerprint, where the device has a place of its own."""
        rows = asdict(self).items()
        return {name: list(value) if isinstance(value, tuple) else value for name, value in rows if name != "device"}

    @property
    def measured(self) -> tuple[str, ...]:
        """Baselines that are run and timed."""
        return measured(self.baselines)

    @property
    def compiled(self) -> tuple[str, ...]:
        """Those of them that are compiled first."""
        return tuple(name for name in self.measured if name in COMPILE_MODES)

    @property
    def variants(self) -> tuple[str, ...]:
        return QUICK_VARIANTS if self.quick else VARIANTS

    @property
    def rounds(self) -> tuple[int, int]:
        """Fewest and most timed rounds."""
        return (8, 64) if self.quick else (12, 192)

    @property
    def timing_seconds(self) -> float:
        if self.quick:
            return 0.6 if self.device == "cpu" else 0.25
        return 2.5

    @property
    def floor(self) -> float:
        if self.noise_floor is not None:
            return self.noise_floor
        return 0.02
