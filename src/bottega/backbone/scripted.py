"""A backbone with scripted answers, for tests and demonstrations. Deterministic; it records what it was asked.

A script is a list of answers (an exception among them is raised), a mapping from patterns to answers (the first that is found in
the last message speaks), or a function of messages and sampling.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bottega.backbone.chat import ChatCompletion, Message, Sampling, StopReason, Usage
from bottega.backbone.ledger import size
from bottega.backbone.tool_calls import ToolSpec
from bottega.core.errors import BackboneError

Script = Sequence[str | Exception] | Mapping[str, str] | Callable[[Sequence[Message], Sampling], str]

BYTES_PER_TOKEN = 3
"""What counts as a token in a scripted chat: easy to foresee in a test."""


@dataclass(frozen=True)
class Question:
    messages: tuple[Message, ...]
    sampling: Sampling


class Prompter:
    """Speaks one script from its beginning, and keeps the questions."""

    def __init__(self, script: Script, repeat: bool) -> None:
        self.script = script if isinstance(script, Mapping) or callable(script) else tuple(script)
        self.repeat = repeat
        self.asked: list[Question] = []

    def line(self, messages: Sequence[Message], sampling: Sampling) -> str:
        number = len(self.asked)
        self.asked.append(Question(tuple(messages), sampling))
        if isinstance(self.script, Mapping):
            last = messages[-1].content if messages else ""
            for pattern, answer in self.script.items():
                if re.search(pattern, last, re.S):
                    return answer
            raise BackboneError(
                f"no rule of the script fits the question {last[:80]!r}; its patterns: {', '.join(self.script)}"
            )
        if callable(self.script):
            return self.script(messages, sampling)
        if not self.script or (number >= len(self.script) and not self.repeat):
            raise BackboneError(
                f"the script has {len(self.script)} answers and was asked for one more: add answers, or give patterns or a function in their place"
            )
        line = self.script[number % len(self.script)]
        if isinstance(line, Exception):
            raise line
        return line


class ScriptedChat:
    """`ChatBackbone` without a model. The token limit cuts its answers, as it would a model's."""

    def __init__(self, script: Script, *, repeat: bool = False, name: str = "scripted", context: int = 32_768) -> None:
        self.name, self.context = name, context
        self._prompter = Prompter(script, repeat)

    @property
    def asked(self) -> list[Question]:
        return self._prompter.asked

    def count_tokens(self, text: str) -> int:
        return math.ceil(size(text) / BYTES_PER_TOKEN)

    async def chat(self, messages: Sequence[Message], sampling: Sampling, tools: Sequence[ToolSpec] = ()) -> ChatCompletion:
        text = self._prompter.line(messages, sampling)
        reason: StopReason = "stop"
        if self.count_tokens(text) > sampling.max_tokens:
            text, reason = (
                text.encode("utf-8", "replace")[: sampling.max_tokens * BYTES_PER_TOKEN].decode("utf-8", "ignore"),
                "length",
            )
        prompt = sum(self.count_tokens(message.content) for message in messages)
        return ChatCompletion(text, Usage(prompt, self.count_tokens(text)), reason)

    async def close(self) -> None:
        pass
