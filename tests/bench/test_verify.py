"""What a second verdict says of the first, which kernels are drawn, and what a record that was tampered with gives away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.small_bench import FakeJudge, forged, judged_by, run, task_folder, writing
from episodes.decay import answer, kernel

from bottega.bench.attempt import BenchAttempt
from bottega.bench.leaderboard import disagreements, read_record
from bottega.bench.run_directory import ATTEMPTS, BENCH, KERNELS, LEADERBOARD, TASKS, read_run
from bottega.bench.verify import Checked, compared, kernels_of, sampled_from, verify
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome, Speedup, Verdict

BLANK = Checked("relu", "abc", "faster", "not judged", None)


def verdict(outcome: Outcome, low: float = 0.0, high: float = 0.0) -> Verdict:
    speedup = {"eager": Speedup((low + high) / 2, low, high)} if outcome.accepted else {}
    return Verdict(outcome, outcome.accepted, speedup, diagnosis="It is so.")


FASTER = verdict(Outcome.FASTER, 1.4, 1.6)


@pytest.mark.parametrize(
    "then, now, same, holds",
    [
        (FASTER, verdict(Outcome.FASTER, 1.5, 1.8), True, True),
        (FASTER, verdict(Outcome.AMBIGUOUS, 0.9, 1.45), True, True),
        (FASTER, verdict(Outcome.SAME, 0.98, 1.02), True, False),
        (FASTER, verdict(Outcome.FASTER, 2.0, 2.2), True, False),
        (FASTER, verdict(Outcome.INCORRECT), True, False),
        (FASTER, verdict(Outcome.TIMEOUT), True, False),
        (FASTER, verdict(Outcome.INVALID_TASK), True, None),
        (verdict(Outcome.SLOWER, 0.5, 0.6), verdict(Outcome.REJECTED), True, False),
        (verdict(Outcome.INCORRECT), verdict(Outcome.RUNTIME_ERROR), True, True),
        (verdict(Outcome.INCORRECT), FASTER, True, False),
        (FASTER, verdict(Outcome.SLOWER, 0.5, 0.6), False, True),
        (FASTER, verdict(Outcome.INCORRECT), False, False),
        (FASTER, verdict(Outcome.COMPILE_ERROR), False, None),
        (verdict(Outcome.COMPILE_ERROR), FASTER, False, None),
        (verdict(Outcome.REJECTED), FASTER, False, False),
    ],
)
def test_a_second_verdict_and_the_first(then: Verdict, now: Verdict, same: bool, holds: bool | None) -> None:
    found = compared(BLANK, then, now, same)
    assert found.holds is holds and found.now == now.outcome.value
    assert bool(found.why) is (holds is not True)


def test_a_part_is_drawn_at_random_and_the_same_for_a_seed() -> None:
    every = [BenchAttempt("a", n, 0, FASTER, f"{n:016}", "cpp", 0, 0, 0.0, 0.0, ()) for n in range(50)]
    assert len(sampled_from(every, 0.1, None, 0)) == 5 and len(sampled_from(every, 0.001, None, 0)) == 1
    assert len(sampled_from(every, 0.1, 70, 0)) == 50 and sampled_from([], 0.5, None, 0) == []
    assert sampled_from(every, 0.1, None, 3) == sampled_from(every, 0.1, None, 3) != sampled_from(every, 0.1, None, 4)
    for share, count in ((0.0, None), (1.5, None), (0.1, 0)):
        with pytest.raises(UsageError):
            sampled_from(every, share, count, 0)


def test_nobody_knows_before_what_is_judged_again(folder: Path, monkeypatch: Any) -> None:
    """A choice that the record's writer could foretell would leave the forged kernels out."""

    async def unjudged(run: Any, drawn: Any, *more: Any) -> list[Checked]:
        return [replace(BLANK, candidate=attempt.candidate) for attempt in drawn]

    monkeypatch.setattr("bottega.bench.verify._checked", unjudged)  # which are drawn is the question, not what is found
    seeds = {asyncio.run(verify(folder, ["cpu"], count=1)).seed for _ in range(3)}
    assert len(seeds) == 3, "chance decides"
    one, two = (asyncio.run(verify(folder, ["cpu"], count=1, seed=7)) for _ in range(2))
    assert one.seed == two.seed == 7 and one.to_json()["seed"] == 7
    assert [each.candidate for each in one.checked] == [each.candidate for each in two.checked]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    judged_by(monkeypatch, FakeJudge())
    lines = [answer(kernel(speed)) for speed in (2.0, "incorrect", 1.3)]
    assert run(tmp_path / "run", task_folder(tmp_path), writing(), lines).whole
    return tmp_path / "run"


def better(folder: Path) -> None:
    record = json.loads((folder / LEADERBOARD).read_text())
    record["metrics"]["eager"]["groups"][0]["correct"]["point"] = 1.0
    (folder / LEADERBOARD).write_text(json.dumps(record))


@pytest.mark.parametrize(
    "change, told",
    [
        (forged(ATTEMPTS, '"outcome":"incorrect"', '"outcome":"faster"'), ["was changed after", "do not follow"]),
        (forged(TASKS, "torch.relu(x)", "x"), ["not the one that its id names", "the tasks"]),
        (forged(BENCH, '"quick": false', '"quick": true'), ["settings", "do not follow"]),
        (better, ["do not follow"]),
        (lambda folder: next((folder / KERNELS).iterdir()).write_text("pass"), ["a kernel was changed"]),
        (lambda folder: next((folder / KERNELS).iterdir()).unlink(), ["a kernel was changed or is missing"]),
    ],
)
def test_a_tampered_record_gives_itself_away(folder: Path, change: Callable[[Path], Any], told: list[str]) -> None:
    assert disagreements(read_run(folder), read_record(folder)[1]) == []
    change(folder)
    found = disagreements(read_run(folder), read_record(folder / LEADERBOARD)[1])
    assert len(found) == len(told) and all(part in line for part, line in zip(told, found)), found


def test_a_record_says_who_what_and_where(folder: Path) -> None:
    record = read_record(folder)[1]
    assert record["model"] == "x" and record["judge"] and record["fingerprint"]["cpu"]
    assert record["settings"]["samples"] == 1 and set(record["hashes"]) == {"tasks", "attempts", "kernels"}
    every = record["metrics"]["eager"]["groups"][0]
    assert every["tasks"] == 3 and every["outcomes"]["faster"] == 2 and "grid" not in every
    assert len(kernels_of(read_run(folder))) == 3


def test_what_is_no_record_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such record"):
        read_record(tmp_path)
    (tmp_path / LEADERBOARD).write_text("{")
    with pytest.raises(UsageError, match="is no record that can be read"):
        read_record(tmp_path)
    (tmp_path / LEADERBOARD).write_text('{"hashes": {}}')
    with pytest.raises(UsageError, match="is no record of a benchmark run"):
        read_record(tmp_path)
