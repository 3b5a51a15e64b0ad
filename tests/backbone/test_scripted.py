from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from bottega.backbone.chat import ChatCompletion, Message
from bottega.backbone.sampling import Sampling
from bottega.backbone.scripted import END, VOCABULARY, ByteTokenizer, Question, Script, ScriptedChat, ScriptedTokens
from bottega.backbone.tokens import TokenRequest
from bottega.core.errors import BackboneError, BudgetError

TALK = (Message("system", "Be short."), Message("user", "größer? 🚀"), Message("assistant", ""), Message("user", "again"))
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


def test_limits_and_stop_strings_cut() -> None:
    there = ScriptedChat(["abc###def"] * 3)
    assert (ask(there, sampling=Sampling(stop=("###",))).text, ask(there, sampling=Sampling(max_tokens=1)).text) == (
        "abc",
        "abc",
    )
    short = ask(there, sampling=Sampling(max_tokens=2))
    assert short.stop_reason == "length" and short.usage.output_tokens == 2


def test_bytes_there_and_back() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.messages(tokenizer.conversation(TALK)) == TALK
    assert tokenizer.decode(tokenizer.conversation(TALK)) == "".join(message.content for message in TALK)
    assert tokenizer.messages(tokenizer.encode("bare")) == (Message("user", "bare"),)
    assert max(tokenizer.conversation(TALK)) < VOCABULARY


@pytest.mark.parametrize("script", [["größer"], {"again": "größer"}, lambda messages, sampling: "größer"])
def test_the_token_path_speaks_the_same_scripts(script: Script) -> None:
    there = ScriptedTokens(script)
    there.policy_version = 3
    request = TokenRequest(tuple(there.tokenizer.conversation(TALK)), Sampling())
    (drawn,) = asyncio.run(there.complete([request]))
    assert drawn.output_ids == (*"größer".encode(), END) and there.tokenizer.decode(drawn.output_ids) == "größer"
    assert drawn.logprobs == (-math.log(VOCABULARY),) * 9 and (drawn.stop_reason, drawn.policy_version) == ("stop", 3)
    assert there.asked == [Question(TALK, Sampling())]


def test_tokens_end_where_they_must() -> None:
    there = ScriptedTokens(["abc###def"] * 4, context=30)
    prompt = tuple(there.tokenizer.conversation([Message("user", "hi")]))
    requests = [
        TokenRequest(prompt, Sampling(max_tokens=limit, stop=stop)) for limit, stop in ((9, ()), (10, ()), (99, ("###",)))
    ]
    drawn = asyncio.run(there.complete(requests))
    assert [(there.tokenizer.decode(each.output_ids), each.stop_reason) for each in drawn] == [
        ("abc###def", "length"),
        ("abc###def", "stop"),
        ("abc###", "stop"),
    ]
    full = TokenRequest((*prompt, *[65] * 25), Sampling())
    assert asyncio.run(there.complete([full]))[0].output_ids == ()
