"""A card is tried on tasks that were drawn, at the sizes that it speaks of, and is in the library at once; a second call judges nothing
again."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import growing_search
import pytest
from growing_rows import told_card
from growing_search import SERVED, Follower, Growth, techniques

from bottega.compiler.choice_places import ChoicePlace
from bottega.core.candidate import Candidate
from bottega.core.skill import SkillState
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.conditions import around


class Judge:
    """Texts that end in `fast` take half the time."""

    workers = 2

    def __init__(self) -> None:
        self.verdicts = 0

    def judge(self, task: Task, candidate: Candidate, **_: Any) -> Verdict:
        self.verdicts += 1
        point = 2.0 if candidate.source.endswith("fast") else 1.0
        speedup = {"eager": Speedup(point, 0.99 * point, 1.01 * point)}
        return Verdict(
            Outcome.FASTER, speedup=speedup, times_ms={"candidate": 1 / point}, coverage={"share": 1.0}, task_id=task.id,
            candidate_id=candidate.id,
        )  # fmt: skip

    def judge_many(self, task: Task, candidates: list[Candidate], **_: Any) -> list[Verdict]:
        return [self.judge(task, each) for each in candidates]


def follower(number: int, columns: int = 256, faster: bool = True) -> Follower:
    task = Task(f"number = {number}", f"task{number}")
    place = ChoicePlace("rows", "rows", {"rows": 4096, "columns": columns})
    texts = [Candidate(f"{number} {word}", "triton", "ModelNew") for word in ("fast" if faster else "same", "slow")]
    card = told_card(place, "float32", "rows_of=512, warps=1", {"columns": around(columns)})
    return Follower("rows", "rows", task, texts[0], texts[1], card, place.sizes)


def grown(tmp_path: Path, every: list[Follower], judge: Any, seconds: float = 60.0) -> dict[str, SkillState]:
    growth = Growth(tmp_path, every, judge, time.monotonic() + seconds)
    growth.grow(10, growth.end)
    found = {card.name: card.state for card in growth.library.cards()}
    growth.library.close()
    return found


def test_it_grows_and_judges_nothing_twice(tmp_path: Path) -> None:
    every, judge = [follower(number) for number in range(4)], Judge()
    assert list(grown(tmp_path, every, judge).values()) == [SkillState.ADMITTED], "one card for all four"
    first = judge.verdicts
    again = 4 * growing_search.RULES.least_rounds // SERVED
    assert first > 8 + again, "measured, judged more than once, and winners again"
    assert list(grown(tmp_path, every, judge).values()) == [SkillState.ADMITTED] and judge.verdicts == first


def test_what_helps_one_task_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [follower(number, faster=number == 0) for number in range(4)]
    monkeypatch.setattr(Growth, "promise", lambda *_: 1.0)
    assert list(grown(tmp_path / "gate", every, Judge()).values()) == [SkillState.PROPOSED]


def test_the_gate_is_not_asked_for_what_gained_nowhere_else(tmp_path: Path) -> None:
    every = [follower(number) for number in range(4)]
    slower = [dataclasses.replace(one, followed=one.other, other=one.followed) for one in every]
    assert not grown(tmp_path, slower, Judge())


def test_a_proof_that_runs_out_of_time_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, judge = [follower(number) for number in range(4)], Judge()
    real, left = growing_search.BatchingJudge.judge, iter(range(6))

    def cut(self: Any, *given: Any, **options: Any) -> Verdict:
        if next(left, None) is None:
            raise growing_search.OutOfTimeError("the time is over")
        return real(self, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(growing_search.BatchingJudge, "judge", cut)
        assert list(grown(tmp_path, every, judge).values()) == [SkillState.PROPOSED]
    assert list(grown(tmp_path, every, judge).values()) == [SkillState.ADMITTED]


def test_siblings_are_those_that_a_card_speaks_of(tmp_path: Path) -> None:
    every = [follower(0), follower(1), follower(2, columns=100_000)]
    growth = Growth(tmp_path, every, Judge(), time.monotonic() + 60)  # type: ignore[arg-type]
    assert [task.name for task in growth.siblings(every[0])] == ["task1"]
    assert not growth.siblings(every[2])
    growth.library.close()


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_no_two_techniques_are_the_same_passes(language: str) -> None:
    found = techniques(language)
    passes = [name for _, some in found.values() for name in some]
    assert len(found) > 8 and len(passes) == len(set(passes))
    assert all(language in card.languages for card, _ in found.values())
    assert all(card.state is SkillState.PROPOSED for card, _ in found.values())
