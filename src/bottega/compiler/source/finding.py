"""A finding of the static check: why a source is certain to fail, and which rule says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    rule: str
    """The rule's name, by which it can be switched off."""
    message: str
    """One sentence."""
