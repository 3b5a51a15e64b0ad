"""The cold start's rows say nothing of what is fast; each way of answering has its own library; a wrong answer counts as the rule's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import growing_library
import pytest
from choice_card_rows import HERE, Known, known
from choice_tasks import built
from growing_library import FIRST, NONE, RULE, WHOLE, answer_table, card_table, functions_that_matter, shown, versions
from growing_rows import cold_rows, told_card

from bottega.agents.cards import keyed_cards
from bottega.compiler.choice_places import ChoicePlace
from bottega.core.skill import SkillState
from bottega.core.task import Task
from bottega.skills.library import Library
from bottega.train.config import read_config

SOURCE = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(512, 256)

    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1)


def get_inputs():
    return [torch.randn(4096, 512)]


def get_init_inputs():
    return []
"""


def made(ms: float = 1.0) -> Known:
    task = built(Task(SOURCE, "linear_softmax"), "matmul", "float32", "chain", 2, ("linear", "softmax"), "synth:1/1", 10)
    assert task is not None
    tried = [{"place": change.place, "label": change.label, "ms": ms} for change in task.variants]
    facts = {"name": "n", "family": "matmul", "dtype": "float32", "structure": "chain", "operators": ["linear"]}
    times = {"rule_ms": 1.0, "eager_ms": 1.5, "gain": 1.0, "winner": []}
    return known(task, {**facts, **times, "task": task.id, "variants": tried})


@pytest.mark.rotates
def test_rows_of_all_forms_and_the_same_whatever_was_fast() -> None:
    rows = cold_rows(made())
    assert {"no card", "another card", "later turn", "summary"} <= {row["kind"] for row in rows}
    assert rows == cold_rows(made(ms=0.5)), "no time of a variant is in them"
    for row in rows:
        prompt, said = row["messages"][-2]["content"], row["messages"][-1]["content"]
        assert "tl.dot" not in prompt, "nothing that is linked"
        if row["kind"] == "later turn":
            assert said.split("```")[1] not in prompt, "not what was tried"
        if row["kind"] == "summary":
            (card,) = keyed_cards(said)
            here = prompt.split("Holds here:")[1].split("##")[0].strip().splitlines()
            assert any(line.startswith(card["applies_to"]) for line in here), "a line of the prompt, or its beginning"
            assert "+" in prompt.split("The best changed:")[1]


def test_functions_matter_where_a_choice_gained() -> None:
    assert not functions_that_matter([made(), made(ms=0.8)]), "once is no pattern"
    assert "linear" in functions_that_matter([made(), made(ms=0.8), made(ms=0.8)])
    assert not functions_that_matter([made(ms=0.8), made(ms=0.8), *[made()] * 20]), "fewer than a tenth"


def test_a_told_card_tells_its_sizes_once() -> None:
    place = ChoicePlace("rows", "rows", {"rows": 4096, "columns": 300})
    card = told_card(place, "float32", "rows_of=512, warps=1", {"columns": (128, 1023)})
    assert card.applies_to.sizes == {"columns": (128, 1023)} and card.name == "rows_rows_of_512_warps_1_float32"
    assert "1023" not in f"{card.intent} {card.conditions} {card.anchor}" and "any size" not in card.intent


def test_each_way_has_its_own_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ChoicePlace("rows", "rows", {"rows": 4096, "columns": 256})
    cards = [told_card(place, "float32", f"rows_of={block}, warps=1") for block in (512, 2048)]
    facts = growing_library.device_facts("cpu")
    monkeypatch.setattr(growing_library, "device_facts", lambda device: type(facts)("cuda", HERE, "sm_90", 132, 0.0))
    with Library(tmp_path) as library:
        for card in cards:
            library.add(card)
            library.move(card.name, SkillState.ADMITTED, "gain 1.2x")
        found = {
            way: [card.name for card in shown(library, Task(SOURCE, "linear_softmax"), "cuda", "triton", version)]
            for way, version in versions(library).items()
        }
        assert found[NONE] == [] and found[FIRST] == [cards[0].name] and len(found[WHOLE]) == 2
        assert "2 cards admitted" in "\n".join(card_table(library))


def test_a_wrong_answer_counts_as_the_rules() -> None:
    def row(number: int, grown: float | None, cards: list[str]) -> dict[str, Any]:
        times = {RULE: {"ms": 1.0}, NONE: {"ms": 1.0}, FIRST: {"ms": 1.0}, WHOLE: {"ms": grown}}
        return {"task": str(number), "times": times, "cards": {NONE: [], FIRST: [], WHOLE: cards}}

    told = "\n".join(answer_table([row(0, 0.5, ["a"]), row(1, None, []), row(2, 0.5, ["a"]), row(3, None, [])]))
    assert f"| {WHOLE} | 2 | 1.414" in told
    assert f"| {WHOLE} over {FIRST} | 1.414" in told and "2.000 [2.000, 2.000] (2) |" in told


@pytest.mark.parametrize("small", [(), growing_library.SMALL])
def test_settings_begin_empty_and_can_admit(small: tuple[str, ...]) -> None:
    config = read_config("rl", "one-gpu", None, [*growing_library.SETTINGS, *small])
    assert config.skills.library == "empty" and config.rollout.turns > 1 and config.rollout.summaries > 1
    assert config.skills.cap > 3, "a third of the rule's answers are beyond"
