"""Cost model of one eager call, from bytes, operations and launches. It only chooses sizes; the filter measures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bottega.core.errors import UsageError


@dataclass(frozen=True)
class OperatorCost:
    """Of one operator."""

    bytes: float
    operations: float = 0.0
    kind: str = "vector"
    """Which rate bounds the operations: `vector`, `matmul` or `conv`."""


@dataclass(frozen=True)
class TimeTarget:
    """A device to write tasks for, with the window of eager times that can be judged there."""

    name: str
    shortest_ms: float
    longest_ms: float
    bandwidth: float
    """Bytes a second that eager operators reach."""
    rates: dict[str, float]
    """Operations a second, by kind of work, in float32."""
    half_rates: dict[str, float]
    launch_ms: float
    largest_bytes: float
    """Of all tensors of one call together."""
    sizes: float
    """How large this device's tensors are beside a small processor's, by length of one side."""

    def milliseconds(self, costs: Iterable[OperatorCost], dtype: str) -> float:
        rates = self.rates if dtype == "float32" else self.half_rates
        return sum(1e3 * max(one.bytes / self.bandwidth, one.operations / rates[one.kind]) + self.launch_ms for one in costs)


TARGETS = {
    "cpu": TimeTarget(
        name="cpu",
        shortest_ms=0.3,
        longest_ms=30.0,
        bandwidth=8e9,
        rates={"vector": 2.5e9, "matmul": 9e10, "conv": 4.5e10},
        half_rates={"vector": 1.2e9, "matmul": 3e10, "conv": 1.5e10},
        launch_ms=0.006,
        largest_bytes=4e8,
        sizes=1.0,
    ),
    "cuda": TimeTarget(
        name="cuda",
        shortest_ms=0.05,
        longest_ms=20.0,
        bandwidth=2.8e12,
        rates={"vector": 1.2e13, "matmul": 4e13, "conv": 2.5e13},
        half_rates={"vector": 1.2e13, "matmul": 4e14, "conv": 1.5e14},
        launch_ms=0.005,
        largest_bytes=3.6e9,
        sizes=2.0,
    ),
}


def target_of(device: str) -> TimeTarget:
    kind = device.partition(":")[0]
    if kind not in TARGETS:
        raise UsageError(f"unknown device {device!r}; tasks are written for {' or '.join(TARGETS)}")
    return TARGETS[kind]
