"""Task files and folders of them, KernelBench's own layout among them. Reading a file never runs it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task
from bottega.tasks.signature import with_init_inputs
from bottega.tasks.tags import tags_of

LARGEST_FILE = 2 * 1024 * 1024
"""Bytes. A task is a page of source; megabytes are weights or logs that somebody pointed at by mistake."""

_LEVEL = re.compile(r"level[_-]?(\d+)")


def load_file(path: Path) -> Task:
    source = with_init_inputs(read_source(path), str(path))
    level = level_of_folder(path.parent)
    task = Task(source, path.stem, str(path), level).validate()
    return replace(task, tags=tags_of(source, level, problem_number(path) if level is not None else None))


def read_source(path: Path) -> str:
    """The text of a task file, or `TaskError` that says why it has none."""
    try:
        if not path.is_file():
            raise TaskError(f"{path}: not a regular file; a task is a Python source file")
        if path.stat().st_size > LARGEST_FILE:
            raise TaskError(f"{path}: larger than {LARGEST_FILE // 1024**2} MB; a task is a Python source file")
        content = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from None
    if b"\0" in content:
        raise TaskError(f"{path}: a binary file; a task is a Python source file")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 at byte {error.start}; save the task as UTF-8") from None


def task_files(folder: Path, levels: frozenset[int] | None = None) -> list[Path]:
    """The task files of a folder in the order people count them; `UsageError` if there are none.

    With `level1/ … level4/` inside, or inside a `KernelBench/` folder as in a checkout of the benchmark, those are taken;
    otherwise the folder's own files.
    """
    for root in (folder, folder / "KernelBench"):
        level_folders = [child for child in root.iterdir() if _numbered(child.name) and child.is_dir()] if root.is_dir() else []
        if level_folders:
            chosen = sorted(level_folders, key=lambda child: _numbered(child.name) or 0)
            if levels is not None:
                chosen = [child for child in chosen if _numbered(child.name) in levels]
            files = [file for child in chosen for file in _python_files(child)]
            break
    else:
        files = _python_files(folder)
        level_folders = []
    if not files and not (level_folders and levels is not None):
        raise UsageError(f"{folder}: holds no task files (.py), neither itself nor in level1/, level2/, …")
    return files


def level_of_folder(folder: Path) -> int | None:
    """KernelBench writes a task's level nowhere but in the name of its folder."""
    level = _numbered(folder.name)
    return level if level is not None else _numbered(folder.resolve().name)


def problem_number(path: Path) -> int | None:
    """The number in front of a file's name: 23 in `23_Name.py`."""
    number = re.match(r"\d{1,9}(?=_|$)", path.stem)
    return int(number.group()) if number else None


def _numbered(name: str) -> int | None:
    match = _LEVEL.fullmatch(name.lower())
    return int(match.group(1)) if match else None


def _python_files(folder: Path) -> list[Path]:
    files = [
        file for file in folder.iterdir() if file.suffix == ".py" and not file.name.startswith(("_", ".")) and not file.is_dir()
    ]
    return sorted(files, key=lambda file: _counted(file.name))


def _counted(name: str) -> list[tuple[int, int, str]]:
    """A sort key under which `2_b` comes before `10_a`."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]
