"""The judge as a user holds it: timed verdicts, kernels of every language, many candidates at once, and after trouble."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from module_task import module_task

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

SOURCE = module_task("torch.exp(torch.sin(x)) * FACTOR", "torch.randn(512, 1024)")
KERNEL = r"""
import torch
import torch.nn as nn
from bottega.runtime import cpp

library = cpp('''
#include <cmath>
#include <cstdint>
extern "C" void fused(const float* x, float* y, int64_t n) {
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = std::exp(std::sin(x[i])) * 2.f;
}
''')

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        library.fused(x, y, x.numel())
        return y
"""


def task(factor: int = 2) -> Task:
    return Task(SOURCE.replace("FACTOR", str(factor)), name=f"times {factor}")


def library_only(factor: int = 2) -> Candidate:
    return candidate_from(SOURCE.replace("FACTOR", str(factor)).replace("class Model(", "class ModelNew("))


SLOWER = candidate_from(
    SOURCE.replace("class Model(", "class ModelNew(").replace(
        "torch.exp(torch.sin(x)) * FACTOR", "sum(torch.exp(torch.sin(x)) for _ in range(6)) / 3"
    )
)


def test_a_verdict_is_whole(judge: Judge) -> None:
    verdict = judge.judge(task(), SLOWER, quick=True)
    assert verdict.outcome in ("slower", "ambiguous"), verdict.diagnosis  # ambiguous where the machine is busy
    assert verdict.correct
    speedup = verdict.speedup["eager"]
    assert 0 < speedup.low <= speedup.point <= speedup.high
    assert set(verdict.times_ms) == {"candidate", "eager", "floor"}
    assert all(milliseconds > 0 for milliseconds in verdict.times_ms.values())
    assert verdict.error["oracle"] == "fp64"
    assert verdict.error["candidate"] <= verdict.error["limit"]
    assert verdict.coverage["method"]
    assert {"parts", "missing"} <= set(verdict.sandbox)
    assert verdict.fingerprint["settings"]["quick"] is True
    assert {"build", "trials", "timing", "coverage", "total"} <= set(verdict.stages_s)
    assert (verdict.task_id, verdict.candidate_id) == (task().id, SLOWER.id)
    assert "× the speed of eager" in verdict.diagnosis
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json(), allow_nan=False))) == verdict


def test_many_candidates_of_a_task_share_what_was_brought_up(judge: Judge) -> None:
    before = len(judge._pool.idle)
    candidates = [library_only(2), library_only(3), candidate_from("")]
    verdicts = judge.judge_many(task(), candidates, quick=True, timed=False)
    assert [verdict.candidate_id for verdict in verdicts] == [candidate.id for candidate in candidates]
    assert [verdict.correct for verdict in verdicts] == [True, False, False]
    assert len(judge._pool.idle) <= max(before, 1)


@pytest.mark.rotates
def test_own_kernels_are_seen_and_library_calls_are_not(judge: Judge) -> None:
    kernel = judge.judge(task(), candidate_from(KERNEL), quick=True, require_kernel=0.8)
    assert kernel.outcome.accepted, kernel.diagnosis
    assert kernel.coverage["share"] > 0.8
    assert kernel.coverage["own"] == ["fused"]
    library = judge.judge(task(), library_only(), quick=True, require_kernel=0.5)
    assert library.outcome == "rejected", library.diagnosis
    assert library.correct
    assert library.violations[0].name == "coverage_too_low"


@pytest.mark.rotates
def test_a_decoy_is_rejected_without_being_asked_for(judge: Judge) -> None:
    decoy = candidate_from(KERNEL.replace("library.fused(x, y, x.numel())", "return torch.exp(torch.sin(x)) * 2"))
    verdict = judge.judge(task(), decoy)  # in full: a small share must rest on many samples, and a busy machine gives few
    assert verdict.outcome == "rejected", verdict.diagnosis
    assert "decoy_kernel" in {violation.name for violation in verdict.violations}


def test_a_kernel_that_does_not_compile_shows_the_compiler_s_line(judge: Judge) -> None:
    verdict = judge.judge(task(), candidate_from(KERNEL.replace("std::exp(std", "std::exp(typo::std")), quick=True)
    assert verdict.outcome == "compile_error", verdict.diagnosis
    assert "line 6" in verdict.diagnosis
    assert "typo" in verdict.diagnosis


TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < n)
    tl.store(y + places, values * 2, mask=places < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubled[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""
DOUBLING = Task(SOURCE.replace("torch.exp(torch.sin(x)) * FACTOR", "x * 2").replace("(512, 1024)", "(5, 100)"), name="doubling")


def test_triton_on_a_cpu_is_judged_for_its_values_only(judge: Judge) -> None:
    verdict = judge.judge(DOUBLING, candidate_from(TRITON), quick=True)
    assert verdict.outcome == "ambiguous", verdict.diagnosis
    assert verdict.correct
    assert verdict.speedup == {}
    assert any("not timed" in note for note in verdict.notes)
    wrong = judge.judge(DOUBLING, candidate_from(TRITON.replace("values * 2", "values * 3")), quick=True)
    assert wrong.outcome == "incorrect"
    assert "times 1.5" in wrong.diagnosis


def test_mentioning_triton_is_no_way_around_a_required_share(judge: Judge) -> None:
    library = SOURCE.replace("FACTOR", "2").replace("class Model(", "class ModelNew(")
    verdict = judge.judge(task(), candidate_from("import triton\n" + library), quick=True, require_kernel=0.9)
    assert not verdict.outcome.accepted, verdict.diagnosis


def test_wrong_usage_raises_and_costs_nothing(judge: Judge) -> None:
    with pytest.raises(UsageError, match="speed"):
        judge.judge(task(), library_only(), speed=11)
    with pytest.raises(UsageError, match="baseline"):
        judge.judge(task(), library_only(), baselines=("fast",))
    with pytest.raises(UsageError, match="between 0 and 1"):
        judge.judge(task(), library_only(), require_kernel=7)


@pytest.mark.rotates
def test_a_candidate_that_does_not_end_times_out_and_the_next_is_judged(judge: Judge) -> None:
    endless = candidate_from(KERNEL.replace("library.fused(x, y, x.numel())", "while True: pass"))
    verdict = judge.judge(task(), endless, quick=True, timeout=2.0)
    assert verdict.outcome is Outcome.TIMEOUT
    assert "2 s" in verdict.diagnosis
    assert judge.judge(task(), library_only(), quick=True, timed=False).correct


@pytest.fixture(scope="module")
def wide() -> Iterator[Judge]:
    with Judge("cpu", workers=2, timeout=30, quick=True, timed=False, memory_gb=2.0) as judge:
        yield judge


@pytest.mark.slow
def test_many_candidates_on_two_tasks_at_once(wide: Judge) -> None:
    async def all_at_once() -> list[Verdict]:
        pairs = [(task(on), library_only(by)) for on in (2, 3) for by in (2, 3)]
        return await asyncio.gather(*(wide.judge_async(on, by) for on, by in pairs))

    verdicts = asyncio.run(all_at_once())
    assert [verdict.correct for verdict in verdicts] == [True, False, False, True]
    assert [verdict.task_id for verdict in verdicts] == [task(on).id for on in (2, 2, 3, 3)]
    assert [verdict.candidate_id for verdict in verdicts] == [library_only(by).id for by in (2, 3, 2, 3)]


@pytest.mark.rotates
def test_a_failure_among_many_stays_alone(wide: Judge) -> None:
    async def some() -> list[Verdict | BaseException]:
        bad = candidate_from("import os; os.abort()")
        broken = Task("def (", name="broken")
        work = [wide.judge_async(task(), bad), wide.judge_async(broken, bad), wide.judge_async(task(), library_only())]
        return await asyncio.gather(*work, wide.judge_async(task(), bad, speed=11), return_exceptions=True)

    died, invalid, fine, wrong = asyncio.run(some())
    assert isinstance(died, Verdict) and died.outcome == "runtime_error"
    assert isinstance(invalid, Verdict) and invalid.outcome == "invalid_task"
    assert isinstance(fine, Verdict) and fine.correct
    assert isinstance(wrong, UsageError)


@pytest.mark.rotates
def test_a_task_that_needs_more_memory_than_it_may_have(wide: Judge) -> None:
    hungry = SOURCE.replace("torch.exp(torch.sin(x)) * FACTOR", "x + torch.ones(1 << 30)[0]")
    verdict = wide.judge(Task(hungry, name="hungry"), library_only())
    assert verdict.outcome == "invalid_task", verdict.diagnosis
    assert "memory" in verdict.diagnosis
    assert "\n" not in verdict.diagnosis
    assert wide.judge(task(), library_only()).correct


@pytest.mark.rotates
def test_a_controller_that_was_killed_while_idle_is_replaced(wide: Judge) -> None:
    """As the system does when memory runs out, between two verdicts."""
    assert wide.judge(task(), library_only()).correct
    for session in wide._pool.idle:
        for sandbox in session.sandboxes:
            sandbox.kill()
    verdict = wide.judge(task(), library_only())
    assert verdict.correct, verdict.diagnosis


def test_closing_twice_is_safe_and_a_closed_judge_says_so() -> None:
    judge = Judge("cpu", quick=True, timed=False)
    judge.close()
    judge.close()
    with pytest.raises(JudgeError, match="closed"):
        judge.judge(task(), library_only())
