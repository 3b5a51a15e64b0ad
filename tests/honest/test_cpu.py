"""Honest CPU kernels, however suspicious they look, are accepted without a violation."""

from __future__ import annotations

import pytest
from corpus import Specimen, every_second_is_slow, specimens

HONEST = specimens("honest/cpu")


@pytest.mark.parametrize("honest", every_second_is_slow(HONEST))
def test_honest_kernel_is_accepted(judge, honest: Specimen) -> None:
    verdict = judge.judge(honest.task, honest.candidate(), **honest.options)
    seen = f"{verdict.outcome} {verdict.violations}: {verdict.diagnosis}"
    assert verdict.outcome in honest.expect, seen
    assert verdict.correct, seen
    assert verdict.violations == (), seen
