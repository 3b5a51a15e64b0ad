"""Every CPU attack gets the verdict that its own header names; none is ever called faster, or right when it is wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from corpus import Specimen, rotating, specimens

ATTACKS = specimens("attacks/cpu")
SHARED_PLACES = {Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path(tempfile.gettempdir()), Path.home(), Path.cwd()}


def leftovers() -> list[Path]:
    """Files that attacks leave where a later run would find them; they all begin with one name."""
    return [path for place in SHARED_PLACES for path in place.glob("bottega-leftover-*")]


@pytest.mark.parametrize("attack", rotating(ATTACKS))
def test_attack_is_seen(judge, attack: Specimen) -> None:
    verdict = judge.judge(attack.task, attack.candidate(), **attack.options)
    names = {violation.name for violation in verdict.violations}
    seen = f"{verdict.outcome} {sorted(names)}: {verdict.diagnosis}"
    assert verdict.outcome != "faster", seen
    assert verdict.outcome in attack.expect, seen
    assert not attack.violations or names & attack.violations, seen
    assert not (verdict.correct and verdict.outcome == "incorrect"), seen
    assert leftovers() == []
