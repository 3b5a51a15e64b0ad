"""Every CUDA attack gets the verdict that its own header names, and a kernel judged after it meets a healthy device.

One at a time: an attack that takes all of a device's memory takes it from the judges of its neighbours too, whose tasks then find none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from corpus import TESTS, Specimen, read, specimens

from bottega.core.verdict import Verdict
from bottega.judge.judge import Judge

pytestmark = pytest.mark.gpu

ATTACKS = specimens("attacks/cuda")
BREAKS_THE_DEVICE = ("illegal_access", "device_assert", "endless_kernel", "hoard_device_memory", "scan_the_neighbourhood")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(device="cuda") as judge:
        yield judge


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_attack_is_seen(judge: Judge, attack: Specimen) -> None:
    verdict = judge.judge(attack.task, attack.candidate(), **attack.options)
    names = {violation.name for violation in verdict.violations}
    seen = f"{verdict.outcome} {sorted(names)}: {verdict.diagnosis}"
    assert verdict.outcome != "faster", seen
    assert verdict.outcome in attack.expect, seen
    assert not attack.violations or names & attack.violations, seen


@pytest.mark.parametrize("name", BREAKS_THE_DEVICE)
def test_next_candidate_is_judged_as_if_nothing_had_happened(judge: Judge, name: str) -> None:
    attack = read(TESTS / "attacks" / "cuda" / f"{name}.py")
    honest = read(TESTS / "honest" / "cuda" / "nvrtc_relu.py")
    judge.judge(attack.task, attack.candidate(), **attack.options)
    verdict = judge.judge(honest.task, honest.candidate(), quick=True)
    assert verdict.outcome in honest.expect, f"{verdict.outcome} {verdict.violations}: {verdict.diagnosis}"


def test_a_candidate_that_is_built_makes_no_other_one_faster() -> None:
    """Two that are of one mind, judged at the same time."""
    hog, partner = (
        read(TESTS / "attacks" / "cuda_together" / f"{name}.py")
        for name in ("hog_while_it_is_built", "say_by_memory_whose_turn_it_is")
    )

    async def together(judge: Judge) -> list[Verdict]:
        await judge.judge_async(partner.task, partner.candidate())  # the task is open, and its own time known
        building = asyncio.ensure_future(judge.judge_async(hog.task, hog.candidate(), timeout=60))
        await asyncio.sleep(4.0)
        found = [await judge.judge_async(partner.task, partner.candidate()) for _ in range(3)]
        await building
        return found

    with Judge(device="cuda", workers=2) as judge:
        verdicts = asyncio.run(together(judge))
    told = [(verdict.outcome, verdict.speedup, verdict.times_ms, verdict.notes, verdict.violations) for verdict in verdicts]
    print(*told, sep="\n")
    assert all(verdict.outcome in partner.expect for verdict in verdicts), told
