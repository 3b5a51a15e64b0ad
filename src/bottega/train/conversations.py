"""SFT data: rows of JSONL or parquet with `messages`, the last of which is the answer.

A row may say its `role` and its `split`. Calls of tools and their results, as servers write them, are read in the plain form that our own models call
tools in; each answer of an agent is a row of its own, with everything before it as the prompt.

The prompt is written as at rollout time, by the tokenizer's own template with the mark that begins an answer, and the answer is its text and the
token that ends a turn: what the model will be asked to draw, token for token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bottega.backbone.chat import Message
from bottega.backbone.tokenizer import HuggingFaceTokenizer
from bottega.backbone.tool_calls import calls_text, plain_result, read_tool_calls
from bottega.core.errors import BackboneError, UsageError
from bottega.core.turn import Role
from bottega.train.rows import TrainRow, imitation_row

ROLES = {"selector": "select", "writer": "write", "summariser": "summarise", **{name: name for name in get_args(Role)}}


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")
    role: str = Field(pattern="^(system|user|assistant|tool)$")
    content: str | None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str = ""


class Conversation(BaseModel):
    """A row as it comes; whatever else it has is not our business."""

    model_config = ConfigDict(extra="ignore")
    messages: list[ChatMessage] = Field(min_length=2)
    role: str | None = None
    split: str | None = None

    @property
    def plain(self) -> list[Message]:
        """With tool calls and their results as text."""
        names: dict[str, str] = {}
        found = []
        for said in self.messages:
            calls = read_tool_calls(said.tool_calls)
            names |= {call.id: call.name for call in calls}
            text = "\n".join(filter(None, [said.content or "", calls_text(calls)]))
            if said.role == "tool":
                text = plain_result(names.get(said.tool_call_id, "the tool"), text)
            found.append(Message(cast(Any, "user" if said.role == "tool" else said.role), text))
        return found


@dataclass(frozen=True, eq=False)
class SftSample:
    """One conversation as tokens: small, because there may be millions."""

    ids: np.ndarray
    begin: int
    """Where the answer begins."""
    role: str
    key: str

    def __len__(self) -> int:
        return len(self.ids)

    def row(self) -> TrainRow:
        ids = self.ids.tolist()
        return imitation_row(ids[: self.begin], ids[self.begin :], key=self.key)


@dataclass
class SftData:
    train: list[SftSample] = field(default_factory=list)
    held_out: list[SftSample] = field(default_factory=list)
    too_long: int = 0
    without_answer: int = 0
    other_roles: int = 0
    digest: str = ""
    """Of everything that is in it: a resumed run must read the same."""

    def __str__(self) -> str:
        left = {"too long": self.too_long, "without an answer": self.without_answer, "of other roles": self.other_roles}
        told = ", ".join(f"{count} {why}" for why, count in left.items() if count)
        tokens = sum(map(len, self.train))
        return f"{len(self.train)} rows to learn ({tokens:,} tokens), {len(self.held_out)} held out" + (
            f"; left out: {told}" if told else ""
        )


AT_ONCE = 2000
"""Rows that are broken into tokens together."""


def read_samples(
    source: Path, tokenizer: HuggingFaceTokenizer, longest: int, held_out: float, seed: int, roles: Sequence[str] | None = None,
) -> SftData:  # fmt: skip
    """Raises `UsageError` with file and line for a row that is none, and when nothing is left to learn."""
    found, digest = SftData(), hashlib.sha256()
    counted = 0
    told: list[_ReadRow] = []

    def take() -> None:
        for one, sample in zip(told, _samples(told, tokenizer)):
            if len(sample) > longest:
                found.too_long += 1
                continue
            digest.update(sample.ids.tobytes() + bytes([0]))
            (found.held_out if _is_held_out(one.conversation.split, sample, held_out, seed) else found.train).append(sample)
        told.clear()

    for place, raw in rows_of(source):
        conversation = _conversation(place, raw)
        role = ROLES.get(conversation.role or "write")
        if role is None:
            raise UsageError(f"{place}: unknown role {conversation.role!r}; use {', '.join(ROLES)}")
        counted += 1
        if roles is not None and role not in roles:
            found.other_roles += 1
        elif _has_answer(place, conversation):
            told.append(_ReadRow(place, conversation, role))
        else:
            found.without_answer += 1
        if len(told) == AT_ONCE:
            take()
    take()
    found.digest = digest.hexdigest()[:16]
    if not found.train:
        longer = "; a larger data.longest takes longer rows" if found.too_long else ""
        raise UsageError(f"{source}: nothing to learn from: {found if counted else 'no rows'}{longer}")
    return found


def rows_of(source: Path) -> Iterator[tuple[str, Any]]:
    """Rows of a file, or of all files of a folder in the order of their names, each with its place."""
    if source.is_dir():
        paths = sorted(path for path in source.rglob("*") if path.suffix in (".jsonl", ".parquet"))
        if not paths:
            raise UsageError(f"{source}: holds no .jsonl and no .parquet file")
    elif source.is_file():
        paths = [source]
    else:
        raise UsageError(f"{source}: no such file or folder")
    for path in paths:
        yield from _parquet(path) if path.suffix == ".parquet" else _jsonl(path)


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield f"{path}:{number}", json.loads(line)
                    except json.JSONDecodeError as error:
                        raise UsageError(f"{path}:{number}: is no JSON: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UsageError(f"{path}: reading parquet needs pyarrow (pip install pyarrow), or write JSONL") from None
    for number, row in enumerate(cast(Iterable[Any], parquet.read_table(path).to_pylist()), 1):
        yield f"{path}:{number}", row


def _conversation(place: str, raw: Any) -> Conversation:
    try:
        return Conversation.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{place}: {where + ': ' if where else ''}{first['msg']} (a row has `messages` of role and content)"
        ) from None


@dataclass(frozen=True)
class _ReadRow:
    """A row that was read and not yet broken into tokens."""

    place: str
    conversation: Conversation
    role: str


def _has_answer(place: str, conversation: Conversation) -> bool:
    answer = conversation.messages[-1]
    if answer.role != "assistant":
        raise UsageError(f"{place}: the last message is by {answer.role}, but the answer to learn must be the assistant's")
    return bool(conversation.plain[-1].content.strip())


def _samples(told: Sequence[_ReadRow], tokenizer: HuggingFaceTokenizer) -> list[SftSample]:
    """All at once, because a tokenizer then uses all cores: one by one, 30,000 rows took longer than the first minute of training."""
    whole = [one.conversation.plain for one in told]
    before = [messages[:-1] for messages in whole]
    try:
        prompts = tokenizer.conversations(before)
    except BackboneError:
        prompts = [_prompt(one.place, messages, tokenizer) for one, messages in zip(told, before)]  # tells which row it is
    answers = tokenizer.encode_many([messages[-1].content for messages in whole])
    return [
        SftSample(
            np.asarray([*prompt, *answer, tokenizer.ends[0]], np.int32), len(prompt), one.role, one.place.rpartition("/")[2]
        )
        for one, prompt, answer in zip(told, prompts, answers)
    ]


def _prompt(place: str, messages: Sequence[Message], tokenizer: HuggingFaceTokenizer) -> list[int]:
    try:
        return tokenizer.conversation(messages)
    except BackboneError as error:
        raise UsageError(f"{place}: {error}") from None


def _is_held_out(split: str | None, sample: SftSample, share: float, seed: int) -> bool:
    """As the row says; where it says nothing, a hash of its tokens decides, so that a row's side never depends on the others."""
    if split is not None:
        return split != "train"
    drawn = hashlib.blake2b(sample.ids.tobytes() + str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big") / 2.0**64 < share
