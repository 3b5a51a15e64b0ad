"""What the sandbox of one cell holds, part by part, and why a part is missing: no promise without a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PARTS = ("network", "filesystem", "processes", "memory", "syscalls", "privileges")


@dataclass(frozen=True)
class SandboxReport:
    parts: dict[str, bool]
    missing: dict[str, str] = field(default_factory=dict)
    """By part: what the machine refused, and what stands in for it."""
    stopped_by: str = ""
    """What stops the cell when it is not its turn: `freezer`, or `signals` with the reason. Either holds on its own, so that neither is a
    part that could be missing."""

    @classmethod
    def from_missing(cls, missing: Mapping[str, str], stopped_by: str = "") -> SandboxReport:
        return cls({part: part not in missing for part in PARTS}, dict(missing), stopped_by)

    @property
    def complete(self) -> bool:
        return all(self.parts.values())

    def to_json(self) -> dict[str, Any]:
        return {"parts": dict(self.parts), "missing": dict(self.missing), "stopped_by": self.stopped_by}

    def __str__(self) -> str:
        if self.complete:
            return "all parts hold"
        return "; ".join(f"{part}: {reason}" for part, reason in self.missing.items())
