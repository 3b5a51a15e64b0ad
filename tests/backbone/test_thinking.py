"""Reasoning models: thinking on or off by the template, and a budget after which a model is made to answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_tokens import END, ScriptedTokens

from bottega.agents.answers.answer import answer_text
from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Generation, TokenClient
from bottega.backbone.server import Endpoint, ServerBackbone
from bottega.backbone.thinking import GIVE_UP, is_thinking, template_arguments
from bottega.core.errors import UsageError

HI = [Message("user", "hi")]


def asked(backbone: ScriptedTokens, budget: int | None, most: int = 40) -> Generation:
    return asyncio.run(TokenClient(backbone, budget).generate(HI, Sampling(most, seed=5)))


def test_a_model_that_thinks_too_long_is_made_to_answer() -> None:
    backbone = ScriptedTokens(["<think>on and on and on and on", "the answer"])
    got = asked(backbone, 12)
    assert got.text == f"<think>on an{GIVE_UP}the answer"
    assert got.output_ids == (*b"the answer", END) and len(got.logprobs or ()) == 11, "the answer alone was drawn to the end"
    cut = (*b"<think>on an", *GIVE_UP.encode())
    assert got.prompt_ids == (*backbone.tokenizer.conversation(HI), *cut), "and is learned given the thoughts"
    assert got.usage.output_tokens == len(cut) + 11
    first, second = (question.sampling for question in backbone.asked)
    assert (first.max_tokens, second.max_tokens) == (12, 28)
    assert first.seed != second.seed, "the same noise would come again"


@pytest.mark.parametrize(("budget", "text"), [(30, "<think>hm</think>yes"), (None, "<think>on and on"), (12, "no thoughts")])
def test_whoever_keeps_to_the_budget_is_left_alone(budget: int | None, text: str) -> None:
    backbone = ScriptedTokens([text])
    assert asked(backbone, budget).text == text
    assert len(backbone.asked) == 1


@pytest.mark.parametrize("first", ["<think>hm</think>and so on", "no thoughts at all"])
def test_an_answer_longer_than_the_budget_goes_on(first: str) -> None:
    backbone = ScriptedTokens([first, ", to its end"])
    got = asked(backbone, 18)
    assert got.text == first[:18] + ", to its end"
    assert got.prompt_ids == tuple(backbone.tokenizer.conversation(HI))
    assert len(got.output_ids or ()) == len(got.logprobs or ()) == 18 + 13


def test_thoughts_may_be_opened_by_the_template() -> None:
    assert is_thinking("<assistant>\n<think>\n", "let me see")
    assert is_thinking("", "\n<think>let me see")
    assert not is_thinking("<think>", "let me see</think> yes")
    assert not is_thinking("", "I think <think> is a tag")


def test_what_was_cut_is_no_part_of_the_answer_that_is_read() -> None:
    text = asked(ScriptedTokens(["<think>```python\nnot this\n```", "this"]), 20).text
    assert answer_text(text) == "this"


def test_a_template_is_told_whether_to_think() -> None:
    transformers: Any = pytest.importorskip("transformers")
    from small_models import word_tokenizer

    from bottega.backbone.tokenizer import HuggingFaceTokenizer

    assert transformers
    inner = word_tokenizer().inner
    inner.chat_template = "{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}w7 {% endif %}"
    written = [HuggingFaceTokenizer(inner, 64, template=given)._written(HI) for given in ({}, {"enable_thinking": False})]
    assert written == ["hi", "hiw7 "]


def test_an_argument_that_the_template_does_not_know_is_refused() -> None:
    """It would be ignored: a model that is told not to think would think."""
    pytest.importorskip("transformers")
    from small_models import small_model, word_tokenizer

    from bottega.backbone.loading import tokenizer_of

    inner, config = word_tokenizer().inner, small_model().config
    inner.chat_template = "{{ messages[0].content }}{{ reasoning_effort }}"
    found = tokenizer_of("some", inner, config, None, 64, template_arguments(None, {"reasoning_effort": "w3"}))
    assert found._written(HI) == "hiw3"
    with pytest.raises(UsageError, match="template of some knows no enable_thinking"):
        tokenizer_of("some", inner, config, None, 64, template_arguments(False, None))


def test_a_server_is_told_in_the_words_of_those_who_know_it() -> None:
    endpoint = Endpoint("http://localhost:1/v1", "some")
    assert "extra_body" not in ServerBackbone(endpoint)._request(HI, Sampling())
    told = ServerBackbone(endpoint, template={"enable_thinking": False})._request(HI, Sampling())["extra_body"]
    assert told == {"chat_template_kwargs": {"enable_thinking": False}}
    told = ServerBackbone(endpoint, thinking_tokens=99)._request(HI, Sampling())["extra_body"]
    assert told == {"chat_template_kwargs": {"thinking_budget": 99}, "thinking_token_budget": 99}


def test_options_of_a_server_follow_a_question_mark() -> None:
    client: Any = open_backbone(
        'server:some@http://localhost:1/v1?thinking=no&thinking_tokens=64&concurrency=2&template={"reasoning_effort":"low"}'
    )
    assert client.backbone.endpoint.base_url == "http://localhost:1/v1"
    assert client.backbone.concurrency == 2
    told = client.backbone._request(HI, Sampling())["extra_body"]["chat_template_kwargs"]
    assert told == {"enable_thinking": False, "reasoning_effort": "low", "thinking_budget": 64}
    with pytest.raises(UsageError, match="is no JSON object"):
        open_backbone("local:some?template=low")
