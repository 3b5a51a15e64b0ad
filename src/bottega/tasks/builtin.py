"""The built-in suite: our own tasks over three levels, each written once with a table of sizes.

A suite file carries `SIZES = {"cpu": dict(...), "gpu": dict(...)}`. Loading it at a size puts plain constants in that
place, so that a task's source is complete, reads like any KernelBench file, and differs between sizes in its identity.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task, parsed
from bottega.tasks.files import level_of_folder, read_source, task_files
from bottega.tasks.tags import tags_of

BUILTIN = "builtin"
SIZES = ("cpu", "gpu")
SUITE = Path(__file__).parent / "suite"


def builtin_files(name: str = "") -> list[Path]:
    """The suite's files: all, those of `level2`, or the one with that name."""
    files = task_files(SUITE)
    chosen = [file for file in files if name in ("", file.stem, file.parent.name)]
    if not chosen:
        close = get_close_matches(name, [file.stem for file in files], n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`builtin` alone names them all"
        raise UsageError(f"{BUILTIN}:{name}: no such built-in task; {hint}")
    return chosen


def load_builtin(path: Path, size: str) -> Task:
    origin = f"{BUILTIN}:{path.stem}"
    level = level_of_folder(path.parent)
    source = at_size(read_source(path), size, origin)
    task = Task(source, path.stem, origin, level).validate()
    return replace(task, tags=(*tags_of(source, level), f"size:{size}"))


def at_size(source: str, size: str, label: str = "task") -> str:
    """The source with its table of sizes replaced by the constants of one size."""
    for node in parsed(source, label).body:
        if isinstance(node, ast.Assign) and [target.id for target in node.targets if isinstance(target, ast.Name)] == ["SIZES"]:
            constants = _constants(node.value, size, label)
            lines = source.splitlines()
            lines[node.lineno - 1 : node.end_lineno] = [f"{name} = {value!r}" for name, value in constants.items()]
            return "\n".join(lines) + "\n"
    raise TaskError(f"{label}: a built-in task assigns SIZES at module level")


def _constants(table: ast.expr, size: str, label: str) -> dict[str, object]:
    try:
        by_size = (
            {ast.literal_eval(key): value for key, value in zip(table.keys, table.values) if key is not None}
            if isinstance(table, ast.Dict)
            else {}
        )
        chosen = by_size.get(size)
        if isinstance(chosen, ast.Call) and isinstance(chosen.func, ast.Name) and chosen.func.id == "dict" and not chosen.args:
            return {keyword.arg: ast.literal_eval(keyword.value) for keyword in chosen.keywords if keyword.arg is not None}
    except ValueError:
        pass
    raise TaskError(f'{label}: SIZES must be a literal such as {{"cpu": dict(rows=64), "gpu": dict(rows=4096)}}')
