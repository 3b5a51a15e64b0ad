"""From logged turns to rows: merging while the prefix holds, and masks that are right token by token."""

from __future__ import annotations

import numpy as np
import pytest

from bottega.core.trace import Trace
from bottega.core.turn import Turn
from bottega.train.rows import TrainRow, imitation_row, policy_rows


def turn(prompt: tuple[int, ...], output: tuple[int, ...]) -> Turn:
    return Turn(
        "write", "", prompt_ids=prompt, output_ids=output, logprobs=tuple(-0.1 * token for token in output), policy_version=0
    )


def trace(*turns: Turn, name: str = "t") -> Trace:
    return Trace(name, "write", turns)


def test_turns_merge_while_each_prompt_begins_with_everything_before_it() -> None:
    held = trace(turn((1, 2), (3, 4)), turn((1, 2, 3, 4, 5), (6,)), turn((1, 9), (7,)))
    built = policy_rows([held], {("t", 0): 1.0, ("t", 1): -2.0, ("t", 2): 0.5}, longest=100)
    merged, alone = built.rows
    assert merged.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert merged.policy.tolist() == [0, 0, 1, 1, 0, 1]
    assert merged.advantage.tolist() == [0, 0, 1, 1, 0, -2]
    assert merged.rollout[[2, 3, 5]].tolist() == pytest.approx([-0.3, -0.4, -0.6])
    assert np.isnan(merged.rollout[[0, 1, 4]]).all()
    assert merged.answers == 2
    assert merged.spans == (("t", 0, 2, 4), ("t", 1, 5, 6))
    assert alone.ids.tolist() == [1, 9, 7]
    assert not merged.imitation.any()


def test_a_turn_without_an_advantage_is_read_but_not_learned() -> None:
    held = trace(turn((1, 2), (3, 4)), turn((1, 2, 3, 4, 5), (6,)))
    (row,) = policy_rows([held], {("t", 1): 1.0}, 100).rows
    assert row.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert row.policy.tolist() == [0, 0, 0, 0, 0, 1]
    assert policy_rows([held], {}, 100).rows == []


def test_what_cannot_be_learned_is_told() -> None:
    long, silent = trace(turn(tuple(range(50)), (1,)), name="long"), trace(Turn("write", "words"), name="silent")
    no_number = trace(turn((1,), (2,)), name="nan")
    built = policy_rows([long, silent, no_number], {("long", 0): 1.0, ("silent", 0): 1.0, ("nan", 0): float("nan")}, longest=20)
    assert built.rows == []
    assert built.too_long == (("long", 0),)
    assert built.without_tokens == ("silent",)


def test_imitation_weighs_the_answer_alone() -> None:
    row = imitation_row([1, 2, 3], [4, 5])
    assert row.imitation.tolist() == [0, 0, 0, 1, 1]
    assert row.learned.tolist() == [False, False, False, True, True]


def test_a_row_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="first token"):
        imitation_row([], [4, 5])
    good = imitation_row([1], [2])
    with pytest.raises(ValueError, match="length"):
        TrainRow(good.ids, good.imitation[:1], good.policy, good.advantage, good.rollout, good.old, good.reference, good.target)
