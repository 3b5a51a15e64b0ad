"""Which kernel of a build that nobody judged is shown: by what endings were worth where they were judged, in the same language and level."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hand_teacher import task
from judged_records import timed, wrong

from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep, BuildSteps
from bottega.core.candidate import Candidate
from bottega.core.verdict import Verdict
from bottega.data.records import JudgedTask, TeacherRecord, task_record_of
from bottega.data.unjudged import BELIEF, DOUBTED, LEAST, MOST, TRUSTED, Endings, ending_of, unjudged

LIBRARY, OWN, CAPTURED = (), ("own",), ("captured",)
STEPS = {LIBRARY: FIRST_ATTEMPT, OWN: "own_product", CAPTURED: "captured"}
PLACE = ("triton", 2, False)


def judged_task(
    points: dict[tuple[str, ...], float | None], judged: bool = True, level: int | None = 2, sizes: dict | None = None
) -> JudgedTask:
    """A build of one kernel for each ending; None is a wrong one."""
    task_record = task_record_of(replace(task("silu_chain"), level=level))
    steps: list[BuildStep] = []
    verdicts: dict[str, Verdict] = {}
    for ending, point in points.items():
        source = f"class ModelNew: '{'_'.join(ending)}'\n" + "# more\n" * (sizes or {}).get(ending, 0)
        parent = steps[0].candidate.id if steps and ending else None
        candidate = Candidate(source, "triton", name="_".join(ending) or "library", parent=parent)
        steps.append(BuildStep(candidate, STEPS[ending], ""))
        verdicts[candidate.id] = wrong() if point is None else timed(point, 1.0)
    build = BuildSteps(task_record.task.id, "triton", "hand", tuple(steps))
    return JudgedTask(
        task_record,
        "triton",
        (TeacherRecord(task_record.task.id, "triton", "hand", build=build),),
        (),
        verdicts if judged else {},
    )


def shown(endings: Endings, level: int | None = 2, **more: object) -> tuple[str, ...]:
    """The ending that is chosen of a build that has all three and no verdict."""
    attempt = endings.chosen(judged_task({LIBRARY: 1.0, OWN: 1.0, CAPTURED: 1.0}, judged=False, level=level, **more))
    assert attempt is not None
    return ending_of(attempt)


def test_before_anything_was_judged_the_library_is_believed_in() -> None:
    endings = Endings()
    assert endings.worth(PLACE, LIBRARY) == pytest.approx(TRUSTED)
    assert endings.worth(PLACE, OWN) == pytest.approx(DOUBTED)
    assert shown(endings) == LIBRARY


def test_worth_is_a_geometric_mean_with_the_belief_in_it_and_bounds_on_what_counts() -> None:
    endings = Endings()
    endings.see(judged_task({LIBRARY: 1.2, OWN: 40.0, CAPTURED: None}), "eager")
    means = {LIBRARY: (1.2, TRUSTED), OWN: (MOST, DOUBTED), CAPTURED: (LEAST, DOUBTED)}
    for ending, (speed, believed) in means.items():
        low = endings.worth(PLACE, ending)
        assert low <= math.exp((math.log(speed) + BELIEF * math.log(believed)) / (1 + BELIEF)) + 1e-9
    assert endings.worth(PLACE, CAPTURED) < endings.worth(PLACE, LIBRARY) < endings.worth(PLACE, OWN)
    assert endings.worth(PLACE, OWN) == pytest.approx((MOST * DOUBTED**BELIEF) ** (1 / (1 + BELIEF)))
    assert endings.worth(PLACE, CAPTURED) == pytest.approx((LEAST * DOUBTED**BELIEF) ** (1 / (1 + BELIEF)))


def test_the_ending_that_was_worth_most_is_shown() -> None:
    endings = Endings()
    for _ in range(8):
        endings.see(judged_task({LIBRARY: 1.0, OWN: 2.0, CAPTURED: 1.5}), "eager")
    assert shown(endings) == OWN


def test_other_languages_levels_and_kinds_of_tasks_say_nothing() -> None:
    endings = Endings()
    for _ in range(8):
        endings.see(judged_task({LIBRARY: 1.0, OWN: 2.0, CAPTURED: 1.0}, level=2), "eager")
    assert shown(endings, level=3) == LIBRARY and shown(endings, level=None) == LIBRARY
    assert endings.worth(("cpp", 2, False), OWN) == endings.worth(("triton", 2, True), OWN) == pytest.approx(DOUBTED)


def test_of_two_that_are_worth_the_same_the_shorter_is_shown() -> None:
    endings = Endings()
    for _ in range(20):
        endings.see(judged_task({LIBRARY: 0.1, OWN: 9.0, CAPTURED: 9.0}), "eager")
    assert shown(endings, sizes={OWN: 50}) == CAPTURED and shown(endings, sizes={CAPTURED: 50}) == OWN


def test_a_kernel_that_does_not_parse_is_never_shown() -> None:
    broken = judged_task({LIBRARY: 1.0}, judged=False)
    (record,) = broken.teacher_records
    step = record.build.steps[0]
    worse = replace(record.build, steps=(replace(step, candidate=replace(step.candidate, source="def (")),))
    assert Endings().chosen(replace(broken, teacher_records=(replace(record, build=worse),))) is None
    assert Endings().chosen(replace(broken, teacher_records=())) is None


def test_a_judged_task_is_unjudged_without_a_verdict_on_any_build() -> None:
    assert unjudged(judged_task({LIBRARY: 1.0}, judged=False)) and not unjudged(judged_task({LIBRARY: None}))
