"""A compiler pass: one named optimisation that can be enabled, with the conditions under which it is sound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CompilerPass:
    name: str
    """snake_case and stable: it is stored with every step as its technique."""
    when: str
    """The conditions, in one sentence."""
    summary: str
    """One line that the answer of a training example opens with. `{origin}` stands for the operators concerned."""
    cards: tuple[str, ...] = ()
    """Cards of the starter library that teach it."""
