"""An example: a conversation in which one role answers well, and where it comes from, as one flat row of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from bottega.backbone.chat import Message
from bottega.core.turn import Role

Kind = Literal[
    "first", "first_with_skills", "first_with_useless_skills", "first_with_untried_skills", "repair", "improve", "select", "select_none", "summarise",
    "summarise_believed",
]  # fmt: skip
KINDS: tuple[Kind, ...] = (
    "first",
    "first_with_skills",
    "first_with_useless_skills",
    "first_with_untried_skills",
    "repair",
    "improve",
    "select",
    "select_none",
    "summarise",
    "summarise_believed",
)


@dataclass(frozen=True)
class Example:
    role: Role
    kind: Kind
    messages: tuple[Message, ...]
    """The prompt as the agents build it, and the answer."""
    task_id: str
    task_name: str
    language: str
    level: int | None
    family: str
    ops: tuple[str, ...]
    structure: str
    """Of the task, as its source tells it."""
    techniques: tuple[str, ...]
    """What the answer is made of; for a repair also the mistake, as `mistake:NAME`."""
    outcome: str
    """Of the kernel that the answer holds or speaks of."""
    outcome_before: str = ""
    """Of the kernel that is repaired or improved."""
    speedup_low: float | None = None
    speedup: float | None = None
    speedup_high: float | None = None
    gain: float | None = None
    """Over the kernel that is improved or compared."""
    skills: tuple[str, ...] = ()
    """Cards that the prompt shows or the answer names."""
    candidates: tuple[str, ...] = ()
    """Kernels that it is made of, the answer's last."""
    seed: int = 0
    split: str = "train"
    tokens: int = 0
    cluster: int = -1
    """Of the answer's kernel, by its shape."""
    code: str = field(default="", repr=False)
    """What clusters are made of; not part of the row."""

    @property
    def id(self) -> str:
        text = "\0".join(message.content for message in self.messages)
        return hashlib.sha256(f"{self.kind}\0{text}".encode(errors="replace")).hexdigest()[:16]

    def row(self) -> dict[str, Any]:
        """All rows have the same columns of the same types: tables of any format take them."""
        plain = {name: value for name, value in asdict(self).items() if name != "code"}
        lists = {name: list(value) for name, value in plain.items() if isinstance(value, tuple)}
        said = [{"role": message.role, "content": message.content} for message in self.messages]
        return {"id": self.id, **plain, **lists, "messages": said}


def with_answer(prompt: Sequence[Message], answer: str) -> tuple[Message, ...]:
    return (*prompt, Message("assistant", answer))
