"""How long own kernels are looked for on a CPU."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.judge import coverage_stage
from bottega.judge.coverage import SAMPLES_FOR_A_DECOY, Coverage


def looked(monkeypatch: pytest.MonkeyPatch, beside: bool, seen_in: int, seconds: float = 3600.0) -> tuple[int, Coverage]:
    """How many windows there were, where own kernels are in one of them, and what was found."""
    windows: list[int] = []

    def coverage(samples: object, claimed: object) -> Coverage:
        own = ("relu",) if len(windows) > seen_in else ()
        return Coverage(0.0, "samples", own=own, samples=SAMPLES_FOR_A_DECOY)

    def sample(run: object, options: object, core_ns: list[int]) -> dict[str, Any]:
        windows.append(1)
        core_ns.append(1000)
        return {"by_file": {}}

    monkeypatch.setattr(coverage_stage, "cpu_coverage", coverage)
    monkeypatch.setattr(coverage_stage, "_sample", sample)
    monkeypatch.setattr(coverage_stage, "_leaves_products_only", lambda run, options: beside)
    monkeypatch.setattr(coverage_stage, "in_timed_calls", lambda coverage, *_: coverage)
    budget = SimpleNamespace(end=time.monotonic() + seconds)
    run: Any = SimpleNamespace(claimed=("relu",), budget=budget, samples={}, timed_core_ns=0.0)
    nothing: Any = None
    found = coverage_stage._sampled_coverage(run, nothing)
    return len(windows), found


def test_a_small_kernel_beside_products_is_looked_for_until_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a window has three calls, of which each shows it once in fifteen."""
    windows, found = looked(monkeypatch, beside=True, seen_in=30)
    assert windows == 31 and found.beside_products


def test_whoever_leaves_more_to_the_library_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, found = looked(monkeypatch, beside=False, seen_in=30)
    assert windows == 1 and not found.beside_products


@pytest.mark.parametrize(("seconds", "windows"), [(3600.0, 75), (0.0, 15)])
def test_it_ends(monkeypatch: pytest.MonkeyPatch, seconds: float, windows: int) -> None:
    found = looked(monkeypatch, beside=True, seen_in=1000, seconds=seconds)
    assert found[0] == windows and not found[1].beside_products
