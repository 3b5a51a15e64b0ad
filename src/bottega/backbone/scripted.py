"""A backbone with scripted answers, for tests and demonstrations. Deterministic; it records what it was asked.

A script is a list of answers (an exception among them is raised), a mapping from patterns to answers (the first that is found in
the last message speaks), or a function of messages and sampling. The same script serves both protocols.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bottega.backbone.chat import ChatCompletion, Message, Usage
from bottega.backbone.client import before_stop
from bottega.backbone.pricing import size
from bottega.backbone.sampling import Sampling, StopReason
from bottega.backbone.tokens import TokenCompletion, Tokenizer, TokenRequest
from bottega.core.errors import BackboneError

Script = Sequence[str | Exception] | Mapping[str, str] | Callable[[Sequence[Message], Sampling], str]

BYTES_PER_TOKEN = 3
"""What counts as a token in a scripted chat: easy to foresee in a test."""


@dataclass(frozen=True)
class Question:
    messages: tuple[Message, ...]
    sampling: Sampling


class _Prompter:
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
                f"the script has {len(self.script)} answers and was asked for one more: add answers, or repeat it"
            )
        line = self.script[number % len(self.script)]
        if isinstance(line, Exception):
            raise line
        return line


class ScriptedChat:
    """`ChatBackbone` without a model. Stop strings and the token limit cut its answers, as they would a model's."""

    def __init__(self, script: Script, *, repeat: bool = False, name: str = "scripted", context: int = 32_768) -> None:
        self.name, self.context = name, context
        self._prompter = _Prompter(script, repeat)

    @property
    def asked(self) -> list[Question]:
        return self._prompter.asked

    def count_tokens(self, text: str) -> int:
        return math.ceil(size(text) / BYTES_PER_TOKEN)

    async def chat(self, messages: Sequence[Message], sampling: Sampling) -> ChatCompletion:
        text = before_stop(self._prompter.line(messages, sampling), sampling.stop)
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


ROLES: tuple[Literal["system", "user", "assistant"], ...] = ("system", "user", "assistant")
END = 256
"""Ends a turn; the ids after it begin one, a role each."""
VOCABULARY = END + 1 + len(ROLES)


class ByteTokenizer:
    """A token for each byte and for each mark of a conversation: exact both ways, so a conversation can be read back from its ids."""

    def __init__(self, context: int = 65_536) -> None:
        self.context = context

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token < END).decode("utf-8", "replace")

    def conversation(self, messages: Sequence[Message]) -> list[int]:
        ids: list[int] = []
        for message in messages:
            ids += [END + 1 + ROLES.index(message.role), *self.encode(message.content), END]
        return [*ids, END + 1 + ROLES.index("assistant")]

    def messages(self, ids: Sequence[int]) -> tuple[Message, ...]:
        """The conversation that these ids write; ids without marks are one question."""
        turns: list[Message] = []
        start = 0
        for at, token in enumerate(ids):
            if token > END:
                start = at
            elif token == END:
                turns.append(Message(ROLES[ids[start] - END - 1] if ids[start] > END else "user", self.decode(ids[start:at])))
                start = at + 1
        return tuple(turns) or (Message("user", self.decode(ids)),)


class ScriptedTokens:
    """`TokenBackbone` without a model: every token is as likely as any other, and the log-probs say so."""

    def __init__(self, script: Script, *, repeat: bool = False, name: str = "scripted", context: int = 65_536) -> None:
        self.name = name
        self._bytes = ByteTokenizer(context)
        self.tokenizer: Tokenizer = self._bytes
        self.policy_version = 0
        """Tests may raise it, as an update would."""
        self._prompter = _Prompter(script, repeat)

    @property
    def asked(self) -> list[Question]:
        return self._prompter.asked

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        return [self._one(request) for request in requests]

    def _one(self, request: TokenRequest) -> TokenCompletion:
        sampling = request.sampling
        text = self._prompter.line(self._bytes.messages(request.prompt_ids), sampling)
        ends = [at + len(stop) for stop in sampling.stop if stop and (at := text.find(stop)) >= 0]
        drawn = self.tokenizer.encode(text[: min(ends)]) if ends else [*self.tokenizer.encode(text), END]
        room = min(sampling.max_tokens, self.tokenizer.context - len(request.prompt_ids))
        reason: StopReason = "stop" if len(drawn) <= room else "length"
        ids = tuple(drawn[: max(room, 0)])
        return TokenCompletion(ids, (-math.log(VOCABULARY),) * len(ids), reason, self.policy_version)

    async def close(self) -> None:
        pass
