"""Queries: what a task calls weighs most, names meet however they are written, and no text is too odd to ask for."""

from __future__ import annotations

import pytest
from skill_cards import task

from bottega.core.task import Task
from bottega.skills.query import Query, query_for, query_from_text

HOSTILE = [
    "",
    " \n\t",
    "'; DROP TABLE cards; --",
    '"softmax" AND (text:*) OR +row:[0 TO 9]^99 ~2',
    "(((((((((",
    ".*+?[]{}|^$\\",
    "%_%",
    "\x00softmax\x00",
    "\ud800 softmax",
    "\u202esoftmax",
    "плитка 読む 🚀",
    "_" * 1000,
    "x" * 200_000,
    "Aa" * 50_000,
    "1" * 100_000,
    "a_" * 50_000,
]


def test_a_name_is_found_in_every_spelling() -> None:
    for spelling in ("LayerNorm", "layer_norm", "layernorm", "Layer_Norm"):
        assert "layernorm" in query_from_text(spelling).terms
    for spelling in ("LayerNorm", "layer_norm", "layer norm"):
        assert {"layer", "norm"} <= query_from_text(spelling).terms.keys()
    assert "conv" in query_from_text("Conv2d").terms


def test_what_a_task_computes_weighs_more_than_what_it_is_made_of() -> None:
    terms = query_for(task("softmax")).terms
    assert terms["softmax"] == max(terms.values())
    assert "forward" not in terms and "torch" not in terms and "self" not in terms
    assert "randn" not in terms
    product = Task(task("relu").source.replace("torch.relu(x, -1)", "x @ x"), name="product")
    assert query_for(product).terms["matmul"] == max(query_for(product).terms.values())


def test_tags_are_asked_for_too() -> None:
    tagged = Task(task().source, tags=("family:reduction", "dtype:float16", "level:2"))
    terms = query_for(tagged).terms
    assert {"reduction", "float16", "half"} <= terms.keys()
    assert "2" not in terms and "level" not in terms


def test_a_source_that_does_not_parse_is_read_as_words() -> None:
    assert "softmax" in query_for(Task("def forward(: return softmax(x)")).terms
    deep = Task("x = " + "(" * 100_000)
    assert isinstance(query_for(deep), Query)
    assert isinstance(query_for(Task("x = '\ud800'")), Query)


def test_who_asks_only_for_common_words_gets_them() -> None:
    assert query_from_text("cuda").terms == {"cuda": 2.0}
    assert query_from_text("the batch").terms.keys() == {"the", "batch"}
    assert "batch" not in query_from_text("softmax batch").terms, "beside a telling word they would only add noise"


def test_two_queries_together_keep_the_greater_weight() -> None:
    both = Query({"a": 1.0, "b": 2.0}) | Query({"a": 3.0, "c": 1.0})
    assert both.terms == {"a": 3.0, "b": 2.0, "c": 1.0}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_any_text_is_a_query(text: str) -> None:
    query = query_from_text(text)
    assert all(word and weight > 0 for word, weight in query.terms.items())
    assert isinstance(query_for(Task(text or "pass", name=text, tags=(text,))), Query)
