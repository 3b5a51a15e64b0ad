"""Tool calls over the wire: what a server is sent, what is read of its answer, and the plain form for models without them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from misbehaving import Command, answer, body, error, misbehaving

from bottega.backbone.chat import Message, Sampling
from bottega.backbone.choose import open_backbone
from bottega.backbone.client import Generation
from bottega.backbone.ledger import likely_tokens
from bottega.backbone.tool_calls import ToolCall, ToolSpec, read_tool_calls
from bottega.core.errors import BackboneError

READ = ToolSpec("read", "Shows a file.", {"path": "of a file"})
CALL = {"id": "call_7", "type": "function", "function": {"name": "read", "arguments": '{"path": "task.py"}'}}


def generate(messages: list[Message], *commands: Command, options: str = "") -> tuple[Generation, list[dict[str, Any]]]:
    with misbehaving(*commands) as server:
        client = open_backbone(f"server:tiny@{server.url}{options}")

        async def ask() -> Generation:
            try:
                return await client.generate(messages, Sampling(max_tokens=64), tools=[READ])  # type: ignore[call-arg]
            finally:
                await client.close()

        return asyncio.run(ask()), server.requests


def test_tools_go_out_and_calls_come_back() -> None:
    found, (sent,) = generate([Message("user", "hi")], answer(None, finish="tool_calls", tool_calls=[CALL]))
    assert found.text == "" and found.calls == (ToolCall("call_7", "read", '{"path": "task.py"}'),)
    (tool,) = sent["tools"]
    assert tool["type"] == "function" and tool["function"]["name"] == "read"
    assert tool["function"]["parameters"]["required"] == ["path"]


def test_a_call_and_its_result_go_back_as_the_protocol_has_them() -> None:
    talk = [
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("call_7", "read", '{"path": "task.py"}'),)),
        Message("tool", "the task", call_id="call_7"),
    ]
    found, (sent,) = generate(talk, answer("fine"))
    assert found.text == "fine" and not found.calls
    assert sent["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "the task", "tool_call_id": "call_7"},
    ]


def test_tools_and_calls_count_where_the_server_does_not() -> None:
    told = {"choices": [{"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [CALL]}}]}
    found, _ = generate([Message("user", "hi")], body(told))
    assert found.usage.estimated
    assert found.usage.prompt_tokens > likely_tokens(json.dumps(READ.to_json()))
    assert found.usage.output_tokens > likely_tokens('{"path": "task.py"}')


def test_a_server_without_tool_calling_says_what_to_do() -> None:
    with pytest.raises(BackboneError, match=r"\?tools=no"):
        generate([Message("user", "hi")], error(400, '"auto" tool choice requires --enable-auto-tool-choice'))


@pytest.mark.parametrize("value", [None, "x", [3], [{}], [{"function": {"name": 3}}], [{"function": {"name": ""}}]])
def test_what_is_no_call_is_left_out(value: object) -> None:
    assert read_tool_calls(value) == ()


def test_servers_differ_in_ids_and_arguments() -> None:
    found = read_tool_calls([{"function": {"name": "read", "arguments": {"path": "a\ud800"}}}, CALL])
    assert [call.id for call in found] == ["call_0", "call_7"]
    assert json.loads(found[0].arguments)["path"].startswith("a")
    assert "```json" in found[1].plain and '"tool": "read"' in found[1].plain
    assert ToolCall("", "read", "{broken").plain.count("{broken") == 1


def test_halves_of_characters_are_in_no_part_of_a_call() -> None:
    (found,) = read_tool_calls([{"id": "a\ud800", "function": {"name": "read\udfff", "arguments": '"\ud800"'}}])
    for text in (found.id, found.name, found.arguments):
        assert text.encode().decode() == text
    (long,) = read_tool_calls([{"id": "i" * 5_000, "function": {"name": "n" * 5_000, "arguments": "{}"}}])
    assert len(long.name) == 64 and len(long.id) == 256


def test_no_tools_is_said_in_the_address() -> None:
    assert open_backbone("server:tiny@http://localhost:1/v1").calls_tools  # type: ignore[attr-defined]
    assert not open_backbone("server:tiny@http://localhost:1/v1?tools=no").calls_tools  # type: ignore[attr-defined]
