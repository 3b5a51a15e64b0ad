"""Honest CUDA kernels: joined streams, graphs, autotuning, atomics and split precision are no cheats."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from corpus import Specimen, specimens

from bottega.judge.judge import Judge

pytestmark = pytest.mark.gpu

HONEST = specimens("honest/cuda")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(device="cuda") as judge:
        yield judge


@pytest.mark.parametrize("honest", HONEST, ids=lambda honest: honest.id)
def test_honest_kernel_is_accepted(judge: Judge, honest: Specimen) -> None:
    verdict = judge.judge(honest.task, honest.candidate(), **honest.options)
    seen = f"{verdict.outcome} {verdict.violations}: {verdict.diagnosis}"
    assert verdict.outcome in honest.expect, seen
    assert verdict.correct, seen
    assert verdict.violations == (), seen
