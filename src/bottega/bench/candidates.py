"""Candidate files from outside: maps files to tasks and samples. Two layouts are known; a file that fits neither is reported.

KernelBench's run folder   level_1_problem_23_sample_0_kernel.py, for the task 23_….py of level 1
plain                      TASK.py, TASK.0.py, TASK/0.py, each also below level1/, level2/, …
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bottega.bench.attempt import BenchTask
from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.languages import candidate_from
from bottega.tasks.files import level_of_folder

_KERNELBENCH = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel")
_NUMBERED = re.compile(r"(.+)\.(\d{1,6})")
LARGEST = 8 << 20
"""Bytes of a file that is still read; the judge refuses kernels of far less with a verdict."""


@dataclass(frozen=True)
class CandidateSet:
    folder: Path
    kernels: dict[str, dict[int, Candidate]]
    """By task and sample. Samples are counted from 0 without gaps, in the order of their own numbers."""
    numbers: tuple[int, ...]
    """The samples' own numbers, as the files have them."""
    unmatched: tuple[str, ...]
    """Files that are not judged, because they belong to no task or cannot be read, each with why."""
    repeated: int
    """Kernels whose text an earlier sample of the same task has: a sample each, judged once."""
    outside: tuple[str, ...] = ()
    """Files that are links to somewhere else, in a line each. They are judged, and a run keeps their text, which a reader must know."""


@dataclass(frozen=True)
class _Claim:
    """What a file's name says."""

    sample: int
    stem: str = ""
    level: int | None = None
    problem: int | None = None


def read_candidates(folder: Path, rows: Iterable[BenchTask], tasks: dict[str, Task]) -> CandidateSet:
    """Raises `UsageError` where there is nothing to judge, or where two files are the same sample of a task."""
    rows = tuple(rows)
    files, unreadable = _files(folder)
    by_number, by_stem = _places(rows, tasks)
    claimed: dict[tuple[str, int], Path] = {}
    unmatched = list(unreadable)
    for file in files:
        claim = _claim(file, folder)
        if claim.problem is not None:
            fits = by_number.get((claim.level, claim.problem), [])
        else:
            fits = [id for level, id in by_stem.get(claim.stem, []) if claim.level is None or level == claim.level]
        if len(fits) != 1:
            why = "fits no task of this run" if not fits else f"fits {len(fits)} tasks; put it below level1/, level2/, …"
            unmatched.append(f"{file}: {why}")
            continue
        key = fits[0], claim.sample
        if key in claimed:
            raise UsageError(f"{file} and {claimed[key]} are both sample {claim.sample} of the same task; remove or rename one")
        claimed[key] = file
    if not claimed:
        name = next((row.name for row in rows), "TASK")
        raise UsageError(
            f"{folder}: holds no kernel for a task of this run, whose kernels are named such as {name}.py; {unmatched[0]}"
        )
    numbers = sorted({sample for _, sample in claimed})
    kernels: dict[str, dict[int, Candidate]] = defaultdict(dict)
    for (task, sample), file in sorted(claimed.items(), key=lambda item: item[0]):
        kernels[task][numbers.index(sample)] = _read(file)
    repeated = sum(len(samples) - len({kernel.id for kernel in samples.values()}) for samples in kernels.values())
    outside = [
        f"{file}: is a link to {file.resolve()}, outside of the folder" for file in claimed.values() if _outside(file, folder)
    ]
    return CandidateSet(folder, dict(kernels), tuple(numbers), tuple(unmatched), repeated, tuple(outside))


def _files(folder: Path) -> tuple[list[Path], list[str]]:
    """The files that may be kernels, and those that cannot be, with why."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of candidates")
    try:
        found = sorted(path for path in folder.rglob("*.py") if not _hidden(path.relative_to(folder)) and not path.is_dir())
        faults = {path: fault for path in found if (fault := _fault(path))}
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None
    if not found:
        raise UsageError(
            f"{folder}: holds no kernels (.py); name them TASK.py, TASK.0.py or TASK/0.py, "
            "or level_1_problem_23_sample_0_kernel.py as KernelBench does"
        )
    return [path for path in found if path not in faults], [f"{path}: {fault}" for path, fault in faults.items()]


def _fault(path: Path) -> str:
    """Why a file is not read; empty where it is."""
    try:
        if not path.is_file():
            return "is no file that can be read"
        return f"is larger than {LARGEST >> 20} MiB, and no kernel" if path.stat().st_size > LARGEST else ""
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _outside(file: Path, folder: Path) -> bool:
    return not file.resolve().is_relative_to(folder.resolve())


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts) or path.name == "__init__.py"


def _places(
    rows: Iterable[BenchTask], tasks: dict[str, Task]
) -> tuple[dict[tuple[int | None, int], list[str]], dict[str, list[tuple[int | None, str]]]]:
    """Tasks by level and number, and by the names that a file may call them."""
    by_number: dict[tuple[int | None, int], list[str]] = defaultdict(list)
    by_stem: dict[str, list[tuple[int | None, str]]] = defaultdict(list)
    for row in rows:
        tags = tasks[row.id].tags if row.id in tasks else ()
        told = next((tag.partition(":")[2] for tag in tags if tag.startswith("problem:")), None)
        number = re.match(r"(\d+)(?=_|$)", row.name)
        problem = int(told) if told is not None else int(number[1]) if number else None
        if problem is not None:
            by_number[(row.level, problem)].append(row.id)
        for name in {row.name, row.id}:
            by_stem[name].append((row.level, row.id))
    return by_number, by_stem


def _claim(file: Path, folder: Path) -> _Claim:
    match = _KERNELBENCH.fullmatch(file.stem)
    if match:
        return _Claim(int(match[3]), level=int(match[1]), problem=int(match[2]))
    parents = list(file.relative_to(folder).parts[:-1])
    level = next((found for part in parents if (found := level_of_folder(Path(part))) is not None), None)
    if parents and level_of_folder(Path(parents[-1])) is None and file.stem.isdecimal():
        return _Claim(int(file.stem), parents[-1], level)
    numbered = _NUMBERED.fullmatch(file.stem)
    if numbered:
        return _Claim(int(numbered[2]), numbered[1], level)
    return _Claim(0, file.stem, level)


def _read(file: Path) -> Candidate:
    try:
        # Half a surrogate pair in place of what is no UTF-8: the judge then says of the kernel what is wrong with it.
        source = file.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    return candidate_from(source, name=file.stem)
