"""A real HTTP server that calls tools by the OpenAI protocol, one after the other, and refuses a conversation that does not answer each call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager

import misbehaving
from misbehaving import Handler, Misbehaving, body, completion, error

Work = Sequence[tuple[str, dict[str, str]]]
"""Names and arguments of the tools that it calls."""


class ToolServer(Misbehaving):
    def __init__(self, work: Work, stop_at: int | None = None) -> None:
        """`stop_at`: the step at which it is silent until it is closed."""
        super().__init__([], self._call)
        self.work, self.stop_at = work, stop_at

    @property
    def told(self) -> dict[int, str]:
        """By step: what its tool returned, as the last request says it."""
        last = self.requests[-1]["messages"]
        return {int(message["tool_call_id"][5:]): message["content"] for message in last if message["role"] == "tool"}

    def _call(self, handler: Handler) -> None:
        asked = self.requests[-1]  # an agent asks one thing at a time
        step = sum(message["role"] == "assistant" for message in asked["messages"])
        if self.stop_at == step:
            self.over.wait(120)
        called = [call["id"] for message in asked["messages"] for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in asked["messages"] if message["role"] == "tool"]
        known = {tool["function"]["name"] for tool in asked.get("tools", ())}
        name, arguments = self.work[step]
        if called != answered or name not in known:
            error(400, f"{called} were answered by {answered}; {name} is none of {known}")(handler)
            return
        call = {"id": f"call_{step}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        body(completion(None, 100, 10, "tool_calls", tool_calls=[call]))(handler)


def serving(work: Work, stop_at: int | None = None) -> AbstractContextManager[ToolServer]:
    return misbehaving.serving(ToolServer(work, stop_at))
