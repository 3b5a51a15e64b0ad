from __future__ import annotations

import asyncio

import pytest

from bottega.backbone.chat import Message, Usage
from bottega.backbone.client import Answer, ChatSpeaker, Speaker, TokenSpeaker
from bottega.backbone.failures import ContextError
from bottega.backbone.sampling import Sampling
from bottega.backbone.scripted import END, ScriptedChat, ScriptedTokens
from bottega.core.errors import BackboneError

HI = [Message("user", "hi")]
DEFAULT = Sampling()


def say(speaker: Speaker, messages: list[Message] = HI, sampling: Sampling = DEFAULT) -> Answer:
    async def ask() -> Answer:
        try:
            return await speaker.say(messages, sampling)
        finally:
            await speaker.close()

    return asyncio.run(ask())


def test_a_chat_answers_without_tokens() -> None:
    speaker = ChatSpeaker(ScriptedChat(["hello you"], name="someone", context=99))
    assert (speaker.name, speaker.context, speaker.count_tokens("abcd")) == ("someone", 99, 2)
    assert say(speaker) == Answer("hello you", Usage(1, 3), "stop")


def test_tokens_keep_what_training_needs() -> None:
    backbone = ScriptedTokens(["hello"], name="someone", context=99)
    backbone.policy_version = 7
    speaker = TokenSpeaker(backbone)
    assert (speaker.name, speaker.context, speaker.count_tokens("abcd")) == ("someone", 99, 4)
    got = say(speaker)
    assert (got.text, got.usage, got.stop_reason, got.policy_version) == ("hello", Usage(5, 6), "stop", 7)
    assert got.prompt_ids == tuple(backbone.tokenizer.conversation(HI))
    assert got.output_ids == (*b"hello", END) and got.logprobs is not None and len(got.logprobs) == 6


def test_a_stop_string_is_drawn_and_not_said() -> None:
    got = say(TokenSpeaker(ScriptedTokens(["one END two END"])), sampling=Sampling(stop=("two", "END")))
    assert got.text == "one " and got.output_ids == (*b"one END",)


def test_the_limit_shrinks_to_what_the_context_leaves() -> None:
    tokens = ScriptedTokens(["0123456789"], context=12)
    assert say(TokenSpeaker(tokens)).text == "0123456"
    assert tokens.asked[0].sampling.max_tokens == 7
    chat = ScriptedChat(["0123456789"], context=12)
    assert say(ChatSpeaker(chat)).stop_reason == "length"
    assert chat.asked[0].sampling.max_tokens == 3
    roomy = ScriptedChat(["x"], context=10_000)
    say(ChatSpeaker(roomy), sampling=Sampling(max_tokens=17))
    assert roomy.asked[0].sampling.max_tokens == 17


@pytest.mark.parametrize(
    "speaker", [TokenSpeaker(ScriptedTokens(["x"], context=200)), ChatSpeaker(ScriptedChat(["x"], context=200))]
)
def test_a_prompt_without_room_is_refused_before_anyone_is_asked(speaker: Speaker) -> None:
    with pytest.raises(ContextError, match=r"leaves no room for an answer in the context of scripted \(200\)") as caught:
        say(speaker, [Message("user", "word " * 200)])
    assert isinstance(caught.value, BackboneError)


def test_many_at_once() -> None:
    async def scene() -> list[str]:
        speaker = TokenSpeaker(ScriptedTokens(lambda messages, sampling: messages[-1].content[::-1]))
        got = await asyncio.gather(*(speaker.say([Message("user", f"<{number}")], Sampling()) for number in range(20)))
        return [each.text for each in got]

    assert asyncio.run(scene()) == [f"<{number}"[::-1] for number in range(20)]
