"""A finding of a static check: what is wrong with an answer, found by which rule, and whether it must fail because of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    rule: str
    """The rule's name, by which it can be switched off."""
    message: str
    """One sentence."""
    certain: bool = False
    """Whether the answer is certain to fail. Otherwise it only looks wrong, and the judge decides."""
