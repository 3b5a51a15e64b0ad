"""Teaching in processes: a teacher that dies, hangs, raises or refuses costs one build, and the next is taught all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hand_teacher import Hand, task

from bottega.core.errors import UsageError
from bottega.data.teacher_pool import InProcessTeacherPool, ProcessTeacherPool, TeacherSpec


@pytest.mark.rotates
def test_one_bad_build_costs_no_other() -> None:
    good = task("silu_chain")
    bad = {name: replace(good, name=name) for name in ("kills_itself", "hangs", "raises", "unknown")}

    async def all_of(pool: ProcessTeacherPool) -> dict[str, object]:
        named = {**bad, "good": good}
        found = await asyncio.gather(*(pool.teach(one, "cpp") for one in named.values()))
        again = await pool.teach(good, "cpp", 1, frozenset(("vectorised",)))
        return {**dict(zip(named, found)), "again": again}

    with ProcessTeacherPool(TeacherSpec("hand_teacher:Hand"), processes=2, timeout=3.0) as pool:
        assert (pool.teacher, pool.varies) == ("hand 1", True)
        found = asyncio.run(all_of(pool))
    assert "SIGKILL" in found["kills_itself"].failed  # type: ignore[attr-defined]
    assert "within 3 seconds" in found["hangs"].failed  # type: ignore[attr-defined]
    assert found["raises"].failed == "RuntimeError: this teacher has a bug"  # type: ignore[attr-defined]
    assert "no kernel of unknown" in found["unknown"].refused and not found["unknown"].failed  # type: ignore[attr-defined]
    assert found["good"].build == Hand().build(good, "cpp")  # type: ignore[attr-defined]
    assert len(found["again"].build.steps) == 1 and found["again"].without == ("vectorised",)  # type: ignore[attr-defined]


def test_a_teacher_that_is_not_there_is_said_at_once() -> None:
    for place in ("no.such.module:Teacher", "hand_teacher:Nobody"):
        with pytest.raises(UsageError, match=r"cannot be imported|has no Nobody"):
            ProcessTeacherPool(TeacherSpec(place), 1)


def test_a_teacher_that_cannot_vary_refuses_to() -> None:
    class Stubborn:
        name = "stubborn 1"
        teach = Hand.teach
        _build = Hand.build

    pool = InProcessTeacherPool(Stubborn())  # type: ignore[arg-type]
    assert not pool.varies
    record = asyncio.run(pool.teach(task("silu_chain"), "cpp", 0, frozenset(("vectorised",))))
    assert "cannot leave out vectorised" in record.refused
