"""Rewards by hand, from verdicts as the judge writes them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bottega.core.episode import Episode
from bottega.core.errors import UsageError
from bottega.core.trace import Trace
from bottega.core.trial import GainInterval
from bottega.core.turn import Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.skills.gate import Decision
from bottega.train.rewards import REWARDS, reward_named
from bottega.train.rewards.selection import selection_rewards, selection_rewards_of, turn_rewards
from bottega.train.rewards.summary import summary_reward
from bottega.train.rewards.verdict_reader import VerdictReader


def verdict(
    point: float, *, low: float | None = None, compiled: float | None = None, share: float | None = 0.8, outcome: str = "faster"
) -> Verdict:
    speedup = {"eager": Speedup(point, point if low is None else low, point * 2)}
    if compiled is not None:
        speedup["compile"] = Speedup(compiled, compiled, compiled)
    return Verdict(Outcome(outcome), correct=True, speedup=speedup, coverage={"share": share})


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("davinci", verdict(2.0), 0.5 + 1.0 + 0.4),
        ("davinci", verdict(20.0), 0.5 + 3.0 + 0.4),
        ("drkernel", verdict(20.0), 0.5 + 1.5 + 0.4),
        ("davinci", verdict(0.5, outcome="slower", share=0.01), 0.5 + 0.25 + 0.005),
        ("kevin", verdict(2.0), 2.3),
        ("kevin", verdict(50.0), 50.3),
        ("milestones", verdict(1.04, compiled=3.0), 1.0),
        ("milestones", verdict(1.06, compiled=1.04), 2.0),
        ("milestones", verdict(1.06), 2.0),
        ("milestones", verdict(1.06, compiled=1.06), 3.0),
    ],
)
def test_a_right_kernel_earns_what_the_papers_say(name: str, given: Verdict, expected: float) -> None:
    assert reward_named(name)(given) == pytest.approx(expected)


def test_five_per_cent_less_time_is_a_little_more_than_a_speedup_of_five_per_cent() -> None:
    reward = reward_named("milestones")
    assert reward(verdict(1 / 0.95 + 1e-6)) == 2.0
    assert reward(verdict(1 / 0.95 - 1e-6)) == 1.0


@pytest.mark.parametrize("name", REWARDS.names)
@pytest.mark.parametrize("outcome", ["incorrect", "compile_error", "runtime_error", "timeout", "rejected"])
def test_what_the_judge_did_not_accept_earns_the_least_whatever_its_speed(name: str, outcome: str) -> None:
    reward = reward_named(name)
    assert reward(verdict(9.0, outcome=outcome)) == reward(None) == (-1.0 if name == "milestones" else 0.0)


def test_the_lower_bound_counts_where_it_is_asked_for() -> None:
    careful = reward_named("kevin", VerdictReader(bound="low"))
    assert careful(verdict(2.0, low=1.5)) == pytest.approx(1.8)
    assert reward_named("kevin", cap=3.0)(verdict(50.0)) == pytest.approx(3.3)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_speedup_that_is_no_number_is_none(value: float) -> None:
    assert reward_named("kevin")(verdict(value)) == pytest.approx(0.3)


def test_a_coverage_that_could_not_be_measured_counts_as_told() -> None:
    assert reward_named("davinci")(verdict(1.0, share=None)) == pytest.approx(1.5)
    assert reward_named("davinci", VerdictReader(unmeasured=0.0))(verdict(1.0, share=None)) == pytest.approx(1.0)


def test_an_unknown_reward_is_refused() -> None:
    with pytest.raises(UsageError, match="kevin"):
        reward_named("kelvin")


def test_no_kernel_failed_and_a_kernel_nobody_could_judge_earned_nothing_at_all() -> None:
    turns = [
        Turn("write", "words", fault="no kernel in the answer"),
        Turn("write", "code", source="x"),
        Turn("write", "code", verdict=Verdict(Outcome.INVALID_TASK)),
        Turn("write", "code", verdict=verdict(2.0)),
    ]
    assert turn_rewards(turns, reward_named("kevin")) == [0.0, None, None, pytest.approx(2.3)]


def test_a_scheme_is_worth_the_mean_of_its_rollouts_and_equal_sets_are_pooled() -> None:
    schemes = [(), ("a", "b"), ("b", "a"), ("c",), ()]
    rollouts = [[1.0, 3.0], [4.0], [2.0, None], [None], [5.0]]
    assert selection_rewards(schemes, rollouts) == [3.0, 3.0, 3.0, None, 3.0]


def test_of_each_rollout_the_best_turn_counts_not_the_best_of_all() -> None:
    """The published code takes the maximum over rollouts and turns together; then one lucky rollout speaks for a scheme."""

    def rollout(number: int, scheme: int, *speeds: float) -> Trace:
        return Trace(f"w{number}", "write", tuple(Turn("write", "", verdict=verdict(speed)) for speed in speeds), scheme)

    episode = Episode(
        "e", "t", "t", "", "cpu", 0, (), ((), ("a",)), (rollout(0, 0, 1.0, 2.0), rollout(1, 1, 4.0, 1.0), rollout(2, 1, 1.0))
    )
    assert selection_rewards_of(episode, reward_named("kevin")) == [pytest.approx(2.3), pytest.approx((4.3 + 1.3) / 2)]


def decision(point: float, step: Any = "admit") -> Decision:
    return Decision(step, "", GainInterval(point, point * 0.9, point * 1.1))


def test_a_summary_is_worth_the_uplift_of_its_best_admitted_card() -> None:
    assert summary_reward([decision(1.3), decision(1.5), decision(9.0, "refuse")]) == pytest.approx(0.5)
    assert summary_reward([decision(9.0)], cap=3.0) == pytest.approx(2.0)
    assert summary_reward([decision(1.5)], bound="low") == pytest.approx(0.35)
    assert summary_reward([]) == summary_reward([decision(0.8)]) == summary_reward([decision(math.nan)]) == 0.0
