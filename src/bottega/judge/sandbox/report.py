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

    @classmethod
    def from_missing(cls, missing: Mapping[str, str]) -> SandboxReport:
        return cls({part: part not in missing for part in PARTS}, dict(missing))

    @property
    def complete(self) -> bool:
        return all(self.parts.values())

    def to_json(self) -> dict[str, Any]:
        return {"parts": dict(self.parts), "missing": dict(self.missing)}

    def __str__(self) -> str:
        if self.complete:
            return "all parts hold"
        return "; ".join(f"{part}: {reason}" for part, reason in self.missing.items())
