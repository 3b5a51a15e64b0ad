"""How a kernel is written down, where that is a matter of taste. People differ, so material to learn from must differ too.

Every choice is drawn from the style's seed and the name of the choice alone, so that the steps of one course keep to one hand. The
plain style chooses nothing: it always takes the first option, names results as the task's sketch does and writes sizes as numbers, so
that whoever has read the sketch need only copy. A small model learns from that what it would take much more material to learn else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Style:
    seed: int = 0
    plain: bool = False

    def pick(self, what: str, options: Sequence[Choice]) -> Choice:
        """One of the options. Options that are equally good belong here; a better one is not a matter of style."""
        if self.plain:
            return options[0]
        digest = hashlib.sha256(f"{self.seed}/{what}".encode()).digest()
        return options[int.from_bytes(digest[:4], "big") % len(options)]

    def chance(self, what: str, share: float) -> bool:
        if self.plain:
            return False
        digest = hashlib.sha256(f"{self.seed}/{what}".encode()).digest()
        return int.from_bytes(digest[:4], "big") < share * (1 << 32)
