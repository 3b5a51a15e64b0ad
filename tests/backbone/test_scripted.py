from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bottega.backbone.chat import ChatCompletion, Message, Sampling
from bottega.backbone.scripted import Question, ScriptedChat
from bottega.core.errors import BackboneError, BudgetError

DEFAULT = Sampling()


def ask(there: ScriptedChat, text: str = "hello", sampling: Sampling = DEFAULT) -> ChatCompletion:
    return asyncio.run(there.chat([Message("user", text)], sampling))


def test_a_list_is_spoken_in_order_and_ends() -> None:
    there = ScriptedChat(["one", BudgetError("enough"), "three"])
    assert ask(there).text == "one"
    with pytest.raises(BudgetError, match="enough"):
        ask(there)
    assert ask(there).text == "three"
    with pytest.raises(BackboneError, match="has 3 answers and was asked for one more"):
        ask(there)


def test_a_list_may_begin_again() -> None:
    there = ScriptedChat(["one", "two"], repeat=True)
    assert [ask(there).text for _ in range(5)] == ["one", "two", "one", "two", "one"]
    with pytest.raises(BackboneError, match="0 answers"):
        ask(ScriptedChat([], repeat=True))


def test_rules_look_at_the_last_message() -> None:
    there = ScriptedChat({"select.*skills": "none", "kernel": "code"})
    assert ask(there, "please select\nsome skills for a kernel").text == "none"
    assert ask(there, "write a kernel").text == "code"
    with pytest.raises(BackboneError, match=r"no rule .* 'sing'; .*select\.\*skills, kernel"):
        ask(there, "sing")


def test_a_function_sees_everything() -> None:
    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        return f"{len(messages)} {messages[-1].role} {sampling.seed}"

    assert ask(ScriptedChat(script), sampling=Sampling(seed=4)).text == "1 user 4"


def test_it_remembers_what_it_was_asked() -> None:
    there = ScriptedChat(["one"])
    ask(there, "what?", Sampling(seed=2))
    assert there.asked == [Question((Message("user", "what?"),), Sampling(seed=2))]


def test_the_limit_cuts() -> None:
    there = ScriptedChat(["abc###def"] * 2)
    assert ask(there, sampling=Sampling(max_tokens=1)).text == "abc"
    short = ask(there, sampling=Sampling(max_tokens=2))
    assert short.stop_reason == "length" and short.usage.output_tokens == 2
