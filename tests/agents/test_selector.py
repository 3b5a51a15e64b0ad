"""Selectors: a short prompt, and answers in every wrapping that models have been seen to use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from bottega.agents.answers.answer import AnswerError
from bottega.agents.prompts import Prompts
from bottega.agents.selector import SelectorInput, messages, parse
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.skills.rerank import Choice

TWO = (Choice("one_pass", "it saves reads"), Choice("wide_loads", "16 bytes at once"))


def test_the_compact_prompt(task: Task, card: Callable[..., Skill]) -> None:
    system, user = messages(SelectorInput(task, (card().header,), 2, "cpu", "cpp"), Prompts("compact"))
    assert system.content == (
        "Pick at most 2 skills that make a C++ kernel for the task faster on cpu. One line each, best first, as name: reason. "
        "If none helps, answer none."
    )
    assert user.content == (
        f"Task:\n```python\n{task.source}```\n\nSkills:\none_pass: one_pass saves reads of memory. [general; fusion]"
    )


def test_a_terse_prompt_shows_the_sketch_instead_of_the_task_where_there_is_one(task: Task, card: Callable[..., Skill]) -> None:
    sketch = "forward(x)\nx 256x512\nt1 = relu(x) 256x512\nreturn t1"
    given = SelectorInput(task, (card().header,), 2, "cuda", "triton", sketch)
    _, user = messages(given, Prompts("terse"))
    skills = "one_pass: one_pass saves reads of memory."
    assert user.content == f"```\n{sketch}\n```\n\n{skills}"
    bare = replace(given, sketch="")
    assert messages(bare, Prompts("terse"))[1].content == f"```python\n{task.source}```\n\n{skills}"
    for style in ("compact", "full"):
        assert messages(given, Prompts(style)) == messages(bare, Prompts(style))


@pytest.mark.parametrize(
    "text",
    [
        "one_pass: it saves reads\nwide_loads: 16 bytes at once",
        "one_pass: it saves reads\r\n\r\nwide_loads: 16 bytes at once\r\n",
        "- `one_pass`: it saves reads\n- `wide_loads`: 16 bytes at once",
        "1. **one_pass**: it saves reads\n2) **wide_loads:** 16 bytes at once",
        "one_pass - it saves reads\nwide_loads — 16 bytes at once",
        "name: one_pass\nreason: it saves reads\nname: wide_loads\nreason: 16 bytes at once",
        "Here are my picks for you:\n\n* one-pass: it saves reads\n* Wide_Loads: 16 bytes at once\n\nI hope that helps!",
        '[{"name": "one_pass", "reason": "it saves reads"}, {"name": "wide_loads", "reason": "16 bytes at once"}]',
        '```json\n[{"name": "one_pass", "reason": "it saves reads"},\n {"name": "wide_loads", "reason": "16 bytes at once"},]\n```',
        'Sure! Using [x] and {y}:\n{"skills": [{"name": "one_pass", "reason": "it saves reads"}, '
        '{"name": "wide_loads", "reason": "16 bytes at once"}]}\nGood luck [with] it.',
        '{"one_pass": "it saves reads", "wide_loads": "16 bytes at once"}',
        '{"name": "one_pass", "reason": "it saves\n reads"}\n{"name": "wide_loads", "reason": "16 bytes at once"}',
        "[{“name”: “one_pass”, “reason”: “it saves reads”}, {“name”: “wide_loads”, “reason”: “16 bytes at once”}]",
        '[{"name": "one_pass", "reason": "it saves reads"}, {"name": "wide_loads", "reason": "16 bytes at once"}, {"name": "cut_o',
        '<think>maybe [{"name": "other", "reason": ""}]\nother: yes</think>\none_pass: it saves reads\nwide_loads: 16 bytes at once',
        "so the opening was in the prompt\nother: yes\n</think>\none_pass: it saves reads\nwide_loads: 16 bytes at once",
        "<reasoning>a<think>b</think>c</reasoning>one_pass: it saves reads\nwide_loads: 16 bytes at once",
    ],
)
def test_answers_in_every_wrapping(text: str) -> None:
    assert parse(text, 3) == TWO


@pytest.mark.parametrize(
    "text", ["", "  \n", "none", "None.", "`none`", "- none", "[]", "```json\n[]\n```", '{"skills": []}', "none: nothing fits", "No skills",
             "<think>long</think>none", "<think>long</think>", "null", "After looking at all of them:\nnone"]
)  # fmt: skip
def test_none_is_an_answer(text: str) -> None:
    assert parse(text, 3) == ()


def test_at_most_k_and_each_once() -> None:
    assert [choice.name for choice in parse("a_b: 1\nc_d: 2\na_b: 3\ne_f: 4\ng_h: 5", 3)] == ["a_b", "c_d", "e_f"]
    assert parse("a_b: 1\na_b: 3", 3) == (Choice("a_b", "1"),)
    assert parse('["a_b", "c_d"]', 1) == (Choice("a_b"),)
    assert parse("a_b\nc_d", 2) == (Choice("a_b"), Choice("c_d")) and parse("a_b", 0) == ()


def test_reasons_are_bounded() -> None:
    (choice,) = parse("a_b: " + "word " * 10_000, 3)
    assert len(choice.reason) <= 300


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<think>I would pick one_pass because", "unfinished"),
        ("I would rather not choose anything from what I was shown here.", "wrong_form"),
        ('{"verdict": 3, "list": [1, 2', "no_json"),
        ('[{"nam', "no_json"),
        ('[{"names": 5}]', "no_json"),
        ("[[[[[[", "no_json"),
        ("?" * 1000, "wrong_form"),
    ],
)
def test_answers_that_choose_nothing_say_what_is_wanted(text: str, kind: str) -> None:
    with pytest.raises(AnswerError) as caught:
        parse(text, 3)
    assert caught.value.kind == kind and caught.value.detail.endswith(".")


@pytest.mark.timeout(60)  # what grows with the square of its length would take longer by far
@pytest.mark.parametrize(
    "junk",
    ["[" * 10**6, '[{"a":' * 170_000, "<think>" * 150_000, "x <think></think>" * 60_000, "- " * 500_000, "```\n" * 250_000, "a_b: c\n" * 150_000,
     " " * 10**6 + "x", "`" * 10**6, "[ " * 500_000, '["a",' * 200_000, "\n" * 10**6 + "é", "“" * 400_000, ", " * 500_000 + "]", "a" * 10**6]
)  # fmt: skip
def test_a_megabyte_of_junk_is_read_and_does_not_hold_anybody_up(junk: str) -> None:
    with contextlib.suppress(AnswerError):
        assert len(parse(junk, 3)) <= 3
