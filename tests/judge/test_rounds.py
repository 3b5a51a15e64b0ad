"""Signs against a candidate in its timed rounds, work left on a device or a forged clock: what is seen once is looked at again."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.judge import rounds, timing
from bottega.judge.call_record import CallRecord
from bottega.judge.clocks import TimedPair
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.rounds import Rounds, left_behind, timed_call
from bottega.judge.timed_outputs import TimedOutputs
from bottega.judge.worker_link import RunnerFailed

MILLISECOND = 1_000_000


def test_equal_settling_accuses_nobody() -> None:
    assert left_behind(Rounds(settles={"candidate": [MILLISECOND] * 8, "eager": [MILLISECOND] * 8})) == ""


def test_work_left_behind_is_told_with_both_times() -> None:
    told = left_behind(Rounds(settles={"candidate": [4 * MILLISECOND] * 8, "eager": [MILLISECOND] * 8}))
    assert "1 ms" in told
    assert "4 ms" in told


def test_a_few_slow_ones_are_the_machine_s() -> None:
    settles = {"candidate": [MILLISECOND] * 6 + [50 * MILLISECOND] * 3, "eager": [MILLISECOND] * 9}
    assert left_behind(Rounds(settles=settles)) == ""


def test_too_few_rounds_say_nothing() -> None:
    assert left_behind(Rounds(settles={"candidate": [90 * MILLISECOND] * 3, "eager": [MILLISECOND] * 3})) == ""
    assert left_behind(Rounds()) == ""


def evaluated(monkeypatch: pytest.MonkeyPatch, *batches: Rounds, alone_ms: float = 0.0) -> tuple[dict[str, Any], int]:
    """What the evaluation of a GPU's kernel finds in its timed rounds, batch after batch, and how many it ran."""
    taken = iter(batches)
    count = 0

    def one_batch(*_: object, **__: object) -> Rounds:
        nonlocal count
        count += 1
        return next(taken)

    monkeypatch.setattr(timing, "run_rounds", one_batch)
    monkeypatch.setattr(timing.TimingStage, "_warm_up_rounds", 0, raising=False)
    run: Any = SimpleNamespace(options=lambda: None, accepted_variants=list)
    run.context = SimpleNamespace(
        draw=None, oracle=None, baselines={}, device="cuda", profile=SimpleNamespace(alone_ms=alone_ms)
    )
    run.settings = SimpleNamespace(measured=(), floor=0.0, own_code=False)
    run.runner, run.found = None, {"violations": [], "trials": []}
    assert timing.TimingStage(run).run_timed_rounds([]) is False
    return run.found, count


BUSY = Rounds(settles={"candidate": [4 * MILLISECOND] * 8, "eager": [MILLISECOND] * 8})
QUIET = Rounds(settles={"candidate": [MILLISECOND] * 8, "eager": [MILLISECOND] * 8})


def test_a_device_that_was_busy_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, BUSY, QUIET)
    assert count == 2 and found["violations"] == []


def test_a_kernel_that_leaves_work_behind_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, BUSY, BUSY)
    assert count == 2 and [name for name, _ in found["violations"]] == ["work_after_return"]
    assert evaluated(monkeypatch, QUIET)[1] == 1


def beside(late_ms: int) -> Rounds:
    """Rounds in which others had the device for so long after the baseline's calls."""
    pair = TimedPair(4 * MILLISECOND, 3 * MILLISECOND, 2 * MILLISECOND, MILLISECOND, baseline_late=late_ms * MILLISECOND)
    return Rounds(pairs={"eager": [pair] * 8})


def test_rounds_beside_others_are_timed_again_and_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, beside(5), beside(0), alone_ms=2.9)
    assert count == 2 and len(found["timing"]["eager"]["pairs"]) == 8
    assert found["timing"]["eager"]["speedup"][1] > 2


def test_where_others_stay_the_last_rounds_count(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, beside(5), beside(5), beside(5), alone_ms=2.5)
    assert count == 3 and "3 ms beside the candidate and 2.5 ms without it" in found["timing"]["eager"]["beside"]


def timed(*, hidden_ms: int) -> Rounds:
    outer = (2 + hidden_ms) * MILLISECOND
    return Rounds(pairs={"eager": [TimedPair(3 * MILLISECOND, 2 * MILLISECOND, MILLISECOND + outer, 2 * MILLISECOND)] * 8})


def test_a_clock_that_looks_forged_once_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=0))
    assert count == 2 and found["violations"] == []
    assert evaluated(monkeypatch, timed(hidden_ms=0))[1] == 1


def test_rounds_in_which_it_lied_count_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a lie would be a way to have bad rounds thrown away."""
    found, _ = evaluated(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=0))
    assert len(found["timing"]["eager"]["pairs"]) == 16
    assert found["timing"]["eager"]["speedup"][1] < 0.5


def test_a_clock_that_is_forged_each_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found, count = evaluated(monkeypatch, timed(hidden_ms=9), timed(hidden_ms=9))
    assert count == 2 and [name for name, _ in found["violations"]] == ["clock_forged"]


def test_nobody_is_blamed_for_a_device_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    others = replace(BUSY, pairs={"eager": [TimedPair(6 * MILLISECOND, 1000, 6 * MILLISECOND, 1000, held=MILLISECOND)] * 8})
    found, count = evaluated(monkeypatch, others, others, others)
    assert count == 3 and found["violations"] == [] and found["timing"]["eager"]["shared"]


@pytest.mark.parametrize(("late_ns", "alone_ms", "faster"), [(400_000, 1.0, False), (0, 1.0, True), (400_000, 1.4, True)])
def test_what_others_take_from_the_baseline_on_a_gpu_earns_nothing(
    monkeypatch: pytest.MonkeyPatch, late_ns: int, alone_ms: float, faster: bool
) -> None:
    one = TimedPair(2_400_000, 1_400_000, 2_000_000, 1_000_000, held=MILLISECOND, baseline_late=late_ns)
    found, _ = evaluated(monkeypatch, *[Rounds(pairs={"eager": [one] * 12, "compile": [one] * 12})] * 3, alone_ms=alone_ms)
    assert found["violations"] == []
    for row in found["timing"].values():
        assert (row["speedup"][1] > 1) is faster and ("beside" in row) is not faster


def test_a_host_that_is_slow_to_launch_the_baseline_is_nobodys_fault_and_earns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = TimedPair(4 * MILLISECOND, 3 * MILLISECOND, 3 * MILLISECOND, 2 * MILLISECOND, held=MILLISECOND)
    slow = replace(one, baseline_enqueued=2 * MILLISECOND)
    found, _ = evaluated(monkeypatch, Rounds(pairs={"eager": [slow] * 12}), alone_ms=1.0)
    assert found["violations"] == [] and found["timing"]["eager"]["speedup"][1] < 1
    found, _ = evaluated(monkeypatch, *[Rounds(pairs={"eager": [one] * 12})] * 3, alone_ms=1.0)
    assert [name for name, _ in found["violations"]] == ["baseline_disturbed"]


class Baseline:
    """Takes so long, or fails."""

    def __init__(self, name: str, inner_ms: float = 1.0, fails: str = "") -> None:
        self.name, self.inner_ms, self.fails, self.calls = name, inner_ms, fails, 0
        self.fails_until = math.inf

    def run_call(self, drawn: object, options: object, keep: bool = False, look: object = None, sampled: bool = False) -> Any:
        self.calls += 1
        if self.fails and self.calls <= self.fails_until:
            raise RunnerFailed(self.fails)
        return SimpleNamespace(inner_ns=self.inner_ms * MILLISECOND)


@pytest.mark.parametrize("kind", ["died", "forged"])
def test_a_baseline_that_is_lost_is_no_fault_of_the_candidate(kind: str) -> None:
    with pytest.raises(InvalidTask, match="eager"):
        timed_call(Baseline("eager", fails=kind), None, SimpleNamespace(paused=nullcontext))  # type: ignore[arg-type]
    with pytest.raises(RunnerFailed):
        timed_call(Baseline("candidate", fails=kind), None, None)  # type: ignore[arg-type]


def timed_without(monkeypatch: pytest.MonkeyPatch, baseline: Baseline, row: dict[str, Any], alone_ms: float) -> list[str]:
    """What became of the candidate's process, when a baseline is doubted that was measured as `row` says."""
    done: list[str] = []

    def gone(deadline: float) -> None:
        raise RunnerFailed("died")

    options = SimpleNamespace(paused=nullcontext)
    run: Any = SimpleNamespace(options=lambda: options, accepted_variants=lambda: ["plain"])
    profile = SimpleNamespace(alone_ms=alone_ms)
    run.context = SimpleNamespace(draw=lambda variant="plain": None, baselines={"eager": baseline}, profile=profile)
    run.runner = SimpleNamespace(control=SimpleNamespace(kill=lambda: done.append("killed")), listen=gone)
    run.found = {"timing": {"eager": row}, "trials": [{"variant": "plain", "skipped": ""}]}
    timing.TimingStage(run).time_without_candidate()
    return done


def test_a_baseline_that_is_quicker_without_the_candidate_makes_nobody_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}
    assert timed_without(monkeypatch, Baseline("eager", 2.0), row, alone_ms=2.0) == ["killed"]
    assert row["speedup"] == [1.0, 0.8, 6.0] and "10 ms beside the candidate and 2 ms without it" in str(row["beside"])


def test_a_baseline_that_is_slow_without_the_candidate_too_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}
    assert timed_without(monkeypatch, Baseline("eager", 9.0), row, alone_ms=2.0) == ["killed"]
    assert row == {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}


def test_inputs_that_a_baseline_has_no_answer_to_do_not_count_without_the_candidate_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 10.0}
    baseline = Baseline("eager", 2.0, fails="failure")
    baseline.fails_until = timing.CALLS_WITHOUT_CANDIDATE
    assert timed_without(monkeypatch, baseline, row, alone_ms=2.0) == ["killed"]
    assert row["speedup"] == [1.0, 0.8, 6.0]


@pytest.mark.parametrize(
    "row", [{"speedup": [1.0, 0.9, 6.0], "baseline_ms": 10.0}, {"speedup": [5.0, 4.0, 6.0], "baseline_ms": 2.5}]
)
def test_nobody_is_doubted_without_need(monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]) -> None:
    baseline = Baseline("eager", 1.0)
    assert timed_without(monkeypatch, baseline, row, alone_ms=2.0) == [] and not baseline.calls


def test_a_rule_broken_before_anything_was_timed_settles_the_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Rounds(pairs={"eager": []}, violations=[("output_reused", "")])
    monkeypatch.setattr(timing, "run_rounds", lambda *_, **__: ended)
    monkeypatch.setattr(timing.TimingStage, "_warm_up_rounds", 0, raising=False)
    run: Any = SimpleNamespace(options=lambda: None, accepted_variants=list)
    run.context = SimpleNamespace(draw=None, oracle=None, baselines={}, device="cpu", profile=None)
    run.settings = SimpleNamespace(measured=(), floor=0.0, own_code=False)
    control = SimpleNamespace(sample_start=lambda: None, sample_pause=lambda: None, sample_stop=lambda: {"by_file": {"a": 3}})
    run.runner, run.samples = SimpleNamespace(control=control), {"by_file": {}}
    run.found = {"violations": [], "trials": []}
    assert timing.TimingStage(run).run_timed_rounds([]) is True
    assert run.samples["by_file"] == {"a": 3}
    assert run.found["violations"] == [["output_reused", ""]]


class Called:
    """A runner that writes down when it is called, and asks for what it is compared with while its call is under way."""

    device, reads_memory, retained, used_ns = "cpu", True, None, 0

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def run_call(self, drawn: object, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.log.append(self.name)
        if look is not None:
            self.log.append("looked at")
            look()
        return SimpleNamespace(specs=[], settle_ns=0, where=None)

    def output_views(self, specs: object) -> list[Any]:
        return []


def no_inspection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedOutputs, "problem", lambda *_: "")
    monkeypatch.setattr(rounds, "call_violations", lambda *_: [])


def test_a_candidate_is_looked_at_whichever_of_the_two_is_called_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would know by the time since its last call that nobody looks."""
    log: list[str] = []
    no_inspection(monkeypatch)
    monkeypatch.setattr(rounds.secrets, "randbelow", lambda bound: 0)  # looks in every round
    profile = SimpleNamespace(aliased=frozenset(), mutates=frozenset(), reuses_outputs=True, large=False, writes_memory=False)
    runners = [Called(name, log) for name in ("eager", "compile", "candidate")]
    rounds.run_rounds(
        lambda variant: SimpleNamespace(variant=variant),  # type: ignore[arg-type, return-value]
        None,  # type: ignore[arg-type]
        {each.name: each for each in runners[:2]},  # type: ignore[misc]
        runners[2],  # type: ignore[arg-type]
        {"plain": []},
        settings=SimpleNamespace(rounds=(1, 2), quick=True, timing_seconds=9.0),  # type: ignore[arg-type]
        options=SimpleNamespace(paused=nullcontext, deadline=lambda: math.inf),  # type: ignore[arg-type]
        ahead=[],
        profile=profile,  # type: ignore[arg-type]
    )
    first, second = log[: len(log) // 2], log[len(log) // 2 :]
    assert sorted(first) == sorted(second) == ["candidate", "compile", "eager", "looked at"]
    assert {each.index("candidate") < each.index("eager") for each in (first, second)} == {True, False}


class Recorded(Called):
    def run_call(self, drawn: object, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.log.append(self.name)
        return CallRecord(
            2 * MILLISECOND, 1000, MILLISECOND, {}, [], aliases=frozenset(), restrided=False, settle_ns=0, late_write=False
        )


def noisy(ratio: float, apart: float) -> list[TimedPair]:
    """Rounds of so much the speed, every other one off by a factor."""
    pairs = []
    for number in range(12):
        mine, theirs = round(MILLISECOND / ratio * apart ** (number % 2)), round(MILLISECOND * apart ** (1 - number % 2))
        pairs.append(TimedPair(theirs + 1000, theirs, mine + 1000, mine))
    return pairs


@pytest.mark.parametrize(("pairs", "open_"), [(noisy(3.0, 1.0), False), (noisy(1.5, 20.0), True), (noisy(1.0, 20.0), False)])
def test_what_is_far_from_one_and_open_is_worth_more_time(pairs: list[TimedPair], open_: bool) -> None:
    assert rounds._is_far_and_open(pairs, SimpleNamespace(floor=0.02, own_code=False)) is open_  # type: ignore[arg-type]


def test_on_a_crowded_machine_more_rounds_tell_no_more() -> None:
    settings: Any = SimpleNamespace(floor=0.02, own_code=False)
    for crowd, open_ in ((50, True), (900, False)):
        pairs = [replace(pair, cores=2, crowd=crowd) for pair in noisy(1.5, 20.0)]
        assert rounds._is_far_and_open(pairs, settings) is open_


def test_whoever_is_worth_it_gets_more_time_and_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(open_until: int, deadline: float = 100.0) -> int:
        """After how many rounds of a tenth of the time they end, if the ratio is open until so many of them."""
        monkeypatch.setattr(rounds, "_enough", lambda pairs, settings: False)
        monkeypatch.setattr(rounds, "_is_far_and_open", lambda pairs, settings: len(pairs) < open_until)
        ending = rounds._Ending(SimpleNamespace(rounds=(8, 64)), 1.0, 8, 0.0, lambda: deadline)  # type: ignore[arg-type]
        for count in range(1, 65):
            monkeypatch.setattr(rounds.time, "monotonic", lambda count=count: count / 10 + 0.01)
            if ending.is_due({"eager": noisy(1.0, 1.0)[:1] * count}):
                return count
        raise AssertionError("it does not end")

    assert ends(open_until=0) == 10
    assert ends(open_until=15) == 20  # looked at when there are twice as many, not before
    assert ends(open_until=25) == 40
    assert ends(open_until=1000) == 60
    assert ends(open_until=1000, deadline=4.0) == 25, "half of its time is left for what comes after"


@pytest.mark.parametrize(("seconds", "count"), [(3600.0, 16), (0.0, 1)])
def test_rounds_that_are_run_again_end_with_the_candidates_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    """A kernel whose calls take seconds would meet its time limit, and no round at all would say nothing."""
    no_inspection(monkeypatch)
    for name in ("keeps_outputs", "reuses_outputs"):
        monkeypatch.setattr(rounds, name, lambda *_: False)
    log: list[str] = []
    eager, candidate = Recorded("eager", log), Recorded("candidate", log)
    candidate.reads_memory = False
    found = rounds.run_rounds(
        lambda variant: SimpleNamespace(variant=variant),  # type: ignore[arg-type, return-value]
        None,  # type: ignore[arg-type]
        {"eager": eager},  # type: ignore[dict-item]
        candidate,  # type: ignore[arg-type]
        {"plain": []},
        settings=SimpleNamespace(rounds=(8, 64), quick=True, timing_seconds=9.0),  # type: ignore[arg-type]
        options=SimpleNamespace(deadline=lambda: time.monotonic() + seconds, paused=nullcontext),  # type: ignore[arg-type]
        ahead=[],
        profile=SimpleNamespace(large=False),  # type: ignore[arg-type]
        exactly=16,
    )
    assert len(found.pairs["eager"]) == count


class Raising(Called):
    """Has no answer to spiked inputs."""

    def run_call(self, drawn: Any, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.log.append(f"{self.name} {drawn.variant}")
        if drawn.variant == "spiked":
            raise RunnerFailed("failure", {"text": "singular"})
        return Recorded.run_call(Recorded(self.name, []), drawn, options)


def rounds_of(runners: list[Called], variants: list[str]) -> rounds.Rounds:
    return rounds.run_rounds(
        lambda variant: SimpleNamespace(variant=variant),  # type: ignore[arg-type, return-value]
        None,  # type: ignore[arg-type]
        {"eager": runners[0]},  # type: ignore[dict-item]
        runners[1],  # type: ignore[arg-type]
        {variant: [] for variant in variants},
        settings=SimpleNamespace(rounds=(30, 40), quick=True, timing_seconds=9.0, floor=0.02, own_code=False),  # type: ignore[arg-type]
        options=SimpleNamespace(paused=nullcontext, deadline=lambda: math.inf),  # type: ignore[arg-type]
        ahead=[],
        profile=SimpleNamespace(aliased=frozenset(), mutates=(), reuses_outputs=True, large=False, writes_memory=False),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("candidate", [Recorded, Raising])
def test_inputs_that_the_reference_has_no_answer_to_are_no_fault_of_the_candidate(
    monkeypatch: pytest.MonkeyPatch, candidate: type[Called]
) -> None:
    no_inspection(monkeypatch)
    log: list[str] = []
    seen = rounds_of([Raising("eager", log), candidate("candidate", log)], ["plain", "spiked"])
    assert log.count("eager spiked") <= 2, "no more of them"
    assert len(seen.pairs["eager"]) > 5
    with pytest.raises(InvalidTask, match="singular"):
        timed_call(Raising("eager", log), SimpleNamespace(variant="spiked"), SimpleNamespace(paused=nullcontext))  # type: ignore[arg-type]


def test_who_raises_where_the_reference_answers_is_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    no_inspection(monkeypatch)
    with pytest.raises(RunnerFailed):
        rounds_of([Recorded("eager", []), Raising("candidate", [])], ["spiked"])


class Hungry(Called):
    """Runs out of memory."""

    def run_call(self, drawn: Any, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.log.append(self.name)
        raise RunnerFailed("failure", {"text": "CUDA out of memory"})


def test_a_baseline_that_runs_out_of_memory_is_asked_once() -> None:
    """It says so to whoever tries the task again alone, and has no answer of its own to ask for."""
    log: list[str] = []
    with pytest.raises(RunnerFailed):
        rounds_of([Hungry("eager", log), Recorded("candidate", [])], ["plain"])
    assert log == ["eager"]
