"""What clients send, as pydantic models: unknown fields are refused, every text has a length, and nothing is interpreted."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bottega.core.candidate import SOURCE_LIMIT
from bottega.core.foreign_text import one_line
from bottega.judge.settings import OF_A_REQUEST, Settings

Source = Annotated[str, Field(max_length=SOURCE_LIMIT)]
Name = Annotated[str, Field(max_length=300)]
Priority = Annotated[int, Field(ge=-10, le=10)]


MOST_ITEMS = 64
"""Of an object or a list: of more, pydantic would say of each what is wrong with it, and nobody else would be answered meanwhile."""


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _not_too_many(cls, data: Any) -> Any:
        values = [data, *data.values()] if isinstance(data, dict) else [data]
        if any(isinstance(value, dict | list) and len(value) > MOST_ITEMS for value in values):
            raise ValueError(f"more than {MOST_ITEMS} fields or items")
        return data


class TaskBody(Body):
    source: Source | None = None
    """The task's text, in KernelBench's format."""
    id: Name | None = None
    """Or: builtin:NAME, the name or id of a task that the server has, or the id of one that you sent before."""
    name: Name = "task"
    """As messages call it."""

    @model_validator(mode="after")
    def _one_of_both(self) -> TaskBody:
        if (self.source is None) == (self.id is None):
            raise ValueError("give either source or id")
        return self


class CandidateBody(Body):
    source: Source
    """A text that defines ModelNew."""
    name: Name = "candidate"
    language: Annotated[str, Field(max_length=40)] | None = None
    """As `bottega` calls it; recognised by the text where it is left out."""


class SettingsBody(Body):
    """As of `bottega.judge.settings.Settings`; what is left out is the judge's default."""

    baselines: (
        Annotated[tuple[Literal["eager", "compile", "autotune", "best"], ...], Field(min_length=1, max_length=4)] | None
    ) = None
    quick: bool | None = None
    precision: Annotated[str, Field(max_length=10)] | None = None
    require_kernel: Annotated[float, Field(ge=0, le=1)] | None = None
    timeout: Annotated[float, Field(gt=0, le=3600)] | None = None
    task_timeout: Annotated[float, Field(gt=0, le=3600)] | None = None
    training: bool | None = None
    noise_floor: Annotated[float, Field(ge=0, lt=1)] | None = None
    timed: bool | None = None
    profile: bool | None = None

    def text(self, device: str) -> str:
        """As JSON with sorted keys: the same choice is the same text. Raises `UsageError` for what the judge would not take."""
        chosen: dict[str, Any] = self.model_dump(exclude_none=True)
        full = Settings(device=device, **chosen).to_json()
        return json.dumps({name: full[name] for name in OF_A_REQUEST}, sort_keys=True)


class CheckBody(Body):
    task: TaskBody
    settings: SettingsBody = SettingsBody()
    device: Annotated[str, Field(max_length=20)] | None = None
    """cpu, cuda or cuda:N; the server's first kind where it is left out."""
    priority: Priority = 0
    """Among your own requests, the highest first."""
    run: Annotated[str, Field(max_length=100)] = ""
    """A label of yours. The same request is judged once; with another label it is judged again."""


class VerdictBody(CheckBody):
    candidate: CandidateBody


class ProbeBody(CheckBody):
    """What delivering a kernel asks beside the device: what the module looks like, and whether the delivered file can stand in for it."""

    do: Literal["describe", "try_out"]
    delivered: Source = ""
    """Of try_out: the file's text."""
    load: Annotated[str, Field(max_length=100, pattern=r"^\w*$")] = "load"
    """The name of its function that takes the original."""

    def arguments(self) -> str:
        """As JSON with sorted keys."""
        chosen = {"training": self.settings.training, "precision": self.settings.precision or "fp32"}
        return json.dumps({"do": self.do, "load": self.load, **chosen}, sort_keys=True)


def named(text: str) -> str:
    """A name as it is kept and shown."""
    return one_line(text) or "unnamed"
