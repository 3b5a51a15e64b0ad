"""Every CUDA attack gets the verdict that its own header names, and a kernel judged after it meets a healthy device.

One at a time: an attack that takes all of a device's memory takes it from the judges of its neighbours too, whose tasks then find none.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from corpus import TESTS, Specimen, read, specimens

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
