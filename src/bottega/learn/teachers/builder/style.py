"""How a kernel is written down, where that is a matter of taste. People differ, so material to learn from must differ too.

Every choice is drawn from the style's seed and the name of the choice alone, so that the steps of one course keep to one hand.
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

    def pick(self, what: str, options: Sequence[Choice]) -> Choice:
        """One of the options. Options that are equally good belong here; a better one is not a matter of style."""
        digest = hashlib.sha256(f"{self.seed}/{what}".encode()).digest()
        return options[int.from_bytes(digest[:4], "big") % len(options)]

    def chance(self, what: str, share: float) -> bool:
        digest = hashlib.sha256(f"{self.seed}/{what}".encode()).digest()
        return int.from_bytes(digest[:4], "big") < share * (1 << 32)
