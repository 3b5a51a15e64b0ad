"""Stands in for a GPU's memory, which this machine has not: a file with two numbers, what the GPU has and what is taken of it, so that
several processes see the same GPU. Nothing is allocated; whoever tests says what is taken."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PretendGpu:
    path: Path

    def set(self, total: int, used: int) -> PretendGpu:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps([total, used]))
        os.replace(part, self.path)
        return self

    def memory(self) -> tuple[int, int] | None:
        total, used = json.loads(self.path.read_text())
        return total, used

    def holders(self) -> str:
        return "process 4711"
