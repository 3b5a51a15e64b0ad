"""An agent's prompt and answers: tools told in the prompt or not, calls in either form, and what is left out when the room is spent."""

from __future__ import annotations

import json

import pytest

from bottega.agents import agent
from bottega.agents.prompt_budget import PromptBudget
from bottega.agents.prompts import Prompts
from bottega.agents.writer import WriterInput
from bottega.agents.writer import messages as writer_messages
from bottega.backbone.chat import Message
from bottega.backbone.tool_calls import ToolCall
from bottega.core.device import DeviceFacts
from bottega.core.task import Task

GIVEN = WriterInput(Task("class Model: ...\n", "task"), "cpp", DeviceFacts("cpu", "a CPU", "x86_64", 2, 4.0))
ROOM = PromptBudget(20_000, len)
KERNEL = "```python\nclass ModelNew:\n    pass\n```"


@pytest.mark.parametrize("style", ["compact", "full"])
def test_the_prompt_is_the_writers_with_files_and_tools(style: str) -> None:
    prompts = Prompts(style)  # type: ignore[arg-type]
    plain = agent.messages(GIVEN, ["task.py (protected)"], ["skills/x/SKILL.md: use x"], prompts, True, ROOM)
    native = agent.messages(GIVEN, ["task.py (protected)"], [], prompts, False, ROOM)
    writer = writer_messages(GIVEN, prompts)
    for found in (plain, native):
        assert found[0].content.startswith(writer[0].content) and found[1].content.startswith(writer[1].content)
        assert "task.py (protected)" in found[1].content
    assert all(f'"tool": "{name}"' in plain[0].content for name in agent.BY_NAME)
    assert '"tool": "judge"' not in native[0].content
    assert "skills/x/SKILL.md: use x" in plain[1].content and "Skills" not in native[1].content


def test_a_model_that_was_trained_on_the_writers_prompt_gets_that() -> None:
    prompts = Prompts("terse")
    assert agent.messages(GIVEN, ["task.py"], [], prompts, True, ROOM) == writer_messages(GIVEN, prompts)


def call(text: str) -> tuple[str, dict[str, str]]:
    (found,) = agent.parse(text, ()).calls
    return found.name, json.loads(found.arguments)


def test_a_plain_call_takes_long_texts_from_the_blocks_behind_it() -> None:
    assert call('I look.\n```json\n{"tool": "read", "path": "task.py"}\n```') == ("read", {"path": "task.py"})
    text = '```json\n{"tool": "edit", "path": "kernel.py"}\n```\nold\n```\na\n```\nnew\n```\nb\n```'
    assert call(text) == ("edit", {"path": "kernel.py", "old": "a\n", "new": "b\n"})


def test_one_call_an_answer_in_plain_form() -> None:
    both = '```json\n{"tool": "build"}\n```\n```json\n{"tool": "judge"}\n```'
    found = agent.parse(both, ())
    assert [one.name for one in found.calls] == ["build"] and agent.ONE_CALL in found.fault
    assert agent.ONE_CALL in agent.reply(both, found.calls, ["built"], found.fault)[1].content


def test_a_kernel_without_a_call_is_written_and_judged() -> None:
    found = agent.parse(KERNEL, ())
    assert [one.name for one in found.calls] == ["write", "judge"] and not found.fault
    assert "class ModelNew" in json.loads(found.calls[0].arguments)["text"]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fly", "{}", "no tool 'fly'"),
        ("read", "{", "no JSON"),
        ("read", "{}", "needs path"),
        ("write", '{"path": 3}', "needs path, text"),
    ],
)
def test_a_call_that_cannot_be_carried_out_is_a_fault(name: str, arguments: str, told: str) -> None:
    assert told in agent.parse("", [ToolCall("1", name, arguments)]).fault


def test_an_answer_that_does_nothing_is_reminded() -> None:
    for text in ("Looks good to me.", "", '```json\n{"tool": 3}\n```', "```json\n[1]\n```"):
        found = agent.parse(text, ())
        assert not found.calls and found.fault
        assert agent.reply(text, (), [], found.fault)[1] == Message("user", found.fault)


@pytest.mark.parametrize("calls", [(), (ToolCall("a", "build", "{}"),)], ids=["plain", "of a server"])
def test_thoughts_are_in_no_later_prompt(calls: tuple[ToolCall, ...]) -> None:
    """Also of a model whose template leaves them in, or opens them itself; what has none stays as it was drawn."""
    for text in ("<think>\nlong\n</think>\n\nI build.", "long\n</think>\nI build."):
        assert agent.reply(text, calls, ["built"], "")[0].content == "I build."
    assert agent.reply("<think>\nwithout end", calls, ["built"], "")[0].content == ""
    assert agent.reply(" I build.\r\n", calls, ["built"], "")[0].content == " I build.\r\n"


def test_results_answer_the_calls_of_a_server_one_by_one() -> None:
    calls = [ToolCall("a", "read", '{"path": "x"}'), ToolCall("b", "build", "{}")]
    said, one, two = agent.reply("", calls, ["x is", "built"], "")
    assert said.calls == tuple(calls)
    assert (one.role, one.call_id, one.content) == ("tool", "a", "x is") and two.call_id == "b"


def test_the_oldest_results_leave_first_and_the_last_ones_stay() -> None:
    talk = [Message("system", "s" * 10), Message("user", "u" * 10)]
    for number in range(6):
        talk += [Message("assistant", f"call {number}"), Message("user", f"result {number} " + "x" * 100)]
    short = agent.shortened(talk, PromptBudget(500, len))
    assert short[:2] == talk[:2] and short[-2:] == talk[-2:] and len(short) == len(talk)
    assert short[3].content == agent.LEFT_OUT and short[2] == talk[2]
    assert PromptBudget(500, len).size(short) <= 500
    assert agent.shortened(short, PromptBudget(500, len)) == short
    assert agent.shortened(talk, PromptBudget(5000, len)) == talk
    long = [*talk[:2], Message("assistant", "read"), Message("user", "word " * 400)]
    assert PromptBudget(500, len).size(agent.shortened(long, PromptBudget(500, len))) <= 500
