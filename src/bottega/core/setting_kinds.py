"""Kinds of values that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

Positive = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]
Workers = Positive | Literal["auto"]
Mode = Literal["as-built", "train", "eval"]
Style = Literal["terse", "compact", "full"]
Cluster = Annotated[
    str | None,
    Field(
        description="Judge in a Ray cluster: auto starts or joins one here, ADDRESS joins that one; ADDRESS?make=H100&cores=4 chooses in it."
    ),
]
MODES: dict[str, bool | None] = {"as-built": None, "train": True, "eval": False}
"""What a judge is told for each mode."""


def by_comma(value: Any) -> Any:
    """`1,2` on a command line is a list, and so is a single value; a flag that is given often is a list of such."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, list | tuple):
        return [part for each in value for part in (by_comma(each) if isinstance(each, str) else [each])]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


def _counted(value: Any) -> Any:
    """`3` is 0, 1, 2; `4,7` is 4 and 7."""
    if isinstance(value, str) and "," not in value and value.strip().isdecimal():
        value = int(value)
    return range(value) if isinstance(value, int) and not isinstance(value, bool) else list(dict.fromkeys(by_comma(value)))


Words = Annotated[tuple[str, ...], BeforeValidator(by_comma)]
Numbers = Annotated[tuple[int, ...], BeforeValidator(by_comma)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(by_comma)]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_counted), Field(min_length=1)]
