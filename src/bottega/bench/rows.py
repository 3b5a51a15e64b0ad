"""Validation of the lines of a run's files: an invalid line is an error that names file and line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bottega.bench.attempt import BenchAttempt, BenchTask
from bottega.core.errors import UsageError

Log = Callable[[str], None]
CELLS = 20_000_000
"""Tasks × samples × turns that a run may have: figures are computed on arrays of that many cells."""
NUMBERS = ("speedup", "times_ms", "stages_s")
"""Parts of a verdict that hold numbers by name."""


_ATTEMPT, _TASK = TypeAdapter(BenchAttempt), TypeAdapter(BenchTask)


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
    verdict = data.get("verdict")
    known = data
    if isinstance(verdict, dict):  # JSON has no infinities, so a number may be null there
        known = {**data, "verdict": {**verdict, **{name: _numbers(verdict.get(name, {})) for name in NUMBERS}}}
        if not isinstance((verdict.get("coverage") or {}).get("share"), int | float | None):
            raise ValueError("verdict.coverage.share: is no number")
    _check(_ATTEMPT, known)
    return BenchAttempt.from_json(data)


def task_of(data: dict[str, Any]) -> BenchTask:
    """Raises as `attempt_of` does."""
    _check(_TASK, data)
    return BenchTask.from_json(data)


def _check(shape: TypeAdapter[Any], data: dict[str, Any]) -> None:
    try:
        # Half a surrogate pair, which models do write and names of files may hold, is no fault of a line.
        shape.validate_json(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    return math.nan if value is None else value
