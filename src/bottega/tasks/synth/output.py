"""The accepted tasks on disk: a table that KernelBench's readers and Hugging Face `datasets` load, a summary, and a card that says what it is.

Rows are written as they are accepted, into a file beside; it takes its name when the run ends, so that a table is never half of itself.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from bottega.core.errors import UsageError
from bottega.tasks.synth.journal import Record
from bottega.tasks.synth.sample import Synthesised
from bottega.tasks.synth.summary import Summary

TABLES = ("jsonl", "parquet")
ROWS_IN_A_GROUP = 512


def row(made: Synthesised, record: Record) -> dict[str, Any]:
    """The columns of one task. `problem_id` is its number in the series: it stays the same in every shard."""
    return {
        "code": made.task.source,
        "name": made.task.name,
        "level": made.level,
        "problem_id": made.index,
        "task_id": made.task.id,
        "ops": list(made.operators),
        "families": list(made.families),
        "family": made.family,
        "structure": made.structure,
        "dtype": made.dtype,
        "device": made.device,
        "seed": made.seed,
        "index": made.index,
        "eager_ms": record.eager_ms,
        "estimate_ms": made.estimate_ms,
    }


class _Table(Protocol):
    def add(self, values: dict[str, Any]) -> None: ...

    def close(self) -> None: ...


class _JsonLines:
    def __init__(self, path: Path):
        self.file = path.open("w", encoding="utf-8")

    def add(self, values: dict[str, Any]) -> None:
        self.file.write(json.dumps(values, ensure_ascii=False) + "\n")

    def close(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


class _Parquet:
    def __init__(self, path: Path):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UsageError("--format parquet: needs an extra; install it with: pip install 'bottega[datasets]'") from None
        self.arrow = pyarrow
        words = pyarrow.list_(pyarrow.string())
        types = {
            "level": pyarrow.int64(),
            "problem_id": pyarrow.int64(),
            "seed": pyarrow.int64(),
            "index": pyarrow.int64(),
            "ops": words,
            "families": words,
            "eager_ms": pyarrow.float64(),
            "estimate_ms": pyarrow.float64(),
        }
        names = (
            "code",
            "name",
            "level",
            "problem_id",
            "task_id",
            "ops",
            "families",
            "family",
            "structure",
            "dtype",
            "device",
            "seed",
            "index",
            "eager_ms",
            "estimate_ms",
        )
        self.schema = pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in names])
        self.writer = pyarrow.parquet.ParquetWriter(path, self.schema)
        self.rows: list[dict[str, Any]] = []

    def add(self, values: dict[str, Any]) -> None:
        self.rows.append(values)
        if len(self.rows) >= ROWS_IN_A_GROUP:
            self._flush()

    def close(self) -> None:
        self._flush()
        self.writer.close()

    def _flush(self) -> None:
        if self.rows:
            self.writer.write_table(self.arrow.Table.from_pylist(self.rows, schema=self.schema))
            self.rows = []


class Output:
    def __init__(self, folder: Path, table: str):
        self.folder = folder
        self.path = folder / f"tasks.{table}"
        self.beside = folder / f".tasks.{table}.{os.getpid()}"
        self.rows = 0
        try:
            self._table: _Table = _JsonLines(self.beside) if table == "jsonl" else _Parquet(self.beside)
        except OSError as error:
            raise UsageError(f"{self.beside}: cannot be written: {error.strerror}") from None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.beside.unlink(missing_ok=True)

    def add(self, made: Synthesised, record: Record) -> None:
        try:
            self._table.add(row(made, record))
        except OSError as error:
            raise self._full(error) from None
        self.rows += 1

    def finish(self, summary: Summary) -> None:
        """Put table, summary and card in their places."""
        try:
            self._table.close()
            for other in TABLES:
                if other != self.path.suffix[1:]:
                    (self.folder / f"tasks.{other}").unlink(missing_ok=True)
            if self.rows:
                self.beside.replace(self.path)
            else:
                self.path.unlink(missing_ok=True)
            _write(self.folder / "summary.json", json.dumps(summary.to_json(), indent=1) + "\n")
            _write(self.folder / "README.md", card(summary, self.path.name))
        except OSError as error:
            raise self._full(error) from None

    def _full(self, error: OSError) -> UsageError:
        return UsageError(
            f"{self.folder}: cannot be written: {error.strerror}; what was examined so far is kept, run again to go on"
        )


def open_output(folder: Path, table: str) -> Output:
    if table not in TABLES:
        raise UsageError(f"--format {table}: use {' or '.join(TABLES)}")
    return Output(folder, table)


def card(summary: Summary, table: str) -> str:
    """A data card; its header tells Hugging Face `datasets` which file is the data."""
    plan = summary.plan
    varies = "like" in plan
    measured = "measured in eager mode" if plan["filtered"] else "not run: neither measured nor checked"
    dropped = ", ".join(f"{count} {reason}" for reason, count in summary.dropped.items()) or "none"
    return f"""---
configs:
- config_name: default
  data_files: {table}
---
# Synthesised tasks

{summary.accepted} tasks in KernelBench's format for {plan["device"]}, {measured}.
Written by `bottega tasks synth`, version {plan["version"]}, seed {plan["seed"]}, shard {plan["shard"]} of {plan["shards"]}.

- levels: {_listed(summary.levels)}
- structures: {_listed(summary.structures)}
- data types: {_listed(summary.dtypes)}
- {"families" if varies else "operators"} covered: {len(summary.operators)}
- dropped: {dropped}

`code`, `name`, `level` and `problem_id` are KernelBench's columns; `ops` are the {"families" if varies else "catalogue's names"}
of the operators, `index` the task's number in the series.
"""


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
