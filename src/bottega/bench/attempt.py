"""What a benchmark run holds: its tasks, and every attempt at them. Metrics, comparison, report and record read these and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from bottega.core.verdict import Verdict

Author = Literal["model", "compiler"]
"""`model`: whoever the benchmark is of, also where its kernels are read from files. `compiler`: drafts."""
Key = tuple[str, int, int]
"""Task, sample and turn: what makes an attempt that one and no other."""
Place = Annotated[int, Field(ge=0, lt=100_000)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""What is checked where a run is read from files."""


@dataclass(frozen=True)
class BenchAttempt:
    """One kernel, or one answer without a kernel, of one sample at one turn."""

    task: str
    """The task's id."""
    sample: Place
    """From 0; samples are parallel, none sees another."""
    turn: Place
    """From 0; turns are serial within their sample, each sees the ones before it."""
    verdict: Verdict | None
    """None where the answer held no kernel."""
    candidate: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]*$")]
    """The candidate's id, empty where there is none: the name of a file in kernels/, and so no path."""
    language: str
    prompt_tokens: Annotated[int, Field(ge=0)]
    output_tokens: Annotated[int, Field(ge=0)]
    money: Amount
    seconds: Amount
    """Tokens, money and seconds (writing and judging) of this answer alone; a sample's first answer also has what its selection of
    skills took. A text that was judged before, in the run or in one that it was told of, costs no judging."""
    skills: tuple[str, ...]
    """Cards that the answer was shown."""
    junk: str = ""
    """Why the answer held no kernel."""
    redrawn: Annotated[int, Field(ge=0)] = 0
    """How many more answers were sampled because of findings in the ones before; they are in the tokens."""
    repairs: tuple[str, ...] = ()
    """Names of the repairs that changed the answer."""
    author: Author = "model"
    """The compiler's come where none of the sample's own is faster, behind them. Its refusal is an attempt without a kernel."""

    @property
    def key(self) -> Key:
        return self.task, self.sample, self.turn

    def to_json(self) -> dict[str, Any]:
        verdict = None if self.verdict is None else self.verdict.to_json()
        return {**self.__dict__, "verdict": verdict, "skills": list(self.skills), "repairs": list(self.repairs)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BenchAttempt:
        verdict = None if data["verdict"] is None else Verdict.from_json(data["verdict"])
        repairs = tuple(data.get("repairs", ()))  # not in older runs
        return cls(**{**data, "verdict": verdict, "skills": tuple(data["skills"]), "repairs": repairs})


@dataclass(frozen=True)
class BenchTask:
    """One task of the run, as it was."""

    id: str
    name: str
    level: int | None
    family: str
    source: str
    fitness: str = ""
    """Why it cannot be judged fairly; empty where it can."""
    trouble: str = ""
    """Why it has no attempts, or not all: the device was lost, there was no candidate. A run that is resumed tries it again."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BenchTask:
        return cls(**data)


@dataclass(frozen=True)
class BenchRun:
    """A run directory, read; the run may be finished or not."""

    folder: Path
    settings: dict[str, Any]
    fingerprint: dict[str, Any]
    tasks: tuple[BenchTask, ...]
    attempts: tuple[BenchAttempt, ...]


Log = Callable[[str], None]
CELLS = 20_000_000
"""Tasks × samples × turns that a run may have: figures are computed on arrays of that many cells."""
NUMBERS = ("speedup", "times_ms", "stages_s")
"""Parts of a verdict that hold numbers by name."""


_ATTEMPT, _TASK = TypeAdapter(BenchAttempt), TypeAdapter(BenchTask)


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
