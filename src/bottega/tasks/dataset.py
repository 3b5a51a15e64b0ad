"""Tasks in tables: KernelBench's data set on the Hugging Face hub, and tables of the same columns on disk.

The hub's copy is fetched only when it is asked for, through the optional `datasets` package. It lags behind the benchmark's
repository; whoever needs the newest problems gives the path of a checkout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bottega.core.errors import TaskError, UsageError
from bottega.core.task import Task
from bottega.tasks.signature import with_init_inputs
from bottega.tasks.tags import tags_of

KERNELBENCH = "kernelbench"
HUB_NAME = "ScalingIntelligence/KernelBench"
HUB_LEVELS = (1, 2, 3, 4)

_SUFFIXES = (".jsonl", ".parquet")
_SAVED_MARKERS = ("dataset_dict.json", "dataset_info.json", "state.json")
_SELECTOR = re.compile(r"(?:level[_-]?(?P<level>\d{1,3}))?(?:/(?P<problem>\d{1,9}))?")


@dataclass(frozen=True)
class Selector:
    """Which rows of a table are meant: all of them, those of one level, or one problem."""

    level: int | None = None
    problem: int | None = None


@dataclass(frozen=True)
class TableRow:
    """One line of a table, before anybody asked whether it is a task."""

    origin: str
    code: str = ""
    name: str = ""
    level: int | None = None
    problem: int | None = None
    flaw: str = ""
    """Why the row holds no source, if it does not."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """All that the table says of it."""


def parse_selector(text: str, reference: str) -> Selector:
    """`""`, `level1` or `level1/23`."""
    match = _SELECTOR.fullmatch(text.lower())
    if match is None or (match["problem"] and not match["level"]):
        raise UsageError(f"{reference}: cannot read {text!r}; write level1 for a level or level1/23 for one problem")
    return Selector(int(match["level"]) if match["level"] else None, int(match["problem"]) if match["problem"] else None)


def is_dataset(path: Path) -> bool:
    """Whether a path holds rows rather than task files."""
    if path.is_dir():
        if any((path / marker).is_file() for marker in _SAVED_MARKERS):
            return True
        return bool(_tables(path)) and not any(path.glob("*.py")) and not any(path.glob("level*/*.py"))
    return path.suffix in _SUFFIXES and path.is_file()


def remote_rows(selector: Selector, levels: frozenset[int] | None) -> Iterator[TableRow]:
    if selector.level is not None and selector.level not in HUB_LEVELS:
        raise UsageError(f"{KERNELBENCH}:level{selector.level}: the levels are {HUB_LEVELS[0]} to {HUB_LEVELS[-1]}")
    datasets = _import("datasets", KERNELBENCH)
    for level in HUB_LEVELS:
        if selector.level in (None, level) and (levels is None or level in levels):
            try:
                table = datasets.load_dataset(HUB_NAME, split=f"level_{level}")
            except Exception as error:  # connection, proxy, cache and schema each raise their own kind, from three packages
                raise UsageError(
                    f"{KERNELBENCH}: {HUB_NAME} cannot be fetched from the Hugging Face hub nor found in its cache "
                    f"({_first_line(error)}); check the connection, or give the path of a local copy"
                ) from None
            yield from _select(_rows_of(table, KERNELBENCH, level), selector, KERNELBENCH)


def local_rows(path: Path, selector: Selector) -> Iterator[TableRow]:
    tables = [path] if path.is_file() else _tables(path)
    rows: list[TableRow] = []
    if path.is_dir() and any((path / marker).is_file() for marker in _SAVED_MARKERS):
        rows = _saved_rows(path)
    else:
        for table in tables:
            reader = _jsonl_rows if table.suffix == ".jsonl" else _parquet_rows
            rows.extend(reader(table))
    yield from _select(rows, selector, str(path))


def task_of_row(row: TableRow) -> Task:
    if row.flaw:
        raise TaskError(f"{row.origin}: {row.flaw}")
    source = with_init_inputs(row.code, row.origin)
    task = Task(source, row.name or "task", row.origin, row.level).validate()
    return replace(task, tags=tags_of(source, row.level, row.problem))


def _select(rows: Iterable[TableRow], selector: Selector, label: str) -> list[TableRow]:
    chosen = [
        row
        for row in rows
        if selector.level in (None, row.level) and (selector.problem is None or selector.problem == row.problem)
    ]
    if not chosen:
        wanted = f":level{selector.level}" if selector.level is not None else ""
        raise UsageError(f"{label}{wanted}: holds no problem {selector.problem if selector.problem is not None else 'at all'}")
    return chosen


def _rows_of(records: Iterable[Any], label: str, level: int | None = None) -> list[TableRow]:
    return [_row(record, label, level, index) for index, record in enumerate(records, 1)]


def _row(record: Any, label: str, level: int | None, index: int) -> TableRow:
    nameless = f"{label}, row {index}"
    if not isinstance(record, Mapping):
        return TableRow(
            nameless, level=level, flaw="the row is not a record; its columns should be code, level, name, problem_id"
        )
    found = record.get("level")
    level = found if isinstance(found, int) else level
    problem = record.get("problem_id") if isinstance(record.get("problem_id"), int) else None
    origin = f"{label}:level{level}/{problem}" if level is not None and problem is not None else nameless
    code, name = record.get("code"), record.get("name")
    flaw = "" if isinstance(code, str) else "the row has no text in a column named code"
    text = {"code": code if isinstance(code, str) else "", "name": name if isinstance(name, str) else ""}
    return TableRow(origin, **text, level=level, problem=problem, flaw=flaw, columns=record)


def _jsonl_rows(path: Path) -> list[TableRow]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as JSON lines: {_first_line(error)}") from None
    rows = []
    for index, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append(_row(json.loads(line), str(path), None, index))
            except (ValueError, RecursionError) as error:
                rows.append(TableRow(f"{path}, row {index}", flaw=f"not JSON: {_first_line(error)}"))
    return rows


def _parquet_rows(path: Path) -> list[TableRow]:
    parquet = _import("pyarrow.parquet", str(path))
    try:
        records = parquet.read_table(path).to_pylist()
    except Exception as error:
        raise UsageError(f"{path}: cannot be read as a parquet table: {_first_line(error)}") from None
    return _rows_of(records, str(path), _level_in(path.name))


def _saved_rows(path: Path) -> list[TableRow]:
    datasets = _import("datasets", str(path))
    try:
        saved = datasets.load_from_disk(str(path))
        splits = dict(saved) if isinstance(saved, Mapping) else {"": saved}
        return [row for name, table in splits.items() for row in _rows_of(table, str(path), _level_in(name))]
    except Exception as error:
        raise UsageError(f"{path}: cannot be read as a saved data set: {_first_line(error)}") from None


def _tables(folder: Path) -> list[Path]:
    """Tables in a folder, or in its `data/` as in a copy of a hub repository."""
    return sorted(file for place in (folder, folder / "data") for suffix in _SUFFIXES for file in place.glob(f"*{suffix}"))


def _level_in(name: str) -> int | None:
    match = re.match(r"level[_-]?(\d{1,3})", name)
    return int(match.group(1)) if match else None


def _import(module: str, label: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"{label}: data sets need an extra; install it with: pip install 'bottega[datasets]'") from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
