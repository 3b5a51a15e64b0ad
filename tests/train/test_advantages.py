"""Advantages, worked out by hand, and what role gets which."""

from __future__ import annotations

import math
import random

import pytest

from bottega.core.episode import Episode
from bottega.core.errors import UsageError
from bottega.core.trace import Trace
from bottega.core.turn import Role, Turn
from bottega.core.verdict import Outcome, Speedup, Verdict
from bottega.train.advantages import advantage_named
from bottega.train.advantages.grpo import grpo
from bottega.train.advantages.rloo import rloo
from bottega.train.advantages.trloo import trloo
from bottega.train.credit import (
    advantages_by_turn,
    evened,
    selecting_credits,
    statistics,
    summarising_credits,
    weighted,
    writing_credits,
)
from bottega.train.rewards import reward_named


def test_trloo_compares_turn_with_turn() -> None:
    # Turn 1: 1, 2, 6 (mean 3, times 3/2). Turn 2: 4, 2 (mean 3, times 2). Turn 3: alone.
    found = trloo([[1.0, 4.0, 9.0], [2.0, 2.0], [6.0]])
    assert found == [[-3.0, 2.0, 0.0], [-1.5, -2.0], [4.5]]


def test_trloo_is_each_value_less_the_mean_of_the_others() -> None:
    source = random.Random(0)
    values = [source.uniform(-3, 3) for _ in range(7)]
    found = trloo([[value] for value in values])
    for number, (advantage,) in enumerate(found):
        others = values[:number] + values[number + 1 :]
        assert advantage == pytest.approx(values[number] - sum(others) / len(others))


def test_a_group_of_one_has_nothing_to_be_compared_with() -> None:
    assert trloo([[5.0, 2.0]]) == [[0.0, 0.0]]
    assert trloo([[5.0]], alone=True) == [[5.0]]
    assert rloo([[5.0]]) == [[0.0]]
    assert grpo([[5.0]]) == [[0.0]]
    assert trloo([]) == grpo([]) == rloo([]) == []
    assert trloo([[], [1.0]]) == [[], [0.0]]


@pytest.mark.parametrize("name", ["trloo", "grpo", "rloo"])
@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_a_return_that_does_not_exist_spoils_no_others(name: str, missing: float | None) -> None:
    advantage = advantage_named(name)
    found = advantage([[1.0], [missing], [3.0]])
    assert found[1] == [None]
    assert [found[0], found[2]] == advantage([[1.0], [3.0]])


def test_grpo_normalises_all_turns_of_a_task_together() -> None:
    # 1, 3, 5, 7: mean 4, deviation sqrt(5).
    found = grpo([[1.0, 3.0], [5.0, 7.0]])
    assert found[0] == pytest.approx([-3 / math.sqrt(5), -1 / math.sqrt(5)])
    assert found[1] == pytest.approx([1 / math.sqrt(5), 3 / math.sqrt(5)])


def test_grpo_makes_no_signal_of_rounding() -> None:
    assert grpo([[0.1 + 0.2], [0.3], [0.3]]) == [[0.0], [0.0], [0.0]]


def test_rloo_gives_every_turn_the_episodes_advantage() -> None:
    assert rloo([[6.0, 1.0], [2.0], [1.0, 5.0, 7.0]]) == [[4.5, 4.5], [-1.5], [-3.0, -3.0, -3.0]]


def test_an_unknown_advantage_is_refused() -> None:
    with pytest.raises(UsageError, match="trloo"):
        advantage_named("ppo")


def kernel(speed: float | None) -> Turn:
    if speed is None:
        return Turn("write", "", fault="no kernel")
    return Turn("write", "", verdict=Verdict(Outcome.FASTER, True, {"eager": Speedup(speed, speed, speed)}))


def trace(name: str, role: Role, scheme: int, *turns: Turn) -> Trace:
    return Trace(name, role, turns or (Turn(role, ""),), scheme)


def episode(*traces: Trace, schemes: tuple[tuple[str, ...], ...] = ((), ("a",), ("b",))) -> Episode:
    return Episode("e", "task", "task", "", "cpu", 0, (), schemes, traces)


def test_kernels_of_all_schemes_are_one_group() -> None:
    held = episode(
        trace("w0", "write", 0, kernel(0.7), kernel(1.7)),
        trace("w1", "write", 1, kernel(1.7), kernel(2.7)),
        trace("w2", "write", 2, kernel(None)),
    )
    found = advantages_by_turn(writing_credits([held], reward_named("kevin"), trloo, "sum", 1.0))
    # Returns: (1 + 2, 2), (2 + 3, 3), (0). First turn: 3, 5, 0. Second: 2, 3.
    expected = {("w0", 0): 0.5, ("w0", 1): -1.0, ("w1", 0): 3.5, ("w1", 1): 1.0, ("w2", 0): -4.0}
    assert found == pytest.approx(expected)


def test_a_selection_must_beat_choosing_nothing() -> None:
    """The empty scheme has no row to learn from, but it is in the baseline; the published code leaves it out."""
    held = episode(
        trace("s1", "select", 1), trace("s2", "select", 2), trace("w0", "write", 0, kernel(3.7)), trace("w1", "write", 1, kernel(1.7)),
        trace("w2", "write", 2, kernel(0.7)),
    )  # fmt: skip
    found = {credit.trace: credit for credit in selecting_credits(held, reward_named("kevin"))}
    assert found["s1"].reward == pytest.approx(2.0)
    # Without the empty scheme's 4 it would be 2 - 1 = 1, and both selections would look better than they are.
    assert found["s1"].advantage == pytest.approx(2.0 - (4.0 + 1.0) / 2)
    assert found["s2"].advantage == pytest.approx(1.0 - (4.0 + 2.0) / 2)


def test_summaries_are_compared_with_summaries_and_roles_are_weighed() -> None:
    traces = [trace(f"m{number}", "summarise", 0) for number in range(3)]
    credits = summarising_credits(traces, [0.5, 0.0, None])
    assert [(credit.trace, credit.advantage) for credit in weighted(credits)] == [("m0", 0.25), ("m1", -0.25)]


def test_evened_advantages_have_size_one_on_average() -> None:
    credits = summarising_credits([trace(f"m{number}", "summarise", 0) for number in range(2)], [3.0, 1.0])
    assert [credit.advantage for credit in evened(credits)] == [1.0, -1.0]
    assert evened([]) == []


def test_episodes_of_two_tasks_are_no_group() -> None:
    other = Episode("f", "other", "other", "", "cpu", 0, (), ((),), ())
    with pytest.raises(ValueError, match="one task"):
        writing_credits([episode(), other], reward_named("kevin"), trloo)


def test_statistics_are_told_by_role() -> None:
    credits = summarising_credits([trace(f"m{number}", "summarise", 0) for number in range(2)], [3.0, 1.0])
    told = statistics(credits)
    assert told["summarise/count"] == 2
    assert told["summarise/reward"] == told["summarise/advantage_deviation"] == 2.0
    assert told["summarise/advantage_mean"] == told["summarise/advantage_zero"] == 0.0
