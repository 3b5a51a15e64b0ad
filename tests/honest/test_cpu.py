"""Honest CPU kernels, however suspicious they look, are accepted without a violation."""

from __future__ import annotations

import pytest
from corpus import Specimen, rotating, specimens

HONEST = specimens("honest/cpu")


@pytest.mark.parametrize("honest", rotating(HONEST))
def test_honest_kernel_is_accepted(judge, honest: Specimen) -> None:
    verdict = judge.judge(honest.task, honest.candidate(), **honest.options)
    seen = f"{verdict.outcome} {verdict.violations}: {verdict.diagnosis}"
    assert verdict.outcome in honest.expect, seen
    assert verdict.correct, seen
    assert verdict.violations == (), seen
