"""How much device memory a task needs while it is judged: from an estimate of its parts, in one formula. Knows no torch.

The formula is the bound that all processes of one verdict together keep (docs/reference/judge.md, "Memory"), so a claim by it may be too large and
is corrected by what was seen, and one that is too small is the estimate's fault and not the formula's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

GIB = 1 << 30
FIXED_BYTES = 2 * GIB
"""Contexts and loaded kernels of the controller, the eager baseline and one candidate, and what they keep to work with."""
CONTEXT_BYTES = 5 * GIB // 8
"""One process on the device that has done nothing yet, with its kernels loaded: 0.64 GB on an H200, the largest we have seen."""
GUESSED_BYTES = GIB // 2
"""Taken for the inputs of a task that not even an estimate can be made of."""
LARGEST_QUESTION = 16 << 20
"""Bytes in which a task is sent to the process that estimates."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one call of the reference."""

    inputs: int = 0
    parameters: int = 0
    """With buffers, and whatever else the module keeps."""
    outputs: int = 0
    workspace: int = 0
    """Most that is alive at a time within the call beyond the other three, and what libraries take for themselves."""
    estimated_by: str = "fake tensors"

    @classmethod
    def from_json(cls, told: Any) -> MemoryEstimate | None:
        """None for what says nothing of use: the process that estimates runs the task's code."""
        if not isinstance(told, dict):
            return None
        sizes = {name: told.get(name) for name in ("inputs", "parameters", "outputs", "workspace")}
        if any(not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 60 for size in sizes.values()):
            return None
        return cls(**sizes, estimated_by=str(told.get("estimated_by", ""))[:40])  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


GUESS = MemoryEstimate(GUESSED_BYTES, 0, GUESSED_BYTES, 0, "a guess")


def needed_bytes(estimate: MemoryEstimate, baselines: int = 1) -> int:
    """What to claim before the task is opened. The first baseline, eager, is in the formula; each further one is a process more."""
    further = max(0, baselines - 1) * (CONTEXT_BYTES + estimate.parameters + estimate.workspace)
    carried = 4 * (estimate.inputs + estimate.outputs)
    return carried + estimate.workspace + 3 * estimate.parameters + FIXED_BYTES + further


def corrected_bytes(estimate: MemoryEstimate, peak: int) -> int:
    """What to claim for a task that was opened and took `peak` by then: a candidate is still to come, and is allowed what the eager
    baseline takes."""
    return peak + CONTEXT_BYTES + estimate.parameters + estimate.outputs + estimate.workspace


def gigabytes(size: float) -> str:
    """As GPUs are sold: `6.4`, `24`."""
    value = size / 1e9
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def in_words(estimate: MemoryEstimate, need: int) -> str:
    """`about 61 GB on the device (inputs 6.4, outputs 6.4, parameters 0.0, workspace 0.3)`."""
    parts = ("inputs", "outputs", "parameters", "workspace")
    told = ", ".join(f"{name} {gigabytes(getattr(estimate, name))}" for name in parts)
    return f"about {gigabytes(need)} GB on the device ({told})"
