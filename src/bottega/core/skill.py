"""A skill card: one optimisation, when it is sound, how it is done, and what it avoids getting wrong.

A card holds what a writer of kernels needs to read. What was measured with it (`Trial`) and how it fared in use live beside it
in the library, because a card is revised and its history is not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, get_args

from bottega.core.candidate import Language

CARD_SCHEMA = 1
"""Raised when a card gains or changes a field. A card of a higher schema is refused, not guessed at."""

NOTHING_MORE = "none"
"""What a condition says when the skill asks for nothing of that kind."""


class State(StrEnum):
    PROPOSED = "proposed"
    """Well-formed, and not yet proved on this library's machines."""
    ADMITTED = "admitted"
    """Attempts with it beat attempts without it."""
    RETIRED = "retired"
    """Kept, never offered."""


@dataclass(frozen=True)
class Conditions:
    """When the skill is sound: one sentence for each kind, tied to the operation that needs it, or `none`."""

    data_types: str
    layout: str
    storage: str
    pipeline: str
    hardware: str

    def items(self) -> tuple[tuple[str, str], ...]:
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True)
class Provenance:
    """Where the card came from."""

    origin: str = "hand"
    """`starter`, `hand`, `davinci`, `summary` (a model's, from a winning trace), or a foreign library's name."""
    source: str = ""
    """What in the origin: a file and line, a run and episode."""
    task: str = ""
    """The id of the task it was drawn from; the gate tries it there and on siblings."""
    claimed_speedup: float | None = None
    """What the origin says it gained. Shown, never trusted."""


@dataclass(frozen=True)
class Skill:
    name: str
    """snake_case, unique in a library."""
    intent: str
    """One sentence: what it gains, and where."""
    scope: str
    """`general`, or `family/NAME` with an operator family."""
    tags: tuple[str, ...]
    languages: tuple[Language, ...]
    devices: tuple[str, ...]
    """Kinds of device: `cpu`, `cuda`."""
    conditions: Conditions
    anchor: str
    """Where in code it applies: what to look for in the task or in an earlier kernel."""
    technique: str
    """How it is done, in Markdown."""
    example: str
    """A small piece of code that shows it."""
    effect: str
    """What it changes (bytes, launches, operations), and by how much where that was measured."""
    failures: tuple[str, ...]
    """What goes wrong when the conditions do not hold."""
    provenance: Provenance = Provenance()
    version: int = 1
    """Counts revisions of the text."""
    state: State = State.PROPOSED
    reason: str = ""
    """Why it is in this state."""

    @property
    def header(self) -> dict[str, Any]:
        """What a selector sees."""
        return {
            "name": self.name,
            "intent": self.intent,
            "scope": self.scope,
            "tags": list(self.tags),
            "languages": list(self.languages),
            "devices": list(self.devices),
        }

    def content(self) -> dict[str, Any]:
        """The text of the card alone, as plain data: what makes two cards the same."""
        return {
            "schema": CARD_SCHEMA,
            **self.header,
            "conditions": dict(self.conditions.items()),
            "anchor": self.anchor,
            "technique": self.technique,
            "example": self.example,
            "effect": self.effect,
            "failures": list(self.failures),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            **self.content(),
            "provenance": {field.name: getattr(self.provenance, field.name) for field in fields(Provenance)},
            "version": self.version,
            "state": self.state.value,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Skill:
        """Data that has passed the door already. Foreign data goes through `bottega.skills.validation`."""
        return cls(
            name=data["name"],
            intent=data["intent"],
            scope=data["scope"],
            tags=tuple(data["tags"]),
            languages=tuple(data["languages"]),
            devices=tuple(data["devices"]),
            conditions=Conditions(**data["conditions"]),
            anchor=data["anchor"],
            technique=data["technique"],
            example=data["example"],
            effect=data["effect"],
            failures=tuple(data["failures"]),
            provenance=Provenance(**data.get("provenance", {})),
            version=data.get("version", 1),
            state=State(data.get("state", State.PROPOSED)),
            reason=data.get("reason", ""),
        )


LANGUAGES: tuple[Language, ...] = tuple(language for language in get_args(Language) if language != "torch")
DEVICES = ("cpu", "cuda")
