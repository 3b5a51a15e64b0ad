from __future__ import annotations

import asyncio

import pytest
from scripted_tokens import END, ScriptedTokens

from bottega.backbone.chat import Message, Sampling, Usage
from bottega.backbone.client import ChatClient, Client, Generation, TokenClient
from bottega.backbone.reply import ContextError
from bottega.backbone.scripted import ScriptedChat
from bottega.core.errors import BackboneError

HI = [Message("user", "hi")]
DEFAULT = Sampling()


def say(client: Client, messages: list[Message] = HI, sampling: Sampling = DEFAULT) -> Generation:
    async def ask() -> Generation:
        try:
            return await client.generate(messages, sampling)
        finally:
            await client.close()

    return asyncio.run(ask())


def test_a_chat_answers_without_tokens() -> None:
    client = ChatClient(ScriptedChat(["hello you"], name="someone", context=99))
    assert (client.name, client.context, client.count_tokens("abcd")) == ("someone", 99, 2)
    assert say(client) == Generation("hello you", Usage(1, 3), "stop")


def test_tokens_keep_what_training_needs() -> None:
    backbone = ScriptedTokens(["hello"], name="someone", context=99)
    backbone.policy_version = 7
    client = TokenClient(backbone)
    assert (client.name, client.context, client.count_tokens("abcd")) == ("someone", 99, 4)
    got = say(client)
    assert (got.text, got.usage, got.stop_reason, got.policy_version) == ("hello", Usage(5, 6), "stop", 7)
    assert got.prompt_ids == tuple(backbone.tokenizer.conversation(HI))
    assert got.output_ids == (*b"hello", END) and got.logprobs is not None and len(got.logprobs) == 6


def test_the_limit_shrinks_to_what_the_context_leaves() -> None:
    tokens = ScriptedTokens(["0123456789"], context=12)
    assert say(TokenClient(tokens)).text == "0123456"
    assert tokens.asked[0].sampling.max_tokens == 7
    chat = ScriptedChat(["0123456789"], context=12)
    assert say(ChatClient(chat)).stop_reason == "length"
    assert chat.asked[0].sampling.max_tokens == 3
    roomy = ScriptedChat(["x"], context=10_000)
    say(ChatClient(roomy), sampling=Sampling(max_tokens=17))
    assert roomy.asked[0].sampling.max_tokens == 17


@pytest.mark.parametrize(
    "client", [TokenClient(ScriptedTokens(["x"], context=200)), ChatClient(ScriptedChat(["x"], context=200))]
)
def test_a_prompt_without_room_is_refused_before_anyone_is_asked(client: Client) -> None:
    with pytest.raises(ContextError, match=r"leaves no room for an answer in the context of scripted \(200\)") as caught:
        say(client, [Message("user", "word " * 200)])
    assert isinstance(caught.value, BackboneError)


def test_many_at_once() -> None:
    async def scene() -> list[str]:
        client = TokenClient(ScriptedTokens(lambda messages, sampling: messages[-1].content[::-1]))
        got = await asyncio.gather(*(client.generate([Message("user", f"<{number}")], Sampling()) for number in range(20)))
        return [each.text for each in got]

    assert asyncio.run(scene()) == [f"<{number}"[::-1] for number in range(20)]
