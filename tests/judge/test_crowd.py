"""What others have of the machine: what is neither idle nor the judge's own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.judge import crowd
from bottega.judge.crowd import UNKNOWN, Crowd

SECOND = 1_000_000_000


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two cores of three, a clock and a runner, all of them at 0."""
    state = SimpleNamespace(now=0, own=0, runner=SimpleNamespace(used_ns=0), stat=tmp_path / "stat")
    tick = os.sysconf("SC_CLK_TCK")

    def write(*idle_seconds: float) -> None:
        rows = [f"cpu{core} 9 9 9 {round(seconds * tick)} 0 9 9 9" for core, seconds in enumerate(idle_seconds)]
        state.stat.write_text("cpu 1 2 3 4 5\n" + "\n".join(rows) + "\nintr 1\n")

    state.write = write
    write(0, 0, 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2})
    monkeypatch.setattr(crowd.time, "monotonic_ns", lambda: state.now)
    monkeypatch.setattr(crowd.time, "process_time_ns", lambda: state.own)
    return state


def test_what_is_neither_idle_nor_our_own_is_others(machine: Any) -> None:
    counted = Crowd([machine.runner], machine.stat)
    machine.now, machine.own, machine.runner.used_ns = 2 * SECOND, SECOND // 2, SECOND
    machine.write(1.5, 0, 1.0)  # of four core seconds 2.5 were idle and 1.5 ours
    assert counted.permille() == 0
    machine.write(0.5, 0, 1.0)
    assert counted.permille() == 500  # half a core, for two seconds


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3", "cpu0 1 2 3 4 5\n", "cpu0 a b c d e\ncpu2 1 2 3 4 5\n"])
def test_where_nothing_is_told_nothing_is_quiet(machine: Any, text: str) -> None:
    counted = Crowd([machine.runner], machine.stat)
    machine.now = SECOND
    machine.stat.write_text(text)
    assert counted.permille() == UNKNOWN
    machine.stat.unlink()
    assert counted.permille() == UNKNOWN


def test_this_machine_tells() -> None:
    counted = Crowd([])
    time.sleep(0.05)
    assert 0 <= counted.permille() <= 1000 * (os.cpu_count() or 1) + 500
