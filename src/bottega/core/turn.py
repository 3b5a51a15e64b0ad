"""A turn: one answer of the backbone in one role, with what training needs of it and what the judge found.

Tokens and log-probs are logged call by call; training rows are built from them later. With a chat backbone there are none, and then
`None` says so: an empty tuple would be an empty answer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from bottega.core.verdict import Verdict

Role = Literal["select", "write", "summarise", "criticise", "instruct", "plan"]


@dataclass(frozen=True)
class Turn:
    role: Role
    text: str
    """The answer as it came."""
    stop_reason: str = "stop"
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    estimated: bool = False
    """Whether tokens and cost are a guess, because the server did not count."""
    prompt_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    policy_version: int | None = None
    fault: str = ""
    """Why the answer could not be used; empty when it could."""
    source: str = ""
    """What a writer's answer holds: the candidate's source."""
    summary: str = ""
    """What a writer says of its own change, in a paragraph."""
    verdict: Verdict | None = None
    prompt: str = ""
    """What was asked, every message under its role; empty in older logs and for drafts."""
    redrawn: int = 0
    """How many more answers were sampled because of findings in the ones before. Tokens and cost are those of all of them."""
    repairs: tuple[str, ...] = ()
    """Names of the repairs that changed a writer's answer."""
    tools: tuple[str, ...] | None = None
    """Names of the tools that a step of an agent called; such a turn may lead to a kernel without being one. None for any other answer."""

    @property
    def is_kernel(self) -> bool:
        """Whether it stands for a kernel, be it one that could not be read: all but the steps of an agent that only lead there."""
        return self.tools is None or self.verdict is not None

    def to_json(self) -> dict[str, Any]:
        # Not `asdict`: it copies token by token, and a step of RL logs a hundred thousand of them.
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**data, "verdict": None if self.verdict is None else self.verdict.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Turn:
        tokens = {
            name: None if data.get(name) is None else tuple(data[name]) for name in ("prompt_ids", "output_ids", "logprobs")
        }
        verdict = data.get("verdict")
        repairs = tuple(data.get("repairs", ()))  # not in older logs
        tools = None if data.get("tools") is None else tuple(data["tools"])
        read = {"repairs": repairs, "tools": tools, "verdict": None if verdict is None else Verdict.from_json(verdict)}
        return cls(**{**data, **tokens, **read})
