"""Tools that a model may call, and its calls: as OpenAI-compatible servers write them, and as plain text for models that call none.

The plain form is one fenced JSON object with the tool's name; a long text may follow in a fenced block of its own, because JSON strings of whole
files are what small models get wrong. Both forms carry the same calls, so that a trace of either can be trained on in the plain one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

TOOL_KEY = "tool"
"""Under which a plain call names its tool."""
LONGEST_NAME, LONGEST_ID = 64, 256
"""Of what a server sends: names are told to users, and ids are sent back with every step. The protocol's own limit of a name."""


@dataclass(frozen=True)
class ToolSpec:
    name: str
    description: str
    parameters: dict[str, str]
    """By name: what each is. All are texts, and all are required."""

    def to_json(self) -> dict[str, Any]:
        """As servers take it."""
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
        return {"type": "function", "function": {"name": self.name, "description": self.description, "parameters": schema}}

    @property
    def line(self) -> str:
        """As a prompt in plain form shows it."""
        example = {TOOL_KEY: self.name, **dict.fromkeys(self.parameters, "...")}
        told = "".join(f" {name}: {text}." for name, text in self.parameters.items())
        return f"- {json.dumps(example)}: {self.description}{told}"


@dataclass(frozen=True)
class ToolCall:
    id: str
    """As the server gave it; the answer to the call names it."""
    name: str
    arguments: str
    """JSON as the model wrote it, which may be broken."""

    def to_json(self) -> dict[str, Any]:
        """As servers take it back."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    @property
    def plain(self) -> str:
        """The call as a fenced JSON object; arguments that cannot be read are kept as a text."""
        try:
            read = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            read = {"arguments": self.arguments}
        return fenced_call({TOOL_KEY: self.name, **(read if isinstance(read, dict) else {"arguments": read})})


def fenced_call(call: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(call, ensure_ascii=False)}\n```"


def plain_result(tool: str, text: str) -> str:
    """What a tool returned, as a message of the user's."""
    return f"Result of {tool}:\n{text}"


def read_tool_calls(value: object) -> tuple[ToolCall, ...]:
    """The calls in a server's message; what is none is left out. Servers that send no ids get them from us."""
    found: list[ToolCall] = []
    for number, raw in enumerate(value if isinstance(value, list) else ()):
        function = raw.get("function") if isinstance(raw, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            continue
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
        named = raw.get("id")
        found.append(
            ToolCall(
                _clean(named)[:LONGEST_ID] if isinstance(named, str) and named else f"call_{number}",
                _clean(name)[:LONGEST_NAME],
                _clean(text),
            )
        )
    return tuple(found)


def calls_text(calls: Sequence[ToolCall]) -> str:
    """Plain calls one after the other."""
    return "\n".join(call.plain for call in calls)


def _clean(text: str) -> str:
    """Half surrogate pairs cannot be stored or sent."""
    return text.encode("utf-8", "replace").decode()
