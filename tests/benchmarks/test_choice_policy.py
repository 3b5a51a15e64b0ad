"""Learning to pick one of a task's options from what the sweep measured."""

from __future__ import annotations

import math
import random

import torch
from choice_policy import BEFORE, objective, table


def learned(way: str, gains: list[float], steps: int = 200) -> list[float]:
    logits, chance = torch.zeros(len(gains), requires_grad=True), random.Random(0)
    optimiser = torch.optim.SGD([logits], lr=0.5)
    for _ in range(steps):
        optimiser.zero_grad()
        objective(way, logits, torch.tensor(gains), chance)[0].backward()
        optimiser.step()
    return torch.softmax(logits, 0).tolist()


def test_the_gradient_finds_the_fastest_option_and_a_shuffled_table_finds_none() -> None:
    gains = [0.0, -0.4, 0.3, 0.05]
    assert learned("gradient", gains)[2] > 0.9
    assert max(learned("shuffled", gains)) < 0.9


def test_imitation_keeps_the_rule_s_choice_where_nothing_is_surely_faster() -> None:
    assert learned("imitation", [0.0, 0.01, -0.2])[0] > 0.9
    assert learned("imitation", [0.0, 0.1, -0.2])[1] > 0.9


def test_the_reward_that_is_expected_is_the_policy_s_own() -> None:
    _, reward = objective("gradient", torch.log(torch.tensor([0.5, 0.5])), torch.tensor([0.0, 0.2]), random.Random(0))
    assert math.isclose(reward, 0.1, rel_tol=1e-5)


def test_picks_are_compared_on_tasks_that_are_set_aside() -> None:
    facts = {"dtype": "float32", "structure": "chain", "gain": 1.2, "options": ["rule", "a"]}
    every = [{**facts, "task": f"{n}", "held_out": n < 4, "gains": [0.0, math.log(1.2)]} for n in range(6)]
    picks = [
        {"task": f"{n}", "way": way, "pick": pick, "seed": 0} for n in range(6) for way, pick in (("gradient", 1), (BEFORE, 0))
    ]
    lines = list(table(every, picks))
    assert any(line.startswith("| gradient | 4 | 1.200 [1.200, 1.200]") for line in lines)
    assert any(line.startswith(f"gradient over {BEFORE}: 1.200") for line in lines)
