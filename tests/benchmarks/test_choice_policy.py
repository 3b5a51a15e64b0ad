"""Learning to pick one of a task's options from what the sweep measured."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import choice_policy
import pytest
import torch
from choice_distil import write_rows
from choice_features import WORDS, FeatureChooser, features
from choice_folds import FOLDS, fold_of, of_fold, rows_file
from choice_learning import Chooser, Steps, objective
from choice_model import small_chooser
from choice_scores import SET_ASIDE, VALIDATED, all_scores, known_ways, report_lines, settled

pytest.importorskip("transformers")


def learned(way: str, gains: list[float], soft: float = 0.0) -> list[float]:
    logits, chance = torch.zeros(len(gains), requires_grad=True), random.Random(0)
    optimiser = torch.optim.SGD([logits], lr=0.1)
    for _ in range(600):
        optimiser.zero_grad()
        objective(way, logits, torch.tensor(gains), chance, soft).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return torch.softmax(logits, 0).tolist()  # type: ignore[no-any-return]


def test_the_gradient_finds_the_fastest_option_and_a_shuffled_table_finds_none() -> None:
    gains = [0.0, -0.4, 0.3, 0.05]
    assert learned("gradient", gains)[2] > 0.9
    assert max(learned("shuffled", gains, 0.05)) < 0.9


def test_a_soft_policy_is_not_sure_of_what_hardly_differs() -> None:
    gains = [0.0, 0.01, -0.5]
    assert learned("gradient", gains, 0.05) == pytest.approx(torch.softmax(torch.tensor(gains) / 0.05, 0).tolist(), abs=0.02)


def test_imitation_keeps_the_rule_s_choice_where_nothing_is_surely_faster() -> None:
    assert learned("imitation", [0.0, 0.01, -0.2])[0] > 0.9
    assert learned("imitation", [0.0, 0.1, -0.2])[1] > 0.9
    assert learned("imitation", [0.0, 0.1, -0.2], 0.3)[1] == pytest.approx(0.8, abs=0.02)


def test_every_task_is_set_aside_once_and_built_in_ones_are_never_learned_from() -> None:
    rows = [{"task": f"{number}", "structure": "builtin" if number % 5 == 0 else "chain"} for number in range(40)]
    folds = [of_fold(rows, fold) for fold in range(FOLDS)]
    assert sorted(row["task"] for fold in folds for row in fold if row["held_out"]) == sorted(row["task"] for row in rows)
    assert not [row for fold in folds for row in fold if row["structure"] == "builtin" and not row["held_out"]]


def score(way: str, setting: str, part: str, task: str, greedy: float) -> dict[str, Any]:
    return {"way": way, "fold": 0, "seed": 0, "setting": setting, "part": part, "task": task, "greedy": greedy, "sampled": 0.0}


def test_the_setting_is_chosen_by_the_part_that_validates_alone() -> None:
    scores = [score("gradient", "a", VALIDATED, "v", 0.2), score("gradient", "b", VALIDATED, "v", 0.1)]
    scores += [score("gradient", "a", SET_ASIDE, "t", 0.0), score("gradient", "b", SET_ASIDE, "t", 0.5)]
    assert settled(scores, "greedy") == {"gradient": {"t": 0.0}}


def test_ways_are_compared_task_by_task() -> None:
    facts = {"gain": 1.2, "gains": [0.0, math.log(1.2)], "controls": {"BM25": 0}}
    scores = [
        score(way, "a", SET_ASIDE, f"{n}", log)
        for n in range(4)
        for way, log in (("gradient", math.log(1.2)), ("imitation", 0))
    ]
    lines = list(report_lines(known_ways([{**facts, "task": f"{n}"} for n in range(4)]), scores))
    assert any(line.startswith("| gradient | 4 | 1.200 [1.200, 1.200] | 1.000 [1.000, 1.000]") for line in lines)
    assert any(line.startswith("| gradient over BM25 | 4 | 1.200 ") for line in lines)
    assert any(line.startswith("| gradient over imitation | 4 | 1.200 ") and line.endswith("| 4, 0 |") for line in lines)


def test_options_behind_one_prompt_have_the_scores_of_whole_texts() -> None:
    """Prompts of several lengths and options of several numbers at once, against one text after the other; gradients too."""
    chooser = small_chooser()
    torch.nn.init.normal_(chooser.head.weight)
    rows = [{"prompt": "a b", "options": ["rule", "tile 64"]}, {"prompt": "a longer one", "options": ["rule", "x", "warps 8"]}]

    def whole(prompt: str, option: str) -> torch.Tensor:
        ids = torch.tensor([chooser.tokenizer(f"{prompt} {option}\n")["input_ids"]])
        return chooser.head(chooser.model(input_ids=ids).last_hidden_state[0, -1])[0]  # type: ignore[no-any-return]

    found = chooser.scores(rows)
    expected = [torch.stack([whole(str(row["prompt"]), option) for option in row["options"]]) for row in rows]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    weight = chooser.model.layers[0].self_attn.k_proj.weight
    mine, theirs = (torch.autograd.grad(sum(each.sum() for each in many), weight)[0] for many in (found, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(chooser.judged(rows[::-1])[0], found[1], rtol=1e-4, atol=1e-4)


def test_a_model_learns_which_option_pays_and_what_is_there_is_not_learned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chooser, "open", small_chooser)
    facts = {"structure": "chain", "gain": 1.3, "options": ["rule", "fast", "slow"], "gains": [0.0, 0.3, -0.3]}
    rows = [{**facts, "task": f"{n}", "prompt": f"task {n}\nFastest:"} for n in range(48)]
    for fold in range(FOLDS):
        write_rows(rows_file(tmp_path, fold), of_fold(rows, fold))
    choice_policy.learn(tmp_path, 1, "gradient", "cpu", "small", 10, 10, "1e-2", 0, 0)
    found = settled(all_scores(tmp_path), "greedy")["gradient"]
    assert found == {f"{n}": pytest.approx(0.3, abs=1e-4) for n in range(48) if fold_of(f"{n}") == 1}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("scores-*")}
    choice_policy.learn(tmp_path, 1, "gradient", "cpu", "small", 10, 10, "1e-2", 0, 0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("scores-*")} == before


def test_the_gradient_goes_on_from_what_imitation_has_learned(tmp_path: Path) -> None:
    """With a rate at which the second part alone learns nothing."""
    facts = {"structure": "chain", "gain": 1.3, "options": ["rule", "warps=8", "warps=1"], "gains": [0.0, 0.3, -0.3]}
    rows = [{**facts, "task": f"{n}", "prompt": f"task {n}\nFastest:"} for n in range(48)]
    write_rows(rows_file(tmp_path, 1), of_fold(rows, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice_policy, "GENTLER", 1e9)
        choice_policy.learn(tmp_path, 1, "refined", "cpu", "features", 10, 10, "1e-2", 0, 0)
    assert all(gain == pytest.approx(0.3, abs=1e-4) for gain in settled(all_scores(tmp_path), "greedy")["refined"].values())


def test_features_tell_words_and_numbers_apart() -> None:
    texts = ("row (columns 2^6): warps=2", "row (columns 2^9): warps=2", "rows (columns 2^6): warps=2")
    small, large, other = map(features, texts)
    assert small != large and small[:WORDS] == large[:WORDS] and small[:WORDS] != other[:WORDS]
    assert features("tile=(64, 32)") != features("tile=(32, 64)")
    assert features("(1.10x), others 5: 0.90x") != features("(0.90x), others 5: 1.10x")


def test_the_small_network_learns_and_begins_anew() -> None:
    chooser, rows = FeatureChooser("cpu"), [{"prompt": "row", "options": ["rule", "warps=8", "warps=1"]}]
    chooser.reset()
    assert chooser.judged(rows)[0].tolist() == [0.0, 0.0, 0.0]
    assert chooser.judged([{**rows[0], "bias": {2: 1.5}}])[0].tolist() == [0.0, 0.0, 1.5], "what is believed beforehand"
    steps, gains = Steps(chooser, 1e-2, 60), torch.tensor([0.0, 0.3, -0.3])
    for _ in range(60):
        steps.take(objective("gradient", chooser.scores(rows)[0], gains, random.Random(0)))
    assert int(chooser.judged(rows)[0].argmax()) == 1
    chooser.reset()
    assert chooser.judged(rows)[0].tolist() == [0.0, 0.0, 0.0]
