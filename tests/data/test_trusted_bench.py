"""The trusting bench with real compilers and real processes: right, wrong, crashing and hanging kernels, and workers that are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from hand_teacher import Hand, task

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.trusted.apart import Apart
from bottega.data.trusted.bench import TrustedBench
from bottega.data.trusted.room import TaskRoom, _sum
from bottega.data.trusted.trust import NOTE
from bottega.judge.device import DeviceCare
from bottega.judge.lease import Lease, open_lease
from bottega.judge.settings import Settings

TASK = task("silu_chain")
SLOW, FAST, BOTH = (step.candidate for step in Hand().build(TASK, "cpp").steps)
CALL = "x.shape[0], x.shape[1])"


def changed(old: str, new: str, name: str) -> Candidate:
    assert old in FAST.source
    return Candidate(FAST.source.replace(old, new), "cpp", name, FAST.id)


def judged(bench: TrustedBench, candidates: list[Candidate], of: Task = TASK) -> tuple[dict[str, Verdict], list[str]]:
    found: dict[str, Verdict] = {}
    troubles: list[str] = []
    bench.judge(of, candidates, lambda candidate, verdict: found.update({candidate.name: verdict}), troubles.append)
    return found, troubles


@pytest.mark.parametrize("start", range(9))
def test_what_lies_anywhere_in_a_storage_is_summed_up(start: int) -> None:
    kept = torch.arange(64, dtype=torch.uint8)
    part = kept[start : start + 21]
    before = int(_sum(part))
    kept[start + 20] += 1
    assert int(_sum(part)) != before


@pytest.mark.slow
def test_right_wrong_and_crashing_kernels_get_their_verdicts() -> None:
    wrong = changed("0.75f", "0.5f", "wrong")
    half = changed(CALL, "x.shape[0] // 2, x.shape[1])", "half")  # the memory may hold the right answer of the one before
    raises = changed("x = x.contiguous()", "x = x.contiguous().reshape(7, -1)", "raises")
    mutates = changed("        return y", "        x.add_(1)\n        return y", "mutates")
    crashes = changed("x = x.contiguous()", "import ctypes; ctypes.string_at(0)", "crashes")
    broken = changed("const float v", "const flaot v", "broken")
    renamed = Candidate(BOTH.source.replace("self.scale", "self.gain"), "cpp", "renamed")
    with TrustedBench("cpu", workers=1, limit=60) as bench:
        found, troubles = judged(bench, [SLOW, FAST, half, wrong, crashes, raises, mutates, broken, renamed, BOTH])
        assert bench.replaced["died"] == 2 and bench.replaced["timeout"] == 0 and bench.faults == []
        assert bench.spent["building"] > 0 and bench.spent["timing"] > 0
    assert troubles == [] and len(found) == 10
    for name in ("slow", "fast", "both"):
        verdict = found[name]
        assert verdict.outcome.accepted and verdict.correct and "× the speed of eager" in verdict.diagnosis
        assert NOTE in verdict.notes and verdict.error["oracle"] == "fp64" and len(verdict.error["variants"]) == 3
    assert found["half"].outcome is Outcome.INCORRECT and "were never written" in found["half"].diagnosis
    assert found["wrong"].outcome is Outcome.INCORRECT and "On plain inputs: the output is wrong" in found["wrong"].diagnosis
    assert found["raises"].outcome is Outcome.RUNTIME_ERROR and "While calling forward" in found["raises"].diagnosis
    assert found["mutates"].outcome is Outcome.REJECTED and "input_mutated" in found["mutates"].diagnosis
    assert found["crashes"].outcome is Outcome.RUNTIME_ERROR and "segmentation fault" in found["crashes"].diagnosis
    assert found["broken"].outcome is Outcome.COMPILE_ERROR and "flaot" in found["broken"].diagnosis
    assert found["renamed"].outcome.accepted and any("secret seed" in note for note in found["renamed"].notes)
    assert all(verdict.fingerprint["settings"]["quick"] for verdict in found.values())
    assert Verdict.from_json(found["fast"].to_json()) == found["fast"]


@pytest.mark.slow
def test_a_kernel_that_hangs_is_ended_and_the_others_go_on() -> None:
    torch_only = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        {} x + x\n"
    doubles = Task(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n",
        "doubles",
        "doubles",
    )
    hangs = Candidate(torch_only.format("while True: pass\n        return"), "torch", "hangs")
    right = Candidate(torch_only.format("return"), "torch", "right")
    with TrustedBench("cpu", workers=1, limit=3) as bench:
        found, troubles = judged(bench, [hangs, right], doubles)
        assert bench.replaced["timeout"] >= 2
    assert troubles == [] and found["right"].outcome.accepted
    assert found["hangs"].outcome is Outcome.TIMEOUT and "did not finish within 3 s" in found["hangs"].diagnosis


@pytest.mark.slow
def test_a_killed_worker_costs_no_kernel_its_verdict(tmp_path: Path) -> None:
    marker = tmp_path / "began"
    pause = f"import os, time; os.path.exists({str(marker)!r}) or (open({str(marker)!r}, 'w').close(), time.sleep(60))"
    slow_once = changed("x = x.contiguous()", f"{pause}; x = x.contiguous()", "slow once")
    with TrustedBench("cpu", workers=1) as bench:

        def kill() -> None:
            while not marker.exists():
                time.sleep(0.02)
            (seat,) = bench._alive
            os.kill(seat.pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        found, troubles = judged(bench, [FAST, slow_once, BOTH])
        thread.join()
        assert bench.replaced["died"] == 1
    assert troubles == [] and len(found) == 3 and all(verdict.outcome.accepted for verdict in found.values())


@pytest.mark.slow
def test_a_task_that_cannot_be_judged_says_so_and_a_closed_bench_raises() -> None:
    constant = Task(TASK.source.replace("torch.randn(rows, features)", "torch.ones(rows, features)"), "constant", "constant")
    with TrustedBench("cpu", workers=1) as bench:
        found, _ = judged(bench, [FAST, BOTH], constant)
        assert [verdict.outcome for verdict in found.values()] == [Outcome.INVALID_TASK]
        assert "same contents every time" in found["fast"].diagnosis
        again, _ = judged(bench, [FAST])
        assert again["fast"].outcome.accepted
    with pytest.raises(JudgeError, match="closed"):
        judged(bench, [FAST])
    with pytest.raises(UsageError, match="at least one worker"):
        TrustedBench("cpu", workers=0)


def test_what_a_wrong_kernel_wrote_into_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    room = TaskRoom(TASK, Settings(), "cpu", DeviceCare("cpu"), Apart(Lease(open_lease("cpu")), lambda begins: None))
    room.open()
    before = room.draws("loaded")
    assert room.look_again() and room.draws("loaded") is before
    for damaged in (before[1].outputs[0], before[0].pieces[0].outputs[0], before[2].drawn.tensors[0], room.eager.module.scale):
        kept = room.draws("loaded")
        with torch.no_grad():
            damaged.view(-1)[5] += 1
        if damaged is room.eager.module.scale:
            assert not room.look_again() and torch.equal(damaged.detach(), room.reference.random_state["scale"])
        elif any(damaged is tensor for one in kept for tensor in one.tensors()):
            assert not room.look_again() and room.draws("loaded") is not kept


@pytest.mark.gpu
def test_triton_kernels_on_a_gpu_with_one_that_breaks_the_device() -> None:
    source = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def double_it(x, y, n, far, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at + far, 2 * tl.load(x + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        double_it[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), FAR, BLOCK=1024)
        return y
"""
    of = Task(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + x\n"
        "def get_inputs():\n    return [torch.randn(4096, 1024)]\ndef get_init_inputs():\n    return []\n",
        "double",
        "double",
    )
    right = Candidate(source.replace("FAR", "0"), "triton", "right")
    wrong = Candidate(source.replace("FAR", "0").replace("2 * tl", "3 * tl"), "triton", "wrong")
    illegal = Candidate(source.replace("FAR", "1 << 40"), "triton", "illegal")
    after = Candidate(right.source + "\n# again\n", "triton", "after")
    with TrustedBench("cuda", workers=2) as bench:
        found, troubles = judged(bench, [right, wrong, illegal, after], of)
        assert bench.faults == [] and bench.replaced["poisoned"] == 2
    assert troubles == []
    assert found["right"].outcome.accepted and found["after"].outcome.accepted
    assert found["wrong"].outcome is Outcome.INCORRECT and "times 1.5" in found["wrong"].diagnosis
    assert found["illegal"].outcome is Outcome.RUNTIME_ERROR and "illegal memory access" in found["illegal"].diagnosis
    assert found["right"].coverage["share"] is None or found["right"].coverage["share"] > 0.5
