"""Learning to pick one of a task's options from what the sweep measured."""

from __future__ import annotations

import math
import random

import pytest
import torch
from choice_policy import BEFORE, Chooser, objective, table


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
    for row in every:
        row["controls"] = {"BM25": 0}
    lines = list(table(every, picks))
    assert any(line.startswith("gradient over BM25: 1.200") for line in lines)
    assert any(line.startswith("| gradient | 4 | 1.200 [1.200, 1.200]") for line in lines)
    assert any(line.startswith(f"gradient over {BEFORE}: 1.200") for line in lines)


def test_options_behind_one_prompt_have_the_log_probs_of_whole_texts() -> None:
    """Prompts of several lengths and options of several numbers at once, against one text after the other; gradients too."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    shape = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, num_key_value_heads=2))
    rows = [{"prompt": "a b", "options": ["rule", "tile 64"]}, {"prompt": "a longer one", "options": ["rule", "x", "warps 8"]}]

    def tokens(text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}

    def whole(prompt: str, option: str) -> torch.Tensor:
        ids = torch.tensor([tokens(prompt)["input_ids"] + tokens(f" {option}\n")["input_ids"]])
        found = torch.log_softmax(model(input_ids=ids).logits[0, :-1].float(), -1).gather(-1, ids[0, 1:, None])[:, 0]
        return found[len(prompt) - 1 :].sum()

    found = Chooser(model, tokens, "cpu").logprobs(rows)
    expected = [torch.stack([whole(row["prompt"], option) for option in row["options"]]) for row in rows]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    weight = model.model.layers[0].self_attn.k_proj.weight
    mine, theirs = (torch.autograd.grad(sum(each.sum() for each in many), weight)[0] for many in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
