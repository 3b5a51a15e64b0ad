"""Stands in for a GPU's memory, which this machine has not: a file with two numbers, what the card has and what is taken of it, so that
several processes see the same card. Nothing is allocated; whoever tests says what is taken."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PretendCard:
    path: Path

    def set(self, total: int, used: int) -> PretendCard:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps([total, used]))
        os.replace(part, self.path)
        return self

    def memory(self) -> tuple[int, int] | None:
        total, used = json.loads(self.path.read_text())
        return total, used

    def holders(self) -> str:
        return "process 4711"
