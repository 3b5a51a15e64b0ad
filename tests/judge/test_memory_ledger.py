"""The ledger, between real processes on a pretended GPU: they claim, wait, are killed, and nobody starves or is forgotten."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from judge.memory_holder import Holder
from judge.pretend_gpu import PretendGpu
from waiting import until

from bottega.core.errors import JudgeError
from bottega.judge import memory_ledger
from bottega.judge.memory_ledger import MemoryLedger
from bottega.judge.memory_rules import RESERVE_BYTES

GIB = 1 << 30
TOTAL = 24 * GIB + RESERVE_BYTES


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendGpu:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return PretendGpu(tmp_path / "gpu.json").set(TOTAL, 0)


@pytest.fixture
def ledger(gpu: PretendGpu) -> MemoryLedger:
    return MemoryLedger("cuda:0", gpu)


@pytest.fixture
def hold(tmp_path: Path, gpu: PretendGpu) -> Iterator[Callable[..., Holder]]:
    holders: list[Holder] = []

    def start(size: float, *options: str) -> Holder:
        holders.append(Holder(tmp_path, size, *options))
        return holders[-1]

    yield start
    for holder in holders:
        holder.process.kill()
        holder.process.communicate()


def test_who_finds_too_little_waits_and_small_ones_go_on(hold, ledger: MemoryLedger) -> None:
    first = hold(16)
    assert first.said(60) == "held"
    large = hold(12)
    until(lambda: ledger.waiting() == 12 * GIB)
    assert large.said(0.1) == ""
    assert ledger.missing() == 4 * GIB
    small = hold(4)
    assert small.said(60) == "held"
    small.release()
    first.release()
    assert large.said(60) == "held"
    assert ledger.waiting() == 0


def test_a_killed_holder_lets_go_and_a_killed_waiter_leaves_the_queue(hold, ledger: MemoryLedger) -> None:
    first = hold(20)
    assert first.said(60) == "held"
    waiter, second = hold(22), hold(10)
    until(lambda: len(ledger.state().waiting) == 2)
    waiter.kill()
    assert [entry.size for entry in ledger.state().waiting] == [10 * GIB]
    first.kill()
    assert second.said(60) == "held"
    assert [entry.size for entry in ledger.state().held] == [10 * GIB]
    second.kill()
    assert ledger.state().entries == ()


@pytest.mark.rotates
def test_a_large_one_is_not_starved_by_a_stream_of_small_ones(hold, ledger: MemoryLedger) -> None:
    """Three processes take and give back 6 of 24 GiB without a pause; one wants 22."""
    stop = threading.Event()
    taken = [0, 0, 0]

    def stream(number: int) -> None:
        while not stop.is_set():
            with ledger.claim(6 * GIB, f"small {number}"):
                taken[number] += 1
                time.sleep(0.05)

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: sum(taken) > 3)
        large = hold(22)
        assert large.said(60) == "held"
        before = sum(taken)
        time.sleep(0.2)
        assert sum(taken) == before  # and wait now
        large.release()
        until(lambda: sum(taken) > before)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert ledger.state().entries == ()


def test_the_whole_gpu_is_had_alone_and_others_wait(hold, ledger: MemoryLedger) -> None:
    model, one, two = hold(1, "persistent"), hold(2), hold(3)
    assert (model.said(60), one.said(60), two.said(60)) == ("held", "held", "held")
    whole = hold(5, "whole")
    until(lambda: ledger.waiting() == TOTAL)
    assert whole.said(0.1) == ""
    one.release()
    two.kill()
    assert whole.said(60) == "held"  # beside the persistent one
    late = hold(1)
    assert late.said(0.1) == ""
    whole.release()
    assert late.said(60) == "held"


def test_two_who_want_the_whole_gpu_have_it_one_after_the_other(hold) -> None:
    one = hold(1, "whole")
    assert one.said(60) == "held"
    two, three = hold(1, "whole"), hold(1, "whole")
    assert (two.said(0.1), three.said(0.1)) == ("", "")
    one.kill()
    waiting = [two, three]
    while not (had := [one for one in waiting if one.said(0.1) == "held"]):
        pass
    (first,), (second,) = had, [one for one in waiting if one not in had]
    assert second.said(0.1) == ""
    first.release()
    assert second.said(60) == "held"


def test_a_persistent_claim_that_does_not_shrink_is_worked_around(
    hold, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_ledger, "WHOLE_WAIT_SECONDS", 0.3)
    model = hold(10, "persistent")
    assert model.said(60) == "held"
    with ledger.claim(0, "alone", whole=True) as claim:
        assert claim.room == 14 * GIB
        assert claim.waited > 0.3


def test_a_claim_shrinks_always_and_grows_only_where_nobody_waits(hold, ledger: MemoryLedger) -> None:
    model = hold(10, "persistent")
    assert model.said(60) == "held"
    model.tell("resize 20")
    assert model.said(60) == "True"
    waiter = hold(8)
    until(ledger.waiting)
    model.tell("resize 21")
    assert model.said(60) == "False"
    model.tell("resize 16")
    assert model.said(60) == "True"
    assert waiter.said(60) == "held"
    model.tell("resize 17")
    assert model.said(60) == "False"
    model.tell("correct 18")  # as it is, whether or not it fits
    assert model.said(60) == "None"
    assert sorted(entry.size // GIB for entry in ledger.state().held) == [8, 18]


def test_what_can_be_had_at_once_or_not_at_all(hold, ledger: MemoryLedger) -> None:
    with ledger.claim(20 * GIB, "first"):
        spare = ledger.try_claim(GIB, "spare")
        assert spare is not None
        assert ledger.try_claim(5 * GIB, "too much") is None
        waiter = hold(10)
        until(ledger.waiting)
        assert ledger.try_claim(GIB, "beside one who waits") is None
        spare.release()
        spare.release()
    assert waiter.said(60) == "held"


def test_other_processes_are_counted_even_behind_a_claim_that_is_not_used_yet(ledger: MemoryLedger, gpu: PretendGpu) -> None:
    gpu.set(TOTAL, 8 * GIB)
    with ledger.claim(10 * GIB, "not used yet") as first:
        state = ledger.state()
        assert state.foreign_bytes == 8 * GIB
        assert state.room(first.entry) == 16 * GIB
        gpu.set(TOTAL, 18 * GIB)  # used now
        assert ledger.state().foreign_bytes == 8 * GIB
        gpu.set(TOTAL, 22 * GIB)  # and another process came
        assert ledger.state().foreign_bytes == 12 * GIB
        gpu.set(TOTAL, 3 * GIB)
        assert ledger.state().foreign_bytes == 3 * GIB


def test_other_processes_who_do_not_make_room_are_named_and_no_verdict_is_given(
    ledger: MemoryLedger, gpu: PretendGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_ledger, "WARN_SECONDS", 0.1)
    gpu.set(TOTAL, 20 * GIB)
    said: list[str] = []
    with pytest.raises(JudgeError, match=r"a task: needs about 11 GB.*claim nothing 21 GB \(process 4711\)"):
        ledger.claim(10 * GIB, "a task", warn=said.append, patience=0.3)
    (line,) = said
    assert "a task waits" in line and "21 GB" in line
    assert ledger.state().entries == ()
    with ledger.claim(3 * GIB, "a small task") as claim:
        assert claim.room == 4 * GIB
    with pytest.raises(JudgeError, match="needs about 107 GB on cuda:0, which has 26"):
        ledger.claim(100 * GIB, "too large")


def test_a_waiter_gives_way_and_may_give_up(hold, ledger: MemoryLedger) -> None:
    own = ledger.claim(16 * GIB, "idle session")
    asked: list[int] = []

    def free_memory(size: int) -> None:
        asked.append(size)
        own.release()

    with ledger.claim(12 * GIB, "next", free_memory=free_memory):
        assert asked == [4 * GIB]
        with pytest.raises(JudgeError, match="closed"):
            ledger.claim(16 * GIB, "closed meanwhile", cancelled=lambda: True)
    assert ledger.state().entries == ()


def test_a_gpu_that_cannot_be_asked_grants_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Silent:
        def memory(self) -> None:
            return None

        def holders(self) -> str:
            return ""

    ledger = MemoryLedger("cuda:0", Silent())
    with ledger.claim(1 << 50, "one"), ledger.claim(1 << 50, "two"), ledger.claim(0, "three", whole=True):
        pass


def test_a_file_from_before_a_restart_means_nothing(ledger: MemoryLedger) -> None:
    with ledger.claim(20 * GIB, "first"):
        kept = ledger.path.read_bytes()
    ledger.path.write_bytes(kept)  # held, by its text; but nobody lives who holds it
    assert ledger.state().entries == ()
    ledger.path.write_bytes(os.urandom(4096))
    with ledger.claim(20 * GIB, "second"):
        assert len(ledger.state().entries) == 1


STORM = """
import random, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from judge.pretend_gpu import PretendGpu
from bottega.judge.memory_ledger import MemoryLedger
ledger = MemoryLedger("cuda:0", PretendGpu(Path(sys.argv[2])))
chance = random.Random(int(sys.argv[3]))
for number in range(int(sys.argv[4])):
    size = chance.choice([1, 2, 6, 12, 23]) << 30
    with ledger.claim(size, "storm", whole=chance.random() < 0.1) as claim:
        state = ledger.state()
        assert sum(entry.size for entry in state.held) <= state.total, state
        claim.resize(size // 2)
        time.sleep(chance.random() * 0.02)
print("done", flush=True)
"""


def test_a_storm_of_claims_and_kills_ends_with_nobody_left_and_never_too_much(
    tmp_path: Path, gpu: PretendGpu, ledger: MemoryLedger
) -> None:
    tests = str(Path(__file__).parent.parent)

    def start(seed: int, claims: int) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-c", STORM, tests, str(gpu.path), str(seed), str(claims)]
        return subprocess.Popen(arguments, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE)

    steady = [start(seed, 25) for seed in range(3)]
    chance = random.Random(7)
    doomed: list[subprocess.Popen[bytes]] = []
    for seed in range(4):
        victim = start(100 + seed, 10**6)
        doomed.append(victim)
        deadline = time.monotonic() + 30
        while not any(entry.process == victim.pid for entry in ledger.state().entries) and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chance.random() * 0.1)
        victim.kill()  # in the middle of whatever it does
        victim.communicate()
    for process in steady:
        assert process.communicate(timeout=120)[0] == b"done\n"
    assert ledger.state().entries == ()
