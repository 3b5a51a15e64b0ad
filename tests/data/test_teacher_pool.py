"""Teaching in sandboxes: a teacher that dies, hangs, raises or refuses costs one build, and the next is taught all the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hand_teacher import Hand, task

from bottega.core.errors import UsageError
from bottega.data.drafts import BUILDER
from bottega.data.records import TeacherRecord
from bottega.data.teacher_pool import InProcessTeacherPool, SandboxTeacherPool, TeacherSpec, _read

HOSTILE = """\
import os, pathlib, sys
import bottega.compiler.draft_compiler as compiler
compiler.DraftCompiler.build = None
def reached(path):
    try:
        pathlib.Path(path).touch()
    except OSError:
        pass
reached(MARK)
secret = pathlib.Path(SECRET).exists()
"""
STEP: dict[str, Any] = {
    "candidate": {"source": "x", "language": "cpp", "name": "a", "parent": None},
    "technique": "naive",
    "cards": ["card"],
    "summary": "one",
}


@pytest.mark.rotates
def test_one_bad_build_costs_no_other() -> None:
    good = task("silu_chain")
    bad = {name: replace(good, name=name) for name in ("kills_itself", "hangs", "raises", "unknown")}

    async def all_of(pool: SandboxTeacherPool) -> dict[str, object]:
        named = {**bad, "good": good}
        found = await asyncio.gather(*(pool.teach(one, "cpp") for one in named.values()))
        again = await pool.teach(good, "cpp", 1, frozenset(("vectorised",)))
        return {**dict(zip(named, found)), "again": again}

    with SandboxTeacherPool(TeacherSpec("hand_teacher:Hand"), processes=2, timeout=3.0) as pool:
        assert (pool.teacher, pool.varies) == ("hand 1", True)
        found = asyncio.run(all_of(pool))
    assert "SIGKILL" in found["kills_itself"].failed  # type: ignore[attr-defined]
    assert "within 3 seconds" in found["hangs"].failed  # type: ignore[attr-defined]
    assert found["raises"].failed == "RuntimeError: this teacher has a bug"  # type: ignore[attr-defined]
    assert "no kernel of unknown" in found["unknown"].refused and not found["unknown"].failed  # type: ignore[attr-defined]
    assert found["good"].build == Hand().build(good, "cpp")  # type: ignore[attr-defined]
    assert len(found["again"].build.steps) == 1 and found["again"].without == ("vectorised",)  # type: ignore[attr-defined]


@pytest.mark.rotates
def test_a_teacher_that_is_not_there_is_said_at_once() -> None:
    for place in ("no.such.module:Teacher", "hand_teacher:Nobody"):
        with pytest.raises(UsageError, match=r"cannot be imported|has no Nobody"):
            SandboxTeacherPool(TeacherSpec(place), 1)


def test_a_teacher_that_cannot_vary_refuses_to() -> None:
    class Stubborn:
        name = "stubborn 1"
        teach = Hand.teach
        _build = Hand.build

    pool = InProcessTeacherPool(Stubborn())  # type: ignore[arg-type]
    assert not pool.varies
    record = asyncio.run(pool.teach(task("silu_chain"), "cpp", 0, frozenset(("vectorised",))))
    assert "cannot leave out vectorised" in record.refused


@pytest.mark.rotates
def test_a_tasks_code_reaches_neither_the_machine_nor_the_next_task(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    tmp_path.chmod(0o777)
    before = HOSTILE.replace("MARK", repr(str(tmp_path / "mark"))).replace("SECRET", repr(str(tmp_path / "secret")))
    good = task("tanh_chain")
    hostile = replace(good, source=before + good.source)
    seen = replace(good, source=f"{before}\nassert secret\n{good.source}")

    async def both(pool: SandboxTeacherPool) -> list[TeacherRecord]:
        return [await pool.teach(one, "cpp") for one in (hostile, seen, good)]

    with SandboxTeacherPool(TeacherSpec(BUILDER), 1, 60.0) as pool:
        first, looked, last = asyncio.run(both(pool))
        assert pool._idle[0].asked == 3, "one sandbox for all of them"
    assert not (tmp_path / "mark").exists()
    assert "AssertionError" in looked.refused + looked.failed
    assert first.build is None or last.build is not None
    assert last.build is not None and "ModelNew" in last.build.steps[0].candidate.source


@pytest.mark.parametrize(
    "steps",
    [
        5,
        "text",
        [5],
        [{}],
        [{**STEP, "summary": None}],
        [{**STEP, "cards": 7}],
        [{**STEP, "candidate": {**STEP["candidate"], "parent": 3}}],
        [{**STEP, "candidate": {**STEP["candidate"], "source": "\ud800"}}],
    ],
)
def test_an_answer_that_is_no_build_is_a_failure_of_that_task(steps: object) -> None:
    blank = TeacherRecord("id", "cpp", "hand 1")
    assert _read(blank, {"steps": steps}).failed == "its answer cannot be read"
    read = _read(blank, {"steps": [STEP]}).build
    assert read is not None and read.steps[0].cards == ("card",) and read.teacher == "hand 1"


def test_what_a_build_is_of_is_not_the_answers_to_say() -> None:
    candidate = {**STEP["candidate"], "language": "cuda"}
    read = _read(TeacherRecord("id", "cpp", "hand 1"), {"steps": [{**STEP, "candidate": candidate}], "task_id": "other"}).build
    assert read is not None and (read.task_id, read.language, read.steps[0].candidate.language) == ("id", "cpp", "cpp")
