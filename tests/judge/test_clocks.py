"""Two clocks: an honest pair agrees, a forged claim gains nothing, and a busy machine is not called a forger."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bottega.core.verdict import Outcome
from bottega.judge.clocks import FLOOR_NS, SHARED_NS, TimedPair, combine, floor_width, is_shared, outer_interval, overhead
from bottega.judge.statistics import speed_outcome, width

MILLISECOND = 1_000_000
ROUNDS = 24


def rounds(
    baseline_ms: float,
    candidate_ms: float,
    *,
    claim: float = 1.0,
    overhead_ms: float = 0.15,
    noise: float = 0.01,
    jitter_ms: float = 0.01,
    preempted: float = 0.0,
    beside_ms: float = 0.0,
    put_off_ms: float = 0.0,
    delivery_ms: float = 0.5,
    count: int = ROUNDS,
    seed: int = 1,
) -> list[TimedPair]:
    """Simulated rounds. `claim` scales what the candidate's process says; `beside_ms` is work that its clock does not see, and
    `put_off_ms` work that it does when its outputs are asked for (negative: a copy that it does not make)."""
    source = random.Random(seed)

    def around(value: float, by: float) -> float:
        return max(0.0, value * (1 + source.gauss(0, by)))

    def waking() -> float:
        late = source.expovariate(1 / 2.0) if source.random() < preempted else 0.0
        return overhead_ms + abs(source.gauss(0, jitter_ms)) + late

    pairs = []
    for _ in range(count):
        baseline, candidate = around(baseline_ms, noise), around(candidate_ms, noise)
        pairs.append(
            TimedPair(
                baseline_outer=int((baseline + waking()) * MILLISECOND),
                baseline_inner=int(baseline * MILLISECOND),
                candidate_outer=int((candidate + beside_ms + waking()) * MILLISECOND),
                candidate_inner=int(candidate * claim * MILLISECOND),
                baseline_delivery=int((delivery_ms + waking()) * MILLISECOND),
                candidate_delivery=int((delivery_ms + put_off_ms + waking()) * MILLISECOND),
            )
        )
    return pairs


def test_overhead_is_what_the_trusted_runner_shows() -> None:
    assert overhead([TimedPair(130, 100, 0, 0), TimedPair(150, 100, 0, 0), TimedPair(1000, 100, 0, 0)]) == 50


@pytest.mark.parametrize(("baseline", "candidate"), [(2.0, 1.0), (1.0, 2.0), (5.0, 4.0), (0.4, 0.2)])
def test_honest_pairs_hold_the_true_ratio_on_the_precise_clock(baseline: float, candidate: float) -> None:
    timing = combine(rounds(baseline, candidate), 0.02)
    assert timing.clock == "inner"
    assert timing.forged == ""
    assert timing.speedup.low <= baseline / candidate <= timing.speedup.high
    assert timing.speedup.point == pytest.approx(baseline / candidate, rel=0.03)
    assert timing.candidate_ms == pytest.approx(candidate, rel=0.03)
    assert timing.baseline_ms == pytest.approx(baseline, rel=0.03)


@pytest.mark.parametrize("factor", [2, 6, 200])
@pytest.mark.parametrize("share", [0.2, 0.42, 0.7, 0.85])
@pytest.mark.parametrize(("baseline", "candidate", "count"), [(3.0, 3.0, 24), (3.0, 3.0, 8), (3.0, 2.4, 24), (0.05, 0.05, 64)])
def test_shaving_some_calls_moves_no_point(baseline: float, candidate: float, count: int, share: float, factor: int) -> None:
    """Enough calls are told as they are that no median and neither end of the interval shows it; the centre of all would be far off."""
    points = []
    for seed in range(6):
        chance = random.Random(seed)
        pairs = [
            replace(pair, candidate_inner=pair.candidate_inner // (factor if chance.random() < share else 1))
            for pair in rounds(baseline, candidate, count=count, seed=seed)
        ]
        timing = combine(pairs, 0.02)
        points += [timing.speedup.point] if not timing.forged else []
    assert all(point < 1.12 * baseline / candidate for point in points)


def test_equal_kernels_are_not_told_apart() -> None:
    wrong = 0
    for seed in range(60):
        wrong += speed_outcome(combine(rounds(1.0, 1.0, seed=seed), 0.02).speedup) in (Outcome.FASTER, Outcome.SLOWER)
    assert wrong <= 1


def test_of_code_that_is_trusted_a_few_in_a_hundred_are_told() -> None:
    pairs = rounds(0.4, 0.388, noise=0.004)
    assert speed_outcome(combine(pairs, 0.005).speedup) is Outcome.AMBIGUOUS or combine(pairs, 0.005).speedup.low < 1
    timing = combine(pairs, 0.005, own_code=True)
    assert speed_outcome(timing.speedup) is Outcome.FASTER
    assert timing.speedup.low <= 0.4 / 0.388 <= timing.speedup.high
    assert floor_width(pairs, 0.005, own_code=True) < floor_width(pairs, 0.005)


def test_of_code_that_is_trusted_equal_kernels_are_not_told_apart() -> None:
    speedups = [combine(rounds(1.0, 1.0, seed=seed), 0.005, own_code=True).speedup for seed in range(60)]
    assert sum(speed_outcome(each) in (Outcome.FASTER, Outcome.SLOWER) for each in speedups) <= 1


@pytest.mark.parametrize("claim", [0.9, 0.7, 0.5, 0.01, 0.0, -3.0])
def test_low_end_does_not_profit_from_a_forged_claim(claim: float) -> None:
    honest = combine(rounds(2.0, 2.0), 0.02)
    forged = combine(rounds(2.0, 2.0, claim=claim), 0.02)
    assert forged.speedup.low <= max(honest.speedup.low, 1.0)
    assert speed_outcome(forged.speedup) is not Outcome.FASTER


@pytest.mark.parametrize("claim", [0.5, 0.01, 0.0])
def test_gross_forgery_is_named_and_charged_by_the_outer_clock(claim: float) -> None:
    timing = combine(rounds(2.0, 2.0, claim=claim), 0.02)
    assert "claims" in timing.forged
    assert timing.clock == "outer"
    assert timing.candidate_ms == pytest.approx(2.0, rel=0.05)
    assert timing.speedup.high < 1.2


def test_a_slower_kernel_with_a_forged_clock_stays_slower_at_the_low_end() -> None:
    timing = combine(rounds(1.0, 2.0, claim=0.4), 0.02)
    assert timing.speedup.low < 0.6
    assert speed_outcome(timing.speedup) is not Outcome.FASTER


def test_work_beside_the_call_is_charged() -> None:
    """The candidate's clock stops early and the rest happens before the result is delivered."""
    timing = combine(rounds(2.0, 0.2, beside_ms=1.8), 0.02)
    assert timing.forged
    assert timing.speedup.high < 1.3


def test_work_put_off_until_the_outputs_are_asked_for_is_charged() -> None:
    timing = combine(rounds(2.0, 0.2, put_off_ms=1.8), 0.02)
    assert timing.forged
    assert timing.candidate_ms == pytest.approx(2.0, rel=0.05)
    assert timing.speedup.high < 1.2
    some = combine(rounds(2.0, 1.9, put_off_ms=0.1), 0.02)
    assert some.forged == ""
    assert speed_outcome(some.speedup) is not Outcome.FASTER


def test_a_quicker_delivery_earns_nothing() -> None:
    """Whoever computes in place of the copy saves the copy, and claims that on its own clock."""
    timing = combine(rounds(1.0, 1.0, claim=0.6, put_off_ms=-0.4), 0.02)
    assert timing.speedup.low < 1
    assert speed_outcome(timing.speedup) is not Outcome.FASTER


def test_microseconds_that_hostile_code_leaves_out_are_covered() -> None:
    """A call of 36 µs against itself, 8 µs of an honest turn left out and 16 µs off its clock: 36 / (36 - 8 + 10) by the controller's."""
    pairs = [TimedPair(1_336_000, 36_000, 1_328_000, 20_000)] * ROUNDS
    outer = outer_interval(pairs, 0.0)
    assert outer.point == pytest.approx(36 / 28)
    assert outer.low == pytest.approx(36 / 38)
    assert outer.high == pytest.approx(36 / 18)
    timing = combine(pairs, 0.02)
    assert timing.speedup.low < 1
    assert speed_outcome(timing.speedup) is not Outcome.FASTER


@pytest.mark.parametrize("base", [12_000, 20_000, 36_000, 600_000])
def test_the_floor_covers_as_many_microseconds_of_a_short_call_as_of_a_long_one(base: int) -> None:
    saved = int(FLOOR_NS) - 500
    pairs = [TimedPair(1_300_000 + base, base, 1_300_000 + base - saved, 1000)] * ROUNDS
    assert speed_outcome(combine(pairs, 0.02).speedup) is not Outcome.FASTER


def test_a_short_call_that_is_twice_as_fast_is_faster() -> None:
    pairs = [TimedPair(1_336_000 + wake, 36_000, 1_318_000 + wake, 18_000) for wake in range(0, 4800, 200)]
    assert speed_outcome(combine(pairs, 0.02).speedup) is Outcome.FASTER


def test_uneven_deliveries_cost_an_honest_kernel_little() -> None:
    sure = 0
    for seed in range(60):
        timing = combine(rounds(1.0, 0.8, delivery_ms=2.0, jitter_ms=0.02, seed=seed), 0.02)
        assert timing.forged == ""
        sure += speed_outcome(timing.speedup) is Outcome.FASTER
    assert sure >= 58


def test_background_work_on_both_runners_cancels() -> None:
    timing = combine(rounds(2.0, 1.0, overhead_ms=3.0, jitter_ms=0.1), 0.02)
    assert timing.forged == ""
    assert timing.speedup.low <= 2.0 <= timing.speedup.high


@pytest.mark.parametrize("count", [8, 12, 24])
def test_noisy_machine_is_not_called_a_forger(count: int) -> None:
    accused = 0
    for seed in range(80):
        timing = combine(rounds(1.0, 0.8, noise=0.15, jitter_ms=0.3, preempted=0.3, count=count, seed=seed), 0.02)
        accused += bool(timing.forged)
    assert accused <= 1


WAITED_MS = [
    (1.22, 0.77, 3.42, 0.37, 0.32, 0.30),
    (5.66, 0.68, 5.47, 0.36, 0.41, 0.53),
    (2.00, 1.56, 4.70, 0.42, 0.31, 0.33),
    (1.22, 0.75, 10.40, 0.37, 0.31, 0.36),
    (2.75, 2.28, 6.45, 0.51, 0.38, 0.38),
    (1.67, 1.07, 5.69, 0.37, 0.45, 0.69),
    (1.34, 0.82, 4.13, 0.43, 0.38, 3.04),
    (1.48, 0.88, 5.87, 0.44, 0.45, 2.85),
]
"""Rounds of an honest kernel as they were seen on two cores that others used too: for seconds its runner had to wait for a core in
every turn, and the baseline in one of eight."""


def seen_while_waiting(counted: bool = True) -> list[TimedPair]:
    pairs = [TimedPair(*(int(value * MILLISECOND) for value in row)) for row in WAITED_MS]
    waits = [(pair.candidate_outer - pair.candidate_inner - MILLISECOND // 2) if counted else 0 for pair in pairs]
    return [replace(pair, candidate_waited=waited) for pair, waited in zip(pairs, waits)]


def test_a_kernel_that_waits_for_a_core_is_no_forger() -> None:
    assert combine(seen_while_waiting(counted=False), 0.02).forged  # by the clocks alone it would be one
    timing = combine(seen_while_waiting(), 0.02)
    assert timing.forged == ""
    assert timing.waited
    assert timing.clock == "outer"
    assert speed_outcome(timing.speedup) is Outcome.AMBIGUOUS


def test_uneven_claims_do_not_raise_the_point_of_one_that_waited() -> None:
    claims = (0.01, 1.0, 0.02, 0.9, 0.03, 0.02, 0.01, 0.04)
    pairs = [replace(p, candidate_inner=int(p.candidate_inner * claim)) for p, claim in zip(seen_while_waiting(), claims)]
    timing = combine([replace(pair, candidate_waited=20 * MILLISECOND) for pair in pairs], 0.02)
    assert timing.waited
    assert timing.speedup.point <= outer_interval(pairs, 0.02).point


@pytest.mark.parametrize("hidden_ms", [0.0, 1.0, 20.0])
def test_waiting_excuses_no_more_than_was_waited(hidden_ms: float) -> None:
    hidden = int(hidden_ms * MILLISECOND)
    pairs = [replace(pair, candidate_outer=pair.candidate_outer + hidden) for pair in seen_while_waiting()]
    assert bool(combine(pairs, 0.02).forged) == (hidden_ms > 0)


def on_a_core(pairs: list[TimedPair], worked_ms: float) -> list[TimedPair]:
    """The same rounds, with what the system counts: `worked_ms` in the call, and half a millisecond beside it on both runners."""
    beside = MILLISECOND // 2
    return [replace(pair, candidate_ran=int(worked_ms * MILLISECOND) + beside, baseline_beside=beside) for pair in pairs]


@pytest.mark.parametrize("claim", [0.5, 0.05, 0.0])
def test_a_forger_is_named_on_a_busy_machine_by_the_time_it_was_on_a_core(claim: float) -> None:
    for seed in range(20):
        pairs = rounds(2.0, 2.0, claim=claim, noise=0.05, jitter_ms=3.0, preempted=0.8, seed=seed)
        crowded = [
            replace(pair, candidate_waited=50 * MILLISECOND, candidate_waited_delivery=50 * MILLISECOND) for pair in pairs
        ]
        timing = combine(on_a_core(crowded, 2.0), 0.02)
        assert "on a core" in timing.forged
        assert timing.clock == "outer"


def test_a_call_lasts_no_less_than_the_work_in_it() -> None:
    assert combine(on_a_core(rounds(2.0, 2.0), 2.0), 0.02).forged == ""
    assert combine(on_a_core(rounds(2.0, 2.0), 0.1), 0.02).forged == ""  # other threads did the work
    assert combine(on_a_core(seen_while_waiting(), 0.36), 0.02).forged == ""
    assert combine(on_a_core(rounds(0.05, 0.05), 0.2), 0.02).forged == ""  # too little to speak of


def test_work_counts_only_where_all_of_it_was_counted() -> None:
    """On a GPU the device does the work, and the system may not count at all."""
    pairs = on_a_core(rounds(2.0, 2.0), 9.0)
    assert combine(pairs, 0.02).forged
    assert combine([*pairs[:-1], replace(pairs[-1], candidate_ran=0)], 0.02).forged == ""
    assert combine(pairs[:5], 0.02).forged == ""


@pytest.mark.parametrize("claim", [1.0, 0.7, 0.3, 0.01, 0.0])
@pytest.mark.parametrize("waited_ms", [0.1, 2.0, 1e6])
def test_waiting_earns_nothing(claim: float, waited_ms: float) -> None:
    """Whoever makes a crowd of its own waits as long as it likes: the low end and the point are those of the controller's clock."""
    for seed in range(20):
        plain = rounds(2.0, 2.0, claim=claim, preempted=0.3, seed=seed)
        crowd = [replace(pair, candidate_waited=int(waited_ms * MILLISECOND)) for pair in plain]
        with_it, without, outer = combine(crowd, 0.02), combine(plain, 0.02), outer_interval(plain, 0.02)
        assert with_it.speedup.low <= min(without.speedup.low, outer.low)
        assert with_it.speedup.point <= max(without.speedup.point, outer.point)
        assert speed_outcome(with_it.speedup) is not Outcome.FASTER


def test_preempted_calls_do_not_make_a_kernel_faster() -> None:
    wrong = 0
    for seed in range(80):
        timing = combine(rounds(1.0, 1.0, noise=0.05, jitter_ms=0.1, preempted=0.2, seed=seed), 0.02)
        wrong += speed_outcome(timing.speedup) is Outcome.FASTER
    assert wrong <= 1


def test_tiny_differences_are_below_what_the_controller_can_see() -> None:
    """Microseconds of overhead more on one runner are no forgery."""
    timing = combine(rounds(0.05, 0.05, beside_ms=0.03, overhead_ms=0.1), 0.02)
    assert timing.forged == ""


@pytest.mark.parametrize("claimed", [2**63, -(2**63), 0])
def test_absurd_claims_are_survived(claimed: int) -> None:
    """What the candidate's process says may be any number: it must lead to a timing, not to a broken controller."""
    honest = rounds(1.0, 1.0)
    pairs = [replace(pair, candidate_inner=claimed) for pair in honest]
    assert speed_outcome(combine(pairs, 0.02).speedup) is not Outcome.FASTER


def test_few_pairs_accuse_nobody() -> None:
    assert combine(rounds(2.0, 2.0, claim=0.1, count=5), 0.02).forged == ""


@pytest.mark.parametrize(("baseline_ms", "candidate_ms"), [(2.0, 2.0), (2.0, 0.5), (0.05, 0.02)])
def test_the_floor_s_width_is_what_is_left_when_rounds_are_alike(baseline_ms: float, candidate_ms: float) -> None:
    noisy = rounds(baseline_ms, candidate_ms)
    still = rounds(baseline_ms, candidate_ms, noise=0.0, jitter_ms=0.0)
    assert width(combine(still, 0.02).speedup) == pytest.approx(floor_width(still, 0.02), rel=1e-6)
    assert 0.04 < floor_width(noisy, 0.02) <= width(combine(noisy, 0.02).speedup) + 1e-9


HELD = 1_010_000
SLICE = 2_420_000
"""How long a GPU was held as a turn began, and for how long it went to others, as it was seen beside a training on an H200."""


def beside_others(
    base_us: int, true_us: int, claimed_us: int, *, slices: tuple[int, int] = (2, 2), count: int = ROUNDS
) -> list[TimedPair]:
    """Rounds on a GPU. `slices` are how often it goes to others in a turn of the baseline and of the candidate."""
    source = random.Random(7)

    def turn(call_us: int, gone: int) -> int:
        return HELD + 315_000 + call_us * 1000 + gone * SLICE + source.randrange(-6000, 6000)

    return [
        TimedPair(turn(base_us, slices[0]), base_us * 1000, turn(true_us, slices[1]), claimed_us * 1000, held=HELD)
        for _ in range(count)
    ]


@pytest.mark.parametrize("slices", [(2, 2), (2, 1), (1, 2), (1, 1), (3, 1)])
def test_a_lie_gains_nothing_beside_others_on_the_device(slices: tuple[int, int]) -> None:
    """Turn after turn of the baseline's waited a time slice longer, and a candidate that forged its clock was called faster."""
    timing = combine(beside_others(58, 560, 1, slices=slices), 0.02)
    assert (
        combine(beside_others(58, 560, 1, slices=slices), 0.02, own_code=True).clock == "outer"
    )  # nobody's own clock is right then
    assert timing.shared and speed_outcome(timing.speedup) is Outcome.AMBIGUOUS
    assert timing.speedup.point <= 1


@pytest.mark.parametrize("slices", [(2, 2), (2, 1), (1, 2)])
def test_an_honest_kernel_beside_others_is_no_forger_and_cannot_be_told(slices: tuple[int, int]) -> None:
    timing = combine(beside_others(58, 30, 30, slices=slices), 0.02)
    assert timing.forged == "" and "ms a turn" in timing.shared
    assert speed_outcome(timing.speedup) is Outcome.AMBIGUOUS


def test_a_long_call_beside_others_is_told_by_the_whole_of_its_turn() -> None:
    timing = combine(beside_others(40_000, 10_000, 10_000, slices=(2, 1)), 0.02)
    assert timing.shared and speed_outcome(timing.speedup) is Outcome.FASTER
    assert timing.speedup.low == pytest.approx(40 / 13.75, rel=0.05)


@pytest.mark.parametrize("slices", [(1, 0), (2, 0)])
def test_others_in_the_baseline_s_calls_alone_are_seen(slices: tuple[int, int]) -> None:
    assert speed_outcome(combine(beside_others(58, 560, 1, slices=slices), 0.02).speedup) is not Outcome.FASTER


def test_a_call_shorter_than_any_call_shows_others_whatever_the_overhead() -> None:
    """A device that changes between processes slowly hides a slice of less than what is allowed for that."""
    pairs = [replace(pair, baseline_outer=pair.baseline_outer + 400_000) for pair in beside_others(58, 40, 1, slices=(0, 0))]
    assert overhead(pairs) < HELD + SHARED_NS and is_shared(pairs)
    assert speed_outcome(combine(pairs, 0.02).speedup) is Outcome.AMBIGUOUS


def test_a_device_of_one_s_own_is_timed_as_ever() -> None:
    alone = beside_others(58, 30, 30, slices=(0, 0))
    assert combine(alone, 0.02) == combine([replace(pair, held=0) for pair in alone], 0.02)
    assert speed_outcome(combine(alone, 0.02).speedup) is Outcome.FASTER
    assert combine(beside_others(58, 560, 1, slices=(0, 0)), 0.02).forged


def test_a_quick_kernel_on_a_device_of_one_s_own_is_not_taken_for_a_shared_one() -> None:
    assert not is_shared(beside_others(58, 2, 2, slices=(0, 0)))


def test_time_that_the_baseline_waited_for_a_core_makes_nobody_faster() -> None:
    """Whoever keeps the cores busy in the baseline's turns slows it down, and the operating system counts that."""
    slowed = [replace(pair, baseline_waited=MILLISECOND) for pair in rounds(2.0, 1.0)]
    timing = combine(slowed, 0.02)
    assert speed_outcome(combine(rounds(2.0, 1.0), 0.02).speedup) is Outcome.FASTER
    assert speed_outcome(timing.speedup) is Outcome.AMBIGUOUS
    assert timing.speedup.point <= 1.0
    assert timing.stolen


def test_waiting_that_both_runners_share_is_nobody_s() -> None:
    alike = [replace(pair, baseline_waited=300_000, candidate_waited=290_000) for pair in rounds(2.0, 1.0)]
    assert not combine(alike, 0.02).stolen


def test_another_layout_is_charged_and_no_lie() -> None:
    """Changing it in place of the copy takes longer than the baseline's copy: that counts, and nobody is accused."""
    plain = rounds(2.0, 0.5, put_off_ms=1.4)
    assert combine(plain, 0.02).forged
    timing = combine([replace(pair, restrided=True) for pair in plain], 0.02)
    assert not timing.forged
    assert timing.speedup.point < 1.3


@pytest.mark.parametrize("restrided", [False, True])
def test_work_while_the_word_is_under_way_counts_by_the_time_on_a_core(restrided: bool) -> None:
    """A call of one millisecond that says 0.2 ms early that it has returned: neither clock sees the rest, and it is too little to be named."""
    early = [
        replace(pair, candidate_ran=int(1.05 * MILLISECOND), baseline_beside=int(0.05 * MILLISECOND), restrided=restrided)
        for pair in rounds(1.0, 0.8)
    ]
    assert speed_outcome(combine(early, 0.02).speedup) is not Outcome.FASTER
    honest = [replace(pair, candidate_ran=int(0.85 * MILLISECOND)) for pair in early]
    assert speed_outcome(combine(honest, 0.02).speedup) is Outcome.FASTER


def test_what_a_replaced_worker_need_not_do_earns_nothing() -> None:
    """It claims 0.1 ms less than it takes, and its turn is as much shorter, because it leaves out what the baseline's worker does."""
    lean = [
        replace(pair, candidate_outer=pair.candidate_outer - 100_000, candidate_inner=pair.candidate_inner - 100_000)
        for pair in rounds(0.5, 0.5)
    ]
    assert speed_outcome(combine(lean, 0.02).speedup) is Outcome.FASTER
    covered = [replace(pair, baseline_avoidable=120_000) for pair in lean]
    assert combine(covered, 0.02).speedup.low < 1
    long = [replace(pair, baseline_avoidable=120_000) for pair in rounds(5, 2.5)]
    assert combine(long, 0.02).speedup.low > 1.8


def test_work_ahead_of_a_call_counts() -> None:
    """A call of 1 ms that has a second thread do 0.6 ms of it while it makes its views and while it is being stopped."""
    honest = [replace(pair, baseline_ahead=50_000, candidate_ahead=50_000, cores=2) for pair in rounds(1.0, 0.4)]
    assert combine(honest, 0.02).speedup.low > 2
    hiding = [replace(pair, candidate_ahead=650_000) for pair in honest]
    assert combine(hiding, 0.02).speedup.point < 1.1
    assert speed_outcome(combine(hiding, 0.02).speedup) is not Outcome.FASTER


def test_what_other_threads_may_have_done_unseen_counts_at_the_low_end() -> None:
    alone = [replace(pair, candidate_unseen=100_000, cores=2) for pair in rounds(1.0, 0.4)]
    assert combine(alone, 0.02).speedup.low > 2  # it has no other threads
    several = [replace(pair, candidate_others=400_000) for pair in alone]
    assert combine(several, 0.02).speedup.low < 1.96
    assert combine(several, 0.02).speedup.point == combine(alone, 0.02).speedup.point


def crowded(baseline_ms: float, candidate_ms: float) -> list[TimedPair]:
    """One module against itself: 8 ms on a core, and others have the core of one of the two for the rest. Both wait elsewhere in their turns."""
    return [
        replace(
            pair,
            baseline_worked=8 * MILLISECOND,
            baseline_waited=15 * MILLISECOND,
            candidate_ran=8 * MILLISECOND,
            candidate_waited=13 * MILLISECOND,
            candidate_waited_delivery=20 * MILLISECOND,
            cores=2,
        )
        for pair in rounds(baseline_ms, candidate_ms)
    ]


@pytest.mark.parametrize(("baseline_ms", "candidate_ms"), [(18.0, 8.2), (8.2, 18.0)])
def test_others_that_have_one_runner_s_core_for_seconds_make_nobody_faster_or_slower(
    baseline_ms: float, candidate_ms: float
) -> None:
    pairs = crowded(baseline_ms, candidate_ms)
    assert speed_outcome(combine(pairs, 0.02).speedup) is Outcome.AMBIGUOUS
    alone = [replace(pair, crowd=50) for pair in pairs]  # its own threads wait for each other
    assert speed_outcome(combine(alone, 0.02).speedup) is (Outcome.FASTER if baseline_ms > candidate_ms else Outcome.SLOWER)
    asleep = [replace(pair, baseline_waited=0, candidate_waited=0, candidate_waited_delivery=0) for pair in pairs]
    assert speed_outcome(combine(asleep, 0.02).speedup) is (Outcome.FASTER if baseline_ms > candidate_ms else Outcome.SLOWER)


def test_a_first_thread_that_sleeps_while_another_works_has_lost_nothing() -> None:
    """Or else whoever works in a second thread would be faster wherever others have the baseline's core."""
    mine = [replace(pair, candidate_ran=0, candidate_waited=0, candidate_waited_delivery=0) for pair in crowded(18.0, 8.2)]
    assert speed_outcome(combine(mine, 0.02).speedup) is Outcome.AMBIGUOUS
