"""Validation of the lines of a run's files: an invalid line is an error that names file and line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.core.errors import UsageError
from bottega.core.verdict import Outcome

Log = Callable[[str], None]
Place = Annotated[int, Field(ge=0, lt=100_000)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
CELLS = 20_000_000
"""Tasks × samples × turns that a run may have: figures are computed on arrays of that many cells."""


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Speedup(_Line):
    point: float | None
    low: float | None
    high: float | None
    """JSON has no infinities, so an end may be null."""


class _Violation(_Line):
    name: str
    detail: str


class _Verdict(_Line):
    outcome: str
    correct: bool = False
    speedup: dict[str, _Speedup] = {}
    times_ms: dict[str, float | None] = {}
    error: dict[str, Any] = {}
    coverage: dict[str, Any] = {}
    violations: list[_Violation] = []
    diagnosis: str = ""
    notes: list[str] = []
    sandbox: dict[str, Any] = {}
    fingerprint: dict[str, Any] = {}
    stages_s: dict[str, float | None] = {}
    task_id: str = ""
    candidate_id: str = ""
    baseline: str = ""
    fastest_baseline: str = ""
    memory: dict[str, int] = Field(default_factory=dict)


class _Attempt(_Line):
    task: str
    sample: Place
    turn: Place
    verdict: _Verdict | None
    candidate: str = Field(pattern=r"^[0-9A-Za-z_-]*$")
    """The name of a file in kernels/, and so no path."""
    language: str
    prompt_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    money: Amount
    seconds: Amount
    skills: list[str]
    junk: str = ""
    redrawn: int = Field(default=0, ge=0)
    repairs: list[str] = []


class _Task(_Line):
    id: str
    name: str
    level: int | None
    family: str
    source: str
    fitness: str = ""
    trouble: str = ""


def lines_of(path: Path, log: Log | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with their line's number. A last line that was cut is left out and said; other damage is a `UsageError`."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    *whole, cut = content.split(b"\n")
    for number, line in enumerate(whole, 1):
        try:
            data = json.loads(line.decode("utf-8", "surrogatepass"))
            if not isinstance(data, dict):
                raise ValueError("it is no object")
        except (ValueError, RecursionError) as error:
            raise UsageError(_damaged(path, number, error)) from None
        yield number, data
    if cut and log is not None:
        log(f"{path}: its last line was cut by a kill and is left out; it was never counted")


def made(make: Callable[[dict[str, Any]], Any], data: dict[str, Any], path: Path, number: int) -> Any:
    try:
        return make(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(_damaged(path, number, error)) from None


def _damaged(path: Path, number: int, error: Exception) -> str:
    return f"{path}: line {number} is damaged ({type(error).__name__}: {error}); remove it to go on without what it held"


def attempt_of(data: dict[str, Any]) -> BenchAttempt:
    """Raises `ValueError` with the field that is wrong."""
    _check(_Attempt, data)
    verdict = data["verdict"]
    if verdict is not None:
        Outcome(verdict["outcome"])
        if not isinstance(verdict.get("coverage", {}).get("share"), int | float | None):
            raise ValueError("verdict.coverage.share: is no number")
    return BenchAttempt.from_json(data)


def task_of(data: dict[str, Any]) -> BenchTask:
    """Raises as `attempt_of` does."""
    _check(_Task, data)
    return BenchTask.from_json(data)


def _check(shape: type[_Line], data: dict[str, Any]) -> None:
    try:
        shape.model_validate(_without_surrogates(data))
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _without_surrogates(value: Any) -> Any:
    """Half a surrogate pair, which models do write and names of files may hold, is no fault of a line; pydantic takes it for one."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value
