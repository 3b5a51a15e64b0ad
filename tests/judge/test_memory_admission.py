"""Admission, with a judge's real processes on a CPU and a pretended GPU: nothing is allocated there, everything else is as on a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge.memory_holder import Holder
from judge.pretend_gpu import PretendGpu

from bottega.core.candidate import Candidate
from bottega.core.errors import JudgeError, TaskError
from bottega.core.task import Task
from bottega.judge import memory_ledger
from bottega.judge.judge import Judge
from bottega.judge.memory_admission import AdmittedTask, MemoryAdmission
from bottega.judge.memory_ledger import MemoryLedger
from bottega.judge.memory_need import CONTEXT_BYTES, FIXED_BYTES, MemoryEstimate
from bottega.judge.memory_rules import RESERVE_BYTES
from bottega.languages import candidate_from

GIB = 1 << 30
TOTAL = 24 * GIB + RESERVE_BYTES

SOURCE = """
import os
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        BODY
        return x * FACTOR

def get_inputs():
    return [torch.randn(SHAPE)]

def get_init_inputs():
    return []
"""
NO_MEMORY = 'raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")'


def task(factor: int = 2, body: str = "pass", shape: str = "64, 64") -> Task:
    return Task(SOURCE.replace("BODY", body).replace("FACTOR", str(factor)).replace("SHAPE", shape), name=f"times {factor}")


def candidate(factor: int = 2, body: str = "pass") -> Candidate:
    return candidate_from(task(factor, body).source.replace("class Model(", "class ModelNew("))


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendGpu:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return PretendGpu(tmp_path / "gpu.json").set(TOTAL, 0)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        judge = Judge("cpu", workers=2, timeout=60, quick=True, timed=False, memory_gb=4)
        judge._pool.machine()
    with judge:
        yield judge


@pytest.fixture
def admitting(wide: Judge, gpu: PretendGpu) -> Iterator[Judge]:
    """The one judge of this module, with a ledger as if it were on a GPU."""
    wide._pool.free_memory(1 << 60)
    for session in wide._pool.idle:
        session.close()
    wide._pool.idle.clear()
    wide._pool.admission = MemoryAdmission(MemoryLedger("cuda:0", gpu), wide._pool.free_memory, lambda: wide._pool.closed)
    yield wide
    for session in wide._pool.idle:
        session.close()
    wide._pool.idle.clear()
    while wide._pool.spares:
        wide._pool.free_memory(1 << 60)
    wide._pool.admission = None


def sizes(judge: Judge) -> list[int]:
    """What sessions have claimed; spare processes apart."""
    assert judge._pool.admission is not None
    return sorted(entry.size for entry in judge._pool.admission.ledger.state().held if entry.size != CONTEXT_BYTES)


@pytest.mark.rotates
def test_an_open_task_has_claimed_what_it_was_estimated_to_need(admitting: Judge) -> None:
    verdict = admitting.judge(task(), candidate())
    assert verdict.correct, verdict.diagnosis
    assert verdict.stages_s["admission"] >= 0
    assert sizes(admitting) == [4 * 2 * 64 * 64 * 4 + FIXED_BYTES]
    assert "admission" not in admitting.judge(task(), candidate()).stages_s  # it was up
    assert sizes(admitting) == [4 * 2 * 64 * 64 * 4 + FIXED_BYTES]


@pytest.mark.rotates
def test_idle_tasks_make_room_the_one_unused_for_longest_first(admitting: Judge, gpu: PretendGpu) -> None:
    gpu.set(int(7 * GIB), 0)  # three small tasks
    for factor in (2, 3, 4, 5):
        assert admitting.judge(task(factor), candidate(factor)).correct
    assert {session.task.name for session in admitting._pool.idle} <= {"times 3", "times 4", "times 5"}
    assert "times 5" in {session.task.name for session in admitting._pool.idle}


@pytest.mark.rotates
def test_a_judge_that_does_nothing_gives_way_to_another_process(admitting: Judge, tmp_path: Path) -> None:
    assert admitting.judge(task(), candidate()).correct
    assert sizes(admitting)
    other = Holder(tmp_path, 23.5)
    try:
        assert other.said(60) == "held"
    finally:
        other.kill()
    assert admitting._pool.idle == []


@pytest.mark.rotates
def test_a_task_that_is_returned_while_somebody_waits_is_closed(admitting: Judge, tmp_path: Path) -> None:
    slow = task(2, "__import__('time').sleep(0.3)")
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(admitting.judge(slow, candidate()).correct))
    thread.start()
    while not sizes(admitting):
        time.sleep(0.01)
    other = Holder(tmp_path, 23.5)
    try:
        assert other.said(60) == "held"  # after the verdict, not before
        thread.join(60)
        assert found == [True]
        assert admitting._pool.idle == []
    finally:
        other.kill()


@pytest.mark.rotates
def test_a_task_that_no_such_gpu_can_hold_is_refused_with_the_figures(admitting: Judge, gpu: PretendGpu) -> None:
    gpu.set(24_000_000_000, 0)
    verdict = admitting.judge(task(shape="4096, 393216"), candidate())
    assert verdict.outcome == "invalid_task"
    assert "needs about 54 GB on the device (inputs 6.4, outputs 6.4, parameters 0.0, workspace 0.0), the GPU has 24" in (
        verdict.diagnosis
    )


@pytest.mark.rotates
def test_a_task_that_finds_no_memory_is_tried_alone_and_then_refused(admitting: Judge, gpu: PretendGpu) -> None:
    hungry = task(2, f"if type(x) is torch.Tensor: {NO_MEMORY}")  # not while it is estimated
    admitting.judge(task(3), candidate(3))
    verdict = admitting.judge(hungry, candidate())
    assert verdict.outcome == "invalid_task"
    assert "does not fit the memory of the empty GPU, 26 GB" in verdict.diagnosis
    assert "\n" not in verdict.diagnosis
    assert admitting._pool.idle == []  # the other one had to go for the second try
    assert sizes(admitting) == []


@pytest.mark.rotates
def test_nobody_is_blamed_where_other_processes_hold_the_gpu(
    admitting: Judge, gpu: PretendGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_ledger, "WHOLE_WAIT_SECONDS", 0.2)
    gpu.set(TOTAL, 21 * GIB)
    with pytest.raises(JudgeError, match=r"found 3.2 GB of the GPU's 26 free.*process 4711"):
        admitting.judge(task(2, f"if type(x) is torch.Tensor: {NO_MEMORY}"), candidate())
    with pytest.raises(JudgeError, match="others hold the rest"):
        admitting.judge(task(), candidate(2, NO_MEMORY))
    assert sizes(admitting) == []


@pytest.mark.rotates
def test_a_task_that_ran_short_beside_others_is_judged_when_it_is_alone(
    admitting: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds too little memory until it is to have the GPU alone."""
    admission, environment = admitting._pool.admission, admitting._pool.machine().environment
    assert admission is not None
    require_whole_gpu = admission.require_whole_gpu

    def leave_room(admitted: AdmittedTask) -> None:
        del environment["TASK_RUNS_SHORT"]
        require_whole_gpu(admitted)

    monkeypatch.setattr(admission, "require_whole_gpu", leave_room)
    monkeypatch.setitem(environment, "TASK_RUNS_SHORT", "1")
    short = f"""
    made = torch.randn(64, 64)
    if type(made) is torch.Tensor and "TASK_RUNS_SHORT" in os.environ:
        {NO_MEMORY}
    return [made]
"""
    source = task().source.replace("    return [torch.randn(64, 64)]\n", short)
    verdict = admitting.judge(Task(source, name="short"), candidate())
    assert "TASK_RUNS_SHORT" not in environment
    assert verdict.correct, verdict.diagnosis
    assert admitting._pool.idle == []  # one that has the GPU alone is not kept
    assert sizes(admitting) == []


@pytest.mark.rotates
def test_a_task_that_runs_short_while_it_is_inspected_is_inspected_alone(
    admitting: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission, alone = admitting._pool.admission, []
    assert admission is not None
    require_whole_gpu = admission.require_whole_gpu
    monkeypatch.setattr(admission, "require_whole_gpu", lambda admitted: (alone.append(1), require_whole_gpu(admitted)))
    short = f"""
    made = torch.randn(64, 64)
    import traceback
    if type(made) is torch.Tensor and any(frame.name == "inspect_task" for frame in traceback.extract_stack()):
        {NO_MEMORY}
    return [made]
"""
    source = task().source.replace("    return [torch.randn(64, 64)]\n", short)
    with pytest.raises(TaskError, match="does not fit the memory of the empty GPU"):
        admitting.fitness(Task(source, name="short"))
    assert alone == [1] and sizes(admitting) == []


@pytest.mark.rotates
def test_a_candidate_that_takes_all_the_memory_alone_on_the_gpu_has_itself_to_blame(admitting: Judge) -> None:
    verdict = admitting.judge(task(), candidate(2, NO_MEMORY))
    assert verdict.outcome == "runtime_error", verdict.diagnosis
    assert "out of memory" in verdict.diagnosis


@pytest.mark.rotates
def test_candidates_of_one_task_share_it_while_nobody_has_waited_for_long(admitting: Judge, tmp_path: Path) -> None:
    verdicts = admitting.judge_many(task(), [candidate(2), candidate(3), candidate(2)])
    assert [verdict.correct for verdict in verdicts] == [True, False, True]
    assert sum("admission" in verdict.stages_s for verdict in verdicts) == 1


def test_a_claim_is_corrected_by_what_was_seen_and_remembered(gpu: PretendGpu) -> None:
    ledger = MemoryLedger("cuda:0", gpu)
    admission = MemoryAdmission(ledger)
    estimate = MemoryEstimate(inputs=GIB, outputs=GIB)

    def never() -> MemoryEstimate:
        raise AssertionError("what was seen is known")

    first = admission.admit("a task", "key", lambda: estimate, 1, False)
    assert first.claim.size == 10 * GIB
    admission.opened(first, {})
    assert first.claim.size == 10 * GIB
    admission.opened(first, {"peak_bytes": 3 * GIB})
    assert first.claim.size == 4 * GIB + CONTEXT_BYTES
    first.claim.release()
    again = admission.admit("a task", "key", never, 1, False)
    assert again.claim.size == 4 * GIB + CONTEXT_BYTES
    admission.opened(again, {"peak_bytes": 20 * GIB})
    assert again.claim.size == 21 * GIB + CONTEXT_BYTES
    again.claim.release()


def test_an_estimate_beyond_the_gpu_is_tried_alone(gpu: PretendGpu) -> None:
    admission = MemoryAdmission(MemoryLedger("cuda:0", gpu))
    found = admission.admit("a task", "key", lambda: MemoryEstimate(inputs=4 * GIB, outputs=4 * GIB), 1, False)
    assert found.alone and found.on_empty_gpu
    assert "needs about 37 GB" in str(admission.refusal(found)) and "the GPU has 26" in str(admission.refusal(found))
    found.claim.release()


@pytest.mark.rotates
def test_a_task_that_was_checked_waits_a_while_for_its_first_candidate(admitting: Judge, tmp_path: Path) -> None:
    slow = task(2, "__import__('time').sleep(0.3)")
    looking = threading.Thread(target=lambda: admitting.fitness(slow))
    looking.start()
    while not sizes(admitting):
        time.sleep(0.01)
    other = Holder(tmp_path, 23.5)
    try:
        looking.join(60)
        assert "admission" not in admitting.judge(slow, candidate()).stages_s  # it was still up
        assert other.said(60) == "held"
        assert admitting._pool.idle == []
    finally:
        other.kill()


@pytest.mark.rotates
def test_a_task_that_was_checked_gives_way_when_nobody_comes(admitting: Judge, tmp_path: Path) -> None:
    admitting.fitness(task())
    other = Holder(tmp_path, 23.5)
    try:
        assert other.said(60) == "held"
        assert admitting._pool.idle == []
    finally:
        other.kill()


def test_a_candidate_beside_a_model_that_stays_is_to_blame_where_the_task_had_plenty(gpu: PretendGpu) -> None:
    ledger = MemoryLedger("cuda:0", gpu)
    admission = MemoryAdmission(ledger)
    with ledger.claim(2 * GIB, "a task") as claim:
        found = AdmittedTask("a task", "key", claim, MemoryEstimate(), 2 * GIB, TOTAL, alone=True)
        claim.room = 18 * GIB
        assert admission.candidate_ran_short(found) is None
        claim.room = 3 * GIB
        assert isinstance(admission.candidate_ran_short(found), JudgeError)
