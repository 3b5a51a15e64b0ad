"""`result.json`: what a finished run claims, in terms that `check` can put to the test from the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bottega.core.errors import UsageError
from bottega.core.files import digest, json_text, strict

FILE = "result.json"
ORIGINAL, OPTIMIZED, VERDICT = "original.py", "optimized.py", "verdict.json"
BEATS_EAGER, ITS_VERDICT = "faster_than_eager.py", "faster_than_eager.json"
"""Where nothing beats what was to be beaten: a kernel that surely beats eager, and its verdict."""
SCHEMA = 1
LARGEST = 16 << 20


class Interval(BaseModel):
    model_config = ConfigDict(extra="forbid")
    point: float
    low: float
    high: float


class Module(BaseModel):
    """Which module of original.py, and how it is built and called."""

    model_config = ConfigDict(extra="forbid")
    name: str
    class_name: str | None = None
    inputs: str | None = None
    init: str | None = None
    function: str | None = None
    dtype: str | None = None


class Result(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())
    version: int = SCHEMA
    outcome: Literal["faster", "none"]
    module: Module
    task_id: str
    device: str
    language: str
    precision: str
    training: bool | None = None
    baselines: list[str]
    claim: dict[str, Interval] = Field(default_factory=dict)
    """The speedup against each baseline."""
    fastest_baseline: str = ""
    """Which of those that were measured is hardest to beat. Empty in results of older versions."""
    missed: str = ""
    """Where none was found: what was not, in a sentence."""
    kept: str = ""
    """Then also: the file with a kernel that surely beats eager, if there is one. It is no claim, and `check` does not look at it."""
    kept_claim: dict[str, Interval] = Field(default_factory=dict)
    node: str = ""
    author: str = ""
    """Who wrote the kernel: the model, or the name of who drew it by rule. Empty in results of older versions."""
    load: str = "load"
    """The function of optimized.py that makes the module."""
    refused: str = ""
    """What it says where the kernel's parameters have names of their own."""
    guard_us: float = 0.0
    """What looking at the arguments adds to each call."""
    fingerprint: dict[str, Any] = Field(default_factory=dict)
    attempts: dict[str, int] = Field(default_factory=dict)
    writers: dict[str, dict[str, int]] = Field(default_factory=dict)
    """The same by who wrote them."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    estimated: int = 0
    """Answers whose tokens and cost the server did not count."""
    cost: float = 0.0
    seconds: float = 0.0
    ended: str = ""
    error: str = ""
    command: str = ""
    check: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of the files that the claim rests on."""
    seal: str = ""
    """SHA-256 of everything else here. It shows an edit, not a forger: who can write the file can seal it again."""

    @property
    def own_code(self) -> bool:
        """Whether the claim's interval allows nothing for hostile code: no model had a part in the kernel."""
        return judged_as_own(self.fingerprint)

    def sealed(self) -> Result:
        whole = Result.model_validate(self.model_dump())  # with every field set, as it will be read
        return whole.model_copy(update={"seal": whole._seal()})

    @property
    def intact(self) -> bool:
        return self.seal == self._seal()

    def _seal(self) -> str:
        plain = strict(self.model_dump(exclude={"seal"}, exclude_unset=True))  # a file of an older version lacks later fields
        return digest(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode())

    def text(self) -> str:
        return json_text(self.model_dump())


def judged_as_own(fingerprint: dict[str, Any]) -> bool:
    """Whether a verdict with this fingerprint, which may be a stranger's text, says that its interval allows nothing for hostile code."""
    settings = fingerprint.get("settings")
    return isinstance(settings, dict) and settings.get("own_code") is True


def read_result(folder: Path) -> Result:
    path = folder / FILE
    try:
        if folder.is_file():
            raise UsageError(f"{folder}: a file; give the folder of a finished `bottega optimize`")
        if not path.is_file():
            raise UsageError(f"{folder}: no finished result is there (it has no {FILE})")
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path}: too large to be a result of Bottega's")
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(f"{path}: no result of this version of Bottega: {where}: {first['msg']}") from None
