"""What kind of kernel it is, by measurement: the four axes of an evolution's archive (MAP-Elites). No word of a kernel's text counts.

Each axis is read off the verdict: what bounds it by the roofline, how far it is fused, the size of its tiles, and how much of the work its own
kernels do. Where the judge has not measured one, it is `unknown`, which is a class of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bottega.core.verdict import Verdict

FAR = 0.25
"""A kernel that reaches less of both roofs is bound by neither: by latency, launches or idle cores."""
SCALAR = 0.05
FEW, ALL = 1.5, 0.6
"""Threads: one, or this share of the cores and more."""
UNKNOWN = "unknown"


@dataclass(frozen=True, order=True)
class Behaviour:
    bound: str
    """`memory`, `compute` or `latency`."""
    launches: str
    """Kernels of one call, in doublings: 1 is fused whole."""
    tile: str
    """On a GPU the programs of the kernel that takes longest, in powers of eight: few programs have large tiles. On a CPU threads and vector
    width, which are what its tiles are made of."""
    own: str
    """The share of the time in its own kernels, in thirds."""

    @property
    def text(self) -> str:
        return f"{self.bound}-bound, launches {self.launches}, {self.tile}, own share {self.own}"


def behaviour_of(verdict: Verdict | None) -> Behaviour:
    profile = verdict.profile if verdict is not None else {}
    coverage = verdict.coverage if verdict is not None else {}
    times = verdict.times_ms if verdict is not None else {}
    return Behaviour(bound_of(profile, times), _launches(profile, coverage), _tile(profile), _own(coverage.get("share")))


def bound_of(profile: Mapping[str, Any], times_ms: Mapping[str, float]) -> str:
    """By the roofline: the roof that the kernel is nearest to, if it is near to any."""
    memory = _share(profile.get("gbs"), profile.get("peak_gbs")) or _share(times_ms.get("floor"), times_ms.get("candidate"))
    compute = _share(profile.get("gflops"), profile.get("peak_gflops"))
    if memory is None and compute is None:
        return UNKNOWN
    if max(memory or 0.0, compute or 0.0) < FAR:
        return "latency"
    return "memory" if (memory or 0.0) >= (compute or 0.0) else "compute"


def _share(value: float | None, roof: float | None) -> float | None:
    return value / roof if value and roof else None


def _launches(profile: Mapping[str, Any], coverage: Mapping[str, Any]) -> str:
    """Launches of a call; a CPU has none, and the own functions that the judge counted stand for them."""
    kernels = profile.get("kernels")
    count = sum(kernel["launches"] for kernel in kernels) if kernels else len(coverage.get("own") or ())
    if not count:
        return UNKNOWN
    power = math.ceil(math.log2(max(1.0, count)))
    return str(2**power) if power < 2 else f"{2 ** (power - 1) + 1} to {2**power}"


def _tile(profile: Mapping[str, Any]) -> str:
    if profile.get("kernels"):
        programs = math.prod(profile["kernels"][0]["grid"])
        power = int(math.log(max(1, programs), 8))
        return f"{8**power} to {8 ** (power + 1) - 1} programs"
    if not profile.get("cores"):
        return UNKNOWN
    threads, cores = profile.get("threads") or 0.0, profile["cores"]
    used = "one thread" if threads < FEW else "all threads" if threads >= ALL * cores else "some threads"
    share, bits = profile.get("vector_share"), profile.get("vector_bits")
    return f"{used}, {'scalar' if not bits or (share is not None and share < SCALAR) else f'{bits}-bit vectors'}"


def _own(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return ("below 1/3", "1/3 to 2/3", "above 2/3")[min(2, int(share * 3))]
