"""A technique: one named optimisation that can be switched on or off, with the conditions under which it is sound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Technique:
    name: str
    """snake_case, stable: it names material."""
    when: str
    """The conditions, in one sentence."""
    summary: str
    """What a writer says when it does this, in one line. `{origin}` stands for the operators concerned."""
    cards: tuple[str, ...] = ()
    """Cards of the starter library that teach it."""
