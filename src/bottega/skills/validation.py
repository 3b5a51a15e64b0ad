"""Validation of cards: data from outside becomes a card here, or is refused with every reason at once.

Limits are enforced, not only asked for: a card is read inside a prompt, and a long one pushes out the task.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from bottega.core.errors import CardError
from bottega.core.skill import CARD_SCHEMA, AppliesTo, Skill, SkillState
from bottega.core.workload import DTYPES, KINDS, LAYOUTS, SIZES
from bottega.languages import kernel_languages
from bottega.skills.advice_lint import lazy_advice
from bottega.skills.conditions import holds_nowhere

NAME = r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$"
SCOPE = r"^(general|family/[a-z][a-z0-9_]*)$"
TAG = r"^[a-z0-9][a-z0-9_.+-]*$"
FEATURE = r"^[a-z][a-z0-9_]*(=[^\n]+)?$"
FAULTS = 12
"""How many faults an error names: a file of something else has a thousand."""

_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def readable(text: str) -> str:
    """A card is shown in terminals and prompts: what moves a cursor, hides text or turns its direction has no place in it."""
    text = text.replace("\r\n", "\n")
    found = _UNREADABLE.search(text)
    if found:
        raise ValueError(f"has a character that cannot be read, U+{ord(found.group()):04X} at {found.start()}; take it out")
    return text


def made_readable(text: str) -> str:
    """The same for text that must not be refused, on one line: why a card moved."""
    return " ".join(_UNREADABLE.sub(" ", text).split())


Readable = AfterValidator(readable)


def _between(shortest: int, longest: int) -> StringConstraints:
    return StringConstraints(strip_whitespace=True, min_length=shortest, max_length=longest)


Condition = Annotated[str, _between(4, 320), Readable]


class _Conditions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    data_types: Condition
    layout: Condition
    storage: Condition
    pipeline: Condition
    hardware: Condition


Feature = Annotated[str, StringConstraints(pattern=FEATURE, max_length=120), Readable]


class _Relations(BaseModel):
    model_config = ConfigDict(extra="forbid")

    requires: Annotated[list[Feature], Field(max_length=12)] = []
    provides: Annotated[list[Feature], Field(max_length=12)] = []
    conflicts: Annotated[list[Feature], Field(max_length=12)] = []


Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w .+-]*$", max_length=64), Readable]
Several = Annotated[list[Word], Field(max_length=16)]
LARGEST = 2**62


class _AppliesTo(BaseModel):
    model_config = ConfigDict(extra="forbid")

    devices: Several = []
    dtypes: Annotated[list[Literal[*DTYPES]], Field(max_length=16)] = []  # type: ignore[valid-type]
    operators: Several = []
    kinds: Annotated[list[Literal[*KINDS]], Field(max_length=16)] = []  # type: ignore[valid-type]
    layouts: Annotated[list[Literal[*LAYOUTS]], Field(max_length=16)] = []  # type: ignore[valid-type]
    sizes: dict[Literal[*SIZES], list[int]] = {}  # type: ignore[valid-type]

    @field_validator("sizes")
    @classmethod
    def _ranges(cls, sizes: dict[str, list[int]]) -> dict[str, list[int]]:
        for name, ends in sizes.items():
            if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= LARGEST:
                raise ValueError(f"{name} is a range: two numbers, the least and the most")
        return sizes


class _Provenance(BaseModel):
    model_config = ConfigDict(extra="forbid")

    origin: Annotated[str, _between(1, 64), Readable] = "hand"
    source: Annotated[str, _between(0, 400), Readable] = ""
    task: Annotated[str, _between(0, 64), Readable] = ""
    claimed_speedup: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None


class CardData(BaseModel):
    """The card as outside data: the schema of one line of JSONL, one TOML file, one answer of a summariser."""

    model_config = ConfigDict(extra="forbid")

    card_schema: Annotated[int, Field(alias="schema", ge=1, le=CARD_SCHEMA, strict=True)] = CARD_SCHEMA
    name: Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
    intent: Annotated[str, _between(10, 160), Readable]
    scope: Annotated[str, StringConstraints(pattern=SCOPE, max_length=64)]
    tags: Annotated[list[Annotated[str, StringConstraints(pattern=TAG, max_length=40)]], Field(min_length=1, max_length=10)]
    languages: Annotated[list[str], Field(min_length=1)]
    devices: Annotated[list[Literal["cpu", "cuda"]], Field(min_length=1)]
    conditions: _Conditions
    anchor: Annotated[str, _between(5, 400), Readable]
    technique: Annotated[str, _between(40, 2400), Readable]
    example: Annotated[str, _between(10, 3200), Readable]
    effect: Annotated[str, _between(5, 400), Readable]
    failures: Annotated[list[Annotated[str, _between(5, 400), Readable]], Field(min_length=1, max_length=6)]
    relations: _Relations = _Relations()
    applies_to: _AppliesTo = _AppliesTo()
    provenance: _Provenance = _Provenance()
    version: Annotated[int, Field(ge=1, le=2**31, strict=True)] = 1
    state: SkillState = SkillState.PROPOSED
    reason: Annotated[str, _between(0, 400), Readable] = ""

    @field_validator("languages")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        known = [language.name for language in kernel_languages()]
        for name in names:
            if name not in known:
                raise ValueError(f"Input should be one of {', '.join(known)}")
        return names

    @field_validator("intent")
    @classmethod
    def _on_one_line(cls, text: str) -> str:
        return " ".join(text.split())

    @field_validator("tags", "languages", "devices")
    @classmethod
    def _once_each(cls, values: list[str]) -> list[str]:
        return list(dict.fromkeys(values))

    @model_validator(mode="after")
    def _teaches_something(self) -> CardData:
        for field, text in (("name", self.name.replace("_", " ")), ("intent", self.intent), ("technique", self.technique)):
            reason = lazy_advice(text)
            if reason:
                raise ValueError(f"{field} is lazy advice: it {reason}; a card teaches how to write a faster kernel")
        return self

    @model_validator(mode="after")
    def _holds_somewhere(self) -> CardData:
        reason = holds_nowhere(AppliesTo.from_json(self.applies_to.model_dump()), self.devices)
        if reason:
            raise ValueError(f"applies_to holds nowhere: {reason}; leave out what cannot be met")
        return self


def admit_data(data: Any, where: str = "card") -> Skill:
    """A card from foreign data, or `CardError` that names its faults."""
    where = where[:200]
    if not isinstance(data, dict):
        raise CardError(f"{where}: a card is an object with fields, not {type(data).__name__}")
    schema = data.get("schema", CARD_SCHEMA)
    if isinstance(schema, int) and schema > CARD_SCHEMA:
        raise CardError(
            f"{where}: this card has schema {schema} and this Bottega knows up to {CARD_SCHEMA}: "
            "it was written by a newer version; upgrade Bottega to read it"
        )
    try:
        card = CardData.model_validate(data)
    except ValidationError as error:
        faults = [_fault(part) for part in error.errors(include_input=False)]
        more = f"; and {len(faults) - FAULTS} more" if len(faults) > FAULTS else ""
        raise CardError(f"{where}: " + "; ".join(faults[:FAULTS]) + more) from None
    return Skill.from_json(card.model_dump(by_alias=True, exclude={"card_schema"}))


def _fault(part: Any) -> str:
    place = ".".join(str(step)[:64] for step in part["loc"])
    message = part["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
