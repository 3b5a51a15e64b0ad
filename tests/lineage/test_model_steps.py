"""Steps of a model, with scripted answers: what it says becomes a card, and its redone kernel is judged like any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from lineage.toy import TASK, ScriptedJudge, doubling, kernel, toy_workload, words_of

from bottega.agents import simplifier
from bottega.agents.answers.answer import AnswerError
from bottega.agents.prompts import Prompts
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.core.device import DeviceFacts
from bottega.lineage.journal import LineageJournal
from bottega.lineage.mine import Expert, Mined, MiningLimits, mine
from bottega.lineage.model_steps import ModelSteps

CARD = """name: {word} lanes
intent: Run the inner loop in lanes, so that a row takes fewer instructions.
anchor: The innermost loop over contiguous elements of a row.
data_types: float32 sums may be reordered.
layout: rows are contiguous.
storage: none
pipeline: none
hardware: vector registers.
technique: Put the pragma before the inner loop and name every sum in its reduction clause.
failures: A carried sum without its clause is overwritten by the lanes.
"""
DEVICE = DeviceFacts("cpu", "toy", "toy", 1, 1.0)


def simplified(word: str, *left: str) -> str:
    return f"{CARD.format(word=word)}\n```python\n{kernel(*left)}```"


def script(messages: Sequence[Message], sampling: Sampling) -> str:
    text = messages[-1].content
    if "take optimisations out" in messages[0].content:
        words = words_of(text)
        return simplified(words[0], *words[1:]) if words else "none"
    return f"```python\n{kernel('fast')}```"


def run(folder: Path, chat: ScriptedChat, judge: ScriptedJudge) -> Mined:
    with LineageJournal(folder) as journal:
        model = ModelSteps(ChatClient(chat), journal, TASK, "cpp", DEVICE, Prompts("compact"), 512)
        with model:
            expert = Expert("toy_kernel", kernel("fast", "slow"), "cpp", TASK)
            return mine(journal, judge, expert, (), model.propose, model.redo, None, MiningLimits(), toy_workload)


def test_a_models_steps_become_cards_in_its_own_words(tmp_path: Path) -> None:
    chat = ScriptedChat(script)
    found = run(tmp_path, chat, ScriptedJudge(doubling))
    assert [step.feature for step in found.lineage.steps] == ["fast_lanes", "slow_lanes"]
    card = next(card for card in found.cards if card.tags[0] == "fast_lanes")
    assert card.conditions.data_types == "float32 sums may be reordered."
    assert card.technique.startswith("Put the pragma")
    assert card.provenance.origin == "lineage"
    assert found.trips[-1].verified
    # The fresh attempt sees the card and the plain kernel, and not the expert.
    redone = [question.messages[-1].content for question in chat.asked if "Put the pragma" in question.messages[-1].content]
    assert any(kernel() in text for text in redone)
    assert not any(kernel("fast", "slow") in text for text in redone)
    again = ScriptedChat([])
    run(tmp_path, again, ScriptedJudge(doubling, most=0))
    assert not again.asked, "answers are in the journal"


def test_an_answer_that_cannot_be_used_is_asked_for_again(tmp_path: Path) -> None:
    answers = iter(["I would remove the tiles.", simplified("fast", "slow"), "none"])
    found = run(tmp_path, ScriptedChat(lambda messages, sampling: next(answers, "none")), ScriptedJudge(doubling))
    assert [step.feature for step in found.lineage.steps] == ["fast_lanes"]
    assert not found.trips[0].verified


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no code here",
        f"```python\n{kernel()}```",
        CARD.format(word="x").replace("technique", "how") + f"```python\n{kernel()}```",
    ],
)
def test_what_says_nothing_of_a_step_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        simplifier.parse(text, TASK, "cpp", "cpu")


def test_none_means_that_nothing_is_left() -> None:
    assert simplifier.parse("`none`", TASK, "cpp", "cpu") is None
