"""Reads the corpus of candidates: each file states in its own header what it attacks and which verdict it must get.

The header stands in the candidate itself, so that a reader finds cheat, gain and expected verdict on one page.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.languages import candidate_from

TESTS = Path(__file__).parent
TASKS = TESTS / "fixtures" / "tasks"

ON_A_GPU: dict[str, dict[str, str]] = {
    "gpu_layer_norm": {"torch.randn(512, 2048)": "torch.randn(8192, 2048)"},
    "gpu_linear_gelu": {"torch.randn(256, 512)": "torch.randn(2048, 1024)", "512, 1024": "1024, 2048"},
    "gpu_matmul": {"torch.rand(512, 512), torch.rand(512, 512)": "torch.rand(2048, 2048), torch.rand(2048, 2048)"},
    "gpu_one_hot": {"torch.randint(0, 1024, (4096,))": "torch.randint(0, 1024, (65536,))"},
    "gpu_relu": {"torch.rand(1024, 1024)": "torch.rand(4096, 4096)"},
    "gpu_row_mean": {"torch.rand(256, 8192)": "torch.rand(2048, 16384)"},
    "gpu_softmax": {"torch.rand(256, 4096)": "torch.rand(4096, 4096)"},
    "gpu_transposed_copy": {"torch.randn(2048, 3072)": "torch.randn(8192, 12288)"},
}
"""Tasks that are those without `gpu_` but for these sizes, which take a GPU tens of microseconds."""

ACCEPTED = frozenset({"faster", "same", "slower", "ambiguous"})
OUTCOMES = ACCEPTED | {"incorrect", "compile_error", "runtime_error", "timeout", "rejected", "invalid_task"}

FOLDERS = ("attacks/", "honest/")
SEED = "BOTTEGA_CORPUS_SEED"
PARTS = 14
"""Every file comes round within so many days: two weeks of daily commits. `make test-all` judges them all."""
MOST_OF_A_COMMIT = 16
"""A commit that brings many files must not make `make test` as long as `make test-all`; the rest come round."""

_DOCSTRING = re.compile(r'\A\s*"""(.+?)"""', re.DOTALL)
_HEADER = re.compile(r"^# (task|expect|violation|options): *(\S.*?) *$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"@[A-Z_]+@")


@dataclass(frozen=True)
class Specimen:
    """One candidate file with what its header says."""

    path: Path
    explanation: str
    task_name: str
    expect: frozenset[str]
    violations: frozenset[str] = frozenset()
    """Any one of these must be among the verdict's violations; empty when the outcome says it all."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def task(self) -> Task:
        return load_task(self.task_name)

    def candidate(self, **values: object) -> Candidate:
        """The candidate, with placeholders such as @CANARY@ filled in from `values`."""
        source = self.path.read_text()
        for name, value in values.items():
            source = source.replace(f"@{name.upper()}@", str(value))
        return candidate_from(source, name=self.id)

    @property
    def placeholders(self) -> frozenset[str]:
        return frozenset(_PLACEHOLDER.findall(self.path.read_text()))


def load_task(name: str) -> Task:
    """A file of tests/fixtures/tasks, or one at a GPU's size."""
    sizes = ON_A_GPU.get(name, {})
    path = TASKS / f"{name.removeprefix('gpu_') if sizes else name}.py"
    text = path.read_text()
    for size, larger in sizes.items():
        assert text.count(f"[{size}]") == 1, f"{path}: has no one {size}"
        text = text.replace(f"[{size}]", f"[{larger}]")
    return Task(text, name=name, origin=f"tests/fixtures/tasks/{path.name}").validate()


def read(path: Path) -> Specimen:
    text = path.read_text()
    docstring = _DOCSTRING.match(text)
    if docstring is None:
        raise ValueError(f"{path}: opens with no docstring; say what it does and what it gains")
    header = dict(_HEADER.findall(text))
    if missing := {"task", "expect"} - set(header):
        raise ValueError(f"{path}: its header has no line for {' and '.join(sorted(missing))}")
    expect = _names(header["expect"])
    if unknown := expect - OUTCOMES:
        raise ValueError(f"{path}: expects {sorted(unknown)}, which are no outcomes")
    options = dict(pair.split("=", 1) for pair in header.get("options", "").split())
    return Specimen(
        path=path,
        explanation=docstring[1].strip(),
        task_name=header["task"],
        expect=expect,
        violations=_names(header.get("violation", "")),
        options={name: _value(text) for name, text in options.items()},
    )


def specimens(folder: str) -> list[Specimen]:
    """Every candidate under tests/`folder`, by name; test modules and packages are no candidates."""
    paths = sorted((TESTS / folder).glob("*.py"))
    return [read(path) for path in paths if not path.name.startswith(("test_", "__"))]


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _value(text: str) -> int | float | str | bool:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def rotation() -> int:
    """Which part of the corpus is due: the number of the day (UTC), so that parts follow each other, or BOTTEGA_CORPUS_SEED."""
    chosen = os.environ.get(SEED, "")
    if not chosen:
        return int(time.time() // 86400)
    if not re.fullmatch(r"\d+", chosen):
        raise ValueError(f"{SEED} is {chosen!r}; give the whole number that the run to repeat has printed")
    return int(chosen)


def is_due(name: str, turn: int, parts: int = PARTS) -> bool:
    """Whether this file's turn has come. By residue: whatever the number of files, each comes once in `parts` turns that follow each other."""
    return int.from_bytes(_drawn(name)[:8]) % parts == turn % parts


def touched(root: Path = TESTS, most: int = MOST_OF_A_COMMIT) -> frozenset[Path]:
    """Files below `root` that differ from the last commit or are new, and up to `most` that the last commit changed. None without git."""
    around = [
        *_git(root, "diff", "--name-only", "--relative", "HEAD"),
        *_git(root, "ls-files", "--others", "--exclude-standard"),
    ]
    committed = _git(root, "diff", "--name-only", "--relative", "HEAD~1", "HEAD")
    within = sorted((name for name in committed if name.startswith(FOLDERS)), key=_drawn)
    return frozenset(root / name for name in (*around, *within[:most]))


def rotating(found: Sequence[Specimen]) -> list[Any]:
    """The corpus for a parametrised test. A verdict takes seconds, so `make test` takes the part that is due today and what was
    just touched, and `make test-all` takes them all."""
    turn, fresh = rotation(), touched()
    chosen = [is_due(name_of(specimen), turn) or specimen.path in fresh for specimen in found]
    return [pytest.param(each, id=each.id, marks=() if now else pytest.mark.slow) for each, now in zip(found, chosen)]


def name_of(specimen: Specimen) -> str:
    """The same on every machine: folder and file."""
    return specimen.path.relative_to(TESTS).as_posix()


def _drawn(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _git(folder: Path, *words: str) -> list[str]:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
