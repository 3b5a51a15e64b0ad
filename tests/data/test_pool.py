"""Teaching in processes: a teacher that dies, hangs, raises or refuses costs one course, and the next is taught all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hand_teacher import Hand, task

from bottega.core.errors import UsageError
from bottega.data.pool import Appointment, Classrooms, OwnClassroom


def test_one_bad_course_costs_no_other() -> None:
    good = task("silu_chain")
    bad = {name: replace(good, name=name) for name in ("kills_itself", "hangs", "raises", "unknown")}

    async def all_of(room: Classrooms) -> dict[str, object]:
        named = {**bad, "good": good}
        found = await asyncio.gather(*(room.lecture(one, "cpp") for one in named.values()))
        again = await room.lecture(good, "cpp", 1, frozenset(("vectorised",)))
        return {**dict(zip(named, found)), "again": again}

    with Classrooms(Appointment("hand_teacher:Hand"), processes=2, timeout=3.0) as room:
        assert (room.teacher, room.varies) == ("hand 1", True)
        found = asyncio.run(all_of(room))
    assert "SIGKILL" in found["kills_itself"].failed  # type: ignore[attr-defined]
    assert "within 3 seconds" in found["hangs"].failed  # type: ignore[attr-defined]
    assert found["raises"].failed == "RuntimeError: this teacher has a bug"  # type: ignore[attr-defined]
    assert "no kernel of unknown" in found["unknown"].refused and not found["unknown"].failed  # type: ignore[attr-defined]
    assert found["good"].course == Hand().build(good, "cpp")  # type: ignore[attr-defined]
    assert len(found["again"].course.steps) == 1 and found["again"].without == ("vectorised",)  # type: ignore[attr-defined]


def test_a_teacher_that_is_not_there_is_said_at_once() -> None:
    for place in ("no.such.module:Teacher", "hand_teacher:Nobody"):
        with pytest.raises(UsageError, match="cannot be had"):
            Classrooms(Appointment(place), 1)


def test_a_teacher_that_cannot_vary_refuses_to() -> None:
    class Stubborn:
        name = "stubborn 1"
        teach = Hand.teach
        _build = Hand.build

    room = OwnClassroom(Stubborn())  # type: ignore[arg-type]
    assert not room.varies
    lecture = asyncio.run(room.lecture(task("silu_chain"), "cpp", 0, frozenset(("vectorised",))))
    assert "cannot leave out vectorised" in lecture.refused
