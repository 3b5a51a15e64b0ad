"""What a server was asked, and how that stands: the two nouns that store, queue and routes share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["queued", "running", "done", "failed", "cancelled"]
Kind = Literal["verdict", "check", "probe"]
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Request:
    """What somebody asks for. `devices`: any of which may judge it."""

    token: str
    kind: Kind
    devices: tuple[str, ...]
    task: str
    task_name: str
    candidate: str = ""
    candidate_name: str = ""
    language: str = ""
    settings: str = "{}"
    """The judge's options as JSON with sorted keys."""
    priority: int = 0
    run: str = ""
    """A label of the sender's: requests that differ in it are judged apart."""

    def id(self, judge: str) -> str:
        """The same for the same content. Names count, as a diagnosis repeats them; priority does not."""
        content = [judge, self.token, self.kind, self.devices, self.task, self.task_name, self.candidate, self.candidate_name]
        content += [self.language, self.settings, self.run]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """One request as it stands, without its texts."""

    id: str
    token: str
    kind: Kind
    devices: tuple[str, ...]
    priority: int
    state: State
    attempt: int
    device: str
    accepted: float
    started: float | None
    ended: float | None
    result: dict[str, Any] | None
    error: str
    task_id: str
    """The task's own id, once it was judged."""
    task_name: str
    candidate_name: str
