"""A token backbone with scripted answers: what is asked of a client that keeps ids and log-probs, without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from bottega.backbone.chat import Message, StopReason, TokenCompletion, Tokenizer, TokenRequest
from bottega.backbone.scripted import Prompter, Question, Script

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

    def mark(self, text: str) -> list[int]:
        return self.encode(text)

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
        self._prompter = Prompter(script, repeat)

    @property
    def asked(self) -> list[Question]:
        return self._prompter.asked

    async def complete(self, requests: Sequence[TokenRequest]) -> list[TokenCompletion]:
        return [self._one(request) for request in requests]

    def _one(self, request: TokenRequest) -> TokenCompletion:
        sampling = request.sampling
        text = self._prompter.line(self._bytes.messages(request.prompt_ids), sampling)
        drawn = [*self.tokenizer.encode(text), END]
        room = min(sampling.max_tokens, self.tokenizer.context - len(request.prompt_ids))
        reason: StopReason = "stop" if len(drawn) <= room else "length"
        ids = tuple(drawn[: max(room, 0)])
        return TokenCompletion(ids, (-math.log(VOCABULARY),) * len(ids), reason, self.policy_version)

    async def close(self) -> None:
        pass
