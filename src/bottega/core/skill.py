"""A skill card: one optimisation, when it is sound, how it is done, and what it avoids getting wrong.

A card holds what a writer of kernels needs to read. What was measured with it (`Trial`) and how it fared in use live beside it
in the library, because a card is revised and its history is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

CARD_SCHEMA = 3
"""Raised when a card gains or changes a field. A card of a higher schema is refused, not guessed at."""
BEFORE_RELATIONS, BEFORE_APPLIES_TO = 1, 2
"""The schemas of cards without those fields, whose text and hash are what they were before there were any."""

NOTHING_MORE = "none"
"""What a condition says when the skill asks for nothing of that kind."""


class SkillState(StrEnum):
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
class AppliesTo:
    """Conditions that code checks: the device, and one operation of the task for which all the others hold at once. Empty ones hold always."""

    devices: tuple[str, ...] = ()
    """Models or architectures, any of which will do: `NVIDIA H200`, `sm_90`, `avx512f`."""
    dtypes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    """torch's names: `linear`, `max_pool2d`."""
    kinds: tuple[str, ...] = ()
    """Of `workload.KINDS`; an operation has one of the operators or one of the kinds."""
    layouts: tuple[str, ...] = ()
    """Of `workload.LAYOUTS`."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    """By names of `workload.SIZES`, the least and the most."""

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))

    def to_json(self) -> dict[str, Any]:
        """Without what is empty."""
        lists = {one.name: list(value) for one in fields(self) if one.name != "sizes" and (value := getattr(self, one.name))}
        return {**lists, **({"sizes": {name: list(ends) for name, ends in self.sizes.items()}} if self.sizes else {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AppliesTo:
        lists = {name: tuple(value) for name, value in data.items() if name != "sizes"}
        return cls(**lists, sizes={name: (low, high) for name, (low, high) in data.get("sizes", {}).items()})

    @property
    def told(self) -> dict[str, str]:
        """As sentences of `Conditions`, for readers."""
        where = " or ".join((*self.operators, *self.kinds)) or "operations"
        where += f" along the {' or '.join(self.layouts)}" if self.layouts else ""
        ranges = ", ".join(f"{low} to {high} {size}" for size, (low, high) in self.sizes.items())
        asks = self.operators or self.kinds or self.layouts or ranges
        layout = f"{where[0].upper()}{where[1:]}, {ranges or 'any size'}." if asks else ""
        data_types = f"Tensors of {' or '.join(self.dtypes)}." if self.dtypes else ""
        hardware = f"{' or '.join(self.devices)}." if self.devices else ""
        said = {"data_types": data_types, "layout": layout, "hardware": hardware}
        return {kind: text for kind, text in said.items() if text}


@dataclass(frozen=True)
class Relations:
    """What a kernel has with the card, and what it must and must not have for it. A feature is a name, or `name=value`.

    `bottega lineage` learns these from the order in which optimisations could be taken out and put in again.
    """

    requires: tuple[str, ...] = ()
    """Features that a kernel must have before the card's step works."""
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Features that, together with the card's, made a kernel wrong or slower."""

    def __bool__(self) -> bool:
        return bool(self.requires or self.provides or self.conflicts)

    def to_json(self) -> dict[str, list[str]]:
        return {field.name: list(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True)
class Provenance:
    """Where the card came from."""

    origin: str = "hand"
    """`starter`, `hand`, `davinci`, `summary` (a model's, from a winning trace), `lineage`, or a foreign library's name."""
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
    languages: tuple[str, ...]
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
    relations: Relations = Relations()
    applies_to: AppliesTo = AppliesTo()
    """Where code can tell that the card does not apply, it is not offered."""
    provenance: Provenance = Provenance()
    version: int = 1
    """Counts revisions of the text."""
    state: SkillState = SkillState.PROPOSED
    reason: str = ""
    """Why it is in this state."""

    @property
    def header(self) -> dict[str, Any]:
        """What a selector sees."""
        more = tuple(name for name in ("relations", "applies_to") if getattr(self, name))
        names = ("name", "intent", "scope", "tags", "languages", "devices", *more)
        return {name: _plain(getattr(self, name)) for name in names}

    @property
    def stated(self) -> tuple[tuple[str, str], ...]:
        """The conditions as sentences; where a card has none of a kind, what code checks of that kind."""
        told = self.applies_to.told
        return tuple((kind, told.get(kind, text) if text == NOTHING_MORE else text) for kind, text in self.conditions.items())

    def content(self) -> dict[str, Any]:
        """The text of the card alone, as plain data: what makes two cards the same."""
        empty = tuple(name for name in ("relations", "applies_to") if not getattr(self, name))
        other = ("provenance", "version", "state", "reason", *empty)
        text = [one.name for one in fields(self) if one.name not in other]
        schema = CARD_SCHEMA if self.applies_to else BEFORE_APPLIES_TO if self.relations else BEFORE_RELATIONS
        return {"schema": schema, **{name: _plain(getattr(self, name)) for name in text}}

    def to_json(self) -> dict[str, Any]:
        provenance = {field.name: getattr(self.provenance, field.name) for field in fields(Provenance)}
        own = {"provenance": provenance, "version": self.version, "state": self.state.value, "reason": self.reason}
        return {**self.content(), **own}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Skill:
        """From data that was validated before. Foreign data goes through `bottega.skills.validation`."""
        values = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        values["conditions"] = Conditions(**data["conditions"])
        values["relations"] = Relations(**{name: tuple(found) for name, found in data.get("relations", {}).items()})
        values["applies_to"] = AppliesTo.from_json(data.get("applies_to", {}))
        values["provenance"] = Provenance(**data.get("provenance", {}))
        values["state"] = SkillState(data.get("state", SkillState.PROPOSED))
        return cls(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, Conditions):
        return dict(value.items())
    if isinstance(value, Relations | AppliesTo):
        return value.to_json()
    return list(value) if isinstance(value, tuple) else value


DEVICES = ("cpu", "cuda")
